//! The desired mirror, depending on the proxy and the live objects.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    Assemblage, Shared,
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState, Withdraw},
};
use muster_controllers::proxyassemblage::mirror::{Mirror, Proxy, mirror, unclaimed_rows};
use serde_json::json;

use super::support::{NEW, OLD, assemblage, row, shared};

const ORIGIN: &str = "uid/fleet/eu-1";
static NO_COPIES: BTreeMap<String, String> = BTreeMap::new();

fn proxy<'a>(
    rows: &'a [Shared<SyncRow>],
    states: &'a [Shared<SyncState>],
    kept: &'a BTreeSet<String>,
) -> Proxy<'a> {
    Proxy {
        name: "eu-1",
        cluster: Some("eu-1"),
        origin: ORIGIN,
        adopt: None,
        copies: &NO_COPIES,
        requested_at: None,
        rows,
        kept,
        states,
    }
}

fn live(origin: Option<&str>, rows: &[SyncRow], states: &[SyncState]) -> Assemblage {
    let mut live = assemblage("eu-1", rows);
    live.metadata.resource_version = Some("7".to_owned());
    live.metadata.annotations =
        origin.map(|origin| [("fleet.muster.dev/origin".to_owned(), origin.to_owned())].into());
    live.status = Some(AssemblageStatus {
        syncs: shared(states),
        ..AssemblageStatus::default()
    });
    live
}

fn listed(name: &str) -> SyncState {
    SyncState {
        name: name.to_owned(),
        ..SyncState::default()
    }
}

fn one(row: &SyncRow) -> String {
    let token = row
        .token
        .map_or_else(|| "-".to_owned(), |token| token.to_string());
    let what = match (&row.commit, row.withdraw) {
        (_, Some(how)) => format!("{how:?}"),
        (Some(commit), None) => commit[..1].to_owned(),
        (None, None) => "bare".to_owned(),
    };
    format!("{}:{token}:{what}", row.name)
}

/// The outcome in one line.
fn line(mirror: &Mirror) -> String {
    let rows = |object: &Assemblage| {
        object
            .spec
            .syncs
            .iter()
            .map(|row| one(row))
            .collect::<Vec<_>>()
            .join(" ")
    };
    match mirror {
        Mirror::Equal => "equal".to_owned(),
        Mirror::Create(object) => format!("create [{}]", rows(object)),
        Mirror::Replace(object) => format!(
            "replace at {} [{}]",
            object.metadata.resource_version.as_deref().unwrap_or("-"),
            rows(object)
        ),
        Mirror::Terminating => "terminating".to_owned(),
        Mirror::Foreign(origin) => format!("foreign {origin}"),
    }
}

#[track_caller]
fn check(rows: &[SyncRow], states: &[SyncState], there: Option<Assemblage>, expect: &str) {
    let kept = BTreeSet::new();
    assert_eq!(
        line(&mirror(
            &proxy(&shared(rows), &shared(states), &kept),
            there.as_ref()
        )),
        expect
    );
}

#[test]
fn rows_go_down_and_equal_ones_are_no_write() {
    let rows = [row("web", OLD, 1), row("api", OLD, 2)];
    check(&rows, &[], None, "create [api:2:a web:1:a]");
    check(&rows, &[], Some(live(Some(ORIGIN), &rows, &[])), "equal");
    check(
        &[row("web", NEW, 3)],
        &[],
        Some(live(Some(ORIGIN), &[row("web", OLD, 1)], &[])),
        "replace at 7 [web:3:b]",
    );
    // A manually edited row is reverted.
    let mut edited = row("web", OLD, 1);
    edited.commit = Some(NEW.to_owned());
    check(
        &rows[..1],
        &[],
        Some(live(Some(ORIGIN), &[edited], &[])),
        "replace at 7 [web:1:a]",
    );
}

#[test]
fn another_origin_is_not_written_unless_it_is_named() {
    let rows = [row("web", OLD, 1)];
    check(
        &rows,
        &[],
        Some(live(Some("other/fleet/eu-1"), &[], &[])),
        "foreign other/fleet/eu-1",
    );
    check(&rows, &[], Some(live(None, &[], &[])), "foreign ");
    let (rows, kept) = (shared(&rows), BTreeSet::new());
    let adopting = Proxy {
        adopt: Some("other/fleet/eu-1"),
        ..proxy(&rows, &[], &kept)
    };
    let taken = mirror(
        &adopting,
        Some(&live(Some("other/fleet/eu-1"), &[row("base", OLD, 4)], &[])),
    );
    assert_eq!(line(&taken), "replace at 7 [base:4:a web:1:a]");
    let Mirror::Replace(taken) = taken else {
        unreachable!()
    };
    assert_eq!(
        taken.metadata.annotations.unwrap()["fleet.muster.dev/origin"],
        ORIGIN
    );
    assert_eq!(
        line(&mirror(
            &adopting,
            Some(&live(Some("third/fleet/eu-1"), &[], &[]))
        )),
        "foreign third/fleet/eu-1"
    );
}

#[test]
fn a_token_never_falls() {
    check(
        &[row("web", OLD, 3)],
        &[],
        Some(live(Some(ORIGIN), &[row("web", NEW, 5)], &[])),
        "equal",
    );
    check(
        &[SyncRow::withdrawal("web", 3, Withdraw::Prune)],
        &[],
        Some(live(Some(ORIGIN), &[row("web", NEW, 5)], &[])),
        "equal",
    );
    check(
        &[SyncRow {
            token: None,
            ..row("web", OLD, 0)
        }],
        &[listed("web")],
        Some(live(Some(ORIGIN), &[row("web", NEW, 5)], &[])),
        "equal",
    );
}

#[test]
fn rows_that_the_proxy_never_held_stay() {
    let there = [
        row("restored", OLD, 5),
        SyncRow {
            token: None,
            ..row("hand", OLD, 0)
        },
    ];
    check(
        &[row("web", OLD, 1)],
        &[listed("web")],
        Some(live(Some(ORIGIN), &there, &[])),
        "replace at 7 [hand:-:a restored:5:a web:1:a]",
    );
    let (rows, states, kept) = ([row("web", OLD, 1)], [listed("web")], BTreeSet::new());
    let unclaimed = unclaimed_rows(
        &proxy(&shared(&rows), &shared(&states), &kept),
        &live(Some(ORIGIN), &there, &[]),
    );
    assert_eq!(
        unclaimed,
        BTreeSet::from(["hand".to_owned(), "restored".to_owned()])
    );
    // Reported as unclaimed, they do not count as held by the proxy.
    let reported = SyncState {
        reason: Some("Unclaimed".to_owned()),
        ..listed("hand")
    };
    check(
        &[],
        &[reported],
        Some(live(Some(ORIGIN), &there[1..], &[])),
        "equal",
    );
}

#[test]
fn a_row_without_token_goes_when_its_writer_took_it_away_and_one_with_a_token_stays() {
    let there = [
        row("web", OLD, 1),
        SyncRow {
            token: None,
            ..row("third", OLD, 0)
        },
    ];
    check(
        &[],
        &[listed("web"), listed("third")],
        Some(live(Some(ORIGIN), &there, &[])),
        "replace at 7 [web:1:a]",
    );
    // It is removed downstream only after it was listed, so that its removal is noticed even after a crash in between.
    check(&there[1..], &[], None, "create []");
    check(&there[1..], &[listed("third")], None, "create [third:-:a]");
}

#[test]
fn a_fence_raises_the_token_and_leaves_the_content() {
    check(
        &[SyncRow::bare("web", 4)],
        &[],
        Some(live(Some(ORIGIN), &[row("web", OLD, 1)], &[])),
        "replace at 7 [web:4:a]",
    );
    check(&[SyncRow::bare("web", 4)], &[], None, "create [web:4:bare]");
    let withdrawing = SyncRow::withdrawal("web", 4, Withdraw::Prune);
    check(
        &[SyncRow::bare("web", 4)],
        &[],
        Some(live(Some(ORIGIN), std::slice::from_ref(&withdrawing), &[])),
        "equal",
    );
    let done = SyncState {
        token: Some(4),
        state: SyncPhase::Withdrawn,
        ..listed("web")
    };
    check(
        &[SyncRow::bare("web", 4)],
        &[],
        Some(live(Some(ORIGIN), &[withdrawing], &[done])),
        "replace at 7 [web:4:bare]",
    );
}

#[test]
fn a_row_that_cannot_be_resolved_stays_as_it_is_there() {
    let kept = BTreeSet::from(["web".to_owned()]);
    let there = live(Some(ORIGIN), &[row("web", OLD, 1)], &[]);
    let rows = [row("api", OLD, 2)];
    assert_eq!(
        line(&mirror(
            &proxy(&shared(&rows), &[listed("web").into()], &kept),
            Some(&there)
        )),
        "replace at 7 [api:2:a web:1:a]"
    );
    assert!(unclaimed_rows(&proxy(&shared(&rows), &[], &kept), &there).is_empty());
}

#[test]
fn one_that_is_being_deleted_is_waited_for() {
    let mut going = live(Some(ORIGIN), &[], &[]);
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    check(&[row("web", OLD, 1)], &[], Some(going), "terminating");
}

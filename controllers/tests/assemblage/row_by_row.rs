//! Promise: of many rows only changed ones are written, each on the condition that the replaced row was not changed
//! meanwhile; a report of one row and the assignment of another are not a conflict.

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    Assemblage,
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState},
};
use muster_apiserver::Verb;
use muster_controllers::{
    proxyassemblage::mirror::mirror_patch,
    runtime::{Api as Encoded, entries::in_place, status::Reports},
};
use serde_json::json;

use super::support::*;

const ORIGIN: &str = "fleet.muster.dev/origin";

fn live(rows: &[SyncRow]) -> Assemblage {
    let mut live = assemblage("eu-1", rows);
    live.metadata.uid = Some("uid".to_owned());
    live.metadata.annotations = Some([(ORIGIN.to_owned(), "here".to_owned())].into());
    live
}

#[test]
fn the_patch_of_a_mirror_has_only_the_rows_that_changed() {
    let before = live(&[row("web", OLD, 1), row("api", OLD, 2), row("base", OLD, 3)]);
    let rows = [
        row("aaa", NEW, 9),
        row("api", NEW, 8),
        row("base", OLD, 3),
        row("web", OLD, 1),
    ];
    let patch = mirror_patch(&before, &live(&rows)).unwrap();
    let mut object = serde_json::to_value(&before).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    let after: Assemblage = serde_json::from_value(object).unwrap();
    assert_eq!(
        after.spec.syncs,
        in_place(&before.spec.syncs, &shared(&rows)),
        "the cached state is the live state"
    );
    let names: Vec<&str> = after.spec.syncs.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["web", "api", "base", "aaa"]);
    let sent = serde_json::to_string(&patch).unwrap();
    let has = |name: &str| sent.contains(&format!("\"name\":\"{name}\""));
    assert_eq!(
        ["aaa", "api", "base", "web"].map(has),
        [true, true, false, false],
        "{sent}"
    );
}

#[test]
fn what_is_more_than_rows_is_replaced() {
    let before = live(&[row("web", OLD, 1), row("api", OLD, 2)]);
    let check = |next: &Assemblage| assert_eq!(mirror_patch(&before, next), None);
    check(&live(&[row("web", OLD, 1)]));
    let mut other = before.clone();
    other.labels_mut().insert("a".to_owned(), "b".to_owned());
    check(&other);
    let mut other = before.clone();
    other
        .annotations_mut()
        .insert(ORIGIN.to_owned(), "elsewhere".to_owned());
    check(&other);
}

fn state(name: &str, token: u64, state: SyncPhase) -> SyncState {
    SyncState {
        name: name.to_owned(),
        token: Some(token),
        state,
        ..SyncState::default()
    }
}

fn status(states: &[SyncState]) -> AssemblageStatus {
    AssemblageStatus {
        observed_generation: Some(1),
        syncs: shared(states),
        ..AssemblageStatus::default()
    }
}

/// An Assemblage with a status, and its reporter.
struct Reported {
    cluster: Cluster,
    reports: Reports<AssemblageStatus>,
}

impl Reported {
    async fn new(states: &[SyncState]) -> Self {
        let cluster = Cluster::downstream();
        cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
        let this = Self {
            cluster,
            reports: Reports::new("muster-agent"),
        };
        let observed = this.live().await;
        this.write(&observed, states).await;
        this
    }

    fn api(&self) -> Api<Assemblage> {
        self.cluster.api()
    }

    async fn live(&self) -> Assemblage {
        self.api().get("eu-1").await.unwrap()
    }

    /// Writes a report based on what a watch showed; returns whether something was sent.
    async fn write(&self, observed: &Assemblage, states: &[SyncState]) -> bool {
        let api = Encoded::namespaced(self.cluster.server.client_as(CONTROLLERS), SYSTEM);
        let old = observed.status.as_ref();
        self.reports
            .write(&api, observed, old, &status(states))
            .await
            .unwrap()
    }

    async fn tokens(&self) -> Vec<(String, Option<u64>)> {
        let states = self.live().await.status.unwrap().syncs;
        let mut tokens: Vec<_> = states
            .into_iter()
            .map(|state| (state.name.clone(), state.token))
            .collect();
        tokens.sort();
        tokens
    }

    fn patches(&self) -> usize {
        let requests = self.cluster.server.recorder().requests();
        requests
            .iter()
            .filter(|request| request.verb == Some(Verb::Patch) && request.path.ends_with("/status"))
            .count()
    }
}

fn pairs(of: &[(&str, u64)]) -> Vec<(String, Option<u64>)> {
    of.iter()
        .map(|(name, token)| ((*name).to_owned(), Some(*token)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_report_by_an_old_watch_is_no_conflict() {
    let first = [state("web", 1, SyncPhase::Succeeded)];
    let bed = Reported::new(&first).await;
    let old = bed.live().await;
    // Two more modules, not in the order of their names; the watch shows neither, nor that rows were written meanwhile.
    let labels = Patch::Merge(json!({"spec": {"syncs": [row("api", NEW, 2)]}}));
    bed.api()
        .patch("eu-1", &PatchParams::default(), &labels)
        .await
        .unwrap();
    let second = [state("api", 2, SyncPhase::Updating), first[0].clone()];
    assert!(bed.write(&old, &second).await);
    let third = [
        state("api", 2, SyncPhase::Succeeded),
        state("ccc", 3, SyncPhase::Updating),
        first[0].clone(),
    ];
    let before = bed.patches();
    assert!(bed.write(&old, &third).await);
    assert_eq!(bed.patches() - before, 1, "it was written at the first try");
    assert_eq!(bed.tokens().await, pairs(&[("api", 2), ("ccc", 3), ("web", 1)]));
    // The same again, with the old watch and with a new one.
    let now = bed.live().await;
    let before = bed.patches();
    assert!(!bed.write(&old, &third).await && !bed.write(&now, &third).await);
    assert_eq!(bed.patches(), before);
}

#[tokio::test(start_paused = true)]
async fn a_report_changed_by_another_writer_is_corrected_only_after_it_is_observed() {
    let first = [
        state("api", 1, SyncPhase::Succeeded),
        state("web", 1, SyncPhase::Succeeded),
    ];
    let bed = Reported::new(&first).await;
    let old = bed.live().await;
    let other = Patch::Merge(json!({"status": {"syncs": [state("web", 7, SyncPhase::Updating)]}}));
    bed.api()
        .patch_status("eu-1", &PatchParams::default(), &other)
        .await
        .unwrap();
    let next = [first[0].clone(), state("web", 2, SyncPhase::Succeeded)];
    let api = Encoded::namespaced(bed.cluster.server.client_as(CONTROLLERS), SYSTEM);
    let refused = bed
        .reports
        .write(&api, &old, old.status.as_ref(), &status(&next))
        .await;
    assert!(refused.unwrap_err().is_conflict());
    assert_eq!(bed.tokens().await, pairs(&[("web", 7)]));
    let now = bed.live().await;
    assert!(bed.write(&now, &next).await);
    assert_eq!(bed.tokens().await, pairs(&[("api", 1), ("web", 2)]));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_a_newer_version_with_fields_that_are_not_read_here_is_replaced() {
    let first = [
        state("api", 1, SyncPhase::Succeeded),
        state("web", 1, SyncPhase::Succeeded),
    ];
    let bed = Reported::new(&first).await;
    // A state that this version cannot parse is not among the observed ones.
    let mut observed = bed.live().await;
    observed.status.as_mut().unwrap().syncs.remove(0);
    let next = [state("web", 2, SyncPhase::Succeeded)];
    assert!(bed.write(&observed, &next).await);
    assert_eq!(bed.tokens().await, pairs(&[("web", 2)]));
}

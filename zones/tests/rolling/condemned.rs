//! What gets no better is condemned, and is tried again when its template changes or people say so.

use muster_api::zonerollout::ZoneRolloutStatus;

use crate::fleet::{Fleet, at, deleted, old, pod, reasons, unready};

#[test]
fn a_revision_with_which_nothing_gets_better_is_condemned_until_its_template_changes() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    let decision = fleet.pass(10);
    assert_eq!(decision.stalled, None);
    assert_eq!(decision.wake_at, Some(at(600)));
    assert_eq!(fleet.pass(599).stalled, None);
    let decision = fleet.pass(600);
    assert_eq!(decision.stalled.as_deref(), Some("zone-a"));
    // It holds, also once the pod is well, for what is not done: the group stops.
    fleet.put(pod("zone-a", 0, "v2"));
    let decision = fleet.pass(700);
    assert_eq!(
        (deleted(&decision), decision.stalled.as_deref()),
        (Vec::new(), Some("zone-a"))
    );
    assert_eq!(
        reasons(&decision),
        [
            "zone-a Condemned: revision v2 was condemned: nothing got better",
            "zone-b Condemned: the revision of zone-a was condemned",
        ]
    );
    fleet.template = "v3";
    let decision = fleet.pass(710);
    assert_eq!(deleted(&decision), ["zone-a-0"]);
    assert_eq!(decision.stalled, None);
}

#[test]
fn a_new_revision_has_the_whole_deadline() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(590);
    fleet.template = "v3";
    fleet.put(unready(pod("zone-a", 0, "v3")));
    assert_eq!(fleet.pass(595).stalled, None);
    assert_eq!(fleet.pass(1_194).stalled, None);
    assert_eq!(fleet.pass(1_195).stalled.as_deref(), Some("zone-a"));
}

#[test]
fn the_deadline_stands_still_while_it_is_paused() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(10);
    fleet.spec.paused = true;
    let decision = fleet.pass(20);
    assert_eq!(
        decision.status.progress.clone().unwrap().waiting.as_deref(),
        Some("paused")
    );
    assert_eq!(decision.wake_at, None);
    assert_eq!(fleet.pass(5_000).stalled, None);
    fleet.spec.paused = false;
    assert_eq!(fleet.pass(5_020).stalled, None);
    // 20 s before, and what is left of ten minutes after.
    assert_eq!(fleet.pass(5_590).stalled, None);
    assert_eq!(fleet.pass(5_600).stalled.as_deref(), Some("zone-a"));
}

/// A group whose revision v2 was condemned in zone-a, at 600.
fn condemned() -> Fleet {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(10);
    assert_eq!(fleet.pass(600).stalled.as_deref(), Some("zone-a"));
    fleet
}

#[test]
fn the_revision_of_a_group_is_the_one_that_stays_for_five_seconds() {
    let mut fleet = old();
    let decision = fleet.pass(0);
    assert_eq!(deleted(&decision), ["zone-a-0"], "nothing waits for it");
    assert_eq!((decision.status.revision, decision.wake_at), (None, Some(at(5))));
    // Another template within that time: it begins anew.
    fleet.template = "v3";
    let decision = fleet.pass(4);
    assert_eq!((decision.status.revision, decision.wake_at), (None, Some(at(9))));
    assert_eq!(fleet.pass(8).status.revision, None);
    let settled = fleet.pass(9).status.revision.unwrap();
    assert!(settled.len() == 64 && settled.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(fleet.status.next_revision, None);
    // It is shown until another one has settled; back within that time there is nothing to settle.
    fleet.template = "v4";
    assert_eq!(fleet.pass(20).status.revision.as_ref(), Some(&settled));
    fleet.template = "v3";
    fleet.pass(22);
    assert_eq!(
        (&fleet.status.revision, &fleet.status.next_revision),
        (&Some(settled.clone()), &None)
    );
    fleet.template = "v4";
    fleet.pass(30);
    assert_ne!(fleet.pass(35).status.revision, Some(settled));
}

#[test]
fn a_retry_names_the_revision_and_has_the_whole_deadline() {
    let mut fleet = condemned();
    fleet.spec.retry.clone_from(&fleet.status.revision);
    let decision = fleet.pass(700);
    assert_eq!((decision.stalled, decision.wake_at), (None, Some(at(1_300))));
    assert_eq!(decision.status.retried, fleet.spec.retry);
    fleet.put(pod("zone-a", 0, "v2"));
    assert_eq!(deleted(&fleet.pass(710)), ["zone-a-1"]);
}

#[test]
fn each_retry_counts_once() {
    let mut fleet = condemned();
    let revision = fleet.status.revision.clone().unwrap();
    fleet.spec.retry = Some(revision.clone());
    assert_eq!(fleet.pass(700).stalled, None);
    assert_eq!(fleet.pass(1_299).stalled, None);
    assert_eq!(fleet.pass(1_300).stalled.as_deref(), Some("zone-a"));
    assert_eq!(fleet.pass(2_000).stalled.as_deref(), Some("zone-a"));
    // Once more, by another text.
    fleet.spec.retry = Some(format!("{revision}/2"));
    assert_eq!(fleet.pass(2_100).stalled, None);
    assert_eq!(fleet.pass(2_700).stalled.as_deref(), Some("zone-a"));
}

#[test]
fn only_the_settled_revision_is_tried_again() {
    let names = |retry: fn(&ZoneRolloutStatus) -> String| {
        let mut fleet = condemned();
        fleet.spec.retry = Some(retry(&fleet.status));
        fleet.pass(700).stalled.is_none()
    };
    assert!(names(|status| status.revision.clone().unwrap()));
    assert!(!names(|_| "v2".to_owned()), "the revision of one set");
    assert!(!names(|_| String::new()));
    assert!(!names(|status| status.revision.clone().unwrap()[..12].to_owned()));
    // One that was said of a revision before this one is settled says nothing of this one.
    let mut fleet = condemned();
    fleet.spec.retry.clone_from(&fleet.status.revision);
    fleet.template = "v3";
    let decision = fleet.pass(700);
    assert_eq!((decision.stalled, decision.status.retried), (None, None));
}

/// Also what was said too early is used up: a revision that is condemned later stops the group.
#[test]
fn a_retry_of_what_is_not_condemned_changes_nothing() {
    let mut fleet = old();
    fleet.pass(0);
    fleet.put(unready(pod("zone-a", 0, "v2")));
    fleet.pass(10);
    fleet.spec.retry.clone_from(&fleet.status.revision);
    fleet.pass(300);
    assert_eq!(fleet.status.retried, fleet.spec.retry);
    assert_eq!(fleet.pass(600).stalled.as_deref(), Some("zone-a"));
    assert_eq!(fleet.pass(601).stalled.as_deref(), Some("zone-a"));
}

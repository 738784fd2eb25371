//! Promise: Ready is always present, the others only while true; times change only when the status changes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::{
    conditions::{
        self, Conditions, PAUSED, READY, RECONCILING, STALLED, Status, bounded, equal_apart_from_times,
    },
    reasons::{ObjectReason, Reason},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn show(conditions: &[Condition]) -> Vec<String> {
    let line = |c: &Condition| {
        let (generation, since) = (
            c.observed_generation.unwrap(),
            c.last_transition_time.0.as_second(),
        );
        format!(
            "{}={} {} {:?} gen {generation} since {since}",
            c.type_, c.status, c.reason, c.message
        )
    };
    conditions.iter().map(line).collect()
}

#[test]
fn a_story_of_one_object() {
    let new = Conditions::ready(Status::Unknown, ObjectReason::Pending, "nothing was observed yet")
        .reconciling(ObjectReason::Progressing, "reading the source")
        .merge(&[], 1, at(10));
    assert_eq!(
        show(&new),
        [
            "Ready=Unknown Pending \"nothing was observed yet\" gen 1 since 10",
            "Reconciling=True Progressing \"reading the source\" gen 1 since 10",
        ]
    );
    let rolling = Conditions::ready(Status::False, Reason::Updating, "eu-1 is updating")
        .with(PAUSED, Status::True, Reason::Paused, "by alice")
        .reconciling(Reason::Updating, "1 of 5")
        .merge(&new, 2, at(20));
    assert_eq!(
        show(&rolling),
        [
            "Ready=False Updating \"eu-1 is updating\" gen 2 since 20",
            "Paused=True Paused \"by alice\" gen 2 since 20",
            "Reconciling=True Updating \"1 of 5\" gen 2 since 10",
        ]
    );
    let failed = Conditions::ready(Status::False, Reason::Failed, "eu-1 failed")
        .stalled(Reason::Halted, "until another revision")
        .merge(&rolling, 2, at(30));
    assert_eq!(
        show(&failed),
        [
            "Ready=False Failed \"eu-1 failed\" gen 2 since 20",
            "Stalled=True Halted \"until another revision\" gen 2 since 30",
        ]
    );
    let done = Conditions::ready(Status::True, Reason::UpToDate, "5 of 5").merge(&failed, 3, at(40));
    assert_eq!(show(&done), ["Ready=True UpToDate \"5 of 5\" gen 3 since 40"]);
    assert!(conditions::is_true(&done, READY));
    assert!(!conditions::is_true(&done, STALLED));
    assert!(conditions::find(&done, RECONCILING).is_none());
}

#[test]
fn merging_again_changes_nothing() {
    let wanted = Conditions::ready(Status::False, Reason::Updating, "x").reconciling(Reason::Updating, "y");
    let once = wanted.merge(&[], 1, at(1));
    assert_eq!(wanted.merge(&once, 1, at(99)), once);
}

#[test]
fn equality_does_not_see_times_or_order() {
    let wanted = |message: &str, generation| {
        Conditions::ready(Status::True, Reason::UpToDate, message)
            .with(PAUSED, Status::True, Reason::Paused, "")
            .merge(&[], generation, at(generation))
    };
    let mut reversed = Conditions::ready(Status::True, Reason::UpToDate, "m")
        .with(PAUSED, Status::True, Reason::Paused, "")
        .merge(&[], 1, at(77));
    reversed.reverse();
    assert!(equal_apart_from_times(&wanted("m", 1), &reversed));
    assert!(!equal_apart_from_times(&wanted("m", 1), &wanted("n", 1)));
    assert!(!equal_apart_from_times(&wanted("m", 1), &wanted("m", 2)));
    assert!(!equal_apart_from_times(&wanted("m", 1), &wanted("m", 1)[..1]));
    assert!(equal_apart_from_times(&[], &[]));
}

#[test]
fn long_messages_are_cut_between_characters() {
    let check = |text: &str, max, expect: &str| assert_eq!(bounded(text, max), expect);
    check("short", 5, "short");
    check("longer", 5, "lo…");
    check("ééééé", 6, "é…");
    let long = Conditions::ready(Status::False, Reason::Failed, "é".repeat(40_000)).merge(&[], 1, at(1));
    assert!(long[0].message.len() <= conditions::MAX_MESSAGE);
    assert!(long[0].message.ends_with('…'));
}

//! Rules 4 and 15: pins, holds, and units that wait for a reason of the caller.

use muster_rollout::{Absence, Eligible, Millis, OnFailure, StagePosition, Why};

use crate::stages::stage;
use crate::world::{World, assignment_steps, ineligible, rev};

#[test]
fn a_pinned_unit_gets_its_pin_and_proves_nothing() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").pin = Some("r0".into());
    world.step();
    assert_eq!(
        (world.on("r0"), world.words()),
        (vec!["a"], "a:Pinned b:UpToDate".into())
    );
    world.fail("a");
    world.step();
    assert!(!world.memory.is_bad(rev("r0")) && !world.memory.is_bad(rev("r1")));
    let Why::Pinned { message } = world.why("a") else {
        panic!()
    };
    assert!(message.unwrap().contains("image not found"));
    world.succeed("a");
    world.aim("r2");
    world.settle();
    assert_eq!((world.on("r0"), world.on("r2")), (vec!["a"], vec!["b"]));
    assert_eq!(world.decide().summary.held, 1);
    world.member("a").pin = None;
    world.settle();
    assert_eq!(world.on("r2"), ["a", "b"]);
}

#[test]
fn a_pinned_unit_is_not_counted_as_updated() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.member("a").pin = Some("r1".into());
    world.settle();
    let summary = world.decide().summary;
    assert_eq!(
        (summary.total, summary.updated, summary.ready, summary.held),
        (2, 1, 2, 1)
    );
}

#[test]
fn a_pinned_unit_waits_for_no_stage_and_keeps_the_limit() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.stage(&["a"], 0);
    world.stage(&["b", "c"], 1);
    let canary = muster_rollout::Stage {
        approval: true,
        ..stage("canary")
    };
    world.spec.stages = vec![canary, stage("rest")];
    world.aim("r2");
    world.member("b").pin = Some("r0".into());
    world.step();
    assert_eq!(
        (world.on("r2"), world.on("r0")),
        (vec!["a"], vec![]),
        "one at a time"
    );
    world.succeed("a");
    world.step();
    assert_eq!(
        (world.on("r0"), world.on("r1")),
        (vec!["b"], vec!["c"]),
        "the canary waits for an approval"
    );
    world.succeed("b");
    world.step();
    assert_eq!(world.words(), "a:UpToDate b:Pinned c:WaitingApproval");
}

#[test]
fn a_fleet_of_pinned_units_proves_nothing() {
    let mut world = World::settled(&["a"], "r1");
    world.member("a").pin = Some("r1".into());
    world.aim("r2");
    world.step();
    world.step();
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

#[test]
fn a_pin_to_what_is_known_to_be_bad_changes_nothing() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.fail("a");
    world.step();
    world.member("b").pin = Some("r2".into());
    world.aim("r3");
    world.settle();
    assert_eq!((world.on("r1"), world.on("r3")), (vec!["b"], vec!["a"]));
}

#[test]
fn a_waiting_unit_is_required_and_not_started() {
    let mut world = World::settled(&["a", "b"], "r1");
    let behind = ineligible(26, Absence::Skip);
    world.member("a").eligible = Eligible::NotYet(behind);
    world.aim("r2");
    world.step();
    world.succeed("b");
    world.step();
    assert_eq!(world.words(), "a:NotYet b:UpToDate");
    assert_eq!(world.memory.last_good, Some(rev("r1")), "a is waited for");
    world.member("a").eligible = Eligible::Yes;
    world.settle();
    assert_eq!(world.memory.last_good, Some(rev("r2")));
    world.member("a").eligible = Eligible::NotYet(behind);
    assert_eq!(world.words(), "a:UpToDate b:UpToDate");
}

#[test]
fn an_in_flight_unit_gets_nothing_newer_before_its_turn() {
    let mut world = World::settled(&["a"], "r1");
    let behind = ineligible(26, Absence::Skip);
    world.aim("r2");
    world.step();
    world.member("a").eligible = Eligible::NotYet(behind);
    world.aim("r3");
    world.step();
    assert_eq!((world.on("r2"), world.words()), (vec!["a"], "a:Updating".into()));
    world.succeed("a");
    world.step();
    assert_eq!((world.on("r2"), world.words()), (vec!["a"], "a:NotYet".into()));
    world.member("a").eligible = Eligible::Yes;
    world.settle();
    assert_eq!(world.on("r3"), ["a"]);
}

#[test]
fn a_joining_unit_waits_for_its_turn_and_a_reverting_one_does_not() {
    let behind = Eligible::NotYet(ineligible(26, Absence::Skip));
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.on_failure = OnFailure::Revert;
    world.aim("r2");
    world.step();
    world.join("c");
    world.member("c").eligible = behind;
    world.step();
    assert_eq!(world.words(), "a:Updating b:WaitingTurn c:NotYet");
    world.member("a").eligible = behind;
    world.fail("a");
    world.settle();
    assert_eq!(world.on("r1"), ["a", "b"]);
}

#[test]
fn a_needed_unit_is_withdrawn_from_after_its_dependents() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").eligible = Eligible::NotYet(ineligible(26, Absence::Skip));
    world.member("a").selected = false;
    world.settle();
    assert_eq!(
        (world.on("r1"), world.words()),
        (vec!["a", "b"], "a:NotYet b:UpToDate".into())
    );
    world.member("a").eligible = Eligible::Yes;
    world.settle();
    assert_eq!(
        (world.on("r1"), world.words()),
        (vec!["b"], "a:Excluded b:UpToDate".into())
    );
}

#[test]
fn an_excluded_unit_keeps_its_content() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").place = StagePosition::Excluded;
    world.aim("r2");
    world.settle();
    assert_eq!(
        (world.on("r1"), world.words()),
        (vec!["a"], "a:Excluded b:UpToDate".into())
    );
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

/// One of two units is absent during its change, for longer than its slot is kept.
fn away(absence: Absence) -> World {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.member("a").eligible = Eligible::No(ineligible(5, absence));
    world.step();
    world.pass(Millis::minutes(5));
    world.step();
    world
}

#[test]
fn what_an_absence_means() {
    let skip = away(Absence::Skip);
    assert_eq!(
        (skip.in_flight(), skip.memory.marks.len()),
        (vec!["b".to_owned()], 0)
    );

    let mut wait = away(Absence::Wait);
    assert_eq!(wait.in_flight(), ["a"], "it keeps its slot");
    assert!(assignment_steps(&wait.decide()).is_empty());
    wait.find("a");
    wait.settle();
    assert_eq!(wait.on("r2"), ["a", "b"]);

    let fail = away(Absence::Fail);
    assert!(fail.memory.is_bad(rev("r2")));
    assert_eq!(fail.on("r2"), ["a"], "b never gets it");
}

#[test]
fn a_unit_absent_before_its_write_has_not_failed() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.remember(); // a is charged, and its write is lost
    world.member("a").eligible = Eligible::No(ineligible(5, Absence::Fail));
    world.step();
    world.pass(world.spec.deadlines.absence);
    world.step();
    assert!(!world.memory.is_bad(rev("r2")) && world.memory.marks.is_empty());
    assert_eq!(world.in_flight(), ["b"], "the others go on");
}

#[test]
fn an_absent_unit_that_is_waited_for_keeps_the_run_open() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.member("a").eligible = Eligible::No(ineligible(5, Absence::Wait));
    world.aim("r2");
    world.step();
    world.succeed("b");
    world.step();
    assert_eq!(world.memory.run.unwrap().state, muster_rollout::RunState::Open);
    world.member("a").eligible = Eligible::No(ineligible(5, Absence::Skip));
    world.step();
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

//! Rule 8: when a target is good; joining and leaving.

use muster_rollout::{Kind, Limit, OnJoin, Step, Verdict};

use crate::world::{World, assignment_steps, rev};

#[test]
fn good_when_every_eligible_selected_unit_is_confirmed_and_reported_once() {
    let mut world = World::new(&["a", "b"], "r1");
    world.step();
    world.succeed("a");
    world.step();
    assert_eq!(world.memory.last_good, None);
    world.succeed("b");
    let good = Step::Conclude {
        revision: rev("r1"),
        verdict: Verdict::Good,
        evidence: None,
    };
    assert_eq!(world.step().steps, [good]);
    assert_eq!(world.memory.last_good, Some(rev("r1")));
    assert!(world.step().steps.is_empty());
}

#[test]
fn a_fleet_without_an_eligible_unit_proves_nothing() {
    let mut world = World::new(&[], "r1");
    world.step();
    world.join("a");
    world.lose("a");
    world.step();
    assert_eq!(world.memory.last_good, None);
}

#[test]
fn an_incomplete_read_proves_nothing() {
    let mut world = World::new(&["a"], "r1");
    world.step();
    world.succeed("a");
    world.spec.complete = false;
    world.step();
    assert_eq!(world.memory.last_good, None);
    world.spec.complete = true;
    world.step();
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

#[test]
fn a_unit_joining_during_a_run_gets_the_last_good_first_and_then_its_turn() {
    let mut world = World::settled(&["b", "c"], "r1");
    world.aim("r2");
    world.step();
    world.join("a");
    world.succeed("b");
    world.step();
    assert_eq!((world.on("r1"), world.on("r2")), (vec!["a", "c"], vec!["b"]));
    assert_eq!(world.memory.in_flight["a"].kind, Kind::Join);
    world.succeed("a");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"]);
    world.settle();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
    assert_eq!(world.memory.run.unwrap().id, 2, "joining starts no run");
}

#[test]
fn a_joining_unit_may_get_the_target_at_once() {
    let mut world = World::settled(&["b", "c"], "r1");
    world.spec.on_join = OnJoin::Target;
    world.aim("r2");
    world.join("a");
    world.step();
    assert_eq!(world.on("r2"), ["a"]);
}

#[test]
fn a_joiner_at_which_the_last_good_fails_does_not_block_the_others_for_ever() {
    let mut world = World::settled(&["b"], "r1");
    world.aim("r2");
    world.join("a");
    world.step();
    world.fail("a");
    world.step();
    assert_eq!(world.on("r2"), ["a"]);
    world.fail("a");
    world.step();
    assert_eq!(world.memory.verdict(rev("r2")), None, "it was not ready");
}

#[test]
fn a_unit_joining_after_the_run_gets_the_target_and_changes_no_verdict() {
    let mut world = World::settled(&["a"], "r1");
    world.join("b");
    world.step();
    assert_eq!(world.on("r1"), ["a", "b"]);
    world.fail("b");
    world.step();
    assert_eq!(world.memory.verdict(rev("r1")), Some(Verdict::Good));
    assert_eq!(world.words(), "a:UpToDate b:Failed");
}

#[test]
fn a_deleted_unit_does_not_count() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.members.remove("a");
    world.spec.complete = false;
    world.step();
    assert_eq!(world.in_flight(), ["a"], "a partial view shows no unit gone");
    world.spec.complete = true;
    world.step();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn another_life_of_a_unit_is_another_unit() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    world.join("a");
    world.step();
    assert_eq!(world.memory.in_flight["a"].kind, Kind::Join);
    assert!(world.token("a") > 2, "its tokens go on");
    assert_eq!(assignment_steps(&world.step()).len(), 0);
}

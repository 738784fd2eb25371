//! Rule 6, E5: units with a condemned revision return to the last good one, under the same limits.

use muster_rollout::{Kind, Limit, OnFailure, Phase, Why};

use crate::stages::stage;
use crate::world::{World, assignment_steps, rev};

/// Two units have r2 and are confirmed, a third fails at it.
fn condemned() -> World {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.on_failure = OnFailure::Revert;
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.succeed("b");
    world.step();
    world.fail("c");
    world.step();
    world
}

#[test]
fn in_flight_units_revert_first_and_then_the_newest() {
    let mut world = condemned();
    assert!(world.memory.is_bad(rev("r2")));
    assert_eq!(world.words(), "a:WaitingTurn b:WaitingTurn c:Reverting d:Halted");
    assert_eq!(world.memory.in_flight["c"].kind, Kind::Revert);
    assert_eq!(world.decide().summary.phase, Phase::Reverting);
    let mut order = Vec::new();
    while let [one] = &world.in_flight()[..] {
        order.push(one.clone());
        world.succeed(one);
        world.step();
    }
    assert_eq!(order, ["c", "b", "a"]);
    assert_eq!(world.on("r1"), ["a", "b", "c", "d"]);
    assert_eq!(world.words(), "a:Halted b:Halted c:Halted d:Halted");
    assert_eq!(world.decide().summary.phase, Phase::Halted);
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

/// Not stage by stage: the unit that changed last is the most likely to be broken now.
#[test]
fn the_newest_first_over_all_stages() {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.on_failure = OnFailure::Revert;
    world.spec.stages = vec![stage("one"), stage("two")];
    world.stage(&["c"], 0);
    world.stage(&["a", "b"], 1);
    world.aim("r2");
    for name in ["c", "a"] {
        world.step();
        world.succeed(name);
    }
    world.step();
    world.fail("b");
    let mut order = Vec::new();
    world.step();
    while let [one] = &world.in_flight()[..] {
        order.push(one.clone());
        world.succeed(one);
        world.step();
    }
    assert_eq!(order, ["b", "a", "c"]);
}

#[test]
fn without_a_good_revision_it_halts() {
    let mut world = World::new(&["a", "b"], "r1");
    world.spec.on_failure = OnFailure::Revert;
    world.step();
    world.fail("a");
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(world.words(), "a:Failed b:Halted");
    assert_eq!(world.on("r1"), ["a"]);
}

#[test]
fn a_revert_keeps_other_content_and_gives_empty_units_the_last_good() {
    let mut world = condemned();
    world.join("e");
    world.settle();
    assert_eq!(world.on("r1"), ["a", "b", "c", "d", "e"]);
    assert_eq!(world.token("d"), 4, "d never had r2");
}

#[test]
fn values_are_those_of_today() {
    let mut world = condemned();
    world.member("c").values = 7;
    world.step();
    let digest = world.memory.in_flight["c"].digest.unwrap();
    assert_eq!(crate::world::label(digest), "r1.7");
}

#[test]
fn paused_or_unreachable_units_are_not_reverted() {
    let mut world = condemned();
    world.succeed("c");
    world.spec.paused = true;
    world.step();
    assert_eq!(
        (world.in_flight().len(), world.words()),
        (0, "a:Paused b:Paused c:Halted d:Halted".into())
    );
    world.spec.paused = false;
    world.lose("b");
    world.step();
    assert_eq!(world.in_flight(), ["a"], "b is not touched");
    world.succeed("a");
    world.step();
    world.find("b");
    world.step();
    assert_eq!(world.in_flight(), ["b"], "and goes back when it can be reached");
}

#[test]
fn revert_can_be_enabled_after_the_halt() {
    let mut halted = World::settled(&["a", "b"], "r1");
    halted.aim("r2");
    halted.step();
    halted.fail("a");
    halted.step();
    assert!(assignment_steps(&halted.step()).is_empty());
    halted.spec.on_failure = OnFailure::Revert;
    halted.step();
    assert_eq!(halted.on("r1"), ["a", "b"]);
    assert!(matches!(halted.why("a"), Why::Reverting { .. }));
}

#[test]
fn a_failure_on_the_way_back_condemns_nothing() {
    let mut world = condemned();
    world.fail("c");
    world.step();
    assert!(!world.memory.is_bad(rev("r1")));
    assert_eq!(world.words(), "a:WaitingTurn b:WaitingTurn c:Failed d:Halted");
}

#[test]
fn a_new_target_ends_it() {
    let mut world = condemned();
    world.aim("r3");
    world.step();
    assert_eq!(world.on("r3"), ["c"]);
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["a"], "units with the bad revision come first");
}

#[test]
fn to_go_on_records_it_once() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.on_failure = OnFailure::Continue;
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    world.fail("a");
    assert_eq!(world.step().steps.len(), 1, "a verdict, and nothing else");
    world.succeed("b");
    let steps = world.step().steps;
    assert_eq!(assignment_steps(&world.decide()).len(), 0);
    assert!(
        steps.iter().all(|step| step.unit().is_some()),
        "reported once: {steps:?}"
    );
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
    world.succeed("a");
    world.succeed("c");
    world.step();
    assert_eq!(world.memory.last_good, Some(rev("r2")), "in the end all have it");
}

//! Rule 4: a unit that cannot be changed is left alone, named and skipped; it is in flight again when it returns.

use muster_rollout::{Limit, Millis, State, Step, Why};

use crate::world::{UNREACHABLE, World, assignment_steps};

#[test]
fn an_ineligible_unit_is_skipped_and_taken_when_it_can_be_touched() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.lose("a");
    world.aim("r2");
    world.step();
    assert_eq!(world.on("r2"), ["b"]);
    world.succeed("b");
    let decision = world.step();
    assert_eq!((decision.summary.skipped, decision.summary.updated), (1, 1));
    assert!(matches!(world.why("a"), Why::Ineligible { reason, .. } if reason == UNREACHABLE));
    world.find("a");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"]);
}

#[test]
fn an_in_flight_unit_that_disappears_is_fenced_and_released_after_its_absence() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.lose("a");
    let decision = world.step();
    assert_eq!(decision.wake_at, Some(world.now.plus(Millis::minutes(5))));
    world.pass(Millis::seconds(299));
    assert!(assignment_steps(&world.step()).is_empty());
    world.pass(Millis::seconds(1));
    let decision = world.step();
    assert!(
        matches!(&decision.steps[..], [Step::Fence { unit: a, .. }, Step::Assign { unit: b, .. }]
        if a.as_str() == "a" && b.as_str() == "b")
    );
    assert_eq!(
        (world.token("a"), world.on("r2")),
        (4, vec!["a", "b"]),
        "the fence changes no content"
    );
    assert!(world.memory.marks.is_empty(), "no verdict");
}

#[test]
fn only_a_unit_back_unconfirmed_goes_in_flight_above_the_limit() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.aim("r2");
    world.step();
    world.lose("a");
    world.step();
    world.pass(Millis::minutes(5));
    world.step();
    world.find("a");
    world.report("a", State::Updating);
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"], "returned units fill the limit");
    world.succeed("a");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
}

#[test]
fn a_unit_that_finished_while_absent_is_confirmed_without_a_slot() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.lose("a");
    world.step();
    world.pass(Millis::minutes(5));
    world.step();
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b"]);
    assert!(!world.memory.in_flight.contains_key("a"));
}

#[test]
fn a_short_absence_costs_neither_the_slot_nor_the_deadline() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.step();
    world.pass(Millis::minutes(4));
    world.lose("a");
    world.step();
    world.pass(Millis::minutes(4));
    world.find("a");
    let decision = world.step();
    assert_eq!(world.in_flight(), ["a"]);
    assert_eq!(
        decision.wake_at,
        Some(world.now.plus(Millis::minutes(1))),
        "four of five minutes are spent"
    );
}

#[test]
fn absent_units_do_not_block_the_good_verdict() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    world.lose("a");
    world.succeed("b");
    world.step();
    assert_eq!(world.memory.last_good, Some(crate::world::rev("r2")));
}

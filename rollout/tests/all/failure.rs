//! Rules 6 and 7: what condemns a revision, the halt, and known bad revisions.

use muster_rollout::{Class, Limit, Millis, Phase, RunState, Step, Verdict, Why};

use crate::world::{World, assignment_steps, failure, rev};

fn rolling(max_failed: Limit, limit: u32) -> World {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.max_failed = max_failed;
    world.spec.limit = Limit::Count(limit);
    world.aim("r2");
    world.step();
    world.step();
    world
}

fn is_bad(world: &World) -> bool {
    world.memory.verdict(rev("r2")) == Some(Verdict::Bad)
}

/// A report of this class: does it condemn at once, when the deadline ends, or never?
fn check(class: Class, terminal: bool, at_once: bool, at_last: bool) {
    let mut world = rolling(Limit::Count(0), 1);
    world.report("a", failure(class, terminal));
    world.step();
    assert_eq!(is_bad(&world), at_once, "{class:?} {terminal} at once");
    world.pass(Millis::minutes(10));
    world.step();
    assert_eq!(is_bad(&world), at_last, "{class:?} {terminal} at last");
}

#[test]
fn classes() {
    check(Class::Revision, true, true, true);
    check(Class::Revision, false, false, true);
    check(Class::Unit, true, false, true);
    check(Class::Unit, false, false, true);
    check(Class::Infra, true, false, false);
    check(Class::Infra, false, false, false);
}

#[test]
fn a_bad_target_halts_and_names_the_unit_and_the_cause() {
    let mut world = rolling(Limit::Count(0), 1);
    world.fail("a");
    let decision = world.step();
    assert!(
        matches!(&decision.steps[..], [Step::Conclude { verdict: Verdict::Bad, evidence: Some(evidence), .. }]
        if evidence.unit.as_str() == "a" && evidence.message.contains("image not found"))
    );
    assert_eq!(decision.summary.phase, Phase::Halted);
    for _ in 0..3 {
        world.pass(Millis::minutes(7));
        assert!(world.step().steps.is_empty());
    }
    assert_eq!(world.on("r2"), ["a"]);
    assert_eq!(world.words(), "a:Failed b:Halted c:Halted d:Halted");
}

#[test]
fn after_a_halt_in_flight_units_may_still_confirm() {
    let mut world = rolling(Limit::Count(0), 2);
    world.fail("a");
    world.step();
    world.succeed("b");
    world.step();
    assert_eq!(world.words(), "a:Failed b:UpToDate c:Halted d:Halted");
}

#[test]
fn distinct_units_are_counted_against_the_setting() {
    let mut world = rolling(Limit::Count(1), 3);
    world.fail("a");
    for _ in 0..3 {
        world.step();
    }
    assert!(!is_bad(&world), "one unit is one failure");
    world.fail("b");
    world.step();
    assert!(is_bad(&world));
}

#[test]
fn a_percentage_of_failures() {
    let mut world = rolling(Limit::Percent(50), 4);
    world.fail("a");
    world.fail("b");
    world.step();
    assert!(!is_bad(&world));
    world.fail("c");
    world.step();
    assert!(is_bad(&world));
}

#[test]
fn a_fixed_revision_goes_through_without_a_hand_and_starts_where_it_hurts() {
    let mut world = rolling(Limit::Count(0), 1);
    world.succeed("a");
    world.step();
    world.fail("b");
    world.step();
    world.aim("r3");
    world.step();
    assert_eq!(world.on("r3"), ["b"], "on the slot it has");
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r3"), ["a", "b"], "then units with the bad revision");
    world.settle();
    assert_eq!(
        (world.on("r3").len(), world.memory.last_good),
        (4, Some(rev("r3")))
    );
}

#[test]
fn a_bad_revision_that_is_targeted_again_goes_nowhere_not_to_joiners_either() {
    let mut world = rolling(Limit::Count(0), 1);
    world.fail("a");
    world.step();
    world.aim("r3");
    world.settle();
    world.aim("r2");
    world.join("e");
    assert!(world.step().steps.is_empty());
    assert_eq!(world.memory.run.unwrap().state, RunState::KnownBad);
    assert!(matches!(world.why("b"), Why::KnownBad { .. }));
    assert!(matches!(world.why("e"), Why::KnownBad { .. }));
}

#[test]
fn the_very_first_revision_may_be_bad() {
    let mut world = World::new(&["a", "b"], "r1");
    world.step();
    world.fail("a");
    world.step();
    assert_eq!(world.words(), "a:Failed b:Halted");
    assert!(assignment_steps(&world.step()).is_empty());
}

#[test]
fn an_intent_that_is_condemned_before_it_is_written_is_fenced() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    let decision = world.remember();
    world.carry_out(&decision.steps[0]);
    world.fail("a");
    let decision = world.step();
    assert!(matches!(&decision.steps[0], Step::Fence { unit, .. } if unit.as_str() == "b"));
    assert_eq!((world.on("r2"), world.on("r1")), (vec!["a"], vec!["b", "c"]));
    assert_eq!(world.in_flight(), ["a", "b"], "in flight for its current content");
    world.carry_out(&Step::Assign {
        unit: "b".into(),
        revision: rev("r2"),
        digest: crate::world::digest("r2", 0),
        token: muster_rollout::Token(2),
    });
    assert_eq!(world.on("r2"), ["a"], "the late write finds a greater token");
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn a_deselected_unit_does_not_count_and_may_fail_again() {
    let mut world = rolling(Limit::Count(1), 2);
    world.fail("a");
    world.step();
    assert_eq!(world.memory.marks.len(), 1);
    world.deselect(&["a"]);
    world.spec.paused = true;
    world.step();
    assert!(world.memory.marks.is_empty(), "it left");
    world.fail("b");
    world.step();
    assert!(!is_bad(&world), "one of two is left, and one may fail");
    world.reselect("a");
    world.step();
    assert!(
        is_bad(&world),
        "it is back before anything was withdrawn, and still fails"
    );
}

#[test]
fn units_that_cannot_be_reached_lower_no_tolerance() {
    let mut world = rolling(Limit::Percent(50), 4);
    world.fail("a");
    world.fail("b");
    world.step();
    world.lose("c");
    world.lose("d");
    world.step();
    assert!(!is_bad(&world), "half of four is two, regardless of reachability");
}

#[test]
fn one_unit_is_counted_once_whatever_fails_on_its_slot() {
    let names: Vec<String> = (0..104).map(|at| format!("u{at:03}")).collect();
    let mut world = World::settled(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    world.spec.limit = Limit::Count(200);
    world.spec.max_failed = Limit::Count(102);
    world.aim("r2");
    world.step();
    names.iter().take(102).for_each(|name| world.fail(name));
    world.step();
    assert_eq!(world.memory.marks_beyond, 2, "those that are not kept by name");
    let beyond = world
        .memory
        .in_flight
        .iter()
        .filter(|(id, change)| change.marked && !world.memory.marks.contains_key(*id));
    let beyond: Vec<String> = beyond.map(|(id, _)| id.to_string()).collect();
    beyond.iter().for_each(|name| world.member(name).values += 1);
    world.step();
    beyond.iter().for_each(|name| world.fail(name));
    world.step();
    assert_eq!(world.memory.marks_beyond, 2);
    assert!(!is_bad(&world));
}

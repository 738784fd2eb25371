//! Rule 10: gates are read elsewhere, at intervals, and must pass several times in a row.

use muster_rollout::{ControlCommand, Gate, GateId, GateResult, Millis, Reading, Stage, Step, Why};

use crate::stages::{stage, staged};
use crate::world::{World, rev};

const GATE: GateId = GateId { stage: 0, gate: 0 };

fn gated(no_data_fails: bool) -> World {
    let gate = Gate {
        definition: 1,
        interval: Millis::minutes(1),
        passes: 2,
        no_data_fails,
    };
    staged(Stage {
        gates: vec![gate],
        ..stage("canary")
    })
}

fn read(world: &mut World, outcome: GateResult) {
    let at = world.now;
    world.spec.readings = vec![Reading {
        gate: GATE,
        at,
        outcome,
    }];
    world.step();
}

fn passes(world: &World) -> (u32, u32) {
    match world.why("a") {
        Why::WaitingGate { passes, .. } => passes,
        why => panic!("{why:?}"),
    }
}

#[test]
fn it_is_read_when_the_units_are_confirmed_and_then_at_intervals() {
    let mut world = gated(false);
    assert!(!world.decide().steps.contains(&Step::Evaluate { gate: GATE }));
    world.succeed("b");
    assert_eq!(world.step().steps, [Step::Evaluate { gate: GATE }]);
    assert_eq!(
        world.step().steps,
        [Step::Evaluate { gate: GATE }],
        "until it is read"
    );
    read(&mut world, GateResult::Pass);
    let decision = world.decide();
    assert!(decision.steps.is_empty());
    assert_eq!(decision.wake_at, Some(world.now.plus(Millis::minutes(1))));
    assert_eq!(passes(&world), (1, 2));
    world.pass(Millis::minutes(1));
    assert_eq!(world.step().steps, [Step::Evaluate { gate: GATE }]);
    read(&mut world, GateResult::Pass);
    assert_eq!(world.in_flight(), ["a", "c"]);
}

#[test]
fn it_has_to_hold_in_a_row_and_one_reading_counts_once() {
    let mut world = gated(false);
    world.succeed("b");
    world.step();
    read(&mut world, GateResult::Pass);
    world.step();
    world.step();
    assert_eq!(passes(&world), (1, 2));
    world.pass(Millis::minutes(1));
    read(&mut world, GateResult::Fail);
    assert_eq!(passes(&world), (0, 2));
}

/// What missing data does to one passed reading.
fn check(no_data_fails: bool, expect: u32) {
    let mut world = gated(no_data_fails);
    world.succeed("b");
    world.step();
    read(&mut world, GateResult::Pass);
    world.pass(Millis::minutes(1));
    read(&mut world, GateResult::NoData);
    assert_eq!(passes(&world).0, expect);
}

#[test]
fn no_data_says_nothing_or_is_as_bad_as_a_failure() {
    check(false, 1);
    check(true, 0);
}

#[test]
fn what_was_read_before_the_units_were_confirmed_says_nothing() {
    let mut world = gated(false);
    read(&mut world, GateResult::Pass);
    world.pass(Millis::seconds(1));
    world.succeed("b");
    world.step();
    assert_eq!(passes(&world), (0, 2));
}

#[test]
fn a_promotion_waits_for_no_gate() {
    let mut world = gated(false);
    world.succeed("b");
    world.step();
    assert!(world.say(ControlCommand::Promote(rev("r2"), "canary".into())));
    assert_eq!(world.in_flight(), ["a", "c"]);
}

#[test]
fn what_was_said_about_something_else_counts_for_nothing() {
    let mut world = gated(false);
    world.succeed("b");
    world.step();
    read(&mut world, GateResult::Pass);
    assert_eq!(passes(&world), (1, 2));
    world.spec.readings.clear();
    world.spec.stages[0].gates[0].definition = 2;
    assert_eq!(passes(&world), (0, 2));
    assert_eq!(
        world.step().steps,
        [Step::Evaluate { gate: GATE }],
        "what is asked now is read at once"
    );
    read(&mut world, GateResult::Pass);
    // It now requires fewer consecutive passes: earlier results are about the same gate.
    world.spec.stages[0].gates[0].passes = 1;
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
}

#[test]
fn the_open_stage_is_reported_even_if_no_unit_waits_behind_it() {
    let mut world = World::settled(&["a"], "r1");
    let gates = vec![Gate {
        definition: 1,
        interval: Millis::minutes(1),
        passes: 1,
        no_data_fails: false,
    }];
    world.spec.stages = vec![Stage {
        gates,
        ..stage("all")
    }];
    world.stage(&["a"], 0);
    world.aim("r2");
    world.step();
    world.succeed("a");
    let decision = world.step();
    assert_eq!(world.why("a"), Why::UpToDate);
    assert!(matches!(decision.open, Some(Why::WaitingGate { gate: GATE, .. })));
    read(&mut world, GateResult::Pass);
    assert_eq!(world.memory.last_good, Some(rev("r2")));
    assert_eq!(world.decide().open, None);
}

//! Rule 15: paused.

use muster_rollout::{Limit, Phase};

use crate::world::{World, assignment_steps};

#[test]
fn a_pause_starts_no_unit_and_lets_in_flight_units_finish() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.spec.paused = true;
    world.succeed("a");
    let decision = world.step();
    assert!(world.in_flight().is_empty() && assignment_steps(&decision).is_empty());
    assert_eq!(
        (decision.summary.phase, world.words().as_str()),
        (Phase::Paused, "a:UpToDate b:Paused")
    );
    world.spec.paused = false;
    world.step();
    assert_eq!(world.on("r2"), ["a", "b"]);
}

#[test]
fn a_pause_writes_no_in_flight_unit_that_was_not_written_yet() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.remember();
    world.spec.paused = true;
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:Paused b:Paused");
    world.aim("r3");
    assert!(assignment_steps(&world.step()).is_empty());
    world.spec.paused = false;
    world.step();
    assert_eq!(world.on("r3"), ["a", "b"]);
}

#[test]
fn paused_withdraws_nothing() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.spec.paused = true;
    world.deselect(&["a"]);
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:Paused b:UpToDate");
}

#[test]
fn without_a_target_nothing_moves_and_nothing_is_withdrawn() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.target = None;
    world.spec.target = None;
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:Unresolved b:Unresolved");
}

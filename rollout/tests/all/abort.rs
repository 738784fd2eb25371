//! Rule 15: an aborted run ends without blame, until there is another target or a retry.

use muster_rollout::{ControlCommand, OnFailure, Phase, RunState};

use crate::world::{World, assignment_steps, rev};

fn rolling() -> World {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world
}

#[test]
fn an_abort_starts_nothing_and_lets_in_flight_units_finish() {
    let mut world = rolling();
    assert!(world.say(ControlCommand::Abort(rev("r2"))));
    world.succeed("b");
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:UpToDate b:UpToDate c:Aborted");
    assert_eq!(world.decide().summary.phase, Phase::Aborted);
    assert!(!world.memory.is_bad(rev("r2")));
}

#[test]
fn an_abort_reverts_if_the_spec_asks_for_it() {
    let mut world = rolling();
    world.spec.on_failure = OnFailure::Revert;
    assert!(world.say(ControlCommand::Abort(rev("r2"))));
    assert_eq!(world.words(), "a:WaitingTurn b:Reverting c:Aborted");
    world.settle();
    assert_eq!(world.on("r1"), ["a", "b", "c"]);
}

#[test]
fn what_was_good_and_is_aborted_is_no_way_back() {
    let mut world = rolling();
    world.spec.on_failure = OnFailure::Revert;
    world.aim("r1");
    world.step();
    assert_eq!(world.words(), "a:WaitingTurn b:Updating c:UpToDate");
    assert!(world.say(ControlCommand::Abort(rev("r1"))));
    assert!(assignment_steps(&world.step()).is_empty());
    assert_eq!(world.words(), "a:Aborted b:Updating c:UpToDate");
}

#[test]
fn it_is_taken_once() {
    let mut world = rolling();
    assert!(world.say(ControlCommand::Abort(rev("r2"))));
    world.aim("r3");
    world.step();
    world.aim("r2");
    world.step();
    assert_eq!(
        world.memory.run.unwrap().state,
        RunState::Open,
        "it remains, and was taken before"
    );
    world.spec.controls.clear();
    world.step();
    assert!(world.say(ControlCommand::Abort(rev("r2"))), "it is said again");
}

#[test]
fn of_what_is_not_being_rolled_out_it_has_no_effect() {
    let mut world = rolling();
    assert!(!world.say(ControlCommand::Abort(rev("r9"))));
    world.settle();
    assert!(!world.say(ControlCommand::Abort(rev("r2"))), "it is good already");
    assert_eq!(world.memory.run.unwrap().state, RunState::Good);
}

#[test]
fn tried_again_it_goes_on() {
    let mut world = rolling();
    world.say(ControlCommand::Abort(rev("r2")));
    let run = world.memory.run.unwrap().id;
    assert!(world.say(ControlCommand::Retry(rev("r2"))));
    assert_eq!(world.memory.run.unwrap().id, run + 1);
    world.settle();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
}

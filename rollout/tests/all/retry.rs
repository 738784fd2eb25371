//! Rule 7: a retry of a condemned revision, by its name.

use std::collections::BTreeMap;

use muster_rollout::{ControlCommand, Evidence, Memory, RunState};

use crate::world::{World, rev};

fn condemned() -> World {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.fail("a");
    world.step();
    assert!(world.memory.is_bad(rev("r2")));
    world
}

#[test]
fn a_retry_asks_the_failed_unit_again_and_ignores_its_old_report() {
    let mut world = condemned();
    let token = world.token("a");
    assert!(world.say(ControlCommand::Retry(rev("r2"))));
    assert!(world.token("a") > token, "a new token, so a new answer");
    world.step();
    assert_eq!(world.words(), "a:Updating b:WaitingTurn");
    world.settle();
    assert_eq!(world.on("r2"), ["a", "b"]);
    assert_eq!(world.memory.last_good, Some(rev("r2")));
}

#[test]
fn failed_again_it_is_condemned_again_and_the_word_is_spent() {
    let mut world = condemned();
    world.say(ControlCommand::Retry(rev("r2")));
    world.fail("a");
    world.step();
    world.step();
    assert!(world.memory.is_bad(rev("r2")));
    assert_eq!(world.words(), "a:Failed b:Halted");
}

#[test]
fn of_a_revision_that_is_not_the_target_only_the_memory_goes() {
    let mut world = condemned();
    world.aim("r3");
    world.settle();
    let run = world.memory.run;
    assert!(world.say(ControlCommand::Retry(rev("r2"))));
    assert!(!world.memory.is_bad(rev("r2")));
    assert_eq!(world.memory.run, run);
    assert!(
        !world.say(ControlCommand::Retry(rev("r9"))),
        "nothing is known of that"
    );
}

#[test]
fn after_a_loss_of_memory_an_old_word_does_nothing() {
    let mut world = condemned();
    let evidence = Evidence::new("a".into(), "broken", world.now);
    let bad = BTreeMap::from([(rev("r2"), evidence)]);
    world.say(ControlCommand::Retry(rev("r2")));
    world.memory = Memory::rebuild(&world.view(), Some(rev("r1")), bad, world.now);
    assert!(world.step().taken.is_empty());
    assert!(world.memory.is_bad(rev("r2")));
    assert_eq!(world.memory.run.unwrap().state, RunState::KnownBad);
}

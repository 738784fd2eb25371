//! Rule 6, for units that change in steps: each step has the deadline, which is stopped while the unit waits for
//! something else, and a total limits all of them.

use muster_rollout::{Memory, Millis, Progress, State, Verdict};

use crate::world::{World, rev};

fn progress(done: u32, waiting: bool) -> State {
    State::Progressing(Progress { done, waiting })
}

/// One unit that got `r2` and acknowledged it.
fn under_way() -> World {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.step();
    world.report("a", progress(0, false));
    world.step();
    world
}

/// Lets time pass for a caller that decides on every report.
fn goes_on(world: &mut World, time: Millis, done: u32, waiting: bool) {
    world.pass(time);
    world.report("a", progress(done, waiting));
    world.step();
}

fn is_confirmed(world: &mut World) -> bool {
    world.succeed("a");
    world.step();
    world.memory.verdict(rev("r2")) == Some(Verdict::Good)
}

#[test]
fn a_hundred_steps_of_half_a_minute_confirm_under_the_default_deadlines() {
    let mut world = under_way();
    for done in 1..=100 {
        goes_on(&mut world, Millis::seconds(30), done, false);
        assert_eq!(world.words(), "a:Updating");
    }
    assert!(is_confirmed(&mut world));
}

#[test]
fn an_hour_of_waiting_is_on_no_deadline() {
    let mut world = under_way();
    goes_on(&mut world, Millis::minutes(9), 0, true);
    assert_eq!(world.decide().wake_at, None, "its clock is stopped");
    goes_on(&mut world, Millis::minutes(60), 0, true);
    goes_on(&mut world, Millis::seconds(1), 0, false);
    let left = world.decide().wake_at.unwrap().since(world.now);
    assert_eq!(left, Millis::minutes(1), "nine minutes were spent before");
    goes_on(&mut world, Millis::seconds(59), 1, false);
    assert!(is_confirmed(&mut world));
}

#[test]
fn one_step_that_does_not_end_fails_at_its_own_deadline() {
    let mut world = under_way();
    goes_on(&mut world, Millis::minutes(9), 1, false);
    goes_on(&mut world, Millis::minutes(9), 2, false);
    goes_on(&mut world, Millis::minutes(9), 2, false);
    assert!(!world.memory.is_bad(rev("r2")));
    goes_on(&mut world, Millis::minutes(1), 2, false);
    assert!(world.memory.is_bad(rev("r2")));
}

#[test]
fn what_was_done_before_is_no_progress() {
    let mut world = under_way();
    goes_on(&mut world, Millis::minutes(5), 7, false);
    goes_on(&mut world, Millis::minutes(5), 3, false);
    goes_on(&mut world, Millis::minutes(5), 7, false);
    assert!(world.memory.is_bad(rev("r2")), "ten minutes since the seventh");
}

#[test]
fn all_steps_have_a_deadline_in_common_if_one_is_set() {
    let mut world = under_way();
    world.spec.deadlines.total = Some(Millis::minutes(30));
    for done in 1..=5 {
        goes_on(&mut world, Millis::minutes(5), done, false);
    }
    goes_on(&mut world, Millis::seconds(1), 5, true);
    goes_on(&mut world, Millis::minutes(60), 5, true);
    assert!(!world.memory.is_bad(rev("r2")), "it does not run while it waits");
    goes_on(&mut world, Millis::seconds(1), 6, false);
    goes_on(&mut world, Millis::minutes(4), 7, false);
    assert!(!world.memory.is_bad(rev("r2")));
    let left = world.decide().wake_at.unwrap().since(world.now);
    assert_eq!(left, Millis::seconds(59));
    goes_on(&mut world, left, 8, false);
    assert!(world.memory.is_bad(rev("r2")));
}

#[test]
fn steps_are_remembered_and_a_memory_of_before_is_read_whole() {
    let mut world = under_way();
    goes_on(&mut world, Millis::minutes(4), 3, false);
    goes_on(&mut world, Millis::minutes(4), 3, false);
    let text = serde_json::to_string(&world.memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), world.memory);
    // As earlier versions wrote it: without steps.
    let before = r#"{"v":1,"seq":3,"run":{"id":2,"target":"72320000000000000000000000000000","from":"72310000000000000000000000000000","started":1000000,"state":"Open"},"revs":["72320000000000000000000000000000"],"charges":{"a":[192842644096513,1,"72322e30000000000000000000000000",3,2328,1000000,0,0,1000000,0]},"good":"72310000000000000000000000000000"}"#;
    let memory: Memory = serde_json::from_str(before).unwrap();
    let change = memory.in_flight.values().next().unwrap();
    assert_eq!((change.clock.done, change.clock.before), (0, Millis(0)));
    assert_eq!(
        serde_json::to_string(&memory).unwrap(),
        before,
        "and written as it was"
    );
}

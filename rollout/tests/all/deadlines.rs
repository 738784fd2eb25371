//! Rule 5: deadlines count only time in which the unit was eligible, the assignment was written and there was a leader.

use muster_rollout::{Class, Millis, State, Verdict, Why};

use crate::world::{World, failure, rev};

fn in_flight() -> World {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.step();
    world
}

fn condemned(world: &mut World) -> bool {
    world.step();
    world.memory.verdict(rev("r2")) == Some(Verdict::Bad)
}

#[test]
fn not_picked_up_in_time() {
    let mut world = in_flight();
    world.pass(Millis::seconds(299));
    assert!(!condemned(&mut world));
    world.pass(Millis::seconds(1));
    assert!(condemned(&mut world));
    assert!(matches!(world.why("a"), Why::NotPickedUp { .. }));
}

#[test]
fn picked_up_but_not_finished_in_time() {
    let mut world = in_flight();
    world.pass(Millis::seconds(299));
    world.report("a", State::Updating);
    world.step();
    world.pass(Millis::seconds(599));
    assert!(!condemned(&mut world));
    world.pass(Millis::seconds(1));
    assert!(condemned(&mut world));
    assert!(matches!(world.why("a"), Why::Overdue { .. }));
}

#[test]
fn the_deadline_starts_when_the_assignment_is_written() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.remember();
    world.pass(Millis::minutes(60));
    assert!(!condemned(&mut world));
    world.step();
    world.pass(Millis::seconds(299));
    assert!(!condemned(&mut world));
}

#[test]
fn time_without_a_leader_does_not_count_towards_deadlines() {
    let mut world = in_flight();
    world.pass(Millis::minutes(30));
    world.memory = world.memory.clone().after_gap(Millis::minutes(29), world.now);
    assert!(!condemned(&mut world));
    world.pass(Millis::minutes(4));
    assert!(condemned(&mut world));
}

#[test]
fn infrastructure_delays_do_not_count_against_the_deadline() {
    let mut world = in_flight();
    world.report("a", failure(Class::Infra, true));
    world.step();
    world.pass(Millis::minutes(60));
    assert!(!condemned(&mut world));
    assert!(matches!(
        world.why("a"),
        Why::Updating {
            until: None,
            message: Some(_),
            ..
        }
    ));
}

#[test]
fn a_soak_is_not_overdue() {
    let mut world = in_flight();
    world.spec.min_ready = Millis::minutes(20);
    world.succeed("a");
    world.step();
    world.pass(Millis::seconds(1199));
    assert!(!condemned(&mut world));
    assert!(matches!(world.why("a"), Why::Soaking { .. }));
    world.pass(Millis::seconds(1));
    world.step();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn a_clock_that_goes_back_and_the_end_of_time_are_survived() {
    let mut world = in_flight();
    world.now = Millis(0);
    assert!(!condemned(&mut world));
    world.now = Millis(u64::MAX);
    assert!(condemned(&mut world));
}

//! Rule 9: a new target during a run.

use muster_rollout::{Limit, Step};

use crate::world::{World, assignment_steps, rev};

#[test]
fn in_flight_units_are_retargeted_on_their_own_slots() {
    let mut world = World::settled(&["a", "b", "c"], "r1");
    world.spec.limit = Limit::Count(2);
    world.aim("r2");
    world.step();
    world.aim("r3");
    world.step();
    assert_eq!((world.on("r2"), world.on("r3")), (vec![], vec!["a", "b"]));
    assert_eq!(world.memory.run.unwrap().target, rev("r3"));
    assert_eq!(world.memory.run.unwrap().from, Some(rev("r1")));
}

#[test]
fn targets_replaced_before_a_write_are_coalesced() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.remember();
    for target in ["r3", "r4", "r5"] {
        world.aim(target);
        world.remember();
    }
    world.step();
    assert_eq!(world.on("r5"), ["a"]);
}

#[test]
fn back_to_what_the_rows_carry_is_written_once_more_with_a_new_token() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    world.remember();
    world.aim("r1");
    let decision = world.step();
    assert!(
        matches!(assignment_steps(&decision)[..], [Step::Assign { revision, token, .. }]
        if *revision == rev("r1") && token.0 == 3)
    );
    world.succeed("a");
    world.step();
    assert!(world.in_flight().is_empty());
}

#[test]
fn a_failure_of_the_old_target_says_nothing_about_the_new_one() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.fail("a");
    world.aim("r3");
    world.step();
    assert!(world.memory.bad.is_empty() && world.memory.marks.is_empty());
}

#[test]
fn a_step_that_was_lost_is_repeated_with_its_token() {
    let mut world = World::settled(&["a"], "r1");
    world.aim("r2");
    let first = world.remember();
    let second = world.remember();
    assert_eq!(assignment_steps(&first), assignment_steps(&second));
    assert_eq!(first.memory, second.memory);
}

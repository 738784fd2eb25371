//! Rule 11: batches grow while all goes well.

use muster_rollout::{Batch, Limit, Millis, UnitId, Why};

use crate::world::{World, assignment_steps};

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

fn rolling(batch: Batch, limit: u32) -> World {
    let mut world = World::settled(&NAMES, "r1");
    world.spec.limit = Limit::Count(limit);
    world.spec.batch = Some(batch);
    world.aim("r2");
    world
}

const DOUBLING: Batch = Batch {
    start: 1,
    factor: 2,
    max: 4,
};

#[test]
fn the_next_opens_when_the_last_is_confirmed_and_is_larger_up_to_the_largest() {
    let mut world = rolling(DOUBLING, 9);
    let mut sizes = Vec::new();
    while world.on("r2").len() < 9 {
        world.step();
        let begun = world.in_flight();
        sizes.push(begun.len());
        begun.iter().for_each(|name| world.succeed(name));
    }
    assert_eq!(sizes, [1, 2, 4, 2]);
}

#[test]
fn one_that_is_late_keeps_the_next_batch_shut() {
    let mut world = rolling(DOUBLING, 9);
    world.step();
    world.succeed("a");
    world.step();
    world.succeed("b");
    assert!(assignment_steps(&world.step()).is_empty(), "c is not confirmed");
    assert_eq!(
        world.why("d"),
        Why::WaitingBatch {
            holders: [UnitId::from("c")].into(),
            size: 2
        }
    );
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["d", "e", "f", "g"]);
}

#[test]
fn one_that_is_given_up_for_its_absence_does_not() {
    let mut world = rolling(DOUBLING, 9);
    world.step();
    world.lose("a");
    world.step();
    world.pass(Millis::minutes(5));
    world.step();
    assert_eq!(world.in_flight(), ["b", "c"]);
}

#[test]
fn the_limit_narrows_a_batch_and_does_not_end_it() {
    let mut world = rolling(Batch { start: 3, ..DOUBLING }, 2);
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b", "c"]);
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["c"], "the batch has three");
    assert_eq!(world.words().matches("WaitingBatch").count(), 6);
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["d", "e"]);
}

#[test]
fn a_new_target_starts_with_the_in_flight_units() {
    let mut world = rolling(DOUBLING, 9);
    world.step();
    world.succeed("a");
    world.step();
    world.aim("r3");
    world.step();
    assert_eq!(world.on("r3"), ["b", "c"], "they are retargeted");
    world.succeed("b");
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["a", "d"]);
}

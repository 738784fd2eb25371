//! Rule 2, E1: a change of an available unit starts only while fewer units than the budget are changing or unavailable.

use muster_rollout::{Absence, Eligible, Limit, UnitId, Why};

use crate::world::{World, ineligible, rev};

fn rolling(budget: Limit) -> World {
    let mut world = World::settled(&["a", "b", "c", "d"], "r1");
    world.spec.limit = Limit::Count(4);
    world.spec.unavailable = Some(budget);
    world.aim("r2");
    world
}

fn waits(holders: &[&str], limit: u32) -> Why {
    Why::WaitingBudget {
        holders: holders.iter().map(|name| UnitId::from(*name)).collect(),
        limit,
    }
}

#[test]
fn what_changes_and_what_is_not_available_uses_it_up() {
    let mut world = rolling(Limit::Count(2));
    world.member("d").available = false;
    world.step();
    assert_eq!(
        world.in_flight(),
        ["a", "d"],
        "d may be changed beside a: it is unavailable already"
    );
    assert_eq!(world.why("b"), waits(&["a", "d"], 2));
    world.succeed("a");
    world.succeed("d");
    world.step();
    assert_eq!(world.in_flight(), ["b"], "d does not do its work yet");
    world.member("d").available = true;
    world.step();
    assert_eq!(world.in_flight(), ["b", "c"]);
}

#[test]
fn units_that_cannot_be_touched_use_it() {
    let mut world = rolling(Limit::Count(1));
    world.member("c").eligible = Eligible::No(ineligible(5, Absence::Skip));
    world.step();
    assert_eq!(world.in_flight(), [] as [&str; 0]);
    assert_eq!(world.why("a"), waits(&["c"], 1));
    world.find("c");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn a_percentage_is_of_the_selected_units() {
    let mut world = rolling(Limit::Percent(50));
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
}

#[test]
fn none_changes_only_what_is_not_available() {
    let mut world = rolling(Limit::Count(0));
    world.member("c").available = false;
    world.step();
    assert_eq!(world.in_flight(), ["c"]);
    assert_eq!(world.why("a"), waits(&["c"], 0));
}

/// The leader died before it wrote the assignments, and units became unavailable in the meantime.
#[test]
fn a_row_that_is_not_written_waits_for_it() {
    let mut world = rolling(Limit::Count(2));
    let decision = world.decide();
    world.memory = decision.memory;
    for change in world.memory.in_flight.values_mut() {
        change.sent = None;
    }
    world.member("c").available = false;
    world.step();
    assert_eq!(world.on("r2"), ["b", "c"], "beside c there is room for one");
    assert_eq!(world.why("a"), waits(&["a", "b", "c"], 2));
    world.succeed("b");
    world.step();
    assert_eq!(world.on("r2"), ["a", "b", "c"]);
}

#[test]
fn a_withdrawal_needs_it_too() {
    let mut world = rolling(Limit::Count(1));
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
    world.deselect(&["d"]);
    world.step();
    assert_eq!(world.why("d"), waits(&["a"], 1));
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b"], "a unit that gets something comes first");
    assert_eq!(world.on("r2"), ["a", "b"]);
    assert_eq!(world.memory.last_good, Some(rev("r1")));
}

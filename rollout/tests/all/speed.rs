//! Maximum sizes, and how the time of a decision grows. The time itself is printed by the example `speed`, in a release
//! build.

use muster_rollout::{Limit, Millis, Unit};

use crate::world::World;

#[test]
fn a_unit_is_small() {
    assert!(size_of::<Unit>() < 200, "{} bytes", size_of::<Unit>());
}

#[test]
fn ten_thousand_units_are_rolled_by_two_percent() {
    let names: Vec<String> = (0..10_000).map(|at| format!("cluster-{at:05}")).collect();
    let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    world.spec.limit = Limit::Percent(2);
    for round in 1..=3 {
        let decision = world.step();
        assert_eq!((decision.steps.len(), world.in_flight().len()), (200, 200));
        assert_eq!(decision.reasons.len(), names.len());
        assert_eq!(world.on("r1").len(), 200 * round);
        names.iter().for_each(|name| world.succeed(name));
    }
}

/// `package.settle` adds its 30 seconds, multiplied by the number of turns, to a rollout whose objects give no
/// evidence: the figures in docs/sync.md.
#[test]
fn what_settle_costs_a_fleet_of_a_thousand() {
    let names: Vec<String> = (0..1000).map(|at| format!("cluster-{at:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let took = |limit: Limit, each: Millis| {
        let mut world = World::settled(&names, "r1");
        world.spec.limit = limit;
        world.aim("r2");
        let began = world.now;
        while world.on("r2").len() < names.len() || !world.in_flight().is_empty() {
            world.step();
            world.pass(each);
            world.in_flight().iter().for_each(|name| world.succeed(name));
            world.step();
        }
        world.now.0 - began.0
    };
    let costs = [Limit::Count(1), Limit::Count(50), Limit::Percent(10)]
        .map(|limit| (took(limit, Millis::seconds(31)) - took(limit, Millis::seconds(1))) / 60_000);
    assert_eq!(costs, [8 * 60 + 20, 10, 5], "minutes");
}

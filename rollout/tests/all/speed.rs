//! Sizes, which are bounded, and the shape of the time that a decision takes. How long it takes is printed by the example
//! `speed`, in a release build.

use muster_rollout::{Limit, Unit};

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
        assert_eq!((decision.steps.len(), world.charged().len()), (200, 200));
        assert_eq!(decision.reasons.len(), names.len());
        assert_eq!(world.on("r1").len(), 200 * round);
        names.iter().for_each(|name| world.succeed(name));
    }
}

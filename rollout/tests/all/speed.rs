//! How long a decision over ten thousand units takes: printed, not asserted.

use std::time::Instant;

use muster_rollout::{Limit, Unit, plan};

use crate::world::World;

#[test]
fn ten_thousand_units() {
    let names: Vec<String> = (0..10_000).map(|at| format!("cluster-{at:05}")).collect();
    let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    world.spec.limit = Limit::Percent(2);
    for _ in 0..3 {
        world.step();
        names.iter().for_each(|name| world.succeed(name));
    }
    let view = world.view();
    let started = Instant::now();
    let decision = plan(&world.spec, &world.memory, &view, world.now);
    println!(
        "10,000 units decided in {:?}; a unit is {} bytes",
        started.elapsed(),
        size_of::<Unit>()
    );
    assert_eq!(decision.reasons.len(), names.len());
    assert!(
        size_of::<Unit>() <= 216,
        "ten thousand units stay near two megabytes"
    );
}

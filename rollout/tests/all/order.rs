//! Rule 12: the order of changes.

use muster_rollout::{Class, State};

use crate::world::{World, failure};

#[test]
fn holders_of_a_bad_revision_then_the_ready_then_the_unready_each_by_name() {
    let mut world = World::settled(&["a", "b", "c", "d", "e"], "r1");
    world.aim("r2");
    world.step();
    world.succeed("a");
    world.step();
    world.fail("b");
    world.step();
    world.report("c", failure(Class::Unit, false));
    world.report("d", State::Unknown);
    world.join("f");
    world.spec.on_join = muster_rollout::OnJoin::Target;
    world.aim("r3");
    let mut order = Vec::new();
    for _ in 0..10 {
        let steps = world.step().steps;
        for step in steps.iter().filter_map(|step| step.unit()) {
            order.push(step.to_string());
            world.succeed(step.as_str());
        }
    }
    assert_eq!(order, ["b", "a", "e", "f", "c", "d"]);
}

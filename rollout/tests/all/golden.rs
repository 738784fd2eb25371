//! A rollout over five units as a log of decisions.

use muster_rollout::{Class, Limit, Millis, State};

use crate::world::{World, failure, log};

#[test]
fn a_rollout() {
    let mut world = World::new(&["eu-1", "eu-2", "us-1", "us-2", "ap-1"], "v1");
    world.spec.limit = Limit::Count(2);
    world.spec.min_ready = Millis::seconds(10);
    world.lose("us-2");
    let mut lines = Vec::new();
    let mut turn = |world: &mut World, note: &str, change: &dyn Fn(&mut World)| {
        change(world);
        lines.push(format!("  ({note})"));
        let decision = world.step();
        lines.push(log(world, &decision));
        world.pass(Millis::seconds(10));
    };
    turn(&mut world, "v1, us-2 away", &|_| {});
    turn(&mut world, "ap-1 and eu-1 succeed", &|it| {
        ["ap-1", "eu-1"].iter().for_each(|name| it.succeed(name));
    });
    turn(&mut world, "they stay so", &|_| {});
    turn(&mut world, "eu-2 and us-1 succeed", &|it| {
        ["eu-2", "us-1"].iter().for_each(|name| it.succeed(name));
    });
    turn(&mut world, "they stay so: v1 is good", &|_| {});
    turn(&mut world, "us-2 is back", &|it| it.find("us-2"));
    turn(&mut world, "us-2 succeeds", &|it| it.succeed("us-2"));
    turn(&mut world, "v2", &|it| it.aim("v2"));
    turn(&mut world, "ap-1 fails, eu-1 is on its way", &|it| {
        it.report("ap-1", failure(Class::Revision, true));
        it.report("eu-1", State::Updating);
    });
    turn(&mut world, "eu-1 succeeds all the same", &|it| it.succeed("eu-1"));
    turn(&mut world, "v3", &|it| it.aim("v3"));
    turn(&mut world, "ap-1 and eu-1 succeed", &|it| {
        ["ap-1", "eu-1"].iter().for_each(|name| it.succeed(name));
    });
    turn(&mut world, "they stay so", &|_| {});
    insta::assert_snapshot!(lines.join("\n"));
}

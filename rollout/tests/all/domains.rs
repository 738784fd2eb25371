//! Rule 13, E2: units that change together share one domain.

use muster_rollout::{Domains, Limit, UnitId, Why};

use crate::world::World;

fn rolling(limit: u32) -> World {
    rolling_over(&["a", "b", "c", "d", "e"], limit)
}

fn rolling_over(names: &[&str], limit: u32) -> World {
    let mut world = World::settled(names, "r1");
    world.spec.limit = Limit::Count(limit);
    world.spec.domains = Domains::EXCLUSIVE;
    world.domain(&["a", "c"], 0);
    world.domain(&["b", "d"], 1);
    world.aim("r2");
    world
}

#[test]
fn the_first_one_says_which() {
    let mut world = rolling(3);
    world.step();
    assert_eq!(world.charged(), ["a", "c"]);
    let waits = Why::WaitingDomain {
        holders: ["a", "c"].map(UnitId::from).into(),
    };
    assert_eq!(world.why("b"), waits);
    world.succeed("a");
    world.step();
    assert_eq!(
        world.charged(),
        ["c"],
        "there is room, but not for another domain"
    );
    world.succeed("c");
    world.step();
    assert_eq!(world.charged(), ["b", "d"]);
}

#[test]
fn who_shares_nothing_is_alone() {
    let mut world = rolling(3);
    world.step();
    ["a", "c"].iter().for_each(|name| world.succeed(name));
    world.step();
    ["b", "d"].iter().for_each(|name| world.succeed(name));
    world.join("f");
    world.step();
    assert_eq!(world.charged(), ["e"]);
}

#[test]
fn nobody_begins_while_two_domains_are_changing() {
    let mut world = rolling_over(&["a", "b", "c", "d", "f"], 3);
    world.domain(&["f"], 1);
    world.step();
    world.domain(&["c"], 1);
    world.succeed("a");
    world.step();
    assert_eq!(world.charged(), ["b", "c", "d"], "c is in the other one by now");
    world.domain(&["c"], 2);
    world.succeed("b");
    world.step();
    assert_eq!(world.charged(), ["c", "d"]);
}

#[test]
fn of_somebody_who_is_not_in_the_view_the_domain_is_not_known() {
    let mut world = rolling(2);
    world.step();
    let hidden = world.members.remove("a").unwrap();
    world.spec.complete = false;
    world.succeed("c");
    world.step();
    assert_eq!(world.charged(), ["a"]);
    world.members.insert("a".into(), hidden);
    world.spec.complete = true;
    world.succeed("a");
    world.step();
    assert_eq!(world.charged(), ["b", "d"]);
}

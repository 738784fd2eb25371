//! Rule 13, E2: units that change together share one domain.

use muster_rollout::{Domains, Limit, UnitId, Why};

use crate::stages::stage;
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
    assert_eq!(world.in_flight(), ["a", "c"]);
    let waits = Why::WaitingDomain {
        holders: ["a", "c"].map(UnitId::from).into(),
    };
    assert_eq!(world.why("b"), waits);
    world.succeed("a");
    world.step();
    assert_eq!(
        world.in_flight(),
        ["c"],
        "there is room, but not for another domain"
    );
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["b", "d"]);
}

#[test]
fn a_unit_without_a_shared_domain_is_its_own_domain() {
    let mut world = rolling(3);
    world.step();
    ["a", "c"].iter().for_each(|name| world.succeed(name));
    world.step();
    ["b", "d"].iter().for_each(|name| world.succeed(name));
    world.join("f");
    world.step();
    assert_eq!(world.in_flight(), ["e"]);
}

#[test]
fn no_unit_starts_while_two_domains_are_changing() {
    let mut world = rolling_over(&["a", "b", "c", "d", "f"], 3);
    world.domain(&["f"], 1);
    world.step();
    world.domain(&["c"], 1);
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b", "c", "d"], "c is in the other one by now");
    world.domain(&["c"], 2);
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["c", "d"]);
}

#[test]
fn the_domain_of_a_unit_missing_from_the_view_is_unknown() {
    let mut world = rolling(2);
    world.step();
    let hidden = world.members.remove("a").unwrap();
    world.spec.complete = false;
    world.succeed("c");
    world.step();
    assert_eq!(world.in_flight(), ["a"]);
    world.members.insert("a".into(), hidden);
    world.spec.complete = true;
    world.succeed("a");
    world.step();
    assert_eq!(world.in_flight(), ["b", "d"]);
}

fn domains(domains: Domains) -> World {
    let mut world = rolling_over(&["a", "b", "c", "d", "e"], 5);
    world.spec.domains = domains;
    world
}

#[test]
fn two_domains_at_once_and_one_unit_of_each() {
    let mut world = domains(Domains {
        ordered: false,
        at_once: Some(2),
        limit: Some(Limit::Count(1)),
    });
    world.step();
    assert_eq!(world.in_flight(), ["a", "b"]);
    let holders = ["a", "b"].map(UnitId::from).into();
    assert_eq!(
        world.why("c"),
        Why::WaitingDomain { holders },
        "its own domain has one"
    );
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a", "d"], "e would be a third domain");
}

#[test]
fn a_percentage_of_each() {
    let mut world = domains(Domains {
        limit: Some(Limit::Percent(60)),
        ..Domains::ANY
    });
    world.domain(&["a", "b", "c", "d"], 0);
    world.step();
    assert_eq!(
        world.in_flight(),
        ["a", "b", "e"],
        "60 % of four, and of one at least one"
    );
}

/// By its number, whatever the names of its units; a unit without a domain comes last.
#[test]
fn one_after_the_other() {
    let mut world = domains(Domains {
        ordered: true,
        at_once: Some(1),
        limit: None,
    });
    world.domain(&["a", "c"], 1);
    world.domain(&["b", "d"], 0);
    world.step();
    assert_eq!(world.in_flight(), ["b", "d"]);
    world.succeed("b");
    world.lose("d");
    world.step();
    let holders = ["d"].map(UnitId::from).into();
    assert_eq!(
        world.why("a"),
        Why::WaitingDomain { holders },
        "d keeps its slot for a while"
    );
    world.pass(world.spec.deadlines.absence);
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"], "and its domain is done without it");
    ["a", "c"].iter().for_each(|name| world.succeed(name));
    world.step();
    assert_eq!(world.in_flight(), ["e"]);
}

/// A unit of a later stage holds up no domain.
#[test]
fn stages_come_before_their_order() {
    let mut world = domains(Domains {
        ordered: true,
        at_once: Some(1),
        limit: None,
    });
    world.spec.stages = vec![stage("canary")];
    world.stage(&["b"], 0);
    world.step();
    assert_eq!(
        world.in_flight(),
        ["b"],
        "of the second domain, and the only one of the stage"
    );
    world.succeed("b");
    world.step();
    assert_eq!(world.in_flight(), ["a", "c"]);
}

/// Older records contain a boolean, and are read.
#[test]
fn recorded_as_yes_or_no_or_in_full() {
    let all = [
        (Domains::ANY, "false"),
        (Domains::EXCLUSIVE, "true"),
        (
            Domains {
                ordered: true,
                at_once: Some(2),
                limit: Some(Limit::Count(1)),
            },
            r#"{"ordered":true,"at_once":2,"limit":{"Count":1}}"#,
        ),
    ];
    for (domains, text) in all {
        assert_eq!(serde_json::to_string(&domains).unwrap(), text);
        assert_eq!(serde_json::from_str::<Domains>(text).unwrap(), domains);
    }
    // Fields of later versions are not ignored.
    assert!(serde_json::from_str::<Domains>(r#"{"at_once":2,"spread":true}"#).is_err());
}

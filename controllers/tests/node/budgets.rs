//! Promise: over all NodeModules of a cluster no more nodes are changing than its NodeBudget allows, and no node has
//! two changes at once.

use muster_api::Amount;
use serde_json::json;

use crate::support::{Agent, World};

#[test]
fn one_node_of_the_control_plane_at_a_time_whatever_node_modules_say() {
    let mut world = World::of(&[]);
    for node in ["cp-1", "cp-2", "cp-3"] {
        world.join(node, &[("node-role.kubernetes.io/control-plane", "")]);
    }
    for name in ["fabric", "sysctl"] {
        world.apply(name, "one", |spec| {
            spec["rollout"] = json!({"maxUnreadyNodes": "100%"});
        });
    }
    let mut claimed = 0;
    for _ in 0..40 {
        for name in ["fabric", "sysctl"] {
            world.pass(name);
            claimed = claimed.max(
                world
                    .budget
                    .status
                    .as_ref()
                    .map_or(0, |status| status.claims.len()),
            );
        }
        world.act();
        world.wait(1);
    }
    assert_eq!((world.most, claimed), (1, 1));
    for name in ["fabric", "sysctl"] {
        assert_eq!(
            world.on(name, "one"),
            ["cp-1", "cp-2", "cp-3"],
            "{}",
            world.words(name)
        );
        assert_eq!(world.ready(name).0, "True");
    }
}

#[test]
fn a_full_budget_is_named_and_a_node_that_is_not_available_uses_it() {
    let mut world = World::of(&["w-1", "w-2", "w-3"]);
    world.budget.spec.workers = Some(Amount::Count(1));
    world.nodes.get_mut("w-3").unwrap().ready = false;
    world.apply("fabric", "one", |spec| {
        spec["rollout"] = json!({"maxUnreadyNodes": 3});
    });
    // w-3 never had any content, and is not Ready: it is changed first, and the others wait.
    world.run("fabric", 1);
    assert_eq!(world.on("fabric", "one"), ["w-3"]);
    assert!(
        world.words("fabric").contains("w-{1..2}:BudgetFull"),
        "{}",
        world.words("fabric")
    );
    world.nodes.get_mut("w-3").unwrap().ready = true;
    world.run("fabric", 12);
    assert_eq!(world.on("fabric", "one"), ["w-1", "w-2", "w-3"]);
}

#[test]
fn a_node_has_one_change_at_a_time() {
    let mut world = World::of(&["n1"]);
    world.apply("fabric", "one", |_| ());
    world.apply("sysctl", "one", |_| ());
    world.pass("fabric");
    world.pass("sysctl");
    assert_eq!(
        (world.on("fabric", "one"), world.on("sysctl", "one").len()),
        (vec!["n1"], 0)
    );
    assert_eq!(world.words("sysctl"), "n1:BusyWith");
    assert!(
        world.message("sysctl", "n1").contains("NodeModule fabric"),
        "{}",
        world.message("sysctl", "n1")
    );
    world.run("fabric", 3);
    world.run("sysctl", 4);
    assert_eq!(world.on("sysctl", "one"), ["n1"]);
}

/// Both NodeModules decide on the node before either has written its row: the slower one keeps its turn until the other
/// is done, however long that takes, and is not overdue because of it.
#[test]
fn of_two_that_decide_at_once_one_waits_for_the_other() {
    let mut world = World::of(&["n1"]);
    world.apply("fabric", "one", |_| ());
    world.apply("sysctl", "one", |_| ());
    let unwritten = world.decide_without_rows("sysctl");
    assert_eq!(unwritten, 1);
    world.pass("fabric");
    world.agents.insert("n1".to_owned(), Agent::Deaf);
    for _ in 0..10 {
        world.run("sysctl", 1);
        world.wait(100);
        assert_eq!(world.on("sysctl", "one").len(), 0, "{}", world.words("sysctl"));
        assert_eq!(world.words("sysctl"), "n1:BusyWith");
    }
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 4);
    world.run("sysctl", 4);
    assert_eq!(
        (world.on("fabric", "one"), world.on("sysctl", "one")),
        (vec!["n1"], vec!["n1"])
    );
    assert_eq!(world.ready("sysctl").0, "True", "{}", world.words("sysctl"));
}

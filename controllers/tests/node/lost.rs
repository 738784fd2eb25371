//! Promise: a configuration that kills nodes is never declared good, and kills no second node; lost nodes are named,
//! with the solution.

use serde_json::json;

use crate::support::{Agent, World};

const SIX: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

fn killed() -> World {
    let mut world = World::of(&SIX);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 24);
    world.apply("fabric", "two", |_| ());
    for node in ["n1", "n2", "n3"] {
        world.agents.insert(node.to_owned(), Agent::Dies);
    }
    world.run("fabric", 4);
    world
}

#[test]
fn the_second_node_is_never_touched() {
    let mut world = killed();
    for _ in 0..20 {
        world.wait(10_000);
        world.run("fabric", 3);
        assert_eq!(world.on("fabric", "two"), ["n1"], "{}", world.words("fabric"));
        assert!(
            world.words("fabric").contains("n1:LostInChange"),
            "{}",
            world.words("fabric")
        );
        assert_eq!(world.ready("fabric").0, "False");
    }
    let message = world.message("fabric", "n1");
    assert!(
        message.contains("nodemodule/fabric --overwrite fleet.muster.dev/release=n1"),
        "{message}"
    );
    assert!(
        !world.words("fabric").contains("Halted"),
        "it gives no verdict: {}",
        world.words("fabric")
    );
}

#[test]
fn it_goes_on_when_the_node_is_back() {
    let mut world = killed();
    for node in ["n1", "n2", "n3"] {
        world.agents.insert(node.to_owned(), Agent::Good);
    }
    world.is_back("n1");
    world.run("fabric", 30);
    assert_eq!(world.on("fabric", "two"), SIX, "{}", world.words("fabric"));
    assert_eq!(world.ready("fabric"), ("True".to_owned(), "Succeeded".to_owned()));
}

#[test]
fn it_goes_on_when_its_node_is_deleted_or_released() {
    let rest = ["n2", "n3", "n4", "n5", "n6"];
    for release in [false, true] {
        let mut world = killed();
        world.agents.insert("n2".to_owned(), Agent::Good);
        world.agents.insert("n3".to_owned(), Agent::Good);
        if release {
            world.annotate("fabric", "release", "n1");
            world.run("fabric", 2);
            // Its slot is free after the time that any node may be unavailable.
            world.wait(301);
            // The budget of unavailable nodes is 1, and n1 is unavailable.
            world.apply("fabric", "two", |spec| {
                spec["rollout"] = json!({"maxUnreadyNodes": 2});
            });
        } else {
            world.nodes.remove("n1");
        }
        world.run("fabric", 40);
        let on: Vec<&str> = world
            .on("fabric", "two")
            .into_iter()
            .filter(|node| *node != "n1")
            .collect();
        assert_eq!(on, rest, "release {release}: {}", world.words("fabric"));
    }
}

/// A new node may be NotReady because it lacks this content: it gets the last good revision, and gives no verdict about
/// it.
#[test]
fn a_node_that_joins_gets_what_it_lacks() {
    let mut world = World::of(&SIX);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 24);
    world.join("n7", &[]);
    world.nodes.get_mut("n7").unwrap().ready = false;
    world.run("fabric", 6);
    assert!(
        world.on("fabric", "one").contains(&"n7"),
        "{}",
        world.words("fabric")
    );
    world.nodes.get_mut("n7").unwrap().ready = true;
    world.run("fabric", 3);
    assert_eq!(world.ready("fabric"), ("True".to_owned(), "Succeeded".to_owned()));
    world.join("n8", &[]);
    world.nodes.get_mut("n8").unwrap().ready = false;
    world.agents.insert("n8".to_owned(), Agent::Fails);
    world.run("fabric", 6);
    world.wait(10_000);
    world.run("fabric", 3);
    assert!(
        !world.words("fabric").contains("KnownBad"),
        "{}",
        world.words("fabric")
    );
    // A node that had it before and is NotReady gets nothing new.
    world.nodes.get_mut("n2").unwrap().ready = false;
    world.apply("fabric", "two", |spec| {
        spec["rollout"] = json!({"maxUnreadyNodes": 4});
    });
    world.agents.insert("n8".to_owned(), Agent::Good);
    world.run("fabric", 30);
    assert!(
        !world.on("fabric", "two").contains(&"n2"),
        "{}",
        world.words("fabric")
    );
    assert!(
        world.words("fabric").contains("n2,n8:NodeNotReady"),
        "{}",
        world.words("fabric")
    );
}

/// Without any live agent nothing is confirmed, and so nothing is good.
#[test]
fn a_cluster_without_a_living_agent_makes_nothing_good() {
    let mut world = World::of(&SIX);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 24);
    let good = world.last_good("fabric");
    world.apply("fabric", "two", |_| ());
    world.run("fabric", 2);
    for node in SIX {
        world.agents.insert(node.to_owned(), Agent::None);
    }
    for _ in 0..5 {
        world.wait(1_000);
        world.run("fabric", 2);
        assert_eq!(world.last_good("fabric"), good, "{}", world.words("fabric"));
        assert_ne!(world.ready("fabric").0, "True", "{}", world.words("fabric"));
    }
}

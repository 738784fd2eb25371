//! Promise: never more nodes than allowed are changing, according to the reports of their agents, and a failed revision
//! is rolled out no further.

use serde_json::json;

use crate::support::{Agent, World};

const SIX: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

#[test]
fn a_revision_rolls_a_few_nodes_at_a_time() {
    for (limit, most, passes) in [
        (json!(1), 1, 24),
        (json!(2), 2, 14),
        (json!("34%"), 2, 14),
        (json!("100%"), 6, 6),
    ] {
        let mut world = World::of(&SIX);
        world.apply("fabric", "one", |spec| {
            spec["rollout"] = json!({"maxUnreadyNodes": limit});
        });
        world.run("fabric", passes);
        assert_eq!(
            world.on("fabric", "one"),
            SIX,
            "{limit}: {}",
            world.words("fabric")
        );
        assert_eq!(world.most, most, "{limit}");
        assert_eq!(world.ready("fabric"), ("True".to_owned(), "Succeeded".to_owned()));
        let progress = world.modules["fabric"]
            .status
            .as_ref()
            .unwrap()
            .progress
            .clone()
            .unwrap();
        assert_eq!((progress.done, progress.total, progress.waiting), (6, 6, None));
        let status = world.modules["fabric"].status.clone();
        let assemblages = world.assemblages.clone();
        world.run("fabric", 3);
        assert_eq!(
            (world.modules["fabric"].status.clone(), world.assemblages.clone()),
            (status, assemblages),
            "at rest"
        );
        assert_eq!(
            world
                .budget
                .status
                .as_ref()
                .map_or(0, |status| status.claims.len()),
            0
        );
    }
}

#[test]
fn racks_come_in_turn_in_the_order_that_is_listed() {
    let mut world = World::of(&[]);
    for (node, rack) in [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"), ("n5", "c")] {
        world.join(node, &[("rack", rack)]);
    }
    let domains = json!({"key": "rack", "order": "Listed", "values": ["c", "b"], "atOnce": 1, "limit": 1});
    world.apply("fabric", "one", |spec| {
        spec["rollout"] = json!({"maxUnreadyNodes": 5, "domains": domains});
    });
    let mut order: Vec<String> = Vec::new();
    for _ in 0..40 {
        world.run("fabric", 1);
        for node in world.on("fabric", "one") {
            if !order.iter().any(|known| known == node) {
                order.push(node.to_owned());
            }
        }
    }
    assert_eq!(order, ["n5", "n3", "n4", "n1", "n2"]);
    assert_eq!(world.most, 1);
}

#[test]
fn a_revision_that_fails_goes_no_further_and_is_taken_back() {
    for (action, expect) in [("Halt", vec!["n1"]), ("Revert", vec![])] {
        let mut world = World::of(&SIX);
        let rollout = json!({"onFailure": {"action": action}});
        world.apply("fabric", "one", |spec| spec["rollout"] = rollout.clone());
        world.run("fabric", 24);
        world.apply("fabric", "two", |spec| spec["rollout"] = rollout.clone());
        world.agents.insert("n1".to_owned(), Agent::Fails);
        world.run("fabric", 3);
        world.agents.insert("n1".to_owned(), Agent::Good);
        world.run("fabric", 12);
        assert_eq!(
            world.on("fabric", "two"),
            expect,
            "{action}: {}",
            world.words("fabric")
        );
        assert_eq!(world.ready("fabric").0, "False");
        // A retry has another token: the agent resumes what failed there.
        let attempt = |world: &World| world.assemblages["n1"].spec.rows[0].attempt;
        let before = attempt(&world);
        let revision = world.modules["fabric"]
            .status
            .as_ref()
            .unwrap()
            .revision
            .clone()
            .unwrap();
        world.annotate("fabric", "retry", &revision[..8]);
        world.run("fabric", 30);
        assert_eq!(
            world.on("fabric", "two"),
            SIX,
            "{action}: {}",
            world.words("fabric")
        );
        assert_ne!(attempt(&world), before);
        assert_eq!(world.ready("fabric"), ("True".to_owned(), "Succeeded".to_owned()));
    }
}

/// A failure that cannot be attributed to the revision condemns nothing, however long it takes, and no other node takes
/// its turn.
#[test]
fn an_outage_condemns_nothing() {
    let mut world = World::of(&SIX);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 24);
    world.apply("fabric", "two", |_| ());
    world.agents.insert("n1".to_owned(), Agent::Inconclusive);
    world.run("fabric", 3);
    world.wait(100_000);
    world.run("fabric", 3);
    assert_eq!(world.on("fabric", "two"), ["n1"]);
    assert!(
        !world.words("fabric").contains("Halted"),
        "{}",
        world.words("fabric")
    );
}

/// An unresponsive agent condemns after the deadline; a node without any agent is skipped, and condemns nothing.
#[test]
fn only_a_living_agent_that_does_not_pick_up_condemns() {
    let mut world = World::of(&SIX);
    world.apply("fabric", "one", |spec| {
        spec["rollout"] = json!({"maxUnreadyNodes": 2});
    });
    world.agents.insert("n1".to_owned(), Agent::None);
    world.run("fabric", 30);
    assert_eq!(world.on("fabric", "one"), SIX[1..], "{}", world.words("fabric"));
    assert!(
        world.words("fabric").contains("n1:AgentMissing"),
        "{}",
        world.words("fabric")
    );
    world.apply("fabric", "two", |spec| {
        spec["rollout"] = json!({"maxUnreadyNodes": 2});
    });
    world.agents.insert("n2".to_owned(), Agent::Deaf);
    world.run("fabric", 2);
    world.wait(301);
    world.run("fabric", 2);
    assert!(
        world.words("fabric").contains("n2:NotPickedUp"),
        "{}",
        world.words("fabric")
    );
    assert_eq!(world.on("fabric", "two"), ["n2"]);
}

//! Promise: only a node's report about its current row counts, by the controller's own clock; a failed revision is
//! rolled back and stays known as bad. One test for each defect (DX) and requirement (R) of the previous system for
//! files on nodes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Agent, World};

const THREE: [&str; 3] = ["n1", "n2", "n3"];

fn settled(rollout: &Value) -> World {
    let mut world = World::of(&THREE);
    apply(&mut world, "one", rollout);
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "one"), THREE);
    world
}

fn apply(world: &mut World, content: &str, rollout: &Value) {
    world.apply("fabric", content, |spec| spec["rollout"] = rollout.clone());
}

fn revert() -> Value {
    json!({"onFailure": {"action": "Revert"}})
}

/// Runs passes, while no agent does anything.
fn passes(world: &mut World, times: usize) {
    for _ in 0..times {
        world.pass("fabric");
        world.wait(1);
    }
}

fn memory(world: &World) -> Value {
    let status = world.modules["fabric"].status.as_ref().unwrap();
    serde_json::from_str(&status.rollout.as_ref().unwrap().memory).unwrap()
}

/// DX1, R1, R2: a node's report about its previous revision says nothing about the current one, however good it is.
#[test]
fn a_report_of_another_row_confirms_nothing() {
    let mut world = settled(&json!({}));
    apply(&mut world, "two", &json!({}));
    passes(&mut world, 10);
    assert_eq!(world.on("fabric", "two"), ["n1"], "{}", world.words("fabric"));
    assert_eq!(world.ready("fabric").0, "False");
}

/// DX2: however bad it is: the revision that a node is rolled back to is not condemned by the node's report about the
/// other one, whether the controller rolls back or the author does.
#[test]
fn a_report_of_another_row_condemns_nothing() {
    for rollout in [revert(), json!({})] {
        let mut world = settled(&rollout);
        let good = world.last_good("fabric");
        apply(&mut world, "two", &rollout);
        world.agents.insert("n1".to_owned(), Agent::Fails);
        world.run("fabric", 3);
        world.agents.insert("n1".to_owned(), Agent::Deaf);
        apply(&mut world, "one", &rollout);
        passes(&mut world, 10);
        assert_eq!(world.on("fabric", "one"), THREE, "it is rolled back");
        assert_eq!(world.last_good("fabric"), good, "{}", world.words("fabric"));
        assert_eq!(memory(&world)["bad"].as_object().unwrap().len(), 1);
        world.agents.insert("n1".to_owned(), Agent::Good);
        world.run("fabric", 4);
        assert_eq!(world.last_good("fabric"), good);
        assert!(!world.is_changing("n1"), "{}", world.words("fabric"));
    }
}

/// DX2, DX3, R4: acknowledging and finishing have two deadlines, each from a time that the controller itself has
/// recorded; a rollback has a time of its own.
#[test]
fn each_deadline_has_its_own_time() {
    let mut world = settled(&revert());
    let good = world.last_good("fabric");
    apply(&mut world, "two", &revert());
    world.agents.insert("n1".to_owned(), Agent::Deaf);
    passes(&mut world, 2);
    world.wait(290);
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 1);
    world.agents.insert("n1".to_owned(), Agent::Deaf);
    passes(&mut world, 2);
    world.wait(590);
    passes(&mut world, 2);
    assert_eq!(world.on("fabric", "two"), ["n1"], "{}", world.words("fabric"));
    world.wait(10);
    passes(&mut world, 2);
    assert_eq!(world.on("fabric", "two").len(), 0, "{}", world.words("fabric"));
    let bad = memory(&world)["bad"].to_string();
    assert!(bad.contains("not finished in time"), "{bad}");
    // The row of the rollback is not acknowledged yet: it has just been written.
    world.wait(290);
    passes(&mut world, 2);
    assert_eq!(world.last_good("fabric"), good);
}

/// DX4: a node that is changing to another revision still has its slot.
#[test]
fn an_in_flight_node_is_the_first_to_get_the_next_revision() {
    let mut world = settled(&json!({}));
    apply(&mut world, "two", &json!({}));
    world.run("fabric", 1);
    assert!(world.is_changing("n1"));
    apply(&mut world, "three", &json!({}));
    passes(&mut world, 5);
    assert_eq!(
        (world.on("fabric", "two").len(), world.on("fabric", "three")),
        (0, vec!["n1"]),
        "{}",
        world.words("fabric")
    );
}

/// DX6, R3: whether a failed write happened is unknown: its node keeps the slot, and it is written again with the same
/// token. Nothing is condemned by it.
#[test]
fn a_write_that_failed_is_made_again() {
    let mut world = settled(&json!({}));
    apply(&mut world, "two", &json!({}));
    let mut tried = Vec::new();
    for _ in 0..5 {
        world.pass_with("fabric", |node, row| {
            tried.push((node.to_owned(), row.map(|row| row.token)));
            false
        });
        world.wait(1_000);
    }
    tried.dedup();
    assert_eq!(tried.len(), 1, "one node, with one token: {tried:?}");
    assert_eq!(world.on("fabric", "two").len(), 0);
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "two"), THREE, "{}", world.words("fabric"));
}

/// DX7: rolling back to an older revision re-creates no object, and so deletes no dependents.
#[test]
fn an_older_revision_is_the_same_object_when_it_is_the_target_again() {
    let mut world = settled(&json!({}));
    let first = world.revisions.clone();
    apply(&mut world, "two", &json!({}));
    world.run("fabric", 14);
    apply(&mut world, "one", &json!({}));
    for _ in 0..14 {
        world.run("fabric", 1);
        assert_eq!(world.assemblages.len(), 3);
    }
    assert_eq!(world.on("fabric", "one"), THREE);
    for (name, revision) in &first {
        let now = &world.revisions[name];
        assert_eq!(
            now.metadata.creation_timestamp,
            revision.metadata.creation_timestamp
        );
    }
    assert_eq!(world.revisions.len(), 2);
}

/// DX5: a node that is no longer Ready has no deadline.
#[test]
fn a_node_that_is_not_ready_condemns_nothing() {
    let mut world = settled(&json!({}));
    apply(&mut world, "two", &json!({}));
    world.run("fabric", 1);
    world.vanish("n1");
    passes(&mut world, 2);
    world.wait(100_000);
    passes(&mut world, 2);
    assert_eq!(memory(&world)["bad"], Value::Null, "{}", world.words("fabric"));
    assert_eq!(world.on("fabric", "two"), ["n1"]);
}

/// DX14: labels of a node are part of its content: they change under the limit, like everything else.
#[test]
fn a_label_that_changes_is_a_change_of_the_node() {
    let mut world = World::of(&[]);
    for node in THREE {
        world.join(node, &[("rack", "a")]);
    }
    world.apply("fabric", "rack $(NODE_LABEL_rack)", |_| ());
    world.run("fabric", 14);
    for facts in world.nodes.values_mut() {
        facts.labels.insert("rack".to_owned(), "b".to_owned());
    }
    let of = |world: &World, rack: &str| {
        let rows = world
            .assemblages
            .values()
            .flat_map(|assemblage| &assemblage.spec.rows);
        rows.filter(|row| row.values.values().any(|value| value == rack))
            .count()
    };
    passes(&mut world, 5);
    assert_eq!(
        (of(&world, "a"), of(&world, "b")),
        (2, 1),
        "{}",
        world.words("fabric")
    );
    world.run("fabric", 14);
    assert_eq!(
        (of(&world, "a"), of(&world, "b")),
        (0, 3),
        "{}",
        world.words("fabric")
    );
    assert_eq!(world.most, 1);
}

/// D15, DX15: although another revision has become good, and no history is kept, no verdict is forgotten.
#[test]
fn what_is_known_to_be_bad_stays_so() {
    let mut rollout = revert();
    rollout["historyLimit"] = json!(1);
    let mut world = settled(&rollout);
    apply(&mut world, "two", &rollout);
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.run("fabric", 3);
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 4);
    apply(&mut world, "three", &rollout);
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "three"), THREE, "{}", world.words("fabric"));
    apply(&mut world, "two", &rollout);
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "three"), THREE, "{}", world.words("fabric"));
    assert!(
        world.words("fabric").contains("KnownBad"),
        "{}",
        world.words("fabric")
    );
}

/// DX17: an invalid selector selects neither none nor all: no row changes, and the status names it.
#[test]
fn a_selector_that_cannot_be_read_moves_nothing() {
    for selector in ["/selector", "/parts/0/selector"] {
        let mut world = settled(&json!({}));
        let expression =
            json!({"matchExpressions": [{"key": "rack", "operator": "Within", "values": ["a"]}]});
        world.apply("fabric", "two", |spec| {
            spec["parts"][0]["selector"] = json!({});
            *spec.pointer_mut(selector).unwrap() = expression.clone();
        });
        let before = world.assemblages.clone();
        world.run("fabric", 5);
        assert_eq!(world.assemblages, before, "{selector}");
        assert_eq!(
            world.ready("fabric"),
            ("False".to_owned(), "InvalidSpec".to_owned())
        );
    }
}

/// R5: while no process is the leader, no deadline runs.
#[test]
fn time_without_a_controller_is_on_no_account() {
    let mut world = settled(&revert());
    apply(&mut world, "two", &revert());
    world.agents.insert("n1".to_owned(), Agent::Deaf);
    passes(&mut world, 2);
    world.wait(100_000);
    world.gap = Duration::from_secs(100_000);
    passes(&mut world, 1);
    world.gap = Duration::ZERO;
    passes(&mut world, 200);
    assert_eq!(world.on("fabric", "two"), ["n1"], "{}", world.words("fabric"));
    passes(&mut world, 150);
    assert_eq!(world.on("fabric", "two").len(), 0, "{}", world.words("fabric"));
}

/// R6: a deleted node takes neither its slot nor a verdict along; a new one waits for its turn, and restarts nothing.
#[test]
fn nodes_leave_and_join_in_the_middle() {
    let mut world = settled(&json!({"onJoin": "Target"}));
    apply(&mut world, "two", &json!({"onJoin": "Target"}));
    world.run("fabric", 1);
    let run = memory(&world)["run"].clone();
    world.join("n0", &[]);
    passes(&mut world, 3);
    assert_eq!(world.on("fabric", "two"), ["n1"], "{}", world.words("fabric"));
    world.nodes.remove("n1");
    world.assemblages.remove("n1");
    world.run("fabric", 14);
    assert_eq!(
        world.on("fabric", "two"),
        ["n0", "n2", "n3"],
        "{}",
        world.words("fabric")
    );
    assert_eq!((&memory(&world)["bad"], world.most), (&Value::Null, 1));
    assert_eq!(memory(&world)["run"]["id"], run["id"], "the same run");
}

/// R7: who, what and since when, for people and for the next process.
#[test]
fn a_verdict_has_its_evidence() {
    let mut world = settled(&json!({}));
    apply(&mut world, "two", &json!({}));
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.run("fabric", 2);
    let now = world.now;
    world.pass("fabric");
    let bad = &memory(&world)["bad"];
    let evidence = bad.as_object().and_then(|bad| bad.values().next()).unwrap();
    assert_eq!(
        (&evidence["unit"], &evidence["message"], &evidence["at"]),
        (
            &json!("n1"),
            &json!("tcp 10.0.0.1:179 did not answer"),
            &json!(now.as_millisecond())
        )
    );
    let status = world.modules["fabric"].status.as_ref().unwrap();
    let entry = status.attention.iter().find(|entry| entry.node == "n1").unwrap();
    assert_eq!(
        (entry.reason.as_str(), entry.since.as_ref().unwrap().0.as_second()),
        ("Failed", now.as_second())
    );
    assert!(entry.message.contains("did not answer"), "{}", entry.message);
}

/// R9: nodes that never got the failed revision are not touched, and those that got it are rolled back one after the
/// other.
#[test]
fn only_nodes_that_got_the_bad_revision_are_reverted() {
    let mut world = settled(&revert());
    let token = |world: &World, node: &str| world.assemblages[node].spec.rows[0].token;
    let before = token(&world, "n3");
    apply(&mut world, "two", &revert());
    world.agents.insert("n2".to_owned(), Agent::Fails);
    for _ in 0..14 {
        if memory(&world)["bad"].is_null() {
            world.run("fabric", 1);
        }
    }
    world.agents.insert("n2".to_owned(), Agent::Good);
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "one"), THREE, "{}", world.words("fabric"));
    assert_eq!((token(&world, "n3"), world.most), (before, 1));
    assert!(
        token(&world, "n1") > token(&world, "n2"),
        "the node with the slot is rolled back first"
    );
}

/// R10, W7: a lost memory is rebuilt from the recorded objects: a revision known as bad stays so, with its evidence,
/// and nodes are rolled back to the good one.
#[test]
fn what_was_gone_back_to_by_hand_is_the_last_good_one_of_a_memory_that_is_lost() {
    let mut world = settled(&revert());
    for content in ["two", "one"] {
        apply(&mut world, content, &revert());
        world.run("fabric", 20);
        assert_eq!(world.on("fabric", content), THREE, "{}", world.words("fabric"));
    }
    world.modules.get_mut("fabric").unwrap().status = None;
    apply(&mut world, "three", &revert());
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.run("fabric", 3);
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 10);
    assert_eq!(world.on("fabric", "one"), THREE, "{}", world.words("fabric"));
}

#[test]
fn a_verdict_outlives_the_memory() {
    let mut world = settled(&revert());
    let good = world.last_good("fabric");
    apply(&mut world, "two", &revert());
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.run("fabric", 3);
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 6);
    let bad = memory(&world)["bad"].clone();
    world.modules.get_mut("fabric").unwrap().status = None;
    world.run("fabric", 6);
    assert_eq!(world.on("fabric", "one"), THREE, "{}", world.words("fabric"));
    assert_eq!((world.last_good("fabric"), world.most), (good, 1));
    let rebuilt = &memory(&world)["bad"];
    let of = |bad: &Value| -> Vec<(String, Value, Value)> {
        let bad = bad.as_object().unwrap().iter();
        bad.map(|(revision, evidence)| {
            (
                revision.clone(),
                evidence["unit"].clone(),
                evidence["message"].clone(),
            )
        })
        .collect()
    };
    assert_eq!(of(rebuilt), of(&bad));
    // Each once: when it started, and when it ended.
    let stories: Vec<_> = world
        .revisions
        .values()
        .map(|revision| revision.status.clone().unwrap())
        .collect();
    assert!(
        stories
            .iter()
            .all(|story| story.started.is_some() && story.finished.is_some()),
        "{stories:?}"
    );
    let before = world.revisions.clone();
    world.run("fabric", 10);
    assert_eq!(world.revisions, before, "at rest");
}

//! Promise: manual controls of nodes are applied, and the status reports the result of each: holds, pins, pauses.

use serde_json::{Value, json};

use crate::support::{Agent, World};

const THREE: [&str; 3] = ["n1", "n2", "n3"];

fn settled() -> World {
    let mut world = World::of(&THREE);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "one"), THREE);
    world
}

fn revision(world: &World, content: &str) -> String {
    let mut all = world.revisions.values();
    let found = all.find(|known| json!(known.spec.content).to_string().contains(content));
    found.unwrap().spec.revision[..12].to_owned()
}

/// Each control of the status: annotation, node, effect.
fn controls(world: &World, module: &str) -> Vec<(String, String, String)> {
    let status = world.modules[module].status.as_ref().unwrap();
    let entries = status.controls.iter().map(|entry| {
        let control = entry.control.trim_start_matches("fleet.muster.dev/").to_owned();
        let effect = json!(entry.effect).as_str().unwrap().to_owned();
        (control, entry.node.clone().unwrap_or_default(), effect)
    });
    entries.collect()
}

fn check_controls(world: &World, expect: &[(&str, &str, &str)]) {
    let found = controls(world, "fabric");
    let found: Vec<(&str, &str, &str)> = found.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
    assert_eq!(found, expect, "{}", world.words("fabric"));
}

fn control_message(world: &World, at: usize) -> &str {
    &world.modules["fabric"].status.as_ref().unwrap().controls[at].message
}

#[test]
fn a_node_that_is_pinned_stays_at_its_revision_until_it_is_unpinned() {
    for on_node in [false, true] {
        let mut world = settled();
        let one = revision(&world, "one");
        if on_node {
            let annotations = &mut world.nodes.get_mut("n2").unwrap().annotations;
            annotations.insert("fleet.muster.dev/pin.fabric".to_owned(), one.clone());
        } else {
            world.annotate("fabric", "pin", &format!("n2@{one}"));
        }
        world.apply("fabric", "two", |_| ());
        world.run("fabric", 20);
        assert_eq!(
            world.on("fabric", "two"),
            ["n1", "n3"],
            "{}",
            world.words("fabric")
        );
        assert_eq!(world.on("fabric", "one"), ["n2"]);
        assert!(
            world.words("fabric").contains("n2:Pinned"),
            "{}",
            world.words("fabric")
        );
        let message = world.message("fabric", "n2");
        assert!(
            message.starts_with(&format!("pinned to revision {}", &one[..8])),
            "{message}"
        );
        let (key, node) = if on_node {
            ("pin.fabric", "n2")
        } else {
            ("pin", "")
        };
        check_controls(&world, &[(key, node, "Applied")]);
        // A pinned node changes to its revision from another one, too.
        let two = revision(&world, "two");
        world.nodes.get_mut("n2").unwrap().annotations.clear();
        world.annotate("fabric", "pin", &format!("n2@{two},n3@{one}"));
        world.run("fabric", 20);
        assert_eq!(
            (world.on("fabric", "one"), world.most),
            (vec!["n3"], 1),
            "{}",
            world.words("fabric")
        );
        world.annotate("fabric", "pin", "false@12345678");
        world.run("fabric", 20);
        assert_eq!(world.on("fabric", "two"), THREE, "{}", world.words("fabric"));
    }
}

#[test]
fn a_pin_that_cannot_be_meant_leaves_its_node_alone_and_says_why() {
    let mut world = settled();
    world.annotate("fabric", "pin", "n2@dddddddd,n9@dddddddd");
    world.apply("fabric", "two", |_| ());
    world.run("fabric", 20);
    assert_eq!(
        world.on("fabric", "two"),
        ["n1", "n3"],
        "{}",
        world.words("fabric")
    );
    check_controls(
        &world,
        &[
            ("pin", "n2", "WithoutEffect"),
            ("pin", "n9", "WithoutEffect"),
            ("pin", "", "Applied"),
        ],
    );
    assert!(
        control_message(&world, 0).contains(
            "this NodeModule has no revision dddddddd, no longer or not yet (kubectl get noderevisions)"
        ),
        "{}",
        control_message(&world, 0)
    );
    assert_eq!(
        control_message(&world, 1),
        "the NodeModule selects no node of this name"
    );
}

/// A condemned revision is assigned to no node, pinned or not.
#[test]
fn a_node_is_not_pinned_to_what_is_known_bad() {
    let mut world = settled();
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.apply("fabric", "two", |_| ());
    world.run("fabric", 20);
    let two = revision(&world, "two");
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.apply("fabric", "one", |_| ());
    world.annotate("fabric", "pin", &format!("n3@{two}"));
    world.run("fabric", 20);
    assert!(
        !world.on("fabric", "two").contains(&"n3"),
        "{}",
        world.words("fabric")
    );
    check_controls(&world, &[("pin", "n3", "WithoutEffect"), ("pin", "", "Applied")]);
    assert!(
        control_message(&world, 0).contains("is known bad"),
        "{}",
        control_message(&world, 0)
    );
}

#[test]
fn what_a_pin_names_is_kept_on_record() {
    let mut world = settled();
    let one = revision(&world, "one");
    world.annotate("fabric", "pin", &format!("n2@{one}"));
    for (count, content) in ["two", "three", "four"].iter().enumerate() {
        world.apply("fabric", content, |spec| {
            spec["rollout"] = json!({"historyLimit": 1});
        });
        // The row is lost, as when the Node was re-created: the pin alone keeps the NodeRevision.
        if count == 1 {
            world.join("n2", &[]);
            world.assemblages.remove("n2");
        }
        world.run("fabric", 20);
        assert_eq!(world.on("fabric", "one"), ["n2"], "{}", world.words("fabric"));
    }
}

#[test]
fn holds_and_pauses_appear_in_the_status() {
    let mut world = settled();
    world.annotate(
        "fabric",
        "hold",
        r#"{"for": "n2", "by": "ann", "reason": "memory test"}"#,
    );
    world.apply("fabric", "two", |_| ());
    world.run("fabric", 20);
    assert_eq!(
        world.on("fabric", "two"),
        ["n1", "n3"],
        "{}",
        world.words("fabric")
    );
    check_controls(&world, &[("hold", "", "Applied")]);
    assert!(
        control_message(&world, 0).contains("n2: kept as it is by ann (memory test)"),
        "{}",
        control_message(&world, 0)
    );
    let message = world.message("fabric", "n2");
    assert!(
        message.starts_with("held for this NodeModule by ann"),
        "{message}"
    );
    // A hold of the Node itself expires, and the controller wakes for it.
    world.annotate("fabric", "hold", "false");
    let until = world
        .now
        .checked_add(jiff::SignedDuration::from_secs(30))
        .unwrap();
    let text = json!({"until": until.to_string()}).to_string();
    let annotations = &mut world.nodes.get_mut("n2").unwrap().annotations;
    annotations.insert("fleet.muster.dev/hold".to_owned(), text);
    world.annotate("fabric", "paused", r#"{"by": "ann"}"#);
    world.run("fabric", 3);
    check_controls(&world, &[("hold", "n2", "Applied"), ("paused", "", "Applied")]);
    assert!(
        control_message(&world, 0).starts_with("kept as it is, for all NodeModules"),
        "{}",
        control_message(&world, 0)
    );
    assert_eq!(world.wakes_at("fabric"), Some(until));
    world.wait(60);
    world.run("fabric", 3);
    check_controls(&world, &[("paused", "", "Applied"), ("hold", "n2", "Over")]);
    world.annotate("fabric", "paused", "false");
    world.run("fabric", 6);
    assert_eq!(world.on("fabric", "two"), THREE, "{}", world.words("fabric"));
}

/// Each revision has its status recorded, from which a lost memory learns what is good and what is not.
#[test]
fn revisions_have_a_story() {
    let mut world = settled();
    let story = |world: &World, content: &str| {
        let revision = revision(world, content);
        let mut all = world.revisions.values();
        let found = all
            .find(|known| known.spec.revision.starts_with(&revision))
            .unwrap();
        json!(found.status)
    };
    assert_eq!(story(&world, "one")["verdict"], "Good");
    world.agents.insert("n1".to_owned(), Agent::Fails);
    world.apply("fabric", "two", |_| ());
    world.run("fabric", 1);
    world.run("fabric", 1);
    let running = story(&world, "two");
    assert_eq!(
        (&running["verdict"], &running["finished"]),
        (&Value::Null, &Value::Null)
    );
    assert!(running["started"].is_string(), "{running}");
    world.run("fabric", 20);
    let bad = story(&world, "two");
    assert_eq!(
        (&bad["verdict"], &bad["evidence"][0]["node"]),
        (&json!("Bad"), &json!("n1"))
    );
    assert!(
        bad["finished"].is_string()
            && bad["evidence"][0]["message"]
                .as_str()
                .unwrap()
                .contains("10.0.0.1:179")
    );
    // The memory is lost: a bad revision is still assigned to no node.
    let status = world.modules.get_mut("fabric").unwrap().status.as_mut().unwrap();
    status.rollout = None;
    world.agents.insert("n1".to_owned(), Agent::Good);
    world.run("fabric", 10);
    assert!(world.on("fabric", "two").len() <= 1, "{}", world.words("fabric"));
    assert!(
        world.words("fabric").contains("KnownBad"),
        "{}",
        world.words("fabric")
    );
    world.apply("fabric", "three", |_| ());
    world.run("fabric", 2);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 20);
    assert_eq!(story(&world, "three")["verdict"], "Superseded");
}

/// An unreadable control stops the NodeModule, and the status says where to find it.
#[test]
fn what_cannot_be_read_names_commands_of_node_modules() {
    let mut world = settled();
    for (key, value, expected) in [
        (
            "pin",
            "n2",
            "\"n2\" is not of the form NODE@REVISION; this NodeModule is not rolled out",
        ),
        (
            "pin",
            "n2@v1",
            "(kubectl get noderevisions -o wide); this NodeModule",
        ),
        (
            "abort",
            "v1",
            "(kubectl get nodemodules -o wide); this NodeModule",
        ),
    ] {
        world.modules.get_mut("fabric").unwrap().metadata.annotations = None;
        world.annotate("fabric", key, value);
        world.run("fabric", 1);
        assert_eq!(world.ready("fabric").1, "InvalidControl");
        let status = json!(world.modules["fabric"].status);
        let message = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|known| known["type"] == "Ready");
        let message = message
            .map_or(&Value::Null, |ready| &ready["message"])
            .to_string()
            .replace('\\', "");
        assert!(message.contains(expected), "{message}");
    }
}

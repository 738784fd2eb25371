//! Promise: bad input changes no node: a path of two NodeModules, an undefined variable, emptied parts, an emptied
//! selection.

use serde_json::json;

use crate::support::World;

const THREE: [&str; 3] = ["n1", "n2", "n3"];

fn settled() -> World {
    let mut world = World::of(&THREE);
    world.apply("fabric", "one", |_| ());
    world.run("fabric", 14);
    assert_eq!(world.on("fabric", "one"), THREE);
    world
}

#[test]
fn a_path_of_two_node_modules_is_written_by_neither() {
    let mut world = settled();
    world.apply("other", "x", |spec| {
        spec["parts"][0]["files"][0]["path"] = json!("/etc/fabric/below");
    });
    world.apply("fabric", "two", |_| ());
    world.run("other", 3);
    world.run("fabric", 3);
    assert_eq!(
        (world.on("other", "x").len(), world.on("fabric", "two").len()),
        (0, 0)
    );
    for name in ["fabric", "other"] {
        assert_eq!(world.ready(name), ("False".to_owned(), "PathConflict".to_owned()));
    }
    world.apply("other", "x", |_| ());
    world.run("fabric", 14);
    world.run("other", 14);
    assert_eq!(
        (world.on("other", "x"), world.on("fabric", "two")),
        (THREE.to_vec(), THREE.to_vec())
    );
}

/// DX13.
#[test]
fn a_node_that_cannot_be_rendered_is_its_own_failure() {
    let mut world = World::of(&[]);
    world.join("n1", &[]);
    world.join("n2", &[("rack", "a")]);
    world.apply("fabric", "$(NODE_LABEL_rack)", |_| ());
    world.run("fabric", 6);
    assert_eq!(
        world.on("fabric", "$(NODE_LABEL_rack)"),
        ["n2"],
        "{}",
        world.words("fabric")
    );
    assert!(world.words("fabric").contains("n1:BindingFailed"));
    assert!(
        world.message("fabric", "n1").contains("NODE_LABEL_rack"),
        "{}",
        world.message("fabric", "n1")
    );
}

#[test]
fn emptied_parts_and_an_emptied_selection_wait_for_an_acknowledgement() {
    for edit in [json!({"parts": []}), json!({"selector": null})] {
        let mut world = settled();
        world.apply("fabric", "one", |spec| {
            for (key, value) in edit.as_object().unwrap() {
                spec[key] = value.clone();
            }
        });
        world.run("fabric", 6);
        assert_eq!(
            world.on("fabric", "one"),
            THREE,
            "{edit}: {}",
            world.words("fabric")
        );
        assert!(
            world.words("fabric").contains("WithdrawalHeld"),
            "{}",
            world.words("fabric")
        );
        let message = world.message("fabric", "n1");
        let acknowledge = message.rsplit_once('=').unwrap().1.to_owned();
        world.annotate("fabric", "acknowledge-withdrawal", &acknowledge);
        world.run("fabric", 16);
        assert_eq!(
            world.on("fabric", "one").len(),
            0,
            "{edit}: {}",
            world.words("fabric")
        );
    }
}

#[test]
fn what_is_deleted_leaves_its_files_or_gives_back_what_was_there() {
    for on_delete in ["Orphan", "Restore"] {
        let mut world = settled();
        world.apply("fabric", "one", |spec| spec["onDelete"] = json!(on_delete));
        world.run("fabric", 2);
        let deleted = "2026-12-01T13:00:00Z";
        let module = world.modules.get_mut("fabric").unwrap();
        module.metadata.deletion_timestamp = Some(serde_json::from_value(json!(deleted)).unwrap());
        let mut requested = None;
        for _ in 0..30 {
            world.run("fabric", 1);
            let mut rows = world
                .assemblages
                .values()
                .flat_map(|assemblage| &assemblage.spec.rows);
            requested = requested.or_else(|| rows.find_map(|row| row.withdraw));
        }
        assert_eq!(
            requested.map(|how| format!("{how:?}")).as_deref(),
            Some(on_delete)
        );
        assert!(!world.modules.contains_key("fabric"), "it is released");
        assert!(
            world
                .assemblages
                .values()
                .all(|assemblage| assemblage.spec.rows.is_empty())
        );
        assert_eq!(world.most, 1);
    }
}

#[test]
fn what_became_invalid_can_still_be_deleted() {
    let mut world = settled();
    world.apply("fabric", "one", |spec| {
        spec["parts"][0]["files"][0]["mode"] = json!("4755");
    });
    world.run("fabric", 2);
    assert_eq!(
        world.ready("fabric"),
        ("False".to_owned(), "InvalidSpec".to_owned())
    );
    let module = world.modules.get_mut("fabric").unwrap();
    module.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-12-01T13:00:00Z")).unwrap());
    world.run("fabric", 30);
    assert!(!world.modules.contains_key("fabric"), "it is released");
}

/// The NodeRevisions of a deleted NodeModule are deleted with it: the new one has NodeRevisions of its own.
#[test]
fn a_node_module_that_was_made_again_has_its_own_revisions() {
    let mut world = settled();
    let module = world.modules.get_mut("fabric").unwrap();
    module.metadata.uid = Some("uid-again".to_owned());
    module.status = None;
    world.run("fabric", 14);
    let of = |uid: &str| {
        let revisions = world.revisions.values();
        revisions
            .filter(|revision| revision.spec.uid.as_deref() == Some(uid))
            .count()
    };
    assert_eq!((of("uid-fabric"), of("uid-again")), (1, 1));
}

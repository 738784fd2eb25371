//! The inventory keeps Flux's ids and determines what to prune.

use muster_api::flux;
use muster_sync::inventory::{Inventory, ObjectId};
use proptest::prelude::*;

fn id(namespace: &str, name: &str, group: &str, kind: &str) -> ObjectId {
    ObjectId {
        namespace: namespace.into(),
        name: name.into(),
        group: group.into(),
        kind: kind.into(),
    }
}

fn inventory(ids: &[(ObjectId, &str)]) -> Inventory {
    ids.iter()
        .map(|(id, version)| (id.clone(), (*version).to_owned()))
        .collect()
}

#[test]
fn ids_are_written_as_flux_writes_them() {
    for (object, text) in [
        (
            id("default", "app", "apps", "Deployment"),
            "default_app_apps_Deployment",
        ),
        (id("default", "app", "", "ConfigMap"), "default_app__ConfigMap"),
        (id("", "prod", "", "Namespace"), "_prod__Namespace"),
        (
            id("", "system:auth", "rbac.authorization.k8s.io", "ClusterRole"),
            "_system__auth_rbac.authorization.k8s.io_ClusterRole",
        ),
        (
            id("", "a_role", "rbac.authorization.k8s.io", "ClusterRole"),
            "_a_role_rbac.authorization.k8s.io_ClusterRole",
        ),
        (
            id(
                "",
                "crds.example.org",
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
            ),
            "_crds.example.org_apiextensions.k8s.io_CustomResourceDefinition",
        ),
    ] {
        assert_eq!(object.encode(), text);
        assert_eq!(text.parse(), Ok(object));
    }
}

#[test]
fn ids_that_read_back_as_others_are_known() {
    let rbac = "rbac.authorization.k8s.io";
    for (object, expect) in [
        (id("", "ops__reader", rbac, "ClusterRole"), true),
        (id("", "a_:b", rbac, "ClusterRole"), true),
        (id("ns", "a__b", "example.org", "Widget"), true),
        (id("n_s", "a", "", "ConfigMap"), true),
        (id("ns", "a", "", "Config_Map"), true),
        (id("", "ops:reader", rbac, "ClusterRole"), false),
        (id("", "my role", rbac, "ClusterRole"), false),
        (id("", "_a_", rbac, "ClusterRole"), false),
        (id("ns", "a:b", "example.org", "Widget"), false),
    ] {
        assert_eq!(object.misread(), expect, "{object}");
    }
}

#[test]
fn what_is_no_id_is_refused() {
    let errors = ["", "a", "a_b", "a_b_c", "_a_b_", "___Kind"]
        .map(|text| text.parse::<ObjectId>().unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

/// The format in a status: Flux reads ours, and we read Flux's.
#[test]
fn the_version_is_stored_beside_the_id() {
    let inventory = inventory(&[
        (id("default", "app", "apps", "Deployment"), "v1"),
        (
            id(
                "",
                "widgets.example.org",
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
            ),
            "v1",
        ),
    ]);
    let status = inventory.to_status();
    let text = serde_json::to_value(&status).unwrap();
    assert_eq!(
        text,
        serde_json::json!({"entries": [
            {"id": "_widgets.example.org_apiextensions.k8s.io_CustomResourceDefinition", "v": "v1"},
            {"id": "default_app_apps_Deployment", "v": "v1"},
        ]})
    );
    assert_eq!(Inventory::from_status(Some(&status)), inventory);
}

#[test]
fn entries_that_cannot_be_read_are_carried_along() {
    let strange = flux::InventoryEntry {
        id: "strange".into(),
        version: "v1".into(),
    };
    let status = flux::Inventory {
        entries: vec![
            strange.clone(),
            flux::InventoryEntry {
                id: "ns_a__ConfigMap".into(),
                version: "v1".into(),
            },
        ],
    };
    let read = Inventory::from_status(Some(&status));
    assert_eq!(read.len(), 2);
    let merged = Inventory::default().merged(&read).merged(&read);
    assert_eq!(merged.to_status().entries.last(), Some(&strange));
    assert_eq!(merged.to_status().entries.len(), 2);
}

#[test]
fn pruning_goes_from_the_last_stage_to_the_first() {
    let old = inventory(&[
        (id("", "ns", "", "Namespace"), "v1"),
        (id("", "fast", "storage.k8s.io", "StorageClass"), "v1"),
        (id("ns", "config", "", "ConfigMap"), "v1"),
        (id("ns", "app", "apps", "Deployment"), "v1"),
        (
            id(
                "",
                "hook",
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
            ),
            "v1",
        ),
        (id("ns", "stays", "", "ConfigMap"), "v1"),
    ]);
    let new = inventory(&[(id("ns", "stays", "", "ConfigMap"), "v1")]);
    let order: Vec<String> = old
        .pruned_by(&new)
        .into_iter()
        .map(|(id, _)| id.to_string())
        .collect();
    assert_eq!(
        order,
        [
            "ValidatingWebhookConfiguration/hook",
            "Deployment/ns/app",
            "ConfigMap/ns/config",
            "StorageClass/fast",
            "Namespace/ns",
        ]
    );
}

#[test]
fn another_version_is_the_same_object() {
    let old = inventory(&[(id("ns", "a", "example.org", "Thing"), "v1")]);
    let new = inventory(&[(id("ns", "a", "example.org", "Thing"), "v2")]);
    assert_eq!(old.pruned_by(&new), []);
    assert_eq!(old.merged(&new), new);
}

fn any_id() -> impl Strategy<Value = ObjectId> {
    let name = "[a-z0-9]([-.a-z0-9]{0,10}[a-z0-9])?";
    let rbac = (
        "[a-z]{0,3}",
        "[a-z0-9]([-.:a-z0-9]{0,8}[a-z0-9])?",
        Just("rbac.authorization.k8s.io"),
        "[A-Z][A-Za-z]{0,8}",
    );
    prop_oneof![
        (
            "[a-z]{0,3}",
            name,
            "[a-z]{0,3}(\\.[a-z]{1,3})?",
            "[A-Z][A-Za-z]{0,8}"
        )
            .prop_map(|(namespace, name, group, kind)| ObjectId {
                namespace,
                name,
                group,
                kind
            }),
        rbac.prop_map(|(namespace, name, group, kind)| ObjectId {
            namespace,
            name,
            group: group.into(),
            kind
        }),
    ]
}

/// Ids with names of arbitrary characters, often those that separate parts of an id.
fn any_text_id() -> impl Strategy<Value = ObjectId> {
    let group = prop_oneof![
        Just("rbac.authorization.k8s.io".to_owned()),
        Just(String::new()),
        "[a-z]{1,3}\\.[a-z]{1,3}",
    ];
    let name = prop_oneof!["[_:a.]{1,8}", ".{1,8}"];
    let fields = ("[a-z]{0,3}", name, group, "[A-Z][a-zA-Z]{0,4}");
    fields.prop_map(|(namespace, name, group, kind)| ObjectId {
        namespace,
        name,
        group,
        kind,
    })
}

proptest! {
    /// Whatever the names, an id in an inventory reads back as itself, so that two objects never share one.
    #[test]
    fn an_id_that_is_recorded_reads_back_as_itself(one in any_text_id(), other in any_text_id()) {
        for id in [&one, &other] {
            if !id.misread() {
                prop_assert_eq!(id.encode().parse::<ObjectId>(), Ok(id.clone()));
            }
        }
        if one != other && !one.misread() && !other.misread() {
            prop_assert_ne!(one.encode(), other.encode());
        }
    }

    #[test]
    fn every_id_survives_its_text(id in any_id()) {
        prop_assert!(!id.misread());
        prop_assert_eq!(id.encode().parse::<ObjectId>(), Ok(id));
    }

    #[test]
    fn old_is_new_and_pruned_together(old in prop::collection::btree_set(any_id(), 0..12), new in prop::collection::btree_set(any_id(), 0..12)) {
        let versioned = |ids: &std::collections::BTreeSet<ObjectId>| ids.iter().map(|id| (id.clone(), "v1".to_owned())).collect::<Inventory>();
        let (old, new) = (versioned(&old), versioned(&new));
        let pruned: Inventory = old.pruned_by(&new).into_iter().collect();
        prop_assert!(pruned.iter().all(|(id, _)| old.contains(id) && !new.contains(id)));
        prop_assert_eq!(old.clone().merged(&new), pruned.merged(&new));
    }
}

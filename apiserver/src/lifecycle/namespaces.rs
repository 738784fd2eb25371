//! Namespaces: their initial content, and their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::conditions::set_condition;
use crate::core::Core;
use crate::meta;
use crate::removal::Propagation;
use crate::resources::Resource;
use crate::status::GroupResource;
use crate::store::{ObjectId, ObjectKey};

/// The namespaces that always exist.
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The finalizer in a namespace's spec.
const FINALIZER: &str = "kubernetes";

/// Creates the initial namespaces with their content.
pub(crate) fn make_initial(core: &Arc<Core>) {
    for name in INITIAL {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": [FINALIZER]}, "status": {"phase": "Active"},
        });
        core.make(&GroupResource::new("", "namespaces"), namespace);
        furnish(core, name);
    }
    crate::kinds::service::make_kubernetes_service(core);
}

/// Reconciles a namespace: creates its content, or continues its deletion.
pub(crate) fn reconcile_namespace(core: &Arc<Core>, name: &str) {
    let id = ObjectId {
        resource: GroupResource::new("", "namespaces"),
        key: ObjectKey::new("", name),
    };
    let Some(namespace) = core.store.get(&id.resource, &id.key) else {
        return;
    };
    if namespace.is_terminating() {
        finish(core, &id, name);
    } else {
        furnish(core, name);
    }
}

fn furnish(core: &Arc<Core>, namespace: &str) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
    });
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "kube-root-ca.crt", "namespace": namespace,
            "annotations": {
                "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
            },
        },
        "data": {"ca.crt": core.authority},
    });
    for (plural, object) in [("serviceaccounts", account), ("configmaps", authority)] {
        let resource = GroupResource::new("", plural);
        if core.store.get(&resource, &ObjectKey::of(&object)).is_none() {
            core.make(&resource, object);
        }
    }
}

/// Remaining content of a namespace.
#[derive(Default)]
struct Left {
    /// Number of objects per resource.
    resources: BTreeMap<String, usize>,
    /// Number of objects per finalizer.
    finalizers: BTreeMap<String, usize>,
}

/// Deletes the content of the namespace; when nothing remains, finalizes the namespace.
fn finish(core: &Arc<Core>, id: &ObjectId, name: &str) {
    let stores = core.registry.catalog().stores();
    let namespaced: Vec<&Arc<Resource>> = stores.values().filter(|resource| resource.namespaced).collect();
    for resource in &namespaced {
        for object in core.store.all(&resource.storage, Some(name)) {
            if !object.is_terminating() {
                let object_id = ObjectId {
                    resource: resource.storage.clone(),
                    key: object.key().clone(),
                };
                core.remove(&object_id, object.uid(), Propagation::Background);
            }
        }
    }
    let mut left = Left::default();
    for resource in &namespaced {
        for object in core.store.all(&resource.storage, Some(name)) {
            let shown = format!("{}.{}", resource.plural, resource.group);
            *left.resources.entry(shown).or_default() += 1;
            for finalizer in meta::finalizers(&object.value()) {
                *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    let now = core.clock.stamp();
    core.edit(id, |namespace| {
        let mut namespace = namespace.clone();
        if left.resources.is_empty() {
            let finalizers = namespace["spec"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default(); // none to remove
            namespace["spec"]["finalizers"] = finalizers.into_iter().filter(|f| f != FINALIZER).collect();
        } else {
            namespace["status"]["phase"] = "Terminating".into();
            for condition in conditions(&left) {
                set_condition(&mut namespace, condition, &now);
            }
        }
        Some(namespace)
    });
}

fn conditions(left: &Left) -> [Value; 5] {
    let counted = |counts: &BTreeMap<String, usize>, word: &str| {
        let parts = counts
            .iter()
            .map(|(what, count)| format!("{what}{word} {count} resource instances"));
        parts.collect::<Vec<_>>().join(", ")
    };
    let condition = |kind: &str, is: bool, reason: &str, message: String| json!({"type": kind, "status": if is { "True" } else { "False" }, "reason": reason, "message": message});
    let fine = |kind: &str, reason: &str, message: &str| condition(kind, false, reason, message.to_owned());
    let held = !left.finalizers.is_empty();
    [
        fine(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        fine(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        condition(
            "NamespaceContentRemaining",
            true,
            "SomeResourcesRemain",
            format!(
                "Some resources are remaining: {}",
                counted(&left.resources, " has")
            ),
        ),
        if held {
            let text = format!(
                "Some content in the namespace has finalizers remaining: {}",
                counted(&left.finalizers, " in")
            );
            condition("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", text)
        } else {
            fine(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        },
    ]
}

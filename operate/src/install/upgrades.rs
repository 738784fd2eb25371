//! The rights of muster controller --upgrades in addition to those of muster controller: ClusterUpgrades, and the
//! version fields of Clusters.

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::{Role, labels_of};

/// The rights of the controller of ClusterUpgrades.
pub(crate) const NAME: &str = "muster-controller-upgrades";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects, for Clusters of a namespace.
pub(crate) fn objects(works_in: &str) -> Vec<Value> {
    let subjects =
        json!([{"kind": "ServiceAccount", "name": Role::Controller.name(), "namespace": SYSTEM_NAMESPACE}]);
    let object = |kind: &str, namespace: Option<&str>, rest: Value| {
        let mut object = rest;
        object["apiVersion"] = json!(format!("{RBAC}/v1"));
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": NAME, "labels": labels_of("upgrades")});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    };
    let bound =
        |kind: &str| json!({"roleRef": {"apiGroup": RBAC, "kind": kind, "name": NAME}, "subjects": subjects});
    vec![
        object("Role", Some(works_in), json!({"rules": in_namespace()})),
        object("RoleBinding", Some(works_in), bound("Role")),
        object(
            "ClusterRole",
            None,
            // A ClusterClass may be in another namespace than its Clusters.
            json!({"rules": [rule("cluster.x-k8s.io", &["clusterclasses"], &["get"])]}),
        ),
        object("ClusterRoleBinding", None, bound("ClusterRole")),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn in_namespace() -> [Value; 5] {
    let ours = "fleet.muster.dev";
    [
        rule(ours, &["clusterupgrades"], &["list", "watch"]),
        rule(ours, &["clusterupgrades/status"], &["patch"]),
        rule("cluster.x-k8s.io", &["clusters"], &["patch"]),
        rule(
            "cluster.x-k8s.io",
            &["machinedeployments", "machinepools"],
            &["list", "patch"],
        ),
        // The kind of a control plane depends on its provider.
        rule("controlplane.cluster.x-k8s.io", &["*"], &["get", "patch"]),
    ]
}

//! RBAC: least privilege, derived from the requests that the processes make.
//!
//! The rights to muster's own objects are in a Role of the managed namespace; cluster-wide reads are in a ClusterRole.
//! The right to apply what is in git is separate, so that it can be narrowed.

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::Sync;
use super::{Role, labels};

const READ: &[&str] = &["get", "list", "watch"];
const STATUS: &[&str] = &["patch"];

pub(crate) fn objects(role: Role, works_in: &str, sync: Sync, notify: bool) -> Vec<Value> {
    let name = role.name();
    let labels = labels(role);
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}]);
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let api_version = "rbac.authorization.k8s.io/v1";
    let mut objects = vec![
        json!({
            "apiVersion": api_version, "kind": "Role",
            "metadata": {"name": name, "namespace": works_in, "labels": labels}, "rules": in_namespace(role, sync, notify),
        }),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": works_in, "labels": labels},
            "roleRef": reference("Role", name), "subjects": subjects,
        }),
        json!({
            "apiVersion": api_version, "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels}, "rules": in_cluster(),
        }),
        json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": reference("ClusterRole", name), "subjects": subjects,
        }),
    ];
    // With Flux this right is not needed, not even for the handover from the built-in sync: that happens once per
    // cluster, and the user keeps this binding until it is done (docs/operations.md).
    if role == Role::Agent && sync == Sync::Builtin {
        // As for Flux's kustomize-controller: git may contain anything. Bind a smaller role if it must not.
        objects.push(json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{name}-applies"), "labels": labels},
            "roleRef": reference("ClusterRole", "cluster-admin"), "subjects": subjects,
        }));
    }
    objects
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The rights of a process in the namespace that it manages.
fn in_namespace(role: Role, sync: Sync, notify: bool) -> Vec<Value> {
    let ours = "fleet.muster.dev";
    let mut rules = match role {
        Role::Controller => vec![
            rule(
                ours,
                &["modules", "bootstrapmodules"],
                &["get", "list", "watch", "patch"],
            ),
            // `delete`, here and for ConfigMaps below, is not used for deletion: where the admission plugin
            // OwnerReferencesPermissionEnforcement is enabled, changing an owner reference requires it, and Cluster API
            // may change the API version in one.
            rule(
                ours,
                &["proxyassemblages", "remoteassemblages"],
                &["get", "list", "watch", "create", "patch", "delete"],
            ),
            rule(
                ours,
                &["modulerevisions"],
                &["get", "list", "watch", "create", "delete"],
            ),
            rule(ours, &["rolloutwindows"], &["list", "watch"]),
            rule(
                ours,
                &[
                    "modules/status",
                    "bootstrapmodules/status",
                    "proxyassemblages/status",
                    "remoteassemblages/status",
                    "modulerevisions/status",
                    "rolloutwindows/status",
                ],
                STATUS,
            ),
            // Owner references that block deletion require this where that admission plugin is enabled.
            rule(
                ours,
                &[
                    "modules/finalizers",
                    "bootstrapmodules/finalizers",
                    "proxyassemblages/finalizers",
                    "remoteassemblages/finalizers",
                ],
                &["update"],
            ),
            // Bindings and conditions of gates read whole Clusters.
            rule("cluster.x-k8s.io", &["clusters"], READ),
            rule("cluster.x-k8s.io", &["clusters/finalizers"], &["update"]),
            // Kubeconfigs, credentials for git and gates, values of substitutions.
            rule("", &["secrets"], READ),
            // Bindings read ConfigMaps; the identity of each cluster is recorded in a ConfigMap.
            rule(
                "",
                &["configmaps"],
                &["get", "list", "watch", "create", "update", "delete"],
            ),
        ],
        Role::Agent => vec![
            rule(ours, &["assemblages"], READ),
            rule(ours, &["assemblages/status"], STATUS),
            rule(ours, &["assemblages/finalizers"], &["update"]),
            rule("", &["configmaps"], READ),
            // Credentials for git, values of substitutions.
            rule("", &["secrets"], &["get"]),
        ],
    };
    if role == Role::Agent && sync == Sync::Builtin {
        // Plan runs are created next to their assemblage, and executed.
        rules.push(rule(ours, &["planruns"], &["get", "create", "patch"]));
        rules.push(rule(ours, &["planruns/status"], STATUS));
    }
    if role == Role::Controller && notify {
        // Annotations record which notifications were sent.
        rules.push(rule(ours, &["modulerevisions"], &["patch"]));
    }
    if sync == Sync::Flux {
        // Sources of modules that only Flux reads.
        rules.push(rule(
            "source.toolkit.fluxcd.io",
            &["ocirepositories"],
            &["get", "list", "watch", "create", "update", "delete"],
        ));
    }
    rules.extend([
        rule(
            "source.toolkit.fluxcd.io",
            &["gitrepositories"],
            &["get", "list", "watch", "create", "update", "delete"],
        ),
        rule("source.toolkit.fluxcd.io", &["gitrepositories/status"], STATUS),
        rule(
            "kustomize.toolkit.fluxcd.io",
            &["kustomizations"],
            &["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
        rule("kustomize.toolkit.fluxcd.io", &["kustomizations/status"], STATUS),
        rule("events.k8s.io", &["events"], &["create"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ]);
    rules
}

/// The cluster-wide reads of a process: whether a namespace or a definition is being deleted, and whether Flux is
/// installed.
fn in_cluster() -> Vec<Value> {
    vec![
        rule("", &["namespaces"], &["get"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
        rule("apps", &["deployments"], &["list", "watch"]),
        // Events about objects of other namespaces, such as Flux's own Deployment.
        rule("events.k8s.io", &["events"], &["create"]),
    ]
}

//! Rights: as little as the processes need, from what they ask of an API server.
//!
//! What a process does with objects of its own stands in a Role of the namespace that it works in; what it reads of the cluster in a
//! ClusterRole. The right to apply what is in git is apart, so that it can be narrowed.

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
    // Where Flux carries out nothing of the kind is asked for, not even for the handover after the built-in sync: it happens once in the life
    // of a cluster, and whoever moves it lets this binding stand for that time (docs/operations.md).
    if role == Role::Agent && sync == Sync::Builtin {
        // As Flux's kustomize-controller has it: what is in git may be anything. Bind a smaller role if it may not.
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

/// What a process does in the namespace that it works in.
fn in_namespace(role: Role, sync: Sync, notify: bool) -> Vec<Value> {
    let ours = "fleet.muster.dev";
    let mut rules = match role {
        Role::Controller => vec![
            rule(
                ours,
                &["modules", "bootstrapmodules"],
                &["get", "list", "watch", "patch"],
            ),
            // Deleted, as ConfigMaps below, they are by nobody: but where the admission plugin for owner references is on, who writes another
            // owner needs that right, and Cluster API may change the version that an owner is named at.
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
            // Owner references that block deletion ask for this where the admission plugin for them is on.
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
            // Bindings and conditions of gates read a Cluster as a whole.
            rule("cluster.x-k8s.io", &["clusters"], READ),
            rule("cluster.x-k8s.io", &["clusters/finalizers"], &["update"]),
            // Kubeconfigs, credentials of git and of gates, values of substitutions.
            rule("", &["secrets"], READ),
            // Bindings read ConfigMaps; which cluster a Secret leads to is kept in one for each Cluster.
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
            // Credentials of git, values of substitutions.
            rule("", &["secrets"], &["get"]),
        ],
    };
    if role == Role::Agent && sync == Sync::Builtin {
        // Plans are put beside what they are of, and carried out.
        rules.push(rule(ours, &["planruns"], &["get", "create", "patch"]));
        rules.push(rule(ours, &["planruns/status"], STATUS));
    }
    if role == Role::Controller && notify {
        // What receivers were told stands in annotations.
        rules.push(rule(ours, &["modulerevisions"], &["patch"]));
    }
    if sync == Sync::Flux {
        // Sources of modules that Flux alone reads.
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

/// What a process reads of the cluster: whether a namespace or a definition is being deleted, and whether Flux is there.
fn in_cluster() -> Vec<Value> {
    vec![
        rule("", &["namespaces"], &["get"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
        rule("apps", &["deployments"], &["list", "watch"]),
        // Events about objects of other namespaces, such as Flux's own Deployment.
        rule("events.k8s.io", &["events"], &["create"]),
    ]
}

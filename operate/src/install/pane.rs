//! What the dashboard of `muster controller` needs in addition: rights to read events and to review tokens, and a
//! Service.

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::Auth;
use super::{Role, labels};

/// The port of the dashboard.
pub(crate) const PORT: u16 = 8081;
/// The name of its roles and its Service.
const NAME: &str = "muster-dashboard";

/// The objects; `works_in` is the namespace of modules.
pub(crate) fn objects(works_in: &str, auth: Auth) -> Vec<Value> {
    let labels = labels(Role::Controller);
    let subjects =
        json!([{"kind": "ServiceAccount", "name": Role::Controller.name(), "namespace": SYSTEM_NAMESPACE}]);
    let api_version = "rbac.authorization.k8s.io/v1";
    let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let mut objects = vec![
        json!({
            "apiVersion": api_version, "kind": "Role",
            "metadata": {"name": NAME, "namespace": works_in, "labels": labels},
            // For the pages of activity and of zones; the controller already reads everything else.
            "rules": [
                rule("events.k8s.io", "events", &["list", "watch"]),
                rule("fleet.muster.dev", "zonerollouts", &["list", "watch"]),
                // Served only if the controller runs with --upgrades.
                rule("fleet.muster.dev", "clusterupgrades", &["list", "watch"]),
                rule("fleet.muster.dev", "updateplans", &["list", "watch"]),
            ],
        }),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding",
            "metadata": {"name": NAME, "namespace": works_in, "labels": labels},
            "roleRef": reference("Role"), "subjects": subjects,
        }),
    ];
    if auth == Auth::Token {
        objects.extend([
            json!({
                "apiVersion": api_version, "kind": "ClusterRole",
                "metadata": {"name": NAME, "labels": labels},
                // Reviews are not stored.
                "rules": [
                    rule("authentication.k8s.io", "tokenreviews", &["create"]),
                    rule("authorization.k8s.io", "subjectaccessreviews", &["create"]),
                ],
            }),
            json!({
                "apiVersion": api_version, "kind": "ClusterRoleBinding",
                "metadata": {"name": NAME, "labels": labels},
                "roleRef": reference("ClusterRole"), "subjects": subjects,
            }),
        ]);
    }
    objects.push(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "dashboard"}]},
    }));
    objects
}

/// The flags for the controller.
pub(crate) fn arguments(auth: Auth) -> [String; 2] {
    let auth = match auth {
        Auth::None => "none",
        Auth::Token => "token",
    };
    [
        format!("--dashboard-addr=:{PORT}"),
        format!("--dashboard-auth={auth}"),
    ]
}

//! The node agents: a DaemonSet that installs each as a service of its host, their rights, and an admission policy that
//! restricts each to its own node.

use muster_api::labels::{MUSTER, SYSTEM_NAMESPACE, label};
use muster_controllers::node::NAMESPACE;
use muster_node_agent::process::DIRECTORY;
use serde_json::{Value, json};

use super::{Options, Role, labels_of};

/// The ServiceAccount of the agents, their DaemonSet and their rights.
const NAME: &str = "muster-node-agent";
/// The program for hosts, in the image: smaller than muster, with only the verb node-agent.
pub(crate) const PROGRAM: &str = "/usr/bin/muster-node-agent";
/// The rights of the controller of NodeModules.
const CONTROLLER: &str = "muster-agent-nodes";
/// Mount path of the token and the certificate authority.
const TOKENS: &str = "/var/run/secrets/muster";
/// Mount path of the host's directory.
const HOST: &str = "/host/node";
/// The claim of a pod-bound token with the node of the pod (Kubernetes 1.32).
const CLAIM: &str = "authentication.kubernetes.io/node-name";
const OURS: &str = "fleet.muster.dev";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects, in an order in which they can be applied.
pub(crate) fn objects(options: &Options) -> Vec<Value> {
    let mut objects = vec![namespace(), account()];
    objects.extend(rights_of_agents());
    objects.extend(rights_of_controller());
    objects.extend(policy());
    objects.push(daemon_set(options));
    objects
}

fn labels() -> Value {
    labels_of("node-agent")
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {
            label::APP_MANAGED_BY: MUSTER,
            "pod-security.kubernetes.io/audit": "privileged",
            "pod-security.kubernetes.io/enforce": "privileged",
            "pod-security.kubernetes.io/warn": "privileged",
        }},
    })
}

fn account() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        // The pod has a token for the agent, and none for itself.
        "automountServiceAccountToken": false,
    })
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, account: (&str, &str)) -> Value {
    let bound = if namespace.is_some() {
        "RoleBinding"
    } else {
        "ClusterRoleBinding"
    };
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": bound,
        "metadata": {"name": name, "labels": labels()},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account.0, "namespace": account.1}],
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// What an agent reads and writes; the admission policy restricts it to its node.
fn rights_of_agents() -> Vec<Value> {
    let agents = (NAME, NAMESPACE);
    vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": NAME, "labels": labels()},
            "rules": [
                rule(OURS, &["nodeassemblages"], &["list", "watch"]),
                rule(OURS, &["noderevisions"], &["get"]),
                rule(OURS, &["nodeassemblages/status"], &["patch"]),
            ],
        }),
        binding("ClusterRole", NAME, None, agents),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
            "rules": [rule("coordination.k8s.io", &["leases"], &["create", "patch"])],
        }),
        binding("Role", NAME, Some(NAMESPACE), agents),
    ]
}

/// The rights of muster agent --nodes in addition to those of muster agent.
fn rights_of_controller() -> Vec<Value> {
    let controller = (Role::Agent.name(), SYSTEM_NAMESPACE);
    vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": CONTROLLER, "labels": labels()},
            "rules": [
                // Startup taints of nodes are removed.
                rule("", &["nodes"], &["get", "list", "watch", "patch"]),
                rule("", &["nodes/status"], &["patch"]),
                rule(OURS, &["nodemodules"], &["get", "list", "watch", "patch"]),
                rule(OURS, &["noderevisions"], &["get", "list", "watch", "create", "delete"]),
                rule(OURS, &["nodeassemblages"], &["list", "watch", "create", "patch"]),
                rule(OURS, &["nodebudgets"], &["list", "watch", "create"]),
                rule(
                    OURS,
                    &["nodemodules/status", "noderevisions/status", "nodebudgets/status"],
                    &["patch"],
                ),
                rule(OURS, &["nodemodules/finalizers"], &["update"]),
                rule("events.k8s.io", &["events"], &["create"]),
            ],
        }),
        binding("ClusterRole", CONTROLLER, None, controller),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
            "metadata": {"name": CONTROLLER, "namespace": NAMESPACE, "labels": labels()},
            "rules": [rule("coordination.k8s.io", &["leases"], &["get", "list", "watch"])],
        }),
        binding("Role", CONTROLLER, Some(NAMESPACE), controller),
    ]
}

/// An agent may write only about its own node, by the claim of its token: RBAC cannot express this.
fn policy() -> [Value; 2] {
    let account = format!("system:serviceaccount:{NAMESPACE}:{NAME}");
    let claimed =
        format!("'{CLAIM}' in request.userInfo.extra && request.userInfo.extra['{CLAIM}'] == [request.name]");
    let validation = json!({
        "expression": claimed,
        "message": "a node agent may write only objects of its own node, which the node claim of its token names (Kubernetes 1.32 or later)",
        "reason": "Forbidden",
    });
    let written = |group: &str, version: &str, resource: &str, operations: &[&str]| {
        json!({
            "apiGroups": [group], "apiVersions": [version], "resources": [resource],
            "operations": operations, "scope": "*",
        })
    };
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME, "labels": labels()},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [
                    written(OURS, "*", "nodeassemblages/status", &["UPDATE"]),
                    written("coordination.k8s.io", "*", "leases", &["CREATE", "UPDATE"]),
                ]},
                "matchConditions": [{
                    "name": "agents-of-nodes",
                    "expression": format!("request.userInfo.username == '{account}'"),
                }],
                "validations": [validation],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME, "labels": labels()},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        }),
    ]
}

fn daemon_set(options: &Options) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "selector": {"matchLabels": labels()},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": false,
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    // A node may be not ready because it lacks its configuration.
                    "tolerations": [{"operator": "Exists"}],
                    "hostPID": true,
                    // A node without its configuration may have no pod network.
                    "hostNetwork": true,
                    "terminationGracePeriodSeconds": 5,
                    "initContainers": [install_container(options)],
                    "containers": [token_container(options)],
                    "volumes": volumes(),
                },
            },
        },
    })
}

/// Enters the mount namespace of the host, and installs the service there.
fn install_container(options: &Options) -> Value {
    json!({
        "name": "install",
        "image": options.image,
        "command": [PROGRAM],
        "args": ["node-agent", "install", "--enter-host"],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"privileged": true, "runAsUser": 0, "runAsGroup": 0},
    })
}

/// Copies its token to the host, and has no other access to it.
fn token_container(options: &Options) -> Value {
    json!({
        "name": "token",
        "image": options.image,
        "command": [PROGRAM],
        "args": ["node-agent", "token", format!("--from={TOKENS}"), format!("--to={HOST}")],
        "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 0,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "token", "mountPath": TOKENS, "readOnly": true},
            {"name": "node", "mountPath": HOST},
        ],
    })
}

fn volumes() -> Value {
    json!([
        {"name": "token", "projected": {"defaultMode": 0o400, "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ]}},
        {"name": "node", "hostPath": {"path": DIRECTORY, "type": "DirectoryOrCreate"}},
    ])
}

//! What `muster machines serve` needs in the management cluster: read access to Machines, its UpdatePlans, and the
//! ExtensionConfig by which Cluster API finds it.

use muster_api::labels::SYSTEM_NAMESPACE;
use muster_controllers::{machines::config, process::MACHINES as NAME};
use serde_json::{Value, json};

use super::{
    Options,
    deployment::{self, PORT},
    labels_of, network,
};

/// The port of the hooks.
const HOOKS: u16 = 9443;
/// The file with the updaters, in the ConfigMap and in the container.
const FILE: &str = "updaters.yaml";
const DIRECTORY: &str = "/etc/muster/machines";

/// The objects, in an order in which they can be applied; `updaters` is the text of the file.
pub(crate) fn objects(options: &Options, updaters: &str) -> Vec<Value> {
    with_rights(options, updaters, prepares_nodes(updaters))
}

/// The same, with or without the rights to prepare Nodes.
pub(crate) fn with_rights(options: &Options, updaters: &str, prepares_nodes: bool) -> Vec<Value> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(),
        "spec": {"selector": labels(), "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    });
    let file =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(), "data": {FILE: updaters}});
    let mut objects = vec![
        super::namespace(SYSTEM_NAMESPACE),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata()}),
    ];
    objects.extend(rights(prepares_nodes));
    objects.extend([
        file,
        service,
        policy(options),
        deployment(&options.image),
        extension(),
    ]);
    objects
}

fn labels() -> Value {
    labels_of("machines")
}

fn metadata() -> Value {
    json!({"name": NAME, "namespace": SYSTEM_NAMESPACE, "labels": labels()})
}

/// Whether an updater wants Nodes cordoned or drained: then the kubeconfigs of Clusters are read.
fn prepares_nodes(updaters: &str) -> bool {
    let updaters = config::read(updaters.as_bytes());
    updaters.is_ok_and(|all| all.iter().any(|updater| updater.prepare_node.is_some()))
}

fn rights(prepares_nodes: bool) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let only = |group: &str, resource: &str, name: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": verbs});
    let api_version = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}]);
    let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    let of_cluster = json!({"name": NAME, "labels": labels()});
    let certificate = format!("{NAME}-certificate");
    let mut rules = vec![
        rule("cluster.x-k8s.io", &["machines"], &["list", "watch"]),
        // The owners of Machines: the annotations of control planes, and for all of them what an event refers to.
        rule("cluster.x-k8s.io", &["machinedeployments"], &["get"]),
        rule("controlplane.cluster.x-k8s.io", &["*"], &["get"]),
        rule(
            "fleet.muster.dev",
            &["updateplans"],
            &["get", "list", "watch", "create", "delete"],
        ),
        rule("fleet.muster.dev", &["updateplans/status"], &["patch"]),
        rule("events.k8s.io", &["events"], &["create"]),
        only(
            "runtime.cluster.x-k8s.io",
            "extensionconfigs",
            NAME,
            &["get", "patch"],
        ),
    ];
    if prepares_nodes {
        // The kubeconfigs of Clusters: RBAC can restrict access to Secrets only by name.
        rules.push(rule("", &["secrets"], &["get"]));
    }
    vec![
        json!({
            "apiVersion": api_version, "kind": "ClusterRole", "metadata": of_cluster, "rules": rules,
        }),
        json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": of_cluster,
            "roleRef": reference("ClusterRole"), "subjects": subjects,
        }),
        json!({
            "apiVersion": api_version, "kind": "Role", "metadata": metadata(),
            "rules": [
                // `create` cannot be restricted to names.
                rule("", &["secrets"], &["create"]),
                only("", "secrets", &certificate, &["get", "update"]),
                rule("coordination.k8s.io", &["leases"], &["create"]),
                only("coordination.k8s.io", "leases", NAME, &["get", "update"]),
            ],
        }),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding", "metadata": metadata(),
            "roleRef": reference("Role"), "subjects": subjects,
        }),
    ]
}

/// Ingress for hooks, metrics and probes; egress to DNS, the API server and updaters.
fn policy(options: &Options) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(),
        "spec": {
            "podSelector": {"matchLabels": labels()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [network::port("TCP", PORT), network::port("TCP", HOOKS)]}],
            "egress": network::egress(&options.egress_ports),
        },
    })
}

fn deployment(image: &str) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "metrics"}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {
            // The state of an update in progress is in the memory of one process: the next one must start after this
            // one has ended.
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": deployment::pod_security(),
                    "containers": [{
                        "name": "muster",
                        "image": image,
                        "args": [
                            "machines", "serve",
                            format!("--updaters={DIRECTORY}/{FILE}"),
                            format!("--hooks-addr=0.0.0.0:{HOOKS}"),
                            format!("--metrics-addr=:{PORT}"),
                            "--log-format=json",
                        ],
                        "ports": [{"name": "metrics", "containerPort": PORT}, {"name": "https", "containerPort": HOOKS}],
                        "livenessProbe": probe("/healthz"),
                        "readinessProbe": probe("/readyz"),
                        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                        "securityContext": deployment::container_security(),
                        "volumeMounts": [{"name": "updaters", "mountPath": DIRECTORY, "readOnly": true}],
                    }],
                    "volumes": [{"name": "updaters", "configMap": {"name": NAME}}],
                },
            },
        },
    })
}

/// The ExtensionConfig of the hooks; the process writes its caBundle.
fn extension() -> Value {
    json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": NAME, "labels": labels()},
        "spec": {
            "clientConfig": {"service": {"name": NAME, "namespace": SYSTEM_NAMESPACE, "port": 443}},
            "namespaceSelector": {},
        },
    })
}

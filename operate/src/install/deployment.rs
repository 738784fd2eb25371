//! The process: one container without privileges, with probes on the metrics port.

use k8s_openapi::api::apps::v1::Deployment;
use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::Sync;
use super::{Options, Role, labels, pane};

/// The port of `/metrics`, `/healthz` and `/readyz`.
pub(crate) const PORT: u16 = 8080;
/// An arbitrary non-root user ID.
pub(crate) const USER: u32 = 65_532;

/// Where the Secret with the receivers of notifications is.
const NOTIFY: &str = "/etc/muster/notify";

/// The arguments of a Deployment's containers.
pub fn deployment_arguments(deployment: &Deployment) -> Vec<&str> {
    let spec = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    containers
        .flat_map(|container| container.args.iter().flatten().map(String::as_str))
        .collect()
}

/// The namespace that a controller manages, from its arguments.
pub fn works_in(deployment: &Deployment) -> &str {
    let arguments = deployment_arguments(deployment);
    arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--namespace="))
        .unwrap_or("default")
}

pub(crate) fn deployment(role: Role, works_in: &str, options: &Options) -> Value {
    let name = role.name();
    let sync = match options.sync {
        Sync::Builtin => "builtin",
        Sync::Flux => "flux",
    };
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "metrics"}});
    let mut arguments = vec![
        role.verb().to_owned(),
        format!("--namespace={works_in}"),
        format!("--sync={sync}"),
        format!("--metrics-addr=:{PORT}"),
        "--log-format=json".to_owned(),
    ];
    if options.nodes {
        arguments.push("--nodes".to_owned());
    }
    if options.upgrades {
        arguments.push("--upgrades".to_owned());
    }
    let mut ports = vec![json!({"name": "metrics", "containerPort": PORT})];
    if let Some(auth) = options.dashboard {
        arguments.extend(pane::arguments(auth));
        ports.push(json!({"name": "dashboard", "containerPort": pane::PORT}));
    }
    let mut container = json!({
        "name": "muster",
        "image": options.image,
        "args": arguments,
        "ports": ports,
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/muster"}, {"name": "tmp", "mountPath": "/tmp"}],
    });
    // Mirrors of git; lost with the pod, and fetched again.
    let mut volumes = vec![
        json!({"name": "data", "emptyDir": {}}),
        json!({"name": "tmp", "emptyDir": {}}),
    ];
    if options.notify {
        push(
            &mut container["args"],
            json!(format!("--notify-config={NOTIFY}/notify.yaml")),
        );
        push(
            &mut container["volumeMounts"],
            json!({"name": "notify", "mountPath": NOTIFY, "readOnly": true}),
        );
        volumes.push(json!({"name": "notify", "secret": {"secretName": "muster-notify"}}));
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels(role)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels(role)},
            "template": {
                "metadata": {"labels": labels(role)},
                "spec": {
                    "serviceAccountName": name,
                    // In-flight work is finished after SIGTERM.
                    "terminationGracePeriodSeconds": 60,
                    "securityContext": pod_security(),
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    })
}

/// The pod part of the `restricted` standard.
pub(crate) fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// The same for containers; only volumes are writable.
pub(crate) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

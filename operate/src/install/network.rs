//! NetworkPolicies: who may connect to the process, and to whom it may connect.

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::{Options, Role, deployment::PORT, labels, pane};

/// DNS: the standard port, and the port of OpenShift's resolvers behind their Service.
const DNS: [u16; 2] = [53, 5353];

/// The NetworkPolicy of a process: ingress for metrics, probes and the dashboard only; egress to DNS, API servers and
/// git hosts.
///
/// The addresses of API servers, git hosts and gates are unknown here, only their ports.
pub(crate) fn policy(role: Role, options: &Options) -> Value {
    let dashboard = options.dashboard.map(|_| pane::PORT);
    let ours: Vec<Value> = [PORT]
        .into_iter()
        .chain(dashboard)
        .map(|number| port("TCP", number))
        .collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": role.name(), "namespace": SYSTEM_NAMESPACE, "labels": labels(role)},
        "spec": {
            "podSelector": {"matchLabels": labels(role)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": ours}],
            "egress": egress(&options.egress_ports),
        },
    })
}

/// A port of a rule.
pub(crate) fn port(protocol: &str, number: u16) -> Value {
    json!({"protocol": protocol, "port": number})
}

/// Egress: DNS, and hosts at these ports.
pub(crate) fn egress(ports: &[u16]) -> Vec<Value> {
    let names = DNS
        .iter()
        .flat_map(|number| [port("UDP", *number), port("TCP", *number)]);
    let hosts = ports.iter().map(|number| port("TCP", *number));
    vec![
        json!({"ports": names.collect::<Vec<_>>()}),
        json!({"ports": hosts.collect::<Vec<_>>()}),
    ]
}

//! Simulated nodes: present, ready, and re-created when deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;

use super::plan::{Plan, Verb, time};

/// The label of simulated nodes; others are left alone.
const SIMULATED: &str = "player.muster-apiserver.dev/simulated";

/// The names of the nodes that should exist.
pub(super) fn names(nodes: u32) -> impl Iterator<Item = String> {
    (1..=nodes).map(|number| format!("node-{number}"))
}

/// Decides what to do about a simulated node.
pub(super) fn decide(name: &str, node: Option<&Node>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    match node {
        None => plan.write(Verb::Create, new(name)),
        Some(node) if is_simulated(node) && !has_status(node) => {
            plan.write(
                Verb::Status,
                Node {
                    status: Some(status(name, now)),
                    ..node.clone()
                },
            );
        }
        Some(_) => {}
    }
    plan
}

/// Whether pods may be placed on it.
pub(super) fn is_schedulable(node: &Node) -> bool {
    let cordoned = node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.unschedulable == Some(true));
    node.metadata.deletion_timestamp.is_none() && !cordoned && has_status(node)
}

/// Whether a node has all these labels.
pub(super) fn has_labels(node: &Node, wanted: &BTreeMap<String, String>) -> bool {
    let labels = node.metadata.labels.as_ref();
    wanted
        .iter()
        .all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
}

fn is_simulated(node: &Node) -> bool {
    node.metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(SIMULATED))
}

/// Whether the node reports that it is ready.
fn has_status(node: &Node) -> bool {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn new(name: &str) -> Node {
    let labels = [
        (SIMULATED, "true"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("simulated://{name}")),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

fn status(name: &str, now: Timestamp) -> NodeStatus {
    let capacity = [("cpu", "16"), ("memory", "64Gi"), ("pods", "10000")];
    let capacity: BTreeMap<String, Quantity> = capacity
        .map(|(resource, amount)| (resource.to_owned(), Quantity(amount.to_owned())))
        .into();
    let condition = |kind: &str, status: &str, reason: &str| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: None,
        last_heartbeat_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    };
    let address = |kind: &str, address: &str| NodeAddress {
        type_: kind.to_owned(),
        address: address.to_owned(),
    };
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", "192.0.2.1"),
            address("Hostname", name),
        ]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(vec![
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "simulated".to_owned(),
            container_runtime_version: "simulated://1".to_owned(),
            kubelet_version: "v1.36.0".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

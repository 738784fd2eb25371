//! Actions on the Node of a Machine, in the Machine's Cluster: cordon, drain by eviction, uncordon. Each attempt reads
//! the current state and does what is left, so that nothing must survive a restart.
//!
//! Invariant: a Node is uncordoned only by the plan that cordoned it; one that was cordoned before, or by another plan,
//! stays cordoned.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions},
};
use muster_api::{
    labels::{KUBECONFIG_SUFFIX, annotation},
    update_plan::UpdateNodeAction,
};
use muster_machines::Polled;
use serde_json::{Value, json};

use super::index::MachineIndex;
use crate::{
    registry::RemoteClients,
    runtime::{Api, Key, call, call::error_chain},
};

/// Seconds until a Node is attempted again: pods take seconds to terminate.
const AGAIN: u32 = 5;
/// Pods that a message names at most.
const NAMED: usize = 3;
/// The annotation of a mirror pod, which its kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// With the value `skip`, a pod is not drained, as in Cluster API.
const DRAIN: &str = "cluster.x-k8s.io/drain";
/// The other value: the pod's completion is waited for.
const COMPLETED: &str = "wait-completed";
/// How long one attempt may take: longer ones would block others, and continue after an abort.
const ATTEMPT: Duration = Duration::from_secs(30);

/// The Machine of a Node: another Machine with the same name has another Node.
pub struct Subject<'a> {
    /// The Machine's namespace and name.
    pub machine: &'a Key,
    /// The Machine's uid.
    pub uid: &'a str,
    /// The UpdatePlan by which it is updated.
    pub plan: &'a str,
}

/// The actions on Nodes.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Attempts an action on the Node of a Machine.
    async fn attempt(&self, subject: &Subject<'_>, action: UpdateNodeAction) -> Polled;
}

/// Nodes of Clusters, accessed with the kubeconfig Secrets of Cluster API.
pub struct Workloads {
    clusters: Arc<dyn RemoteClients>,
    machines: Arc<MachineIndex>,
}

impl Workloads {
    /// Uses the clients that `clusters` creates from Secrets.
    pub fn new(clusters: Arc<dyn RemoteClients>, machines: Arc<MachineIndex>) -> Self {
        Self { clusters, machines }
    }

    async fn attempted(
        &self,
        subject: &Subject<'_>,
        action: UpdateNodeAction,
    ) -> Result<Option<String>, String> {
        let Subject { machine, uid, plan } = subject;
        let row = self.machines.get(machine).filter(|row| row.uid == *uid);
        let row = row.ok_or_else(|| format!("Machine {machine} with uid {uid} does not exist"))?;
        let (Some(cluster), Some(name)) = (row.cluster, row.node) else {
            return Err(format!("Machine {machine} has no Node (status.nodeRef)"));
        };
        let secret = format!("{cluster}{KUBECONFIG_SUFFIX}");
        let client = self.clusters.client(&machine.namespace, &secret, None).await;
        let client = client.map_err(|error| error_chain(&error))?;
        let nodes: Api<Node> = Api::all(client.clone());
        let what = format!("reading Node {name} of Cluster {cluster}");
        let node = call(what, nodes.get(&name))
            .await
            .map_err(|error| error_chain(&error))?;
        match action {
            UpdateNodeAction::Cordon => cordon(&nodes, &node, plan).await.map(|()| None),
            UpdateNodeAction::Uncordon => uncordon(&nodes, &node, plan).await.map(|()| None),
            UpdateNodeAction::Drain => {
                cordon(&nodes, &node, plan).await?;
                evict(&client, &name).await
            }
        }
    }
}

#[async_trait]
impl Nodes for Workloads {
    async fn attempt(&self, subject: &Subject<'_>, action: UpdateNodeAction) -> Polled {
        let attempt = tokio::time::timeout(ATTEMPT, self.attempted(subject, action)).await;
        match attempt {
            Ok(Ok(None)) => Polled::Done {
                message: String::new(),
            },
            Ok(Ok(Some(message))) => Polled::InProgress {
                after: AGAIN,
                message,
            },
            Ok(Err(message)) => Polled::Failed { message },
            Err(_elapsed) => Polled::Failed {
                message: format!(
                    "the API server of its Cluster took longer than {} s",
                    ATTEMPT.as_secs()
                ),
            },
        }
    }
}

async fn cordon(nodes: &Api<Node>, node: &Node, plan: &str) -> Result<(), String> {
    if is_cordoned(node) {
        return Ok(());
    }
    let by = json!({annotation::CORDONED_FOR: plan});
    change(nodes, node, "cordoning", json!(true), by).await
}

async fn uncordon(nodes: &Api<Node>, node: &Node, plan: &str) -> Result<(), String> {
    let cordoned_for = node.annotations().get(annotation::CORDONED_FOR);
    if cordoned_for.map(String::as_str) != Some(plan) {
        return Ok(());
    }
    let by = json!({annotation::CORDONED_FOR: null});
    change(nodes, node, "uncordoning", Value::Null, by).await
}

/// Only over the version that was read: another write is not overwritten.
async fn change(
    nodes: &Api<Node>,
    node: &Node,
    verb: &str,
    unschedulable: Value,
    annotations: Value,
) -> Result<(), String> {
    let name = node.name_any();
    let patch = json!({
        "metadata": {"resourceVersion": node.resource_version(), "annotations": annotations},
        "spec": {"unschedulable": unschedulable},
    });
    let (by, patch) = (PatchParams::default(), Patch::Merge(patch));
    let written = call(format!("{verb} Node {name}"), nodes.patch(&name, &by, &patch)).await;
    written.map(drop).map_err(|error| error_chain(&error))
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Evicts the remaining pods of a Node; returns what is waited for, if any remain.
async fn evict(client: &Client, node: &str) -> Result<Option<String>, String> {
    let all: Api<Pod> = Api::all(client.clone());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = call(format!("listing the pods of Node {node}"), all.list(&of_node)).await;
    let pods = pods.map_err(|error| error_chain(&error))?;
    let mut waited = Vec::new();
    for pod in pods.items.iter().filter(|pod| has_to_go(pod)) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        if pod.metadata.deletion_timestamp.is_some() {
            waited.push(format!("{namespace}/{name} is terminating"));
            continue;
        }
        if pod.labels().get(DRAIN).is_some_and(|value| value == COMPLETED) {
            waited.push(format!("{namespace}/{name} must complete first"));
            continue;
        }
        // Another pod with the same name may run elsewhere by now.
        let by = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            }),
            ..EvictParams::default()
        };
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let evicted = api.evict(&name, &by);
        match call(format!("{namespace}/{name}"), evicted).await {
            Ok(()) => waited.push(format!("{namespace}/{name} is evicted")),
            Err(error) if error.is_not_found() => {}
            // The API server does not respond, and would not for the next pod.
            Err(error) if error.code().is_none() => return Err(error_chain(&error)),
            Err(error) => waited.push(error_chain(&error)),
        }
    }
    if waited.is_empty() {
        return Ok(None);
    }
    let (count, named) = (waited.len(), waited.iter().take(NAMED));
    let named: Vec<&str> = named.map(String::as_str).collect();
    Ok(Some(format!(
        "pods remaining on Node {node}: {count}: {}",
        named.join("; ")
    )))
}

/// As in Cluster API: DaemonSet pods would be re-created at once, mirror pods belong to the kubelet, and finished pods
/// need no eviction. Pods without a controller, and pods with an `emptyDir`, are evicted.
fn has_to_go(pod: &Pod) -> bool {
    let mut owners = pod.owner_references().iter();
    let is_of_daemon_set = owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_skipped = pod
        .labels()
        .get(DRAIN)
        .is_some_and(|value| value.eq_ignore_ascii_case("skip"));
    !is_of_daemon_set
        && !is_skipped
        && !pod.annotations().contains_key(MIRROR)
        && !matches!(phase, Some("Succeeded" | "Failed"))
}

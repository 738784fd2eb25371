//! What is done to the Node of a Machine, in the Cluster that the Machine is of: cordon, drain by eviction, uncordon. Each attempt reads what
//! there is and does what is left, so that nothing has to be kept over a restart.
//!
//! Invariant: only a Node that was cordoned for an update is uncordoned; one that was cordoned before stays so.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::{
    Client, ResourceExt as _,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use muster_api::labels::{KUBECONFIG_KEY, KUBECONFIG_SUFFIX, annotation};
use muster_machines::{NodeAction, Polled};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::index::MachineIndex;
use crate::{
    registry::{Connect, kubeconfig},
    runtime::{Api, Key, call, call::explain},
};

/// After so many seconds a Node is attempted again: what pods take to end is counted in seconds.
const AGAIN: u32 = 5;
/// Pods that a message names.
const NAMED: usize = 3;
/// A pod that its kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// With the value `skip`, Cluster API does not drain a pod either.
const DRAIN: &str = "cluster.x-k8s.io/drain";

/// What can be done to Nodes.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Attempts an action for a plan on the Node of a Machine.
    async fn attempt(&self, machine: &Key, plan: &str, action: NodeAction) -> Polled;
}

/// Nodes of Clusters, by the kubeconfig Secrets of Cluster API.
pub struct Workloads {
    client: Client,
    machines: Arc<MachineIndex>,
    connect: Connect,
    /// By Cluster: the resourceVersion of its Secret, and the client that was made from it.
    clients: Mutex<BTreeMap<Key, (String, Client)>>,
}

impl Workloads {
    /// Through the Secrets that `client` reads.
    pub const fn new(client: Client, machines: Arc<MachineIndex>, connect: Connect) -> Self {
        Self {
            client,
            machines,
            connect,
            clients: Mutex::new(BTreeMap::new()),
        }
    }

    async fn attempted(
        &self,
        machine: &Key,
        plan: &str,
        action: NodeAction,
    ) -> Result<Option<String>, String> {
        let row = self.machines.get(machine);
        let row = row.ok_or_else(|| format!("Machine {machine} is not there"))?;
        let (Some(cluster), Some(name)) = (row.cluster, row.node) else {
            return Err(format!("Machine {machine} has no Node (status.nodeRef)"));
        };
        let client = self.connected(&Key::new(&machine.namespace, &cluster)).await?;
        let nodes: Api<Node> = Api::all(client.clone());
        let what = format!("reading Node {name} of Cluster {cluster}");
        let node = call(what, nodes.get(&name))
            .await
            .map_err(|error| explain(&error))?;
        match action {
            NodeAction::Cordon => cordon(&nodes, &node, plan).await.map(|()| None),
            NodeAction::Uncordon => uncordon(&nodes, &node).await.map(|()| None),
            NodeAction::Drain => {
                cordon(&nodes, &node, plan).await?;
                evict(&client, &name).await
            }
        }
    }

    /// A client for a Cluster; the one that is there as long as its Secret is the same.
    async fn connected(&self, cluster: &Key) -> Result<Client, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &cluster.namespace);
        let name = format!("{}{KUBECONFIG_SUFFIX}", cluster.name);
        let what = format!("reading Secret {}/{name}", cluster.namespace);
        let secret = call(what.clone(), secrets.get(&name)).await;
        let secret = secret.map_err(|error| explain(&error))?;
        let version = secret.resource_version().unwrap_or_default();
        if let Some((known, client)) = self.clients.lock().get(cluster)
            && *known == version
        {
            return Ok(client.clone());
        }
        let data = secret.data.unwrap_or_default();
        let text = data.get(KUBECONFIG_KEY);
        let text = text.ok_or_else(|| format!("{what}: it has no key {KUBECONFIG_KEY}"))?;
        let access = kubeconfig::parse(&text.0).map_err(|error| format!("{what}: {error}"))?;
        let client = (self.connect)(&access).map_err(|error| format!("{what}: {error}"))?;
        let mut clients = self.clients.lock();
        clients.insert(cluster.clone(), (version, client.clone()));
        Ok(client)
    }
}

#[async_trait]
impl Nodes for Workloads {
    async fn attempt(&self, machine: &Key, plan: &str, action: NodeAction) -> Polled {
        match self.attempted(machine, plan, action).await {
            Ok(None) => Polled::Done {
                message: String::new(),
            },
            Ok(Some(message)) => Polled::InProgress {
                after: AGAIN,
                message,
            },
            Err(message) => Polled::Failed { message },
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

async fn uncordon(nodes: &Api<Node>, node: &Node) -> Result<(), String> {
    if !node.annotations().contains_key(annotation::CORDONED_FOR) {
        return Ok(());
    }
    let by = json!({annotation::CORDONED_FOR: null});
    change(nodes, node, "uncordoning", Value::Null, by).await
}

/// Only over the version that was read: another writer is not overwritten.
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
    written.map(drop).map_err(|error| explain(&error))
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Evicts the pods of a Node that are left; what is waited for, if there are any.
async fn evict(client: &Client, node: &str) -> Result<Option<String>, String> {
    let all: Api<Pod> = Api::all(client.clone());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = call(format!("listing the pods of Node {node}"), all.list(&of_node)).await;
    let pods = pods.map_err(|error| explain(&error))?;
    let (mut waited, by) = (Vec::new(), EvictParams::default());
    for pod in pods.items.iter().filter(|pod| has_to_go(pod)) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        if pod.metadata.deletion_timestamp.is_some() {
            waited.push(format!("{namespace}/{name} is terminating"));
            continue;
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let evicted = api.evict(&name, &by);
        match call(format!("{namespace}/{name}"), evicted).await {
            Ok(()) => waited.push(format!("{namespace}/{name} is evicted")),
            Err(error) if error.is_not_found() => {}
            Err(error) => waited.push(explain(&error)),
        }
    }
    if waited.is_empty() {
        return Ok(None);
    }
    let (count, named) = (waited.len(), waited.iter().take(NAMED));
    let named: Vec<&str> = named.map(String::as_str).collect();
    Ok(Some(format!(
        "pods that are left on Node {node}: {count}: {}",
        named.join("; ")
    )))
}

/// As `kubectl drain --ignore-daemonsets` and Cluster API have it: pods of DaemonSets would come back at once, mirror pods are the kubelet's,
/// and what has ended keeps nothing.
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

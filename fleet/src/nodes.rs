//! The nodes of the current cluster, and the NodeModules that roll over them.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, future, stream};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Client, Resource,
    api::ListParams,
    core::{DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::node::{NodeAssemblage, NodeModule};
use muster_controllers::{node::run::NAMESPACE, runtime::Api};
use muster_dashboard::{Fleet, Kind, ModuleView, NodeObjects, Shape, shell_word};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::timeout;

use crate::{Reporter, name::ModuleName, near};

/// The delay from a change to the next read, so that a burst of changes is one.
const GATHER: Duration = Duration::from_millis(200);
/// How often the nodes are read without a change: ages advance, and a watch may have missed a change.
const TICK: Duration = Duration::from_secs(10);

/// Why a request about nodes cannot be answered.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The kinds are not installed.
    #[error(
        "NodeModules are not served by this cluster: they are in the clusters whose nodes they configure; next: name one of these with --context or --kubeconfig"
    )]
    NotServed,
    /// The NodeModule does not exist.
    #[error(
        "there is no nodemodule/{name} in this cluster{near}; next: muster get nodemodules, or name another cluster with --context"
    )]
    NoModule {
        /// The name that was given.
        name: String,
        /// Text that suggests similar names; may be empty.
        near: String,
    },
    /// The Node does not exist.
    #[error("there is no Node {name} in this cluster{near}; next: kubectl get nodes")]
    NoNode {
        /// The name that was given.
        name: String,
        /// Text that suggests similar names; may be empty.
        near: String,
    },
    /// The NodeModule does not select the Node.
    #[error(
        "nodemodule/{module} does not select Node {node}; next: muster why nodemodule/{module} --node {}",
        shell_word(node)
    )]
    NotSelected {
        /// Name of the NodeModule.
        module: String,
        /// Name of the Node.
        node: String,
    },
    /// Clusters were given for a NodeModule, which needs the flag for nodes.
    #[error("--clusters is for modules, and {module} rolls over nodes; next: name nodes with --node")]
    NotClusters {
        /// The NodeModule.
        module: ModuleName,
    },
    /// Nodes were given for something that rolls over clusters.
    #[error("--node is for NodeModules, and {what} is not one; next: write nodemodule/NAME")]
    NotNodes {
        /// The argument of the verb.
        what: String,
    },
    /// The verb is for NodeModules only.
    #[error("this is for NodeModules, and {module} is not one; next: muster why {module}")]
    NotANodeModule {
        /// The argument of the verb.
        module: ModuleName,
    },
}

/// Reads everything that a view of the nodes needs.
pub async fn read_node_objects(client: &Client) -> anyhow::Result<NodeObjects> {
    let modules = match list::<NodeModule>(client).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Err(NodeError::NotServed.into()),
        modules => modules.context("listing nodemodules")?,
    };
    let (assemblages, nodes) = tokio::try_join!(list::<NodeAssemblage>(client), list::<Node>(client))
        .context("listing nodeassemblages and nodes")?;
    Ok(NodeObjects {
        modules,
        assemblages,
        nodes,
        ..NodeObjects::default()
    })
}

/// Checks that NodeModules are served.
pub async fn check_served(client: &Client) -> Result<(), NodeError> {
    match list::<NodeModule>(client).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Err(NodeError::NotServed),
        // Other errors are reported by the call that needs the kinds.
        _ => Ok(()),
    }
}

/// The Leases of the agents; empty without the right to read them.
pub async fn leases(client: &Client) -> Vec<Arc<Lease>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let list = leases.list(&ListParams::default()).await;
    list.map_or_else(
        |_| Vec::new(),
        |list| list.items.into_iter().map(Arc::new).collect(),
    ) // as above
}

async fn list<K>(client: &Client) -> Result<Vec<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

/// Reads the view of the nodes.
pub async fn read(client: &Client) -> anyhow::Result<Fleet> {
    Ok(Fleet::of_nodes(&read_node_objects(client).await?))
}

/// Calls `show` with the current nodes at each change, until it returns `Break`; returns its value.
///
/// An error of the first read is returned. A later error is reported once to `reporter`, and retried.
pub async fn watch_nodes<T>(
    client: &Client,
    reporter: &dyn Reporter,
    mut show: impl FnMut(&NodeObjects, &Fleet) -> anyhow::Result<ControlFlow<T>>,
) -> anyhow::Result<T> {
    let mut now = read_node_objects(client).await?;
    let mut changes = stream::select_all([
        changes::<NodeModule>(client)?,
        changes::<NodeAssemblage>(client)?,
        changes::<Node>(client)?,
    ]);
    let mut last_trouble = String::new();
    loop {
        if let ControlFlow::Break(end) = show(&now, &Fleet::of_nodes(&now))? {
            return Ok(end);
        }
        // Both a tick and a change lead to a read: one for all changes that arrive before the next one is due.
        let _ = timeout(TICK, changes.next()).await;
        let gather = Box::pin(tokio::time::sleep(GATHER));
        changes.by_ref().take_until(gather).for_each(future::ready).await;
        match read_node_objects(client).await {
            Ok(fresh) => {
                last_trouble.clear();
                now = fresh;
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                if last_trouble != trouble {
                    reporter.warn(&format!("warning: {trouble}; retrying"));
                }
                last_trouble = trouble;
            }
        }
    }
}

/// Yields for each change of an object of a kind.
fn changes<K>(client: &Client) -> anyhow::Result<stream::BoxStream<'static, ()>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let events = watcher(api.for_watching()?, watcher::Config::default()).default_backoff();
    Ok(events.map(drop).boxed())
}

/// Finds a NodeModule in the view.
pub fn find_node_module<'a>(fleet: &'a Fleet, name: &str) -> Result<&'a ModuleView, NodeError> {
    fleet
        .module(Kind::NodeModule, name)
        .ok_or_else(|| NodeError::NoModule {
            name: name.to_owned(),
            near: near::offer(name, fleet.modules.iter().map(|view| view.name.as_str())),
        })
}

/// Checks that the Node exists.
pub fn check_node(fleet: &Fleet, name: &str) -> Result<(), NodeError> {
    let mut names = fleet.clusters.iter().map(|node| node.name.as_str());
    if names.clone().any(|known| known == name) {
        return Ok(());
    }
    Err(NodeError::NoNode {
        name: name.to_owned(),
        near: near::offer(name, names.by_ref()),
    })
}

/// Checks that a NodeModule is about this Node: it selects it, or has something on it.
pub fn check_selected(fleet: &Fleet, name: &str, node: &str) -> Result<(), NodeError> {
    let view = find_node_module(fleet, name)?;
    check_node(fleet, node)?;
    let mut cells = view.cells.iter();
    let is_concerned = cells.any(|cell| cell.cluster == node && cell.shape != Shape::NotSelected);
    if is_concerned {
        return Ok(());
    }
    let (module, node) = (name.to_owned(), node.to_owned());
    Err(NodeError::NotSelected { module, node })
}

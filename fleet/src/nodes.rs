//! The nodes of a cluster, and the NodeModules that roll over them: the cluster is the one of the context.

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

use crate::{Tell, name::ModuleName, near};

/// From a change to the next look, so that a burst of changes is one.
const GATHER: Duration = Duration::from_millis(200);
/// How often is looked without a change: ages tick, and a watch may have missed one.
const TICK: Duration = Duration::from_secs(10);

/// What is wrong with what was asked about nodes.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The kinds are not there.
    #[error(
        "NodeModules are not served by this cluster: they are in the clusters whose nodes they configure; next: name one of these with --context or --kubeconfig"
    )]
    NotServed,
    /// There is no such NodeModule.
    #[error(
        "there is no nodemodule/{name} in this cluster{near}; next: muster get nodemodules, or name another cluster with --context"
    )]
    NoModule {
        /// What was asked for.
        name: String,
        /// Names that are near.
        near: String,
    },
    /// There is no such Node.
    #[error("there is no Node {name} in this cluster{near}; next: kubectl get nodes")]
    NoNode {
        /// What was asked for.
        name: String,
        /// Names that are near.
        near: String,
    },
    /// The NodeModule is not about it.
    #[error(
        "nodemodule/{module} does not select Node {node}; next: muster why nodemodule/{module} --node {}",
        shell_word(node)
    )]
    NotSelected {
        /// The NodeModule.
        module: String,
        /// The Node.
        node: String,
    },
    /// Clusters and nodes are named by flags of their own.
    #[error("--clusters is for modules, and {module} rolls over nodes; next: name nodes with --node")]
    NotClusters {
        /// What was asked about.
        module: ModuleName,
    },
    /// The same, the other way round.
    #[error("--node is for NodeModules, and {what} is none; next: write nodemodule/NAME")]
    NotNodes {
        /// What was asked about.
        what: String,
    },
    /// The verb is about nodes alone.
    #[error("this is for NodeModules, and {module} is none; next: muster why {module}")]
    NotANodeModule {
        /// What was asked about.
        module: ModuleName,
    },
}

/// Reads everything that a view of the nodes needs.
pub async fn objects(client: &Client) -> anyhow::Result<NodeObjects> {
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

/// Whether NodeModules are served here.
pub async fn check_served(client: &Client) -> Result<(), NodeError> {
    match list::<NodeModule>(client).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Err(NodeError::NotServed),
        // What else is wrong is told by the call that needs them.
        _ => Ok(()),
    }
}

/// The Leases of the agents. Who may not read them is shown none.
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
    Ok(Fleet::of_nodes(&objects(client).await?))
}

/// Calls `show` with the nodes as they are, at each change, until it breaks off; gives what it breaks off with.
///
/// What is wrong at first is an error. What fails later is told once by `tell`, and tried again.
pub async fn watch<T>(
    client: &Client,
    tell: &dyn Tell,
    mut show: impl FnMut(&NodeObjects, &Fleet) -> anyhow::Result<ControlFlow<T>>,
) -> anyhow::Result<T> {
    let mut now = objects(client).await?;
    let mut changes = stream::select_all([
        changes::<NodeModule>(client)?,
        changes::<NodeAssemblage>(client)?,
        changes::<Node>(client)?,
    ]);
    let mut told = String::new();
    loop {
        if let ControlFlow::Break(end) = show(&now, &Fleet::of_nodes(&now))? {
            return Ok(end);
        }
        // The end of a tick and a change are the same here: look again, once for all that changes until that may be.
        let _ = timeout(TICK, changes.next()).await;
        let gather = Box::pin(tokio::time::sleep(GATHER));
        changes.by_ref().take_until(gather).for_each(future::ready).await;
        match objects(client).await {
            Ok(fresh) => {
                told.clear();
                now = fresh;
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                if told != trouble {
                    tell.warn(&format!("warning: {trouble}; it is tried again"));
                }
                told = trouble;
            }
        }
    }
}

/// Something for each change of an object of a kind.
fn changes<K>(client: &Client) -> anyhow::Result<stream::BoxStream<'static, ()>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let events = watcher(api.for_watching()?, watcher::Config::default()).default_backoff();
    Ok(events.map(drop).boxed())
}

/// A NodeModule of the view.
pub fn module<'a>(fleet: &'a Fleet, name: &str) -> Result<&'a ModuleView, NodeError> {
    fleet
        .module(Kind::NodeModule, name)
        .ok_or_else(|| NodeError::NoModule {
            name: name.to_owned(),
            near: near::offer(name, fleet.modules.iter().map(|view| view.name.as_str())),
        })
}

/// Whether there is such a Node.
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

/// Whether a NodeModule is about this Node: it selects it, or has something on it.
pub fn check_selected(fleet: &Fleet, name: &str, node: &str) -> Result<(), NodeError> {
    let view = module(fleet, name)?;
    check_node(fleet, node)?;
    let mut cells = view.cells.iter();
    let is_concerned = cells.any(|cell| cell.cluster == node && cell.shape != Shape::NotSelected);
    if is_concerned {
        return Ok(());
    }
    let (module, node) = (name.to_owned(), node.to_owned());
    Err(NodeError::NotSelected { module, node })
}

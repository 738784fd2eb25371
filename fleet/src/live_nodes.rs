//! A live view of the rollouts over the nodes of a cluster.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Client, Resource, runtime::watcher::Event};
use muster_api::node::{NodeAssemblage, NodeBudget, NodeModule, NodeRevision};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::Guard;
use muster_dashboard::{NodeObjects, Trouble};
use serde::de::DeserializeOwned;

use crate::{
    held::Held,
    nodes,
    watched::{is_refused, watch_events},
};

/// How often it is checked whether NodeModules are served, and may be read.
const UNTIL_SERVED: Duration = Duration::from_mins(1);
/// How often the Leases of agents are read: each is renewed every ten seconds, and a watch would deliver every renewal.
const BETWEEN_LEASES: Duration = Duration::from_secs(30);

/// An item from one of the watches.
pub(crate) enum Change {
    Module(Box<Event<Guard<NodeModule>>>),
    Assemblage(Box<Event<Guard<NodeAssemblage>>>),
    Node(Box<Event<Guard<Node>>>),
    Revision(Box<Event<Guard<NodeRevision>>>),
    Budget(Box<Event<Guard<NodeBudget>>>),
    Leases(Vec<Arc<Lease>>),
    /// A watch failed, and is retried.
    Failed(Kind, String),
}

/// The kind of a watch.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Modules,
    Assemblages,
    Nodes,
    Revisions,
    Budgets,
}

/// The objects of all watches.
#[derive(Debug)]
pub(crate) struct LiveNodes {
    modules: Held<NodeModule>,
    assemblages: Held<NodeAssemblage>,
    nodes: Held<Node>,
    revisions: Held<NodeRevision>,
    budgets: Held<NodeBudget>,
    leases: Vec<Arc<Lease>>,
}

impl Default for LiveNodes {
    fn default() -> Self {
        Self {
            modules: Held::new("nodemodules"),
            assemblages: Held::new("nodeassemblages"),
            nodes: Held::new("nodes"),
            revisions: Held::new("noderevisions"),
            budgets: Held::new("nodebudgets"),
            leases: Vec::new(),
        }
    }
}

impl LiveNodes {
    /// Handles a change; returns whether the view changed.
    pub(crate) fn handle(&mut self, change: Change, now: Timestamp) -> bool {
        match change {
            Change::Module(event) => self.modules.event(&event, now),
            Change::Assemblage(event) => self.assemblages.event(&event, now),
            Change::Node(event) => self.nodes.event(&event, now),
            Change::Revision(event) => self.revisions.event(&event, now),
            Change::Budget(event) => self.budgets.event(&event, now),
            Change::Leases(leases) => {
                let is_news = self.leases != leases;
                self.leases = leases;
                is_news
            }
            Change::Failed(kind, why) => match kind {
                Kind::Modules => self.modules.failed(why, now),
                Kind::Assemblages => self.assemblages.failed(why, now),
                Kind::Nodes => self.nodes.failed(why, now),
                Kind::Revisions => self.revisions.failed(why, now),
                Kind::Budgets => self.budgets.failed(why, now),
            },
        }
    }

    /// Whether all kinds that views need were read at least once.
    pub(crate) fn is_read(&self) -> bool {
        self.modules.is_read() && self.assemblages.is_read() && self.nodes.is_read()
    }

    /// The objects; `None` until all kinds that views need were read.
    pub(crate) fn objects(&self) -> NodeObjects {
        if !self.is_read() {
            return NodeObjects::default();
        }
        NodeObjects {
            modules: self.modules.all(),
            assemblages: self.assemblages.all(),
            nodes: self.nodes.all(),
            leases: self.leases.clone(),
            revisions: self.revisions.all(),
            budgets: self.budgets.all(),
        }
    }

    /// What cannot be read.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.modules
            .troubles()
            .chain(self.assemblages.troubles())
            .chain(self.nodes.troubles())
            .chain(self.revisions.troubles())
            .chain(self.budgets.troubles())
    }
}

/// The watches, once NodeModules are served and may be read: rarely in a management cluster, and not by every user.
pub(crate) fn watches(client: Client) -> BoxStream<'static, Change> {
    let served = async move {
        let modules: Api<Guard<NodeModule>> = Api::all(client.clone());
        while is_refused(&modules, &[403, 404]).await {
            tokio::time::sleep(UNTIL_SERVED).await;
        }
        stream::select_all([
            watch(&client, Kind::Modules, Change::Module),
            watch(&client, Kind::Assemblages, Change::Assemblage),
            watch(&client, Kind::Nodes, small),
            watch(&client, Kind::Revisions, Change::Revision),
            watch(&client, Kind::Budgets, Change::Budget),
            leases(client),
        ])
    };
    stream::once(served).flatten().boxed()
}

fn watch<K>(
    client: &Client,
    kind: Kind,
    to_change: fn(Box<Event<Guard<K>>>) -> Change,
) -> BoxStream<'static, Change>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api: Api<Guard<K>> = Api::all(client.clone());
    let fail = move |why| Change::Failed(kind, why);
    watch_events(api, fail, move |event| to_change(Box::new(event)))
}

/// Drops the fields of a Node that no page shows, which are most of it.
fn small(event: Box<Event<Guard<Node>>>) -> Change {
    let event = event.modify(|Guard(node)| {
        if let Ok(node) = node {
            node.metadata.managed_fields = None;
            if let Some(status) = &mut node.status {
                status.images = None;
            }
        }
    });
    Change::Node(Box::new(event))
}

fn leases(client: Client) -> BoxStream<'static, Change> {
    let read = |(client, pause): (Client, Duration)| async move {
        tokio::time::sleep(pause).await;
        let leases = nodes::leases(&client).await;
        Some((Change::Leases(leases), (client, BETWEEN_LEASES)))
    };
    stream::unfold((client, Duration::ZERO), read).boxed()
}

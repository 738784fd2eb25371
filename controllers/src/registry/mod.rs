//! The clusters of one namespace: which exist, whether they are ready for rollouts, and the client for each.
//!
//! ```text
//!   Clusters ──watch──► Facts (row a-c) ┐
//!   Secrets ──watch/read──► Access (d,e) ├─► decide (pure) ─► ClusterRow ─► subscribe(), get(), list()
//!   downstream ──probe──► Contact (f,g) ┤                        └─ Connection ─► gate ─► bounds ─► client()
//!                     └─► Sight ─ judge ┘ (e: another cluster than the recorded one)
//! ```
//!
//! Invariant: a client exists only for a kubeconfig that passed the allow-list of [`kubeconfig`]; no file, process,
//! proxy or redirect that a Secret names is ever opened.
//! Invariant: a cluster disappears only by its deletion or a complete list without it.
//! Invariant: nothing is sent with a credential before it was checked that it leads to the same cluster as at first
//! contact.
//! Invariant: a panic while a cluster is handled affects only that cluster: it is unreachable, and retried.
//! Invariant: no cluster waits for another: probes have their own deadlines, and the slots, deadlines and size limits
//! of calls are per cluster.

mod actor;
mod bounds;
mod connection;
mod contact;
mod entry;
mod identity;
pub mod kubeconfig;
mod network;
mod owners;
mod pins;
mod probe;
mod remote;
mod row;
mod state;
mod watching;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::Stream;
use kube::Client;
use muster_api::cluster::NotReady;
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use thiserror::Error;
use tokio::sync::{Notify, watch};

use self::connection::Connection;
pub use self::{
    connection::{Connect, ConnectError, connect_by_server},
    kubeconfig::{Access, KubeconfigError},
    network::{configuration, connect_over_network},
    remote::{RemoteClients, RemoteError},
    row::{ClusterRow, ClusterState, owner},
    state::state_from_object,
};
use crate::hosts::Hosts;
use crate::runtime::{CallError, Changes, Clock, Jitter, Panicked, Shutdown, isolated_future};

/// The pause after a panic that is not limited to one cluster.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// The dependencies of a registry.
pub struct Setup {
    /// The client for the API server with Clusters and Secrets.
    pub client: Client,
    /// The namespace of Clusters and Secrets.
    pub namespace: String,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// Creates a client from a kubeconfig: [`connect_over_network`], or the in-process servers of a test.
    pub connect: Connect,
    /// Proxies that a kubeconfig may name.
    pub proxy_hosts: Hosts,
}

/// The clusters of one namespace. [`Registry::run`] keeps it up to date; without that it stays empty, as in an agent.
pub struct Registry {
    setup: Setup,
    clusters: RwLock<BTreeMap<String, Published>>,
    changes: Changes<String>,
    synced: watch::Sender<bool>,
    /// Connections for kubeconfigs that do not belong to a Cluster, by namespace, Secret and key.
    others: RwLock<BTreeMap<(String, String, String), Arc<Connection>>>,
    /// The counter of panics, once set.
    panics: OnceLock<Counter>,
}

/// What readers of the registry get of a cluster.
#[derive(Clone)]
struct Published {
    row: Arc<ClusterRow>,
    connection: Option<Arc<Connection>>,
    /// Triggers the next probe early.
    poke: Arc<Notify>,
}

/// A cluster that has no client now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}: {message}")]
pub struct NotConnected {
    /// The reason code.
    pub reason: NotReady,
    /// The message: what, where, what to do.
    pub message: String,
}

impl Registry {
    /// A registry without clusters.
    pub fn new(setup: Setup) -> Arc<Self> {
        Arc::new(Self {
            setup,
            clusters: RwLock::default(),
            changes: Changes::default(),
            synced: watch::Sender::new(false),
            others: RwLock::default(),
            panics: OnceLock::new(),
        })
    }

    /// Watches Clusters and Secrets, probes, and publishes rows, until shutdown. Dropping the future cancels everything
    /// at once.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.act() => {}
        }
    }

    /// Restarts the actor after a panic that is not limited to one cluster: what is published stays until the new actor
    /// updates it.
    async fn act(&self) {
        while let Err(panicked) = isolated_future(actor::Actor::new(self).run()).await {
            self.note_panic("keeping the clusters up to date", &panicked);
            tokio::time::sleep(AFTER_PANIC).await;
        }
    }

    /// Sets the counter of panics.
    pub(crate) fn count_panics(&self, counter: Counter) {
        // The first counter stays: a process has one registry and one set of metrics.
        let _ = self.panics.set(counter);
    }

    /// Logs and counts a panic.
    fn note_panic(&self, what: &str, panicked: &Panicked) {
        panicked.log(what);
        if let Some(counter) = self.panics.get() {
            counter.inc();
        }
    }

    /// Waits until the clusters are known: a complete list, and for each cluster a first answer or failure, but at most
    /// 5 s for those.
    pub async fn synced(&self) {
        // The sender lives as long as `self`: the only error is unreachable.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the clusters are known. Before that, an absent cluster proves nothing.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The names of clusters whose row changed, starting with all present ones; repeated changes are merged until they
    /// are read.
    pub fn subscribe(&self) -> impl Stream<Item = String> + Send + 'static + use<> {
        self.changes
            .subscribe(self.clusters.read().keys().cloned().collect())
    }

    /// The row of a cluster; `None` if there is no such Cluster.
    pub fn get(&self, cluster: &str) -> Option<Arc<ClusterRow>> {
        self.clusters
            .read()
            .get(cluster)
            .map(|published| Arc::clone(&published.row))
    }

    /// All rows, sorted by name.
    pub fn list(&self) -> Vec<Arc<ClusterRow>> {
        self.clusters
            .read()
            .values()
            .map(|published| Arc::clone(&published.row))
            .collect()
    }

    /// Reads the uid of the Cluster with this name; `None` if there is none. Unlike the watched state, this is never
    /// stale, and costs two reads.
    pub async fn read_uid(&self, cluster: &str) -> Result<Option<String>, CallError> {
        let Setup {
            client, namespace, ..
        } = &self.setup;
        watching::read_uid(client, namespace, cluster).await
    }

    /// The client of a cluster that is ready, or lacks only the kind Assemblage. Calls wait for a slot, end after 32 s
    /// at the latest, and are sent only to the recorded cluster; a caller may set a shorter deadline
    /// ([`crate::runtime::call_within`]).
    pub fn client(&self, cluster: &str) -> Result<Client, NotConnected> {
        let clusters = self.clusters.read();
        let Some(published) = clusters.get(cluster) else {
            return Err(NotConnected {
                reason: NotReady::Deleting,
                message: format!(
                    "there is no Cluster {cluster} in namespace {}",
                    self.setup.namespace
                ),
            });
        };
        match (published.row.bootstrap_state(), &published.connection) {
            (ClusterState::NotReady { reason, message }, _) => Err(NotConnected { reason, message }),
            (ClusterState::Ready, Some(connection)) => Ok(connection.client()),
            (ClusterState::Ready, None) => Err(NotConnected {
                reason: NotReady::Unreachable,
                message: format!("the API server of {cluster} has not been contacted yet"),
            }),
        }
    }

    /// Triggers a probe at once, after a call to the cluster failed.
    pub fn suspect(&self, cluster: &str) {
        if let Some(published) = self.clusters.read().get(cluster) {
            published.poke.notify_one();
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("clusters", &self.list())
            .finish_non_exhaustive()
    }
}

//! What a reconcile may use: one value, made by the wiring, shared by all controllers of a process.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use kube::Client;
use muster_sync::{proxy::Proxies, source::Source};

use super::{Clock, Events, Jitter, Shutdown};
use crate::{
    hosts::Hosts,
    metrics::Metrics,
    node::configured::StartupTaint,
    registry::{Registry, RemoteClients},
};

/// Who carries the Flux kinds out in the cluster of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// muster itself.
    Builtin,
    /// Flux: muster writes the Flux kinds and reads their status.
    Flux,
}

impl SyncMode {
    /// As `--sync` names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Flux => muster_api::features::FLUX,
        }
    }
}

/// A kind that bindings may read, beyond ConfigMap and Cluster (`--binding-kinds`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BindingKind {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// The kind's name in the singular, as in `kind`.
    pub kind: String,
}

/// The flags of `controller` and `agent` that controllers read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who carries the Flux kinds out.
    pub sync: SyncMode,
    /// How often a mirrored assemblage is read when it cannot be watched.
    pub proxy_poll_interval: Duration,
    /// What bindings, and conditions of gates, may read.
    pub binding_kinds: BTreeSet<BindingKind>,
    /// Where decisions of modules are put on record, if anywhere.
    pub record_decisions: Option<PathBuf>,
    /// An agent rolls NodeModules over the nodes of its cluster; taints that go once a node is configured for the first time.
    pub nodes: Option<Vec<StartupTaint>>,
    /// A controller rolls the versions of ClusterUpgrades over Clusters.
    pub upgrades: bool,
    /// Proxies on the way to git, gates and receivers.
    pub proxies: Proxies,
    /// Proxies that Secrets and kubeconfigs may name.
    pub proxy_hosts: Hosts,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: SyncMode::Builtin,
            proxy_poll_interval: Duration::from_secs(20),
            binding_kinds: BTreeSet::new(),
            record_decisions: None,
            nodes: None,
            upgrades: false,
            proxies: Proxies::default(),
            proxy_hosts: Hosts::default(),
        }
    }
}

/// What every reconcile may use. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The API server that this process belongs to.
    pub client: Client,
    /// The namespace that this process works in.
    pub namespace: String,
    /// The flags.
    pub options: Arc<Options>,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// Where configuration comes from.
    pub source: Arc<dyn Source>,
    /// The clusters; without any in an agent.
    pub registry: Arc<Registry>,
    /// Clients for Kustomizations with `spec.kubeConfig`.
    pub remote: Arc<dyn RemoteClients>,
    /// Writes events.
    pub events: Events,
    /// How long nobody led before this process did: no unit's deadline runs in it. Zero without a lease.
    pub gap: Duration,
    /// What this process counts of itself.
    pub metrics: Metrics,
    /// Cancelled when the process is to end.
    pub shutdown: Shutdown,
}

/// What a [`super::Runner`] needs: less than a [`Context`], for processes without clusters and sources.
#[derive(Clone)]
pub struct Base {
    /// The API server that this process belongs to.
    pub client: Client,
    /// The namespace that this process works in.
    pub namespace: String,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// What this process counts of itself.
    pub metrics: Metrics,
    /// Cancelled when the process is to end.
    pub shutdown: Shutdown,
}

impl From<&Context> for Base {
    fn from(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            namespace: context.namespace.clone(),
            jitter: context.jitter.clone(),
            metrics: context.metrics.clone(),
            shutdown: context.shutdown.clone(),
        }
    }
}

impl From<&Self> for Base {
    fn from(base: &Self) -> Self {
        base.clone()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("namespace", &self.namespace)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

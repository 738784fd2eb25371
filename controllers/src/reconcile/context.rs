//! What a reconcile may use: one value, made by the wiring, shared by all controllers of a process.

use std::{sync::Arc, time::Duration};

use kube::Client;
use muster_sync::source::Source;

use super::Options;
use crate::{
    metrics::Metrics,
    registry::{Registry, RemoteClients},
    runtime::{Clock, Events, Jitter, Shutdown},
};

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

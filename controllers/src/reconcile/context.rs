//! The context of a reconcile: created once at startup, and shared by all controllers of a process.

use std::{sync::Arc, time::Duration};

use kube::Client;
use muster_sync::source::Source;

use super::Options;
use crate::{
    metrics::Metrics,
    registry::{Registry, RemoteClients},
    runtime::{Clock, Events, Jitter, Shutdown},
};

/// Clients and settings for every reconcile. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The client for the API server of this process's cluster.
    pub client: Client,
    /// The namespace that this process watches.
    pub namespace: String,
    /// The flags that controllers read.
    pub options: Arc<Options>,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// Reads git repositories.
    pub source: Arc<dyn Source>,
    /// The cluster registry; empty in an agent.
    pub registry: Arc<Registry>,
    /// Clients for Kustomizations with `spec.kubeConfig`.
    pub remote: Arc<dyn RemoteClients>,
    /// Writes events.
    pub events: Events,
    /// How long there was no leader before this process took over: that time counts against no unit's deadline. Zero
    /// without a Lease.
    pub gap: Duration,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// Cancelled when the process shuts down.
    pub shutdown: Shutdown,
}

/// What a [`super::Runner`] needs: less than a [`Context`], for processes without clusters and sources.
#[derive(Clone)]
pub struct Base {
    /// The client for the API server of this process's cluster.
    pub client: Client,
    /// The namespace that this process watches.
    pub namespace: String,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// Cancelled when the process shuts down.
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

//! The context of controllers, with an API server in this process.

use std::{sync::Arc, time::Duration};

use kube::Client;
use muster_controllers::{
    hosts::Hosts,
    metrics::Metrics,
    reconcile::{Context, Options},
    registry::{Connect, Registry, Setup},
    runtime::{Clock, Events, Jitter, Shutdown},
};
use muster_sync::source::Source;

/// A new context, with a registry that does not run.
pub(crate) fn context(
    client: Client,
    namespace: &str,
    clock: Clock,
    source: Arc<dyn Source>,
    connect: Connect,
) -> Context {
    let jitter = Jitter::seeded(1);
    let registry = Registry::new(Setup {
        proxy_hosts: Hosts::default(),
        client: client.clone(),
        namespace: namespace.to_owned(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect,
    });
    Context {
        events: Events::new(client.clone(), "muster", "test", clock.clone()),
        client,
        namespace: namespace.to_owned(),
        options: Arc::new(Options::default()),
        clock,
        jitter,
        source,
        remote: registry.clone(),
        registry,
        gap: Duration::ZERO,
        metrics: Metrics::default(),
        shutdown: Shutdown::new(),
    }
}

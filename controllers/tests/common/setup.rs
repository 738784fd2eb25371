//! A process as the command starts it, with an API server in this process: without a lease and without a metrics
//! listener.

use std::sync::Arc;

use kube::Client;
use muster_controllers::{
    gates,
    metrics::Metrics,
    process::Setup,
    reconcile::Options,
    registry::Connect,
    runtime::{Clock, Jitter, Shutdown},
};
use muster_sync::source::Source;

/// The dependencies of such a process.
pub(crate) fn setup(
    client: Client,
    namespace: &str,
    clock: Clock,
    source: Arc<dyn Source>,
    connect: Connect,
) -> Setup {
    Setup {
        client,
        namespace: namespace.to_owned(),
        options: Options::default(),
        clock,
        jitter: Jitter::seeded(1),
        source,
        connect,
        gates: gates::Access::default(),
        notify: None,
        instance: "test".to_owned(),
        lease: None,
        door: None,
        metrics: Metrics::default(),
        shutdown: Shutdown::new(),
    }
}

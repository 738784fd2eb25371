//! muster's Module controller in a process of its own, as `muster controller` wires it, without the controllers behind the assemblages: those are
//! played. All clusters are one API server of this process, which is only asked whether it is there.

use std::{path::Path, sync::Arc, time::Duration};

use muster_api::{Module, crds, labels::SYSTEM_NAMESPACE};
use muster_apiserver::ApiServer;
use muster_controllers::{
    bindings::{Kinds, Objects},
    metrics::Metrics,
    module,
    registry::{self, Registry},
    runtime::{Clock, Context, Events, Jitter, Options, Shutdown},
};
use muster_sync::source::{self, MemorySource};

use crate::fleet;

/// Until it is ended.
pub async fn run(kubeconfig: &Path, namespace: &str) -> anyhow::Result<()> {
    let client = fleet::client(kubeconfig).await?;
    let everywhere = ApiServer::builder().in_process()?;
    fleet::namespace(&everywhere.client(), SYSTEM_NAMESPACE).await?;
    for kind in crds::downstream() {
        fleet::define(&everywhere.client(), &kind).await?;
    }
    let (clock, jitter) = (Clock::system(), Jitter::from_system());
    let now = clock.clone();
    let registry = Registry::new(registry::Setup {
        client: client.clone(),
        namespace: namespace.to_owned(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect: Arc::new(move |_| Ok(everywhere.client())),
    });
    let objects = Objects::new(client.clone(), namespace, Kinds::default());
    let context = Context {
        events: Events::new(client.clone(), "muster-controller", "bench", clock.clone()),
        client,
        namespace: namespace.to_owned(),
        options: Arc::new(Options::default()),
        source: Arc::new(MemorySource::new(source::Clock::new(move || now.now()))),
        clock,
        jitter,
        remote: registry.clone(),
        registry: Arc::clone(&registry),
        gap: Duration::ZERO,
        metrics: Metrics::default(),
        shutdown: Shutdown::new(),
    };
    let dependencies = Arc::<module::Dependencies>::default();
    println!("ready");
    tokio::join!(
        registry.run(context.shutdown.clone()),
        Arc::clone(&objects).run(context.shutdown.clone()),
        Arc::clone(&dependencies).run(context.clone()),
        module::run::<Module>(context.clone(), objects, dependencies),
    );
    Ok(())
}

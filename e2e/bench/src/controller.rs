//! muster's Module controller in its own process, wired as in `muster controller`, without the controllers that act on
//! assemblages: those are simulated. All clusters are one API server of this process under many identities; the
//! controller only probes it.

use std::{path::Path, sync::Arc, time::Duration};

use futures::{StreamExt, future};
use http_body_util::{BodyExt, Full};
use kube::{Client, client::Body};
use muster_api::{Module, ProxyAssemblage, crds, labels::SYSTEM_NAMESPACE};
use muster_apiserver::{ApiServer, InProcess};
use muster_controllers::{
    bindings::{Kinds, Objects},
    gates::{self, Evaluator},
    metrics::Metrics,
    module,
    reconcile::{Base, Context, Options},
    record::Decisions,
    registry::{self, Registry},
    rolloutwindow::WatchedWindows,
    runtime::{Clock, Events, Jitter, Shutdown},
};
use muster_sync::source::MemorySource;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tower::ServiceExt;

use crate::fleet;

/// Runs until it is killed.
pub(crate) async fn run(kubeconfig: &Path, namespace: &str) -> anyhow::Result<()> {
    let client = fleet::client(kubeconfig).await?;
    // The API server's request log must not count as memory of the controller.
    let everywhere = ApiServer::builder().log_limit(0).namespace(SYSTEM_NAMESPACE);
    let everywhere = everywhere.with(crds::downstream()).in_process()?;
    let (clock, jitter) = (Clock::system(), Jitter::from_system());
    let registry = Registry::new(registry::Setup {
        proxy_hosts: muster_controllers::hosts::Hosts::default(),
        client: client.clone(),
        namespace: namespace.to_owned(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect: Arc::new(move |access| Ok(client_for_address(everywhere.service(), &access.server))),
    });
    let objects = Objects::new(client.clone(), namespace, Kinds::default());
    let gates = Evaluator::new(gates::Setup {
        client: client.clone(),
        namespace: namespace.to_owned(),
        objects: Arc::clone(&objects),
        access: gates::Access::default(),
        clock: clock.clone(),
    });
    let context = context(client, namespace, &registry, (clock, jitter));
    let dependencies = Arc::<module::Dependencies>::default();
    let windows = Arc::<WatchedWindows>::default();
    let carriers = Arc::<module::Carriers<ProxyAssemblage>>::default();
    let proxies = carriers.watch(&Base::from(&context));
    println!("ready");
    let shutdown = context.shutdown.clone();
    let tasks = [
        tokio::spawn(registry.run(shutdown.clone())),
        tokio::spawn(Arc::clone(&objects).run(shutdown)),
        tokio::spawn(Arc::clone(&dependencies).run(context.clone())),
        tokio::spawn(Arc::clone(&windows).run(context.clone())),
        tokio::spawn(proxies.for_each(|_| future::ready(()))),
        tokio::spawn(module::run::<Module>(
            context.clone(),
            objects,
            dependencies,
            windows,
            gates,
            Decisions::default(),
            carriers,
        )),
    ];
    // A closed pipe means that the benchmark is gone.
    let alone = async {
        let mut nothing = Vec::new();
        tokio::io::stdin().read_to_end(&mut nothing).await
    };
    tokio::select! {
        _ = future::select_all(tasks) => anyhow::bail!("a controller ended"),
        _ = alone => Ok(()),
    }
}

/// What all controllers of a benchmark share: no packages, no metrics, no pauses between two passes.
pub(crate) fn context(
    client: Client,
    namespace: &str,
    registry: &Arc<Registry>,
    (clock, jitter): (Clock, Jitter),
) -> Context {
    let now = clock.clone();
    Context {
        events: Events::new(client.clone(), "muster-controller", "bench", clock.clone()),
        client,
        namespace: namespace.to_owned(),
        options: Arc::new(Options::default()),
        source: Arc::new(MemorySource::new(now)),
        clock,
        jitter,
        remote: registry.clone(),
        registry: Arc::clone(registry),
        gap: Duration::ZERO,
        metrics: Metrics::default(),
        shutdown: Shutdown::new(),
    }
}

/// Presents the server as a different one per address: two clusters with the same identity would be rejected.
fn client_for_address(server: InProcess, address: &str) -> Client {
    let identity = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": address, "resourceVersion": "1"},
    });
    let service = move |request: http::Request<Body>| {
        let (server, identity) = (server.clone(), identity.clone());
        async move {
            if request.uri().path() == "/api/v1/namespaces/kube-system" {
                let body = Full::from(identity.to_string()).map_err(|never| match never {});
                return Ok(http::Response::new(body.boxed_unsync()));
            }
            server.oneshot(request).await
        }
    };
    Client::new(tower::service_fn(service), "default")
}

//! The two processes, wired: which controllers run in each, what they share, and how they end.
//!
//! Invariant: a controller that ends by itself ends the process: a process that does only part of its work looks alive and is not.

use std::{future::Future, sync::Arc, time::Duration};

use kube::Client;
use muster_sync::source::Source;
use thiserror::Error;
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinSet},
};
use tracing::{info, warn};

use crate::{
    assemblage,
    bindings::{Kinds, Objects},
    gitrepository, kustomization,
    lease::Election,
    metrics::Metrics,
    module, proxyassemblage,
    registry::{self, Connect, Registry},
    remoteassemblage,
    runtime::{Clock, Context, Events, Jitter, Options, Shutdown, SyncMode},
};

/// How long reconciles in flight may take to finish after the order to end: the deadline of the longest call.
const FINISH: Duration = crate::runtime::call::CALL_DEADLINE;

/// What a process is made of; the command and the tests differ in nothing else.
pub struct Setup {
    /// The API server that the process belongs to.
    pub client: Client,
    /// The namespace that it works in.
    pub namespace: String,
    /// The flags.
    pub options: Options,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// Where configuration comes from.
    pub source: Arc<dyn Source>,
    /// How an accepted kubeconfig becomes a client.
    pub connect: Connect,
    /// Which of several replicas this is: shown in events, and as the holder of the lease.
    pub instance: String,
    /// Without it this process acts at once, and must be the only one.
    pub lease: Option<Election>,
    /// Where metrics and health are asked for, if anywhere.
    pub door: Option<TcpListener>,
    /// Cancelled when the process is to end.
    pub shutdown: Shutdown,
}

/// Why a process ended before it was told to.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// A controller returned.
    #[error("the controller {0} ended by itself: please report this as a defect of muster")]
    Ended(&'static str),
    /// A controller panicked.
    #[error("a controller panicked: please report this as a defect of muster")]
    Panicked(#[source] JoinError),
}

/// `muster controller`: the management cluster. Runs until shutdown. Dropping the future ends everything at once, as a crash does.
pub async fn controller(setup: Setup) -> Result<(), ProcessError> {
    let sync = setup.options.sync;
    let Parts { context, objects } = parts(setup, "muster-controller");
    let mut tasks = Tasks::new(context.shutdown.clone());
    tasks.spawn(
        "registry",
        Arc::clone(&context.registry).run(context.shutdown.clone()),
    );
    tasks.spawn("bindings", Arc::clone(&objects).run(context.shutdown.clone()));
    tasks.spawn(
        "module",
        module::run::<muster_api::Module>(context.clone(), Arc::clone(&objects)),
    );
    tasks.spawn(
        "bootstrapmodule",
        module::run::<muster_api::BootstrapModule>(context.clone(), Arc::clone(&objects)),
    );
    tasks.spawn(
        "proxyassemblage",
        proxyassemblage::run(context.clone(), Arc::clone(&objects)),
    );
    tasks.spawn(
        "remoteassemblage",
        remoteassemblage::run(context.clone(), objects),
    );
    tasks.spawn_sync(sync, &context);
    tasks.finish().await
}

/// `muster agent`: a downstream cluster. Runs until shutdown. Dropping the future ends everything at once, as a crash does.
pub async fn agent(setup: Setup) -> Result<(), ProcessError> {
    let sync = setup.options.sync;
    let Parts { context, objects } = parts(setup, "muster-agent");
    let mut tasks = Tasks::new(context.shutdown.clone());
    tasks.spawn("bindings", Arc::clone(&objects).run(context.shutdown.clone()));
    tasks.spawn("assemblage", assemblage::run(context.clone(), objects));
    tasks.spawn_sync(sync, &context);
    tasks.finish().await
}

/// What the controllers of a process share.
struct Parts {
    context: Context,
    objects: Arc<Objects>,
}

fn parts(setup: Setup, name: &str) -> Parts {
    let Setup {
        client,
        namespace,
        options,
        clock,
        jitter,
        source,
        connect,
        instance,
        lease: _,
        door: _,
        shutdown,
    } = setup;
    let registry = Registry::new(registry::Setup {
        client: client.clone(),
        namespace: namespace.clone(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect,
    });
    let objects = Objects::new(
        client.clone(),
        namespace.clone(),
        Kinds::new(&options.binding_kinds),
    );
    let context = Context {
        events: Events::new(client.clone(), name, instance, clock.clone()),
        client,
        namespace,
        options: Arc::new(options),
        clock,
        jitter,
        source,
        remote: registry.clone(),
        registry,
        gap: Duration::ZERO,
        metrics: Metrics::default(),
        shutdown,
    };
    Parts { context, objects }
}

/// The tasks of a process; dropping them ends them.
struct Tasks {
    set: JoinSet<&'static str>,
    shutdown: Shutdown,
}

impl Tasks {
    fn new(shutdown: Shutdown) -> Self {
        Self {
            set: JoinSet::new(),
            shutdown,
        }
    }

    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(async move {
            task.await;
            name
        });
    }

    /// The Flux kinds, where muster carries them out itself.
    fn spawn_sync(&mut self, mode: SyncMode, context: &Context) {
        match mode {
            SyncMode::Builtin => {
                self.spawn("gitrepository", gitrepository::run(context.clone()));
                self.spawn("kustomization", kustomization::run(context.clone()));
            }
            SyncMode::Flux => {}
        }
    }

    /// Waits for shutdown and then for the tasks; an end before that is an error.
    async fn finish(mut self) -> Result<(), ProcessError> {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            Some(ended) = self.set.join_next() => {
                // Both may have come at once.
                if !self.shutdown.is_cancelled() {
                    return Err(ended.map_or_else(ProcessError::Panicked, ProcessError::Ended));
                }
            }
        }
        info!("ending: what is in flight is finished");
        let all = async {
            while let Some(ended) = self.set.join_next().await {
                ended.map_err(ProcessError::Panicked)?;
            }
            Ok(())
        };
        tokio::time::timeout(FINISH, all)
            .await
            .unwrap_or_else(|_elapsed| {
                warn!(
                    seconds = FINISH.as_secs(),
                    "something in flight did not finish in time; it is cut off"
                );
                Ok(())
            })
    }
}

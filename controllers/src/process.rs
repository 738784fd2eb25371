//! The processes: which controllers run in each, what they share, when they start, and how they end.
//!
//! ```text
//!   http (metrics, health) ─► lease, if there is one ─► controllers ─┬─ shutdown ─► writes in flight finish ─► lease released
//!                                                                    └─ lease lost, or a controller ended ─► everything is dropped: an error
//! ```
//!
//! Invariant: when a controller ends, its process ends: a process that does only part of its work looks alive and is
//! not. Invariant: every write of a controller, to any API server, is refused here once the lease has expired by the
//! local clock.

mod machines;
mod outgoing;
mod signals;
mod tasks;
mod zones;

use std::{sync::Arc, time::Duration};

use kube::Client;
use muster_api::labels::manager;
use muster_sync::source::Source;
use thiserror::Error;
use tokio::{net::TcpListener, task::JoinError};
use tokio_util::task::AbortOnDropHandle;

pub use self::machines::{MachinesSetup, run_machines};
pub use self::signals::until_signalled;
pub use self::zones::{ZonesSetup, zones};
use self::{outgoing::Outgoing, tasks::Tasks};
pub use crate::machines::NAME as MACHINES;
use crate::{
    assemblage,
    bindings::{Kinds, Objects},
    gates::{self, Evaluator},
    gitrepository,
    health::Health,
    kustomization,
    lease::{Candidate, Election, Lost, Term},
    metrics::{Metrics, Target},
    module, node, notify, proxyassemblage,
    reconcile::{Base, Context, Options, SyncMode},
    record::{self, Decisions},
    registry::{self, Connect, Registry},
    remoteassemblage,
    rolloutwindow::{self, WatchedWindows},
    runtime::{Clock, Events, Jitter, Shutdown},
    upgrade,
    zones::PreflightError,
};

/// The dependencies of a process; the command and the tests differ in nothing else.
pub struct Setup {
    /// The client of the process's own cluster.
    pub client: Client,
    /// The namespace of the process.
    pub namespace: String,
    /// The command-line flags.
    pub options: Options,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// The source of configuration.
    pub source: Arc<dyn Source>,
    /// How an accepted kubeconfig becomes a client.
    pub connect: Connect,
    /// The hosts that gates may query.
    pub gates: gates::Access,
    /// The receivers of notifications, if any (`--notify-config`).
    pub notify: Option<Arc<notify::Config>>,
    /// The name of this replica: shown in events, and as the holder of the lease.
    pub instance: String,
    /// The settings of leader election. Without it this process acts at once, and must be the only one.
    pub lease: Option<Election>,
    /// The listener for metrics and probes, if any.
    pub door: Option<TcpListener>,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// Cancelled to end the process.
    pub shutdown: Shutdown,
}

/// Why a process ended without being asked to.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// A controller returned.
    #[error("the controller {0} ended unexpectedly: please report this as a bug in muster")]
    Ended(&'static str),
    /// A controller panicked.
    #[error("a controller panicked: please report this as a bug in muster")]
    Panicked(#[source] JoinError),
    /// This process lost the right to act.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A prerequisite is missing.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
}

/// `muster controller`: the management cluster. Runs until shutdown. Dropping the future ends everything at once, as a
/// crash does.
pub async fn controller(setup: Setup) -> Result<(), ProcessError> {
    Box::pin(run(
        setup,
        manager::CONTROLLER,
        |Parts {
             context,
             objects,
             gates,
             notify,
         },
         tasks| {
            let shutdown = &context.shutdown;
            tasks.spawn("registry", Arc::clone(&context.registry).run(shutdown.clone()));
            tasks.spawn("bindings", Arc::clone(&objects).run(shutdown.clone()));
            let decisions = decisions(&context, tasks);
            let dependencies = Arc::<module::Dependencies>::default();
            tasks.spawn("dependencies", Arc::clone(&dependencies).run(context.clone()));
            let windows = Arc::<WatchedWindows>::default();
            tasks.spawn("windows", Arc::clone(&windows).run(context.clone()));
            tasks.control("rolloutwindow", rolloutwindow::run(context.clone()));
            if context.options.upgrades {
                let setup = upgrade::Setup {
                    context: context.clone(),
                    windows: Arc::clone(&windows),
                };
                tasks.control("clusterupgrade", upgrade::run(setup));
            }
            let (proxies, remotes) = (Arc::default(), Arc::default());
            tasks.control(
                "module",
                module::run::<muster_api::Module>(
                    context.clone(),
                    Arc::clone(&objects),
                    Arc::clone(&dependencies),
                    Arc::clone(&windows),
                    Arc::clone(&gates),
                    decisions.clone(),
                    Arc::clone(&proxies),
                ),
            );
            tasks.control(
                "bootstrapmodule",
                module::run::<muster_api::BootstrapModule>(
                    context.clone(),
                    Arc::clone(&objects),
                    dependencies,
                    windows,
                    gates,
                    decisions,
                    Arc::clone(&remotes),
                ),
            );
            tasks.control(
                "proxyassemblage",
                proxyassemblage::run(context.clone(), Arc::clone(&objects), proxies),
            );
            tasks.control(
                "remoteassemblage",
                remoteassemblage::run(context.clone(), objects, remotes),
            );
            if let Some(config) = notify {
                tasks.control("notify", notify::run(context.clone(), config));
            }
            // A cluster that was not checked yet is not unreachable: nothing is reported about it before.
            let (registry, shutdown) = (Arc::clone(&context.registry), context.shutdown.clone());
            let clusters = async move {
                let _ = shutdown.run_until_cancelled(registry.synced()).await;
            };
            sync(&context, manager::CONTROLLER, tasks, clusters);
        },
    ))
    .await
}

/// `muster agent`: a downstream cluster. Runs until shutdown. Dropping the future ends everything at once, as a crash
/// does.
pub async fn run_agent(setup: Setup) -> Result<(), ProcessError> {
    Box::pin(run(
        setup,
        manager::AGENT,
        |Parts { context, objects, .. }, tasks| {
            tasks.spawn("bindings", Arc::clone(&objects).run(context.shutdown.clone()));
            if let Some(startup_taints) = context.options.nodes.clone() {
                tasks.control(
                    "nodemodule",
                    node::run::run(node::run::Setup {
                        base: Base::from(&context),
                        clock: context.clock.clone(),
                        objects: Arc::clone(&objects),
                        gap: context.gap,
                        events: context.events.clone(),
                        startup_taints,
                    }),
                );
            }
            tasks.control("assemblage", assemblage::run(context.clone(), objects));
            sync(&context, manager::AGENT, tasks, std::future::ready(()));
        },
    ))
    .await
}

/// The writer of decision records. It ends after the controllers of modules.
fn decisions(context: &Context, tasks: &mut Tasks) -> Decisions {
    let Some(directory) = context.options.record_decisions.clone() else {
        return Decisions::default();
    };
    let (decisions, keeper) = record::record_decisions(directory);
    tasks.spawn("record", keeper.run());
    decisions
}

/// The Flux kinds: reconciled here, or handed over to Flux if they were reconciled here before; in other clusters as
/// soon as `clusters` are known. `account` is the process's ServiceAccount.
fn sync(
    context: &Context,
    account: &'static str,
    tasks: &mut Tasks,
    clusters: impl Future<Output = ()> + Send + 'static,
) {
    match context.options.sync {
        SyncMode::Builtin => {
            tasks.control("gitrepository", gitrepository::run(context.clone()));
            let kustomizations = kustomization::run(context.clone());
            tasks.control("kustomization", async move {
                clusters.await;
                kustomizations.await;
            });
        }
        SyncMode::Flux => {
            let handover = kustomization::hand_over(context.clone(), account);
            tasks.control("handover", async move {
                clusters.await;
                handover.await;
            });
        }
    }
}

/// Runs a process. `name` is the name of its lease, and the source of its events.
async fn run(
    mut setup: Setup,
    name: &'static str,
    start: impl FnOnce(Parts, &mut Tasks),
) -> Result<(), ProcessError> {
    let metrics = setup.metrics.clone();
    let health = Health::new(metrics.clone());
    let door = setup.door.take();
    let _door = door.map(|door| AbortOnDropHandle::new(tokio::spawn(health.clone().serve(door))));
    let term = match setup.lease.take() {
        None => None,
        Some(election) => match lead(election, &setup, name).await {
            // Asked to end before it became the leader.
            None => return Ok(()),
            leading => leading,
        },
    };
    let leadership = term.as_ref().map(Term::leadership);
    health.acts(leadership.clone());
    let mut tasks = Tasks::new(setup.shutdown.clone(), metrics.clone());
    let gap = term.as_ref().map_or(Duration::ZERO, |term| term.gap);
    let outgoing = Outgoing::new(leadership, metrics);
    start(parts(setup, name, gap, &outgoing), &mut tasks);
    to_the_end(tasks, term).await
}

/// Runs the tasks until shutdown, or until the lease is lost; it is released when they have ended.
async fn to_the_end(mut tasks: Tasks, mut term: Option<Term>) -> Result<(), ProcessError> {
    let ended = tokio::select! {
        ended = tasks.finish() => ended,
        lost = keep(&mut term) => return Err(lost.into()),
    };
    drop(tasks);
    if let Some(term) = term {
        term.release().await;
    }
    ended
}

/// Waits for the lease; `None`: this process was asked to end first.
async fn lead(election: Election, setup: &Setup, name: &str) -> Option<Term> {
    let candidate = Candidate::new(
        election,
        &setup.namespace,
        name,
        &setup.instance,
        setup.clock.clone(),
        setup.jitter.clone(),
    );
    setup.shutdown.run_until_cancelled(candidate.stand()).await
}

/// Keeps the lease until it is lost; forever without leader election.
async fn keep(term: &mut Option<Term>) -> Lost {
    match term {
        Some(term) => term.keep().await,
        None => std::future::pending().await,
    }
}

/// The dependencies that the controllers of a process share.
struct Parts {
    context: Context,
    objects: Arc<Objects>,
    gates: Arc<Evaluator>,
    notify: Option<Arc<notify::Config>>,
}

fn parts(setup: Setup, name: &str, gap: Duration, outgoing: &Outgoing) -> Parts {
    let Setup {
        client,
        namespace,
        options,
        clock,
        jitter,
        source,
        connect,
        gates: access,
        notify,
        instance,
        lease: _,
        door: _,
        metrics: _,
        shutdown,
    } = setup;
    let client = outgoing.client(client, Target::Own);
    let (metrics, guard) = (outgoing.metrics.clone(), outgoing.clone());
    let registry = Registry::new(registry::Setup {
        proxy_hosts: options.proxy_hosts.clone(),
        client: client.clone(),
        namespace: namespace.clone(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect: Arc::new(move |access| Ok(guard.client(connect(access)?, Target::Cluster))),
    });
    metrics.clusters(Arc::clone(&registry));
    let objects = Objects::new(
        client.clone(),
        namespace.clone(),
        Kinds::new(&options.binding_kinds),
    );
    let gates = Evaluator::new(gates::Setup {
        client: client.clone(),
        namespace: namespace.clone(),
        objects: Arc::clone(&objects),
        access,
        clock: clock.clone(),
    });
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
        gap,
        metrics,
        shutdown,
    };
    Parts {
        context,
        objects,
        gates,
        notify,
    }
}

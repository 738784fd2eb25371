//! `muster machines`: the hooks of Cluster API, answered by the process that holds the lease: updates in progress are
//! in its memory.
//!
//! ```text
//!   certificate ─► caBundle of the ExtensionConfig
//!   lease ─► watches of Machines and UpdatePlans ─► ready ─► hooks, calls to updaters
//! ```

use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::{Outgoing, ProcessError, Tasks, to_the_end};
use crate::{
    admission::{
        keeper::{Keeper, Storage},
        server::{Answers, Server},
    },
    health::Health,
    lease::{Candidate, Election, Term},
    machines::{
        NAME,
        config::Updater,
        extension,
        hooks::{ANSWERED_WITHIN, Hooks},
        run::{self, Setup},
        updaters::Call,
    },
    metrics::{Metrics, Target},
    registry::Connect,
    runtime::{Clock, Jitter, Shutdown},
};

/// The dependencies of the process; the command and the tests differ in nothing else.
pub struct MachinesSetup {
    /// The client of the management cluster.
    pub client: Client,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The updaters, in order.
    pub updaters: Vec<Updater>,
    /// The clients of the updaters.
    pub call: Arc<dyn Call>,
    /// How clients are created for the Clusters whose Nodes are prepared for updates.
    pub connect: Connect,
    /// Where the certificate is stored.
    pub storage: Storage,
    /// The listener for the hooks.
    pub hooks: TcpListener,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// The name of this replica's pod.
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

/// Runs until shutdown. Dropping the future ends everything at once, as a crash does.
pub async fn run_machines(setup: MachinesSetup) -> Result<(), ProcessError> {
    let MachinesSetup {
        client,
        namespace,
        updaters,
        call,
        connect,
        storage,
        hooks: listener,
        clock,
        jitter,
        instance,
        lease,
        door,
        metrics,
        shutdown,
    } = setup;
    let health = Health::new(metrics.clone()).ready_when_synced();
    let mut tasks = Tasks::new(shutdown.clone(), metrics.clone());
    // Registered here, as not synced: without the lease no hook is answered, so the Service must not route requests
    // here.
    let read = metrics.controller("machines");
    let _door = door.map(|door| AbortOnDropHandle::new(tokio::spawn(health.clone().serve(door))));
    let outgoing = Outgoing::before_the_lease(metrics);
    let guarded = outgoing.client(client.clone(), Target::Own);
    let guard = outgoing.clone();
    let (keeper, shown, authorities) = Keeper::new(client.clone(), clock.clone(), storage);
    tasks.spawn("certificate", keeper.run(shutdown.clone()));
    let term = match lease {
        None => None,
        Some(election) => {
            let candidate = Candidate::new(
                election,
                &namespace,
                NAME,
                &instance,
                clock.clone(),
                jitter.clone(),
            );
            tokio::select! {
                term = candidate.stand() => Some(term),
                ended = tasks.finish() => return ended,
            }
        }
    };
    let leadership = term.as_ref().map(Term::leadership);
    outgoing.lead(leadership.clone());
    health.acts(leadership);
    let (hooks, running) = run::start(Setup {
        client: guarded.clone(),
        updaters,
        call,
        connect: Arc::new(move |access| Ok(guard.client(connect(access)?, Target::Cluster))),
        namespace,
        jitter,
        instance,
        clock,
        shutdown: shutdown.clone(),
    });
    tasks.spawn("updates", running);
    tasks.spawn(
        "bundle",
        extension::keep_extension_bundle(guarded, NAME, authorities, shutdown.clone()),
    );
    let server = Server {
        listener,
        shown: shown.clone(),
        answers: answers(Arc::clone(&hooks)),
        deadline: ANSWERED_WITHIN,
        shutdown,
    };
    tasks.spawn("hooks", async move {
        tokio::join!(
            async {
                shown.known().await;
                hooks.read().await;
                read.synced();
            },
            async {
                if let Err(error) = server.run().await {
                    error!(%error, "TLS could not be set up");
                }
            }
        );
    });
    to_the_end(tasks, term).await
}

fn answers(hooks: Arc<Hooks>) -> Answers {
    Arc::new(move |request| {
        let hooks = Arc::clone(&hooks);
        Box::pin(async move { hooks.answer(request).await })
    })
}

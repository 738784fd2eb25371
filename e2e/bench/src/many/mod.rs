//! Many modules on each cluster: the cost of an assignment per process, and whether it grows with the number of
//! modules.
//!
//! ```text
//!   this process ── Modules ──► management API server ◄──relay── muster controller ──relay──► API servers ◄──relay── muster agent
//!        └── git repository                                                            (one process)          (one for each cluster)
//! ```
//!
//! API servers, controller and agents are separate processes, and the management API server may be a kube-apiserver;
//! every connection uses TLS and passes a relay that counts its bytes.

mod management;
mod observer;
mod processes;
mod report;
mod repository;
mod rollout;
mod servers;
mod world;

use std::path::PathBuf;

use muster_controllers::process::until_signalled;

pub(crate) use self::servers::serve;
use self::{report::Row, world::World};

/// Sizes of the fleet.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Clusters, each with an API server and an agent
    #[arg(long, default_value_t = 10)]
    clusters: usize,
    /// Modules on every cluster, one figure for each
    #[arg(long, value_delimiter = ',', default_values_t = [10, 40, 120])]
    modules: Vec<usize>,
    /// Stages that the clusters are split into, rolled out one after the other
    #[arg(long, default_value_t = 1)]
    stages: usize,
    /// The management cluster is a kube-apiserver on its etcd (`cargo xtask real build`)
    #[arg(long)]
    real: bool,
    /// Keep the logs of the processes in this directory
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,
}

/// Measures and prints. A signal ends the benchmark and its processes.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<()> {
    let interrupt = until_signalled()?;
    tokio::select! {
        done = all(plan) => done,
        () = interrupt.cancelled() => anyhow::bail!("it was interrupted"),
    }
}

async fn all(plan: &Plan) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for &modules in &plan.modules {
        rows.push(one(plan, modules).await?);
        report::print(plan, &rows);
    }
    Ok(())
}

/// A new environment, two versions, a restart halfway through the third, and half a minute of rest; the limit is
/// observed during the rollouts.
async fn one(plan: &Plan, modules: usize) -> anyhow::Result<Row> {
    let mut world = World::start(plan).await?;
    let first = rollout::version(&mut world, modules, 1).await?;
    let second = rollout::version(&mut world, modules, 2).await?;
    world.observer.pause();
    let flips = rollout::flips(&world).await?;
    world.observer.resume();
    let restart = rollout::restart(&mut world, modules, 3).await?;
    let rest = rollout::rest(&mut world).await?;
    let (most, allowed) = (world.observer.most(), (plan.clusters / 2).max(1));
    anyhow::ensure!(
        (1..=allowed).contains(&most),
        "{most} clusters of one module changed at once, {allowed} are allowed"
    );
    let memory = world.usage()?;
    Ok(Row {
        modules,
        versions: [first, second],
        flips,
        restart,
        rest,
        at_once: (most, allowed),
        memory,
    })
}

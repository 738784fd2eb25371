//! `muster demo`: a management plane and a fleet of simulated clusters in one process, with a real git repository.
//!
//! ```text
//!   folder/ fleet (git work tree) ──file──► management plane: GitRepository main + Kustomization ./modules ─► Modules
//!           management.kubeconfig ◄───────  embedded API server, muster controller              │ https
//!           clusters/<name>.kubeconfig ◄──  embedded API server, workload player, muster agent ◄┘  (one for each cluster)
//! ```
//!
//! Nothing of the path from a commit to a cluster is simulated: git, YAML, HTTPS, controllers and agents are the ones that ship.
//! Simulated are the clusters: their API servers are embedded, and a player turns their pods ready.

mod cluster;
mod folder;
mod plane;
mod repository;
mod tell;

use std::sync::Arc;

use anyhow::Context as _;
use muster_controllers::runtime::{Clock, Jitter};

use crate::{DONE, args::DemoFlags, args::LogFormat, logs, process};
use cluster::Cluster;
use folder::Folder;
use plane::Plane;

/// Runs the demo until Ctrl-C or SIGTERM.
pub async fn run(flags: DemoFlags) -> anyhow::Result<u8> {
    let DemoFlags {
        clusters,
        dir,
        keep,
        tour: _,
        seed,
    } = flags;
    if std::env::var_os("RUST_LOG").is_some() {
        logs::start(LogFormat::Text);
    }
    let shutdown = process::until_signalled()?;
    let folder = Folder::make(dir, keep)?;
    let names = cluster::names(clusters);
    let repository = repository::make(&folder.fleet(), &names)?;
    let jitter = seed.map_or_else(Jitter::from_system, Jitter::seeded);
    let ground = Ground {
        clock: Clock::system(),
        jitter,
        shutdown: shutdown.clone(),
        data: folder.data(),
    };
    let plane = Plane::start(&ground)
        .await
        .context("the management plane does not start")?;
    folder.write_kubeconfig("management.kubeconfig", &plane.kubeconfig()?)?;
    let mut fleet = Vec::new();
    for name in &names {
        let cluster = Cluster::start(name, &ground)
            .await
            .with_context(|| format!("cluster {name} does not start"))?;
        folder.write_kubeconfig(&format!("clusters/{name}.kubeconfig"), &cluster.kubeconfig()?)?;
        plane
            .enrol(&cluster)
            .await
            .with_context(|| format!("cluster {name} cannot be enrolled"))?;
        fleet.push(cluster);
    }
    tell::how_to_look(&folder, &names);
    plane
        .sync(&repository)
        .await
        .context("the sync of modules/ cannot be set up")?;
    let client = plane.client();
    let ended = tokio::select! {
        ended = tell::what_moves(&client, &folder) => ended,
        () = shutdown.cancelled() => Ok(()),
        ended = plane.ended() => ended,
    };
    shutdown.cancel();
    drop((fleet, plane));
    folder.remove()?;
    ended.map(|()| DONE)
}

/// What all servers and processes of the demo stand on.
#[derive(Clone)]
struct Ground {
    clock: Clock,
    jitter: Jitter,
    shutdown: muster_controllers::runtime::Shutdown,
    data: Arc<std::path::Path>,
}

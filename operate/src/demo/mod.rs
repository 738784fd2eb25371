//! A demo: a management plane and a fleet of simulated clusters in one process, with a real git repository.
//!
//! ```text
//!   DIR/    fleet (git work tree) ──file──► management plane: GitRepository main + Kustomization ./modules ─► Modules
//!           management.kubeconfig ◄───────  embedded API server, muster controller                  │ https
//!           clusters/<name>.kubeconfig ◄──  embedded API server, simulated workloads, muster agent ◄┘  (one for each cluster)
//! ```
//!
//! One more cluster runs and is not enrolled (`ap-1`); a file `clusters/<name>.unplugged` disconnects a cluster. With
//! [`Options::tour`] the demo runs a tour that checks itself.
//!
//! The path from a commit to a cluster is real: git, YAML, HTTPS, controllers and agents are the shipped ones. The
//! clusters are simulated: their API servers are embedded, and their pods become ready without running.

mod cluster;
mod directory;
mod messages;
mod name;
mod narrator;
mod nodes;
mod plane;
mod repository;
mod tour;
mod zones;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use muster_apiserver::record;
use muster_controllers::runtime::{Clock, Jitter, Shutdown};
use muster_dashboard::server::Hosts;
use muster_fleet::{Extent, Reporter};
use tokio_util::task::AbortOnDropHandle;

use crate::dashboard::Local;
use cluster::Cluster;
use directory::Directory;
use name::Name;
use narrator::Narrator;
use plane::Plane;

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of clusters, 1 to 50.
    pub clusters: u16,
    /// Where kubeconfigs and the git work tree are written; otherwise a temporary directory that is removed at the end.
    pub dir: Option<PathBuf>,
    /// Keep the directory.
    pub keep: bool,
    /// Run a tour that checks itself, then exit.
    pub tour: bool,
    /// Instead of a fleet, one cluster with StatefulSets of three zones, and muster zones.
    pub zones: bool,
    /// Also three simulated nodes in each cluster, and a NodeModule that a Module delivers.
    pub nodes: bool,
    /// Also the dashboard, at this loopback address.
    pub dashboard: Option<SocketAddr>,
    /// The seed of all jitter: the same seed gives the same delays.
    pub seed: Option<u64>,
}

/// Runs the demo until `shutdown`, or until its tour is over; false if the tour was not completed, or a check failed.
pub async fn run(options: Options, shutdown: Shutdown, reporter: Arc<dyn Reporter>) -> anyhow::Result<bool> {
    let reporter = Narrator(reporter);
    let Options {
        clusters,
        dir,
        keep,
        tour: is_tour,
        zones,
        nodes,
        dashboard,
        seed,
    } = options;
    let directory = Directory::make(dir, keep)?;
    let jitter = seed.map_or_else(Jitter::from_system, Jitter::seeded);
    let ground = Ground {
        clock: Clock::system(),
        jitter,
        shutdown: shutdown.clone(),
        data: directory.data(),
        reporter: reporter.clone(),
    };
    if zones {
        zones::run(directory, &ground).await?;
        return Ok(true);
    }
    let names = name::names(clusters);
    let pace = if is_tour { Pace::TOUR } else { Pace::PERSON };
    let spare = Name::spare();
    let everyone: Vec<Name> = names.iter().cloned().chain([spare.clone()]).collect();
    if is_tour {
        repository::plan(&directory.path().join("plan"))?;
    }
    let repository = repository::make(&directory.fleet(), &everyone, pace, nodes)?;
    let plane = Plane::start(&ground, is_tour)
        .await
        .context("the management plane does not start")?;
    directory.write_kubeconfig("management.kubeconfig", &plane.kubeconfig()?)?;
    let dashboard = match dashboard {
        Some(addr) => Some(
            Local::open(
                addr,
                &plane.client_as("dashboard"),
                plane::NAMESPACE,
                Hosts::Loopback(Vec::new()),
                Extent::Whole,
            )
            .await
            .context("--dashboard")?,
        ),
        None => None,
    };
    let url = dashboard.as_ref().map(|dashboard| dashboard.url.clone());
    let _dashboard = dashboard.map(|dashboard| AbortOnDropHandle::new(tokio::spawn(dashboard.serve())));
    let mut fleet = Vec::new();
    for name in &names {
        let cluster = start(name, &ground, pace, &directory, nodes).await?;
        plane
            .enrol(&cluster)
            .await
            .with_context(|| format!("cluster {name} cannot be enrolled"))?;
        fleet.push(cluster);
    }
    let spare = start(&spare, &ground, pace, &directory, nodes).await?;
    directory.write_scripts()?;
    if let Some(url) = url {
        reporter.line(&format!("dashboard: {url}"));
    }
    if !is_tour {
        messages::print_next_commands(&directory, &names, &reporter);
    }
    plane
        .sync(&repository, pace)
        .await
        .context("the sync of modules/ cannot be set up")?;
    let client = plane.client();
    let playing = async {
        if is_tour {
            tour::run_tour(&directory, &plane, &fleet, &spare, reporter.clone()).await
        } else {
            messages::what_moves(&client, &directory, &names, nodes, &reporter)
                .await
                .map(|()| true)
        }
    };
    let ended = tokio::select! {
        ended = playing => ended,
        // An incomplete tour proves nothing.
        () = shutdown.cancelled() => Ok(!is_tour),
        ended = plane.ended() => ended.map(|()| true),
    };
    shutdown.cancel();
    drop((fleet, spare, plane));
    directory.remove()?;
    ended
}

/// Starts a cluster, and writes its kubeconfig.
async fn start(
    name: &Name,
    ground: &Ground,
    pace: Pace,
    directory: &Directory,
    nodes: bool,
) -> anyhow::Result<Cluster> {
    let nodes = nodes.then(|| directory.nodes(name));
    let cluster = Cluster::start(name, ground, pace, directory.unplugged(name), nodes)
        .await
        .with_context(|| format!("cluster {name} does not start"))?;
    directory.write_kubeconfig(&format!("clusters/{name}.kubeconfig"), &cluster.kubeconfig()?)?;
    Ok(cluster)
}

/// The speed of simulated clusters, and of failures. muster itself runs at its shipped speed.
#[derive(Clone, Copy)]
struct Pace {
    /// From the creation of a pod until it is ready.
    ready_after: Duration,
    /// From the deletion of a pod until it is gone.
    stop_after: Duration,
    /// `progressDeadlineSeconds` of the example's Deployments: how long an image that cannot be pulled is retried.
    gives_up_after: u32,
    /// The interval at which the branch is fetched, in Flux's form.
    interval: &'static str,
    /// Whether all writes are logged for the observer.
    keeps_log: bool,
}

/// How many requests and events each server keeps: only an observer reads them.
const fn log_limit(keeps_log: bool) -> usize {
    if keeps_log { record::DEFAULT_LIMIT } else { 0 }
}

impl Pace {
    /// Slow enough to be watched.
    const PERSON: Self = Self {
        ready_after: Duration::from_secs(1),
        stop_after: Duration::from_millis(500),
        gives_up_after: 30,
        interval: "3s",
        keeps_log: false,
    };
    /// A tour waits only for muster.
    const TOUR: Self = Self {
        ready_after: Duration::from_millis(200),
        stop_after: Duration::from_millis(100),
        gives_up_after: 4,
        interval: "1s",
        keeps_log: true,
    };
}

/// What all servers and processes of the demo share.
#[derive(Clone)]
struct Ground {
    clock: Clock,
    jitter: Jitter,
    shutdown: Shutdown,
    data: Arc<std::path::Path>,
    reporter: Narrator,
}

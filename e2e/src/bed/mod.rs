//! A management cluster, downstream clusters, a git host, and the processes of muster: what scenarios run on.

mod clusters;
mod git;
mod objects;
mod observer;
mod process;
mod wait;

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::crds;
use muster_apiserver::ApiServer;
use muster_controllers::runtime::Clock;
use tempfile::TempDir;
use tokio::time::Instant;

use self::{clusters::Cluster, process::Process};
pub use self::{
    clusters::Obstacle,
    git::Git,
    objects::{Kind, Objects, kinds},
    observer::Workload,
    process::muster,
};

/// The namespace of modules and clusters.
pub const FLEET: &str = "fleet";
/// As whom the controller is known to every API server.
pub const CONTROLLER: &str = "controller";
/// As whom an agent is known to its API server.
pub const AGENT: &str = "agent";
/// As whom scenarios act.
const PERSON: &str = "person";

/// Which of the two beds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Tasks of this process, on paused time.
    Virtual,
    /// Processes, sockets, the time of this machine.
    Wire,
}

/// A whole installation.
pub struct Bed {
    ground: Ground,
    management: ApiServer,
    clusters: BTreeMap<String, Cluster>,
    /// The git host.
    pub git: Git,
    controller: Option<Process>,
    agents: BTreeMap<String, Process>,
    clock: Clock,
    started: Instant,
    folder: TempDir,
    /// On paused time: the ways into clusters, by the address in a kubeconfig.
    doors: process::Doors,
}

impl Bed {
    /// A management cluster with a running controller; no cluster has joined.
    pub async fn new(ground: Ground) -> Self {
        // The providers differ between libraries; a second call finds it set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let epoch = match ground {
            Ground::Virtual => "2026-01-01T00:00:00Z".parse().unwrap(),
            Ground::Wire => Timestamp::now(),
        };
        let management = clusters::serve(ground, "management", epoch).await;
        let definitions = crds::management()
            .into_iter()
            .chain(crds::flux())
            .chain([crds::cluster_api()]);
        clusters::install(&management, FLEET, definitions).await;
        let clock = Clock::starting_at(epoch);
        let mut bed = Self {
            ground,
            management,
            clusters: BTreeMap::new(),
            git: Git::new(ground, &clock).await,
            controller: None,
            agents: BTreeMap::new(),
            clock,
            started: Instant::now(),
            folder: tempfile::tempdir().unwrap(),
            doors: process::Doors::default(),
        };
        bed.start_controller();
        bed
    }

    /// A bed with clusters labelled `env: prod` to which something can be rolled.
    pub async fn with_clusters(ground: Ground, names: &[&str]) -> Self {
        let mut bed = Self::new(ground).await;
        for name in names {
            bed.join(name, &[("env", "prod")], &[]).await;
        }
        bed
    }

    /// Whether times can be asserted.
    pub fn is_virtual(&self) -> bool {
        self.ground == Ground::Virtual
    }

    /// Modules, Clusters, assemblages and all else in the namespace of the fleet.
    pub fn fleet(&self) -> Objects {
        Objects::new(self.management.client_as(PERSON), FLEET)
    }

    /// Objects of a downstream cluster.
    pub fn inside(&self, cluster: &str, namespace: &str) -> Objects {
        Objects::new(self.clusters[cluster].api.client_as(PERSON), namespace)
    }

    /// The names of the clusters that have joined, in order.
    pub fn clusters(&self) -> Vec<String> {
        self.clusters.keys().cloned().collect()
    }

    /// Starts the controller.
    pub fn start_controller(&mut self) {
        let place = process::Place {
            api: &self.management,
            user: CONTROLLER,
            namespace: FLEET,
            instance: "management",
        };
        self.controller = Some(match self.ground {
            Ground::Virtual => process::task(
                process::Role::Controller,
                &place,
                &self.clock,
                self.git.source(),
                &self.doors,
            ),
            Ground::Wire => process::child(process::Role::Controller, &place, self.folder.path()),
        });
    }

    /// Ends the controller as a power cut does: SIGKILL, or the task is dropped.
    pub async fn crash_controller(&mut self) {
        if let Some(process) = self.controller.take() {
            process.crash().await;
        }
    }

    /// Tells the controller to end (SIGTERM, or its shutdown) and waits for it.
    pub async fn stop_controller(&mut self) {
        if let Some(process) = self.controller.take() {
            process.stop().await;
        }
    }

    /// Starts the agent of a cluster.
    pub fn start_agent(&mut self, cluster: &str) {
        let api = &self.clusters[cluster].api;
        let namespace = muster_api::labels::SYSTEM_NAMESPACE;
        let place = process::Place {
            api,
            user: AGENT,
            namespace,
            instance: cluster,
        };
        let process = match self.ground {
            Ground::Virtual => process::task(
                process::Role::Agent,
                &place,
                &self.clock,
                self.git.source(),
                &self.doors,
            ),
            Ground::Wire => process::child(process::Role::Agent, &place, self.folder.path()),
        };
        self.agents.insert(cluster.to_owned(), process);
    }

    /// Ends the agent of a cluster as a power cut does.
    pub async fn crash_agent(&mut self, cluster: &str) {
        if let Some(process) = self.agents.remove(cluster) {
            process.crash().await;
        }
    }

    /// Everything that muster wrote since [`Bed::forget_requests`]: server, method and path.
    pub fn writes(&self) -> Vec<String> {
        let mut writes = Vec::new();
        for (name, api) in self.servers() {
            let requests = api.recorder().requests();
            let ours = requests.iter().filter(|request| {
                request.is_write() && [CONTROLLER, AGENT].contains(&request.client.as_str())
            });
            writes.extend(ours.map(|request| format!("{name}: {} {}", request.method, request.path)));
        }
        writes
    }

    /// Forgets requests and events of all API servers.
    pub fn forget_requests(&self) {
        self.servers().for_each(|(_, api)| api.recorder().clear());
    }

    fn servers(&self) -> impl Iterator<Item = (&str, &ApiServer)> {
        let clusters = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.as_str(), &cluster.api));
        clusters.chain([("management", &self.management)])
    }
}

impl Drop for Bed {
    /// Shows the logs of processes if the scenario failed.
    fn drop(&mut self) {
        if std::thread::panicking() && self.ground == Ground::Wire {
            process::print_logs(self.folder.path());
        }
    }
}

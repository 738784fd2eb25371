//! A management cluster, downstream clusters, a git host, and the processes of muster: what scenarios run on.

mod clusters;
mod fate;
mod git;
mod hostile;
mod limit;
mod objects;
mod observer;
mod process;
mod real;
mod server;
mod strangers;
mod trouble;
mod wait;
mod world;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_api::crds;
use muster_apiserver::ApiServer;
use muster_controllers::runtime::Clock;
use tempfile::TempDir;
use tokio::time::Instant;

use self::{clusters::Cluster, process::Process, server::Server};
pub use self::{
    clusters::Obstacle,
    fate::Blow,
    git::Git,
    hostile::{Asked, Hostile},
    limit::{Observer, Sight, What},
    objects::{Kind, Objects, kinds},
    observer::Workload,
    process::muster,
    world::{Changes, World, differences, unlike},
};

/// The namespace of modules and clusters.
pub const FLEET: &str = "fleet";
/// As whom the controller is known to every API server.
pub const CONTROLLER: &str = "controller";
/// As whom an agent is known to its API server.
pub const AGENT: &str = "agent";
/// As whom scenarios act.
const PERSON: &str = "person";

/// Which of the beds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Tasks of this process, on paused time.
    Virtual,
    /// Processes, sockets, the time of this machine.
    Wire,
    /// The same, on real control planes.
    Real,
}

/// A whole installation.
pub struct Bed {
    ground: Ground,
    management: Server,
    clusters: BTreeMap<String, Cluster>,
    /// The git host.
    pub git: Git,
    controllers: BTreeMap<String, Process>,
    agents: BTreeMap<String, Process>,
    clock: Clock,
    started: Instant,
    folder: TempDir,
    /// On real control planes only.
    planes: Option<real::Planes>,
    /// On paused time: the ways into clusters, by the address in a kubeconfig.
    doors: process::Doors,
    fate: Arc<fate::Fate>,
    seed: u64,
    lease: Option<Duration>,
}

impl Bed {
    /// A management cluster with a running controller; no cluster has joined.
    pub async fn new(ground: Ground) -> Self {
        Self::seeded(ground, 1, None).await
    }

    /// The same with a seed for all that is random in muster, and a lease that lasts so long.
    pub async fn seeded(ground: Ground, seed: u64, lease: Option<Duration>) -> Self {
        // The providers differ between libraries; a second call finds it set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let epoch = match ground {
            Ground::Virtual => "2026-01-01T00:00:00Z".parse().unwrap(),
            Ground::Wire | Ground::Real => Timestamp::now(),
        };
        let planes = match ground {
            Ground::Virtual | Ground::Wire => None,
            Ground::Real => Some(real::Planes::new().await),
        };
        let management = clusters::serve(ground, planes.as_ref(), "management", epoch).await;
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
            controllers: BTreeMap::new(),
            agents: BTreeMap::new(),
            clock,
            started: Instant::now(),
            folder: tempfile::tempdir().unwrap(),
            planes,
            doors: process::Doors::default(),
            fate: Arc::default(),
            seed,
            lease,
        };
        bed.start_controller();
        bed
    }

    /// A bed with clusters labelled `env: prod` to which something can be rolled.
    pub async fn with_clusters(ground: Ground, names: &[&str]) -> Self {
        let mut bed = Self::new(ground).await;
        if let Some(planes) = &bed.planes {
            planes.add(names).await;
        }
        for name in names {
            bed.join(name, &[("env", "prod")], &[]).await;
        }
        bed
    }

    /// Whether times can be asserted.
    pub fn is_virtual(&self) -> bool {
        self.ground == Ground::Virtual
    }

    /// Whether the API servers are real ones.
    pub fn is_real(&self) -> bool {
        self.ground == Ground::Real
    }

    /// Modules, Clusters, assemblages and all else in the namespace of the fleet.
    pub fn fleet(&self) -> Objects {
        Objects::new(self.management.client(), FLEET)
    }

    /// Objects of a downstream cluster.
    pub fn inside(&self, cluster: &str, namespace: &str) -> Objects {
        Objects::new(self.clusters[cluster].api.client(), namespace)
    }

    /// The names of the clusters that have joined, in order.
    pub fn clusters(&self) -> Vec<String> {
        self.clusters.keys().cloned().collect()
    }

    /// Starts the controller.
    pub fn start_controller(&mut self) {
        self.start_controller_as(CONTROLLER);
    }

    /// Starts a controller under a name of its own, beside whoever else is there.
    pub fn start_controller_as(&mut self, name: &str) {
        let place = process::Place {
            api: &self.management,
            user: name,
            namespace: FLEET,
            instance: name,
        };
        let process = self.start(process::Role::Controller, &place);
        self.controllers.insert(name.to_owned(), process);
    }

    /// Ends the controller as a power cut does: SIGKILL, or the task is dropped.
    pub async fn crash_controller(&mut self) {
        self.crash_controller_as(CONTROLLER).await;
    }

    /// The same of the one with a name.
    pub async fn crash_controller_as(&mut self, name: &str) {
        if let Some(process) = self.controllers.remove(name) {
            process.crash().await;
        }
    }

    /// Tells the controller to end (SIGTERM, or its shutdown) and waits for it.
    pub async fn stop_controller(&mut self) {
        if let Some(process) = self.controllers.remove(CONTROLLER) {
            process.stop().await;
        }
    }

    /// Starts the processes again that have ended by themselves, as whoever supervises processes does. How many.
    pub fn revive(&mut self) -> usize {
        let controllers = ended(&mut self.controllers);
        let agents = ended(&mut self.agents);
        for name in &controllers {
            self.start_controller_as(name);
        }
        for name in &agents {
            self.start_agent(name);
        }
        controllers.len() + agents.len()
    }

    /// Sends a signal such as `-STOP` to a controller on the wire.
    pub async fn signal_controller(&self, name: &str, signal: &str) {
        match &self.controllers[name] {
            Process::Child(child) => process::signal(child, signal).await,
            Process::Task(..) => panic!("tasks take no signals"),
        }
    }

    /// Starts the agent of a cluster.
    pub fn start_agent(&mut self, cluster: &str) {
        let place = process::Place {
            api: &self.clusters[cluster].api,
            user: AGENT,
            namespace: muster_api::labels::SYSTEM_NAMESPACE,
            instance: cluster,
        };
        let process = self.start(process::Role::Agent, &place);
        self.agents.insert(cluster.to_owned(), process);
    }

    fn start(&self, role: process::Role, place: &process::Place<'_>) -> Process {
        // An agent is alone in its cluster: it has no need of a lease that is shorter than the default.
        let lease = self.lease.map(|lease| match role {
            process::Role::Controller => lease,
            process::Role::Agent => lease.max(Duration::from_secs(15)),
        });
        match self.ground {
            Ground::Wire | Ground::Real => process::child(role, place, lease, self.folder.path()),
            Ground::Virtual => {
                let world = process::World {
                    clock: self.clock.clone(),
                    source: self.git.source(),
                    doors: Arc::clone(&self.doors),
                    fate: Arc::clone(&self.fate),
                    seed: self.seed,
                    lease,
                };
                process::task(role, place, world)
            }
        }
    }

    /// Numbers all requests of muster that may write from here on, and strikes one of them.
    pub fn number_requests(&self, strike: Option<(usize, Blow)>) {
        self.fate.begin(strike);
    }

    /// How many were numbered, and which was struck.
    pub fn numbered_requests(&self) -> (usize, Option<String>) {
        self.fate.end()
    }

    /// Ends the agent of a cluster as a power cut does.
    pub async fn crash_agent(&mut self, cluster: &str) {
        if let Some(process) = self.agents.remove(cluster) {
            process.crash().await;
        }
    }

    /// Everything that muster wrote from an instant on, leases apart: server, method and path.
    pub fn writes_since(&self, then: Instant) -> Vec<String> {
        let mut writes = Vec::new();
        for (name, api) in self.servers() {
            let requests = api.recorder().requests();
            let ours = requests.iter().filter(|request| {
                request.came() >= then
                    && request.is_write()
                    && is_ours(&request.client)
                    && !is_lease(&request.path)
            });
            writes.extend(ours.map(|request| format!("{name}: {} {}", request.method, request.path)));
        }
        writes
    }

    /// The watches of muster that ended from an instant on and before their own timeout: server, path, how long they lasted.
    pub fn short_watches_since(&self, then: Instant) -> Vec<String> {
        let mut short = Vec::new();
        for (name, api) in self.servers() {
            for request in api.recorder().requests() {
                let timeout = request
                    .query
                    .split('&')
                    .find_map(|part| part.strip_prefix("timeoutSeconds=")?.parse().ok());
                let watch = request.query.contains("watch=true") && is_ours(&request.client);
                if let (true, Some(timeout), Some(lasted)) = (watch, timeout, request.lasted())
                    && request.came() + lasted >= then
                    && lasted < Duration::from_secs(timeout)
                {
                    short.push(format!("{name}: {} {lasted:.1?} of {timeout} s", request.path));
                }
            }
        }
        short
    }

    /// How many watches of muster are open now.
    pub fn open_watches(&self) -> usize {
        let requests = self.servers().flat_map(|(_, api)| api.recorder().requests());
        requests
            .filter(|request| {
                request.query.contains("watch=true") && is_ours(&request.client) && request.lasted().is_none()
            })
            .count()
    }

    /// How many requests of muster that are no reads the API servers have noted, leases apart.
    pub fn requests_to_change(&self) -> usize {
        let requests = self.servers().flat_map(|(_, api)| api.recorder().requests());
        requests
            .filter(|request| request.method != "GET" && is_ours(&request.client) && !is_lease(&request.path))
            .count()
    }

    /// Forgets requests and events of all API servers.
    pub fn forget_requests(&self) {
        self.servers().for_each(|(_, api)| api.recorder().clear());
    }

    /// For what only the embedded servers tell.
    fn servers(&self) -> impl Iterator<Item = (&str, &ApiServer)> {
        let clusters = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.as_str(), cluster.api.embedded()));
        clusters.chain([("management", self.management.embedded())])
    }
}

fn ended(processes: &mut BTreeMap<String, Process>) -> Vec<String> {
    let ended = processes
        .iter_mut()
        .filter_map(|(name, process)| process.has_ended().then(|| name.clone()));
    ended.collect()
}

/// Whether a user of an API server is a process of muster.
fn is_ours(client: &str) -> bool {
    client.starts_with(CONTROLLER) || client == AGENT
}

fn is_lease(path: &str) -> bool {
    path.starts_with("/apis/coordination.k8s.io/")
}

impl Drop for Bed {
    /// Shows the logs of processes if the scenario failed.
    fn drop(&mut self) {
        if std::thread::panicking() && self.ground != Ground::Virtual {
            process::print_logs(self.folder.path());
        }
    }
}

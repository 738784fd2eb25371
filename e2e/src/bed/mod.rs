//! The test bed: a management cluster, downstream clusters, a git host, and the processes of muster.

mod audit;
mod check;
mod clusters;
mod fate;
mod git;
mod hostile;
pub mod install;
mod limit;
mod monitoring;
mod objects;
mod observer;
mod plan;
mod process;
mod programs;
mod real;
mod reasons;
mod recorded;
mod records;
mod requests;
mod server;
mod sources;
mod strangers;
mod trouble;
mod wait;
mod windows;
mod world;
mod zones;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use muster_controllers::runtime::Clock;
use tempfile::TempDir;
use tokio::time::Instant;

pub use self::{
    audit::Use,
    clusters::Obstacle,
    fate::Blow,
    git::Git,
    hostile::Hostile,
    install::export,
    limit::{ClusterEvent, Observation, Observer},
    monitoring::Monitoring,
    objects::{Kind, Objects, kinds, name as name_of},
    observer::{Moment, Workload},
    process::{open_log, print_logs},
    programs::{kubectl_apply, muster, node_agent},
    real::keep_uses,
    requests::RequestEntry,
    sources::{Cosign, GitOverSsh, Registry, Signer},
    world::{Changes, World, differences, unlike},
};
use self::{clusters::Cluster, process::Process, server::Server};

/// The namespace of modules and clusters.
pub const FLEET: &str = "fleet";
/// The user name of the controller on every API server.
pub const CONTROLLER: &str = "controller";
/// The user name of an agent on its API server.
pub const AGENT: &str = "agent";
/// The user name of `muster zones` on the API server of its cluster.
pub const ZONES: &str = "zones";
/// The user name for actions of scenarios.
const PERSON: &str = "person";

/// The kinds of beds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Tasks of this process, on paused time.
    Virtual,
    /// Processes, sockets, real time.
    Wire,
    /// The same, on real control planes.
    Real,
    /// The same, where Flux applies what muster writes.
    Flux,
}

impl Ground {
    /// Whether the API servers are real ones.
    pub fn is_real(self) -> bool {
        matches!(self, Self::Real | Self::Flux)
    }

    /// Which component reconciles the Flux kinds, as the value of a flag.
    pub fn sync(self) -> &'static str {
        if self == Self::Flux { "flux" } else { "builtin" }
    }
}

/// A whole installation.
pub struct Bed {
    ground: Ground,
    management: Server,
    clusters: BTreeMap<String, Cluster>,
    /// The git host.
    pub git: Git,
    /// The host that serves gate queries.
    pub monitoring: Monitoring,
    controllers: BTreeMap<String, Process>,
    agents: BTreeMap<String, Process>,
    zones: BTreeMap<String, Process>,
    /// The clock offset of an embedded API server.
    clocks: BTreeMap<String, SignedDuration>,
    /// Which component applies in a cluster, if it differs from the default of the bed.
    carries_out: BTreeMap<String, &'static str>,
    clock: Clock,
    started: Instant,
    directory: TempDir,
    /// Set on real control planes only.
    planes: Option<real::Planes>,
    /// On paused time: connections to clusters, by the address in a kubeconfig.
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

    /// The same with another start time, which only paused time supports.
    pub async fn starting_at(ground: Ground, instant: &str) -> Self {
        assert_eq!(ground, Ground::Virtual);
        Self::at(ground, 1, None, instant.parse().unwrap()).await
    }

    /// The same with a seed for all randomness in muster, and with this lease duration.
    pub async fn seeded(ground: Ground, seed: u64, lease: Option<Duration>) -> Self {
        let epoch = match ground {
            Ground::Virtual => "2026-01-01T00:00:00Z".parse().unwrap(),
            Ground::Wire | Ground::Real | Ground::Flux => Timestamp::now(),
        };
        Self::at(ground, seed, lease, epoch).await
    }

    async fn at(ground: Ground, seed: u64, lease: Option<Duration>, epoch: Timestamp) -> Self {
        // Only a second call could fail, because the provider is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let planes = match ground {
            Ground::Virtual | Ground::Wire => None,
            Ground::Real | Ground::Flux => Some(real::Planes::new(ground == Ground::Flux).await),
        };
        let management = clusters::serve(ground, planes.as_ref(), "management", epoch).await;
        install::management(&management, ground).await;
        let clock = Clock::starting_at(epoch);
        let mut bed = Self {
            ground,
            management,
            clusters: BTreeMap::new(),
            git: Git::new(ground, &clock).await,
            monitoring: Monitoring::new(ground).await,
            controllers: BTreeMap::new(),
            agents: BTreeMap::new(),
            zones: BTreeMap::new(),
            clocks: BTreeMap::new(),
            carries_out: BTreeMap::new(),
            clock,
            started: Instant::now(),
            directory: tempfile::tempdir().unwrap(),
            planes,
            doors: process::Doors::default(),
            fate: Arc::default(),
            seed,
            lease,
        };
        bed.start_controller();
        bed
    }

    /// A bed with clusters labelled `env: prod` that are ready for rollouts.
    pub async fn with_clusters(ground: Ground, names: &[&str]) -> Self {
        let mut bed = Self::new(ground).await;
        bed.prepare(names).await;
        for name in names {
            bed.join(name, &[("env", "prod")], &[]).await;
        }
        bed
    }

    /// Starts the API servers of clusters that will join, concurrently, where that takes time.
    pub async fn prepare(&self, names: &[&str]) {
        if let Some(planes) = &self.planes {
            planes.add(names).await;
        }
    }

    /// Whether the bed runs on paused time, so that times can be asserted.
    pub fn is_virtual(&self) -> bool {
        self.ground == Ground::Virtual
    }

    /// Whether the API servers are real ones.
    pub fn is_real(&self) -> bool {
        self.ground.is_real()
    }

    /// Whether Flux applies.
    pub fn is_flux(&self) -> bool {
        self.ground == Ground::Flux
    }

    /// Modules, Clusters, assemblages and all else in the namespace of the fleet.
    pub fn fleet(&self) -> Objects {
        Objects::new(self.management.client(), FLEET)
    }

    /// CRDs and other cluster-scoped objects of the management cluster.
    pub fn system(&self) -> Objects {
        Objects::new(self.management.client(), muster_api::labels::SYSTEM_NAMESPACE)
    }

    /// Namespaces and CRDs of the management cluster.
    pub fn everywhere(&self) -> Objects {
        Objects::new(self.management.client(), "")
    }

    /// Objects of a downstream cluster.
    pub fn inside(&self, cluster: &str, namespace: &str) -> Objects {
        Objects::new(self.clusters[cluster].api.client(), namespace)
    }

    /// The names of the clusters that have joined, sorted.
    pub fn clusters(&self) -> Vec<String> {
        self.clusters.keys().cloned().collect()
    }

    /// Starts the controller.
    pub fn start_controller(&mut self) {
        self.start_controller_as(CONTROLLER);
    }

    /// Starts another controller with its own name, beside those that run.
    pub fn start_controller_as(&mut self, name: &str) {
        let place = process::ProcessEnv {
            api: &self.management,
            user: name,
            namespace: FLEET,
            instance: name,
        };
        let process = self.start(process::Role::Controller, &place);
        self.controllers.insert(name.to_owned(), process);
    }

    /// Ends the controller as in a power cut: SIGKILL, or the task is dropped.
    pub async fn crash_controller(&mut self) {
        self.crash_controller_as(CONTROLLER).await;
    }

    /// The same for the controller with this name.
    pub async fn crash_controller_as(&mut self, name: &str) {
        if let Some(process) = self.controllers.remove(name) {
            process.crash().await;
        }
    }

    /// Asks the controller to terminate (SIGTERM, or its shutdown) and waits for it.
    pub async fn stop_controller(&mut self) {
        if let Some(process) = self.controllers.remove(CONTROLLER) {
            process.stop().await;
        }
    }

    /// Restarts the processes that have exited, as a supervisor does. Returns their number.
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

    /// Sends a signal such as `-STOP` to a controller process.
    pub async fn signal_controller(&self, name: &str, signal: &str) {
        match &self.controllers[name] {
            Process::Child(child) => process::signal(child, signal).await,
            Process::Task(..) => panic!("tasks take no signals"),
        }
    }

    /// Restarts the agent of a cluster, so that Flux applies there from then on, or the agent itself.
    pub async fn restart_agent(&mut self, cluster: &str, by_flux: bool) {
        self.crash_agent(cluster).await;
        self.carries_out
            .insert(cluster.to_owned(), if by_flux { "flux" } else { "builtin" });
        self.start_agent(cluster);
    }

    /// Starts the agent of a cluster.
    pub fn start_agent(&mut self, cluster: &str) {
        let place = process::ProcessEnv {
            api: &self.clusters[cluster].api,
            user: AGENT,
            namespace: muster_api::labels::SYSTEM_NAMESPACE,
            instance: cluster,
        };
        let process = self.start(process::Role::Agent, &place);
        self.agents.insert(cluster.to_owned(), process);
    }

    fn start(&self, role: process::Role, place: &process::ProcessEnv<'_>) -> Process {
        // There is only one agent per cluster: it needs no shorter lease than the default.
        let lease = self.lease.map(|lease| match role {
            process::Role::Controller => lease,
            process::Role::Agent => lease.max(Duration::from_secs(15)),
        });
        match self.ground {
            Ground::Wire | Ground::Real | Ground::Flux => {
                let sync = self.carries_out.get(place.instance).copied();
                let sync = sync.unwrap_or_else(|| self.ground.sync());
                process::child(
                    role,
                    place,
                    lease,
                    sync,
                    self.monitoring.host(),
                    self.directory.path(),
                )
            }
            Ground::Virtual => {
                let world = process::World {
                    clock: self.clock.clone(),
                    source: self.git.source(),
                    gates: self.monitoring.fetch(),
                    gate_host: self.monitoring.host().parse().unwrap(),
                    doors: Arc::clone(&self.doors),
                    fate: Arc::clone(&self.fate),
                    seed: self.seed,
                    lease,
                };
                process::task(role, place, world)
            }
        }
    }

    /// Numbers all requests of muster that may write from here on, and injects a fault into one of them.
    pub fn number_requests(&self, strike: Option<(usize, Blow)>) {
        self.fate.begin(strike);
    }

    /// How many requests were numbered, and which one was hit.
    pub fn numbered_requests(&self) -> (usize, Option<String>) {
        self.fate.end()
    }

    /// Ends the agent of a cluster as in a power cut.
    pub async fn crash_agent(&mut self, cluster: &str) {
        if let Some(process) = self.agents.remove(cluster) {
            process.crash().await;
        }
    }
}

impl Bed {
    fn replay_decisions(&self) {
        let modules = self.management.versions(kinds::MODULE);
        let decided = modules
            .iter()
            .filter(|module| !module["status"]["rollout"].is_null());
        let names: BTreeSet<&str> = decided.map(objects::name).collect();
        for name in names {
            let problem = records::problem(self.directory.path(), FLEET, "Module", name);
            assert!(problem.is_none(), "{}", problem.unwrap_or_default());
        }
    }
}

fn ended(processes: &mut BTreeMap<String, Process>) -> Vec<String> {
    let ended = processes
        .iter_mut()
        .filter_map(|(name, process)| process.has_ended().then(|| name.clone()));
    ended.collect()
}

impl Drop for Bed {
    /// Prints the logs of processes if the scenario failed, and records the permissions that were used on real control
    /// planes. Otherwise checks that each status that a module ever had was correct about its clusters as far as
    /// visible there, and that replaying the recorded decisions yields the same results.
    fn drop(&mut self) {
        if let Some(planes) = &self.planes {
            planes.keep_uses();
        }
        if std::thread::panicking() && self.ground != Ground::Virtual {
            process::print_logs(self.directory.path());
        }
        if std::thread::panicking() {
            return;
        }
        for module in self.management.versions(kinds::MODULE) {
            let problems = reasons::problems(&module);
            assert!(problems.is_empty(), "{problems:#?}\n{module:#}");
        }
        if self.ground != Ground::Virtual {
            self.replay_decisions();
        }
    }
}

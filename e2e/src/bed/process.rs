//! The controller and the agents: tasks that can be dropped, or children that can be killed.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use muster_apiserver::InProcess;
use muster_controllers::{
    gates::{self, Fetch},
    hosts::Host,
    lease::{Election, LeaseDuration},
    process::{self, ProcessError, Setup},
    reconcile::Options,
    registry::{Access, ConnectError},
    runtime::{Clock, Jitter, Shutdown},
};
use muster_sync::source::Source;
use parking_lot::Mutex;
use tokio::process::{Child, Command};
use tokio_util::task::AbortOnDropHandle;

use super::{
    fate::{Fate, Life},
    monitoring,
    programs::muster,
    records,
    server::Server,
};

/// How long a process may take to terminate: requests in flight have 30 s.
const END: Duration = Duration::from_secs(31);
/// How many lines of each log are shown when a scenario fails.
const LINES: usize = 40;

/// Connections to clusters, by the address of the API server.
pub(crate) type Doors = Arc<Mutex<BTreeMap<String, InProcess>>>;

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The controller of the management cluster.
    Controller,
    /// The agent of a downstream cluster.
    Agent,
}

/// The environment of a process.
pub(crate) struct ProcessEnv<'a> {
    /// Its API server.
    pub api: &'a Server,
    /// Its user name on the API server.
    pub user: &'a str,
    /// The namespace that it watches.
    pub namespace: &'a str,
    /// Its unique name.
    pub instance: &'a str,
}

/// A running process.
pub(crate) enum Process {
    /// A task, on paused time.
    Task(AbortOnDropHandle<Result<(), ProcessError>>, Shutdown),
    /// A child process.
    Child(Box<Child>),
}

impl Process {
    /// Ends it immediately, at whatever point it is.
    pub(crate) async fn crash(self) {
        match self {
            Self::Task(task, _) => drop(task),
            Self::Child(mut child) => child.kill().await.unwrap(),
        }
    }

    /// Whether it exited on its own.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self {
            Self::Task(task, _) => task.is_finished(),
            Self::Child(child) => child.try_wait().unwrap().is_some(),
        }
    }

    /// Asks it to terminate, and waits.
    pub(crate) async fn stop(self) {
        match self {
            Self::Task(task, shutdown) => {
                shutdown.cancel();
                tokio::time::timeout(END, task)
                    .await
                    .expect("the process does not end")
                    .unwrap()
                    .unwrap();
            }
            Self::Child(child) => {
                let status = terminate(*child).await;
                assert!(status.success(), "the process ended with {status}");
            }
        }
    }
}

/// Sends a signal to a child process.
pub(crate) async fn signal(child: &Child, signal: &str) {
    let pid = child.id().expect("the process has exited on its own").to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().await.unwrap();
    assert!(sent.success());
}

/// Sends SIGTERM and returns the exit status.
pub(crate) async fn terminate(mut child: Child) -> std::process::ExitStatus {
    signal(&child, "-TERM").await;
    tokio::time::timeout(END, child.wait())
        .await
        .expect("the process does not end")
        .unwrap()
}

/// A seed derived from the name.
pub(crate) fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add(byte.into())
    })
}

/// State that processes on paused time share.
#[derive(Clone)]
pub(crate) struct World {
    /// The common clock.
    pub clock: Clock,
    /// The git host.
    pub source: Arc<dyn Source>,
    /// The HTTP client for gates.
    pub gates: Arc<dyn Fetch>,
    /// The hosts that gates may query.
    pub gate_host: Host,
    /// The clusters.
    pub doors: Doors,
    /// The counter of their requests.
    pub fate: Arc<Fate>,
    /// The seed of all randomness.
    pub seed: u64,
    /// The lease duration, if leader election is enabled.
    pub lease: Option<Duration>,
}

/// Starts a process as a task, with the wiring of the released program. If fault injection ends it, it restarts
/// immediately.
pub(crate) fn task(role: Role, place: &ProcessEnv<'_>, world: World) -> Process {
    let shutdown = Shutdown::new();
    let body = Body {
        role,
        service: place.api.embedded().service_as(place.user),
        namespace: place.namespace.to_owned(),
        instance: place.instance.to_owned(),
        world,
        shutdown: shutdown.clone(),
    };
    let task = tokio::spawn(async move {
        loop {
            let life = Life::new(&body.world.fate, &body.instance);
            tokio::select! {
                ended = body.live(&life) => return ended,
                () = life.ended() => {}
            }
        }
    });
    Process::Task(AbortOnDropHandle::new(task), shutdown)
}

/// Everything that a process needs to start.
struct Body {
    role: Role,
    service: InProcess,
    namespace: String,
    instance: String,
    world: World,
    shutdown: Shutdown,
}

impl Body {
    async fn live(&self, life: &Arc<Life>) -> Result<(), ProcessError> {
        let setup = self.setup(life);
        match self.role {
            Role::Controller => process::controller(setup).await,
            Role::Agent => process::run_agent(setup).await,
        }
    }

    fn setup(&self, life: &Arc<Life>) -> Setup {
        let (doors, through) = (Arc::clone(&self.world.doors), Arc::clone(life));
        let connect = move |access: &Access| {
            let door = doors.lock().get(&access.server).cloned();
            door.map(|door| through.door(&door, "default"))
                .ok_or_else(|| ConnectError::Field {
                    field: "server",
                    problem: format!("there is no cluster at {}", access.server),
                })
        };
        let client = life.door(&self.service, &self.namespace);
        let lease = self.world.lease.map(|duration| Election {
            client: client.clone(),
            duration: LeaseDuration::try_from(duration).unwrap(),
        });
        Setup {
            client,
            namespace: self.namespace.clone(),
            options: Options::default(),
            clock: self.world.clock.clone(),
            jitter: Jitter::seeded(seed_of(&self.instance).wrapping_add(self.world.seed)),
            source: Arc::clone(&self.world.source),
            connect: Arc::new(connect),
            gates: gates::Access {
                hosts: [self.world.gate_host.clone()].into_iter().collect(),
                fetch: Arc::clone(&self.world.gates),
                ..gates::Access::default()
            },
            notify: None,
            instance: self.instance.clone(),
            lease,
            door: None,
            metrics: muster_controllers::metrics::Metrics::default(),
            shutdown: self.shutdown.clone(),
        }
    }
}

/// Starts a process as a child: the released binary, over HTTPS. Its log is appended to `<role>-<instance>.log` in
/// `directory`.
pub(crate) fn child(
    role: Role,
    place: &ProcessEnv<'_>,
    lease: Option<Duration>,
    sync: &str,
    gate_host: &str,
    directory: &Path,
) -> Process {
    let verb = match role {
        Role::Controller => "controller",
        Role::Agent => "agent",
    };
    let kubeconfig = directory.join(format!("{}.kubeconfig", place.instance));
    fs::write(&kubeconfig, place.api.kubeconfig_of(place.user)).unwrap();
    let log = open_log(directory, &format!("{verb}-{}.log", place.instance));
    let child = Command::new(muster())
        .arg(verb)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args(["--namespace", place.namespace, "--sync", sync])
        .arg("--allow-insecure-sources")
        .args(["--gate-hosts", gate_host])
        .arg("--data-dir")
        .arg(directory.join(format!("data-{}", place.instance)))
        .args(election(lease))
        .args(recording(role, place.instance, directory))
        .args(notifying(role, place, gate_host, directory))
        // Part of the identity of a lease holder.
        .env("HOSTNAME", place.instance)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn();
    Process::Child(Box::new(child.unwrap()))
}

fn election(lease: Option<Duration>) -> Vec<String> {
    match lease {
        Some(duration) => vec!["--lease-duration".to_owned(), format!("{}s", duration.as_secs())],
        None => vec!["--leader-elect=false".to_owned()],
    }
}

fn recording(role: Role, instance: &str, directory: &Path) -> Vec<OsString> {
    match role {
        Role::Controller => vec![
            "--record-decisions".into(),
            records::directory(directory, instance).into(),
        ],
        Role::Agent => Vec::new(),
    }
}

/// On real control planes, where permissions are checked, notifications are sent to the host that serves gate queries.
fn notifying(role: Role, place: &ProcessEnv<'_>, host: &str, directory: &Path) -> Vec<OsString> {
    match (role, place.api) {
        (Role::Controller, Server::Real(_)) => {
            let file = directory.join(format!("notify-{}.yaml", place.instance));
            fs::write(&file, monitoring::receivers(host)).unwrap();
            vec!["--notify-config".into(), file.into()]
        }
        (Role::Controller, Server::Embedded(_)) | (Role::Agent, _) => Vec::new(),
    }
}

/// A log file that a process appends to.
pub fn open_log(directory: &Path, name: &str) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join(name))
        .unwrap()
}

/// Prints the ends of all logs in a directory.
pub fn print_logs(directory: &Path) {
    let logs = fs::read_dir(directory).into_iter().flatten().flatten();
    for log in logs.filter(|entry| entry.path().extension().is_some_and(|end| end == "log")) {
        let text = fs::read_to_string(log.path()).unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        println!("--- {}\n{last}", log.path().display());
    }
}

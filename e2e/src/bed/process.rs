//! The controller and the agents: tasks that can be dropped, or children that can be killed.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use kube::Client;
use muster_apiserver::{ApiServer, Login};
use muster_controllers::{
    process::{self, ProcessError, Setup},
    registry::{Access, ConnectError},
    runtime::{Clock, Jitter, Options, Shutdown},
};
use muster_sync::source::Source;
use parking_lot::Mutex;
use tokio::process::{Child, Command};
use tokio_util::task::AbortOnDropHandle;

/// How long a process may take to end when it is told to: what is in flight has 30 s.
const END: Duration = Duration::from_secs(31);
/// How many lines of each log are shown when a scenario fails.
const LINES: usize = 40;

/// Clients by the address of the API server.
pub type Doors = Arc<Mutex<BTreeMap<String, Client>>>;

/// Which of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the management cluster.
    Controller,
    /// Of a downstream cluster.
    Agent,
}

/// Where a process belongs.
pub struct Place<'a> {
    /// Its API server.
    pub api: &'a ApiServer,
    /// As whom the API server knows it.
    pub user: &'a str,
    /// The namespace that it works in.
    pub namespace: &'a str,
    /// Its name among all.
    pub instance: &'a str,
}

/// A running process.
pub enum Process {
    /// On paused time.
    Task(AbortOnDropHandle<Result<(), ProcessError>>, Shutdown),
    /// On the wire.
    Child(Box<Child>),
}

impl Process {
    /// Ends it at once, in the middle of whatever it does.
    pub async fn crash(self) {
        match self {
            Self::Task(task, _) => drop(task),
            Self::Child(mut child) => child.kill().await.unwrap(),
        }
    }

    /// Tells it to end, and waits.
    pub async fn stop(self) {
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

/// SIGTERM, then the exit status.
pub async fn terminate(mut child: Child) -> std::process::ExitStatus {
    let pid = child.id().expect("the process has ended by itself").to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
    assert!(told.success());
    tokio::time::timeout(END, child.wait())
        .await
        .expect("the process does not end")
        .unwrap()
}

/// A process as a task, with the wiring that ships.
pub fn task(role: Role, place: &Place<'_>, clock: &Clock, source: Arc<dyn Source>, doors: &Doors) -> Process {
    let (shutdown, doors) = (Shutdown::new(), Arc::clone(doors));
    let connect = move |access: &Access| {
        let door = doors.lock().get(&access.server).cloned();
        door.ok_or_else(|| ConnectError::Field {
            field: "server",
            problem: format!("there is no cluster at {}", access.server),
        })
    };
    let setup = Setup {
        client: place.api.client_as(place.user),
        namespace: place.namespace.to_owned(),
        options: Options::default(),
        clock: clock.clone(),
        jitter: Jitter::seeded(1),
        source,
        connect: Arc::new(connect),
        instance: place.instance.to_owned(),
        shutdown: shutdown.clone(),
    };
    let task = match role {
        Role::Controller => tokio::spawn(process::controller(setup)),
        Role::Agent => tokio::spawn(process::agent(setup)),
    };
    Process::Task(AbortOnDropHandle::new(task), shutdown)
}

/// A process as a child: the binary that ships, over HTTPS. Its log is added to `<role>-<instance>.log` in `folder`.
pub fn child(role: Role, place: &Place<'_>, folder: &Path) -> Process {
    let verb = match role {
        Role::Controller => "controller",
        Role::Agent => "agent",
    };
    let kubeconfig = folder.join(format!("{}.kubeconfig", place.instance));
    fs::write(&kubeconfig, kubeconfig_of(place.api, place.user)).unwrap();
    let log = open_log(folder, &format!("{verb}-{}.log", place.instance));
    let child = Command::new(muster())
        .arg(verb)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args([
            "--namespace",
            place.namespace,
            "--allow-insecure-sources",
            "--data-dir",
        ])
        .arg(folder.join(format!("data-{}", place.instance)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn();
    Process::Child(Box::new(child.unwrap()))
}

/// A kubeconfig for a user of an API server with an HTTPS door.
pub fn kubeconfig_of(api: &ApiServer, user: &str) -> String {
    let identity = api.issue(user).unwrap();
    api.kubeconfig_of(&identity, Login::Certificate)
        .expect("the HTTPS door is open")
}

/// The binary, beside the tests.
pub fn muster() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let binary = tests.ancestors().nth(2).unwrap().join("muster");
    assert!(
        binary.is_file(),
        "run cargo build -p muster first: {} is not there",
        binary.display()
    );
    binary
}

fn open_log(folder: &Path, name: &str) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join(name))
        .unwrap()
}

/// Prints the ends of all logs in a folder.
pub fn print_logs(folder: &Path) {
    let logs = fs::read_dir(folder).into_iter().flatten().flatten();
    for log in logs.filter(|entry| entry.path().extension().is_some_and(|end| end == "log")) {
        let text = fs::read_to_string(log.path()).unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        println!("--- {}\n{last}", log.path().display());
    }
}

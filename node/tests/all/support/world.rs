//! A node: its services read files when they are reloaded, and its checks depend on what they read.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use muster_node::{
    Account, Agent, AgentEnvironment, Answer, Assignment, Checks, Clock, Config, Content, Dialed, File,
    FileState, Host, Piece, Program, Report, Server, Services, State, journal::Identity,
};
use serde_json::json;

use super::disk::{Fault, Killed, SimulatedDisk};

pub(crate) const OWN: &str = "/var/lib/muster/node";
pub(crate) const ETC: &str = "/etc/net";

/// The clocks; a sleep ends at once.
pub(crate) struct SimulatedClock {
    pub since_boot: Cell<Duration>,
    pub wall: Cell<Timestamp>,
    disk: Rc<SimulatedDisk>,
}

impl SimulatedClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.since_boot.set(self.since_boot.get() + time);
        self.set_wall(SignedDuration::try_from(time).unwrap());
    }

    /// Changes only the wall clock.
    pub(crate) fn set_wall(&self, by: SignedDuration) {
        self.wall.set(self.wall.get().checked_add(by).unwrap());
    }
}

impl Clock for SimulatedClock {
    fn since_boot(&self) -> Duration {
        self.since_boot.get()
    }

    fn wall(&self) -> Timestamp {
        self.wall.get()
    }

    fn sleep(&self, time: Duration) {
        let _ = self.disk.operation("sleep");
        self.advance(time);
    }
}

/// The services of the node.
pub(crate) struct SimulatedHost {
    disk: Rc<SimulatedDisk>,
    clock: Rc<SimulatedClock>,
    /// What the services read when they were last reloaded.
    pub running: RefCell<String>,
    pub programs: RefCell<Vec<String>>,
    pub dialed: Cell<usize>,
    /// The network is down for external reasons, between these times since the boot.
    pub outage: Cell<(Duration, Duration)>,
    /// The service `peer` fails, whatever the files contain.
    pub peer_fails: Cell<bool>,
    /// Reloads that fail, by the number of successful ones before.
    pub reload_fails_after: Cell<Option<usize>>,
    pub reload_output: RefCell<String>,
    /// The link is down at every other check, this number of times.
    pub flaps: Cell<usize>,
    pub secrets: RefCell<BTreeMap<String, String>>,
}

impl SimulatedHost {
    /// The state of the services if they were reloaded now.
    pub(crate) fn files(&self) -> String {
        format!(
            "{:?}",
            self.disk
                .files(ETC)
                .into_iter()
                .filter(|(path, _)| !path.contains(".muster-"))
                .collect::<Vec<_>>()
        )
    }

    fn is_out(&self) -> bool {
        let (from, until) = self.outage.get();
        (from..until).contains(&self.clock.since_boot.get())
    }

    pub(crate) fn boot(&self) {
        *self.running.borrow_mut() = self.files();
    }
}

impl Host for SimulatedHost {
    fn run(&self, program: &Program) -> Result<(), String> {
        let name = program.argv.join(" ");
        let _ = self.disk.operation(&format!("run {name}"));
        self.programs.borrow_mut().push(name.clone());
        match name.as_str() {
            "/bin/reload" => {
                match self.reload_fails_after.get() {
                    Some(0) => return Err(self.reload_output.borrow().clone()),
                    Some(left) => self.reload_fails_after.set(Some(left - 1)),
                    None => {}
                }
                *self.running.borrow_mut() = self.files();
                if self.running.borrow().contains("refuse") {
                    return Err(format!("exit code 1: {}", self.reload_output.borrow()));
                }
                Ok(())
            }
            "/bin/peer" if self.peer_fails.get() || self.running.borrow().contains("lose-peer") => {
                Err("exit code 1: no session".to_owned())
            }
            "/bin/slow" if self.running.borrow().contains("hang") => {
                self.clock.advance(program.timeout);
                Err("killed".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        let _ = self.disk.operation("list links");
        let flapping = self.flaps.get() > 0 && self.flaps.replace(self.flaps.get() - 1) % 2 == 1;
        let down = self.running.borrow().contains("link-down") || flapping;
        let state = if down { "down" } else { "up" };
        Ok(BTreeMap::from([
            ("bond0".to_owned(), state.to_owned()),
            ("lo".to_owned(), "unknown".to_owned()),
        ]))
    }

    fn dial(&self, _: SocketAddr, _: Duration) -> Dialed {
        let _ = self.disk.operation("dial");
        self.dialed.set(self.dialed.get() + 1);
        if self.is_out() || self.running.borrow().contains("no-route") {
            return Dialed::Failed("no route to host".to_owned());
        }
        Dialed::Refused
    }

    fn api_server(&self, _: &Server, _: Duration) -> Result<(), String> {
        let _ = self.disk.operation("ask the API server");
        if self.is_out() {
            Err("timed out".to_owned())
        } else {
            Ok(())
        }
    }

    fn account(&self, _: Account, name: &str) -> Option<u32> {
        (name == "frr").then_some(92)
    }

    fn secret(&self, file: &str) -> Result<Vec<u8>, String> {
        let secrets = self.secrets.borrow();
        let found = secrets.get(file).map(|text| text.clone().into_bytes());
        found.ok_or_else(|| "no such file".to_owned())
    }
}

pub(crate) struct World {
    pub disk: Rc<SimulatedDisk>,
    pub clock: Rc<SimulatedClock>,
    pub host: Rc<SimulatedHost>,
    pub identity: Identity,
    pub config: Config,
}

pub(crate) fn config() -> Config {
    Config::parse(&json!({
        "prefixes": [ETC, "/etc/other"],
        "reloaders": {"net": {"argv": ["/bin/reload"], "timeout": "10s"}},
        "services": {
            "peer": {"argv": ["/bin/peer"], "timeout": "2s"},
            "slow": {"argv": ["/bin/slow"], "timeout": "10m"},
        },
        "checkTargets": ["10.0.0.0/8:179", "fd00::/8:179"],
        "secrets": {"key": "/etc/secret-of-net"},
        "server": "https://10.0.0.9:6443",
    }))
    .unwrap()
}

impl World {
    /// A node with only the agent's own directory.
    pub(crate) fn new() -> Self {
        let disk = Rc::new(SimulatedDisk::new());
        disk.make_directories(&format!("{OWN}/x"));
        disk.make_directories(&format!("{ETC}/x"));
        disk.make_directories("/etc/other/x");
        let clock = Rc::new(SimulatedClock {
            since_boot: Cell::new(Duration::from_secs(100)),
            wall: Cell::new("2026-01-01T00:00:00Z".parse().unwrap()),
            disk: Rc::clone(&disk),
        });
        let host = Rc::new(SimulatedHost {
            disk: Rc::clone(&disk),
            clock: Rc::clone(&clock),
            running: RefCell::default(),
            programs: RefCell::default(),
            dialed: Cell::new(0),
            outage: Cell::new((Duration::ZERO, Duration::ZERO)),
            peer_fails: Cell::new(false),
            reload_fails_after: Cell::new(None),
            reload_output: RefCell::new("boom".to_owned()),
            flaps: Cell::new(0),
            secrets: RefCell::default(),
        });
        Self {
            disk,
            clock,
            host,
            identity: Identity {
                boot_id: "boot-1".to_owned(),
                machine_id: "machine-1".to_owned(),
            },
            config: config(),
        }
    }

    pub(crate) fn agent_environment(&self) -> AgentEnvironment {
        AgentEnvironment {
            directory: OWN.to_owned(),
            disk: Rc::clone(&self.disk) as _,
            clock: Rc::clone(&self.clock) as _,
            host: Rc::clone(&self.host) as _,
            identity: self.identity.clone(),
        }
    }

    pub(crate) fn start(&self) -> Agent {
        Agent::start(
            self.agent_environment(),
            self.config.clone(),
            Services::Running,
            None,
        )
        .unwrap()
    }

    /// The host boots: the restore unit runs, then the services read their files.
    pub(crate) fn reboot(&mut self) {
        let number: u32 = self.identity.boot_id["boot-".len()..].parse().unwrap();
        self.identity.boot_id = format!("boot-{}", number + 1);
        self.clock.since_boot.set(Duration::from_secs(5));
        let restored = Agent::start(
            self.agent_environment(),
            self.config.clone(),
            Services::NotStarted,
            None,
        );
        drop(restored.unwrap());
        self.host.boot();
    }

    /// Files of the node without temporary ones beside targets.
    pub(crate) fn files(&self) -> BTreeMap<String, (u32, String)> {
        let mut files = self.disk.files("/etc");
        files.retain(|path, _| !path.contains("/.muster-"));
        files
    }

    /// The temporary files beside targets.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        self.disk
            .files("/etc")
            .into_keys()
            .filter(|path| path.contains("/.muster-"))
            .collect()
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        self.files().get(path).map(|(_, content)| content.clone())
    }

    /// All bytes that the agent stores, and all names on the disk.
    pub(crate) fn everything_kept(&self) -> String {
        let mut all = String::new();
        for (path, (_, content)) in self.disk.files(OWN) {
            all.extend([path.as_str(), "\n", content.as_str(), "\n"]);
        }
        all + &self.disk.files("/").into_keys().collect::<Vec<_>>().join("\n")
    }

    /// Runs it, with the process killed at this operation. Whether it was.
    pub(crate) fn with_fault<T>(&self, fault: Fault, act: impl FnOnce() -> T) -> Option<T> {
        self.disk.operations.set(0);
        self.disk.log.borrow_mut().clear();
        self.disk.fault.set(Some(fault));
        let result = catch_unwind(AssertUnwindSafe(act));
        self.disk.fault.set(None);
        match result {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }
}

/// Calls the agent once; required acknowledgements are given.
pub(crate) fn assign(agent: &mut Agent, rows: &[Assignment]) -> Answer {
    agent.assign(rows, &mut |_| true)
}

/// Passes one row once, and returns its report.
pub(crate) fn assign_once(agent: &mut Agent, row: &Assignment) -> Report {
    assign(agent, std::slice::from_ref(row)).reports.remove(0)
}

/// The reason of the row's state after one call.
pub(crate) fn reason(agent: &mut Agent, row: &Assignment) -> &'static str {
    assign_once(agent, row).state.reason()
}

/// Calls the agent until nothing is left to do, at most ten times.
pub(crate) fn until_quiet(world: &World, agent: &mut Agent, rows: &[Assignment]) -> Vec<State> {
    for _ in 0..10 {
        let answer = assign(agent, rows);
        match answer.again {
            Some(pause) => world.clock.advance(pause),
            None => return answer.reports.into_iter().map(|report| report.state).collect(),
        }
    }
    panic!("the agent does not come to rest");
}

pub(crate) fn file(path: &str, content: &str) -> File {
    File {
        path: path.to_owned(),
        content: pieces(content),
        ..File::default()
    }
}

/// `$(SECRET_name)` and the text in between, as a NodeModule is rendered.
pub(crate) fn pieces(content: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = content;
    while let Some((text, after)) = rest.split_once("$(SECRET_") {
        let (name, after) = after.split_once(')').unwrap();
        pieces.extend([Piece::Text(text.to_owned()), Piece::Secret(name.to_owned())]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces
}

pub(crate) fn absent(path: &str) -> File {
    File {
        path: path.to_owned(),
        state: FileState::Absent,
        ..File::default()
    }
}

/// A row that reloads `net` and has all checks, with its number as token and digest.
pub(crate) fn row(number: u64, files: Vec<File>) -> Assignment {
    Assignment {
        name: "fabric".to_owned(),
        revision: format!("r{number}"),
        digest: format!("digest-{number}"),
        token: number,
        attempt: 0,
        deleting: false,
        content: Content {
            files,
            reload: vec!["net".to_owned()],
            checks: Checks {
                interfaces: vec!["bond*".to_owned()],
                tcp: vec!["10.0.0.1:179".to_owned()],
                services: vec!["peer".to_owned()],
                api_server: true,
            },
            ..Content::default()
        },
    }
}

pub(crate) fn path(name: &str) -> String {
    format!("{ETC}/{name}")
}

//! A node with the real agent on a real disk, whose programs and environment are scripted by a case.
//!
//! A revision of the original is a row whose only file contains the name of the revision; applying it is the reload
//! program, which reads that file. Statuses and the condition are derived from the agent's reports.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::MetadataExt as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    time::Duration,
};

use anyhow::Context;
use jiff::Timestamp;
use muster_node::{
    Account, Agent, AgentEnvironment, Answer, Assignment, Checks, Clock, Config, Content, Dialed, Failing,
    File, Host, Piece, Program, Report, Server, Services, State, disk::HostDisk, journal::Identity,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Upstream's error for a refused connection.
const REFUSED: &str = "connect: connection refused";

/// The scripted results of actions, in the vocabulary of the tables.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Results of applying, by revision; the last one repeats.
    pub apply: BTreeMap<String, Vec<String>>,
    pub links: Result<BTreeMap<String, String>, String>,
    /// Results of dialing, by address; the last one repeats.
    pub dial: BTreeMap<String, Vec<String>>,
    pub api_server: Option<String>,
    /// Whether a failed apply leaves the data plane partially changed.
    pub partial: bool,
    /// The process dies while it applies this revision.
    pub dies_at: Option<String>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            apply: BTreeMap::new(),
            links: Ok(BTreeMap::from([("eth0".to_owned(), "up".to_owned())])),
            dial: BTreeMap::new(),
            api_server: None,
            partial: false,
            dies_at: None,
        }
    }
}

/// One recorded action of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// The revision, and whether it succeeded.
    Apply(String, bool),
    /// The name of a check, and whether it passed.
    Check(&'static str, bool),
    /// A write that the adapter makes for the agent.
    Write(String),
}

/// The next of successive results; the last one repeats, an empty list means success.
fn next(outcomes: Option<&mut Vec<String>>) -> String {
    match outcomes {
        Some(outcomes) if outcomes.len() > 1 => outcomes.remove(0),
        Some(outcomes) => outcomes.first().cloned().unwrap_or_else(|| "ok".to_owned()),
        None => "ok".to_owned(),
    }
}

struct Died;

pub(super) struct ScriptedHost {
    file: std::path::PathBuf,
    uid: u32,
    gid: u32,
    pub script: RefCell<Script>,
    pub calls: RefCell<Vec<Call>>,
    pub running: RefCell<Option<String>>,
    /// Addresses in the form of the tables.
    pub names: RefCell<BTreeMap<SocketAddr, String>>,
    pub dials: RefCell<Vec<(String, bool)>>,
}

impl ScriptedHost {
    fn record_call(&self, call: Call) {
        self.calls.borrow_mut().push(call);
    }
}

impl Host for ScriptedHost {
    fn run(&self, _: &Program) -> Result<(), String> {
        let Ok(revision) = fs::read_to_string(&self.file) else {
            // Nothing is configured, so there is nothing to apply.
            *self.running.borrow_mut() = None;
            return Ok(());
        };
        let mut script = self.script.borrow_mut();
        if script.dies_at.as_ref() == Some(&revision) {
            script.dies_at = None;
            drop(script);
            self.record_call(Call::Apply(revision, false));
            resume_unwind(Box::new(Died));
        }
        let outcome = next(script.apply.get_mut(&revision));
        self.record_call(Call::Apply(revision.clone(), outcome == "ok"));
        if outcome == "ok" {
            *self.running.borrow_mut() = Some(revision);
            return Ok(());
        }
        if script.partial {
            *self.running.borrow_mut() = Some(format!("partly {revision}"));
        }
        Err(outcome)
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        let links = self.script.borrow().links.clone();
        let up = links
            .as_ref()
            .is_ok_and(|links| links.values().all(|state| state == "up"));
        self.record_call(Call::Check("checkInterfaces", up));
        links
    }

    fn dial(&self, target: SocketAddr, _: Duration) -> Dialed {
        let name = self
            .names
            .borrow()
            .get(&target)
            .cloned()
            .unwrap_or_else(|| target.to_string());
        let outcome = next(self.script.borrow_mut().dial.get_mut(&name));
        let dialed = match outcome.as_str() {
            "ok" => Dialed::Open,
            text if text.starts_with("close:") => Dialed::Open,
            text if text.ends_with(REFUSED) => Dialed::Refused,
            text => Dialed::Failed(text.to_owned()),
        };
        let good = !matches!(dialed, Dialed::Failed(_));
        self.record_call(Call::Check("checkReachability", good));
        self.dials.borrow_mut().push((name, good));
        dialed
    }

    fn api_server(&self, _: &Server, _: Duration) -> Result<(), String> {
        let error = self.script.borrow().api_server.clone();
        self.record_call(Call::Check("checkAPIServer", error.is_none()));
        error.map_or(Ok(()), Err)
    }

    fn account(&self, kind: Account, _: &str) -> Option<u32> {
        Some(match kind {
            Account::User => self.uid,
            Account::Group => self.gid,
        })
    }

    fn secret(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no secrets".to_owned())
    }
}

#[derive(Default)]
struct SleeplessClock(Cell<Duration>);

impl Clock for SleeplessClock {
    fn since_boot(&self) -> Duration {
        self.0.get()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }
}

pub(super) struct Node {
    directory: TempDir,
    pub host: Rc<ScriptedHost>,
    clock: Rc<SleeplessClock>,
    boot: u32,
    agent: Option<Agent>,
    row: String,
    /// The assigned revision, and its token.
    pub assigned: Option<String>,
    token: u64,
    /// The status in the API; null if there is no object.
    pub status: Value,
    /// Results of successive status writes.
    pub status_writes: Vec<String>,
    /// The time of the next write.
    pub now: Timestamp,
}

impl Node {
    pub(super) fn new(row: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        for name in ["own", "etc"] {
            fs::create_dir(directory.path().join(name))?;
        }
        let owner = fs::metadata(directory.path())?;
        let host = ScriptedHost {
            file: fs::canonicalize(directory.path())?.join("etc/config"),
            uid: owner.uid(),
            gid: owner.gid(),
            script: RefCell::default(),
            calls: RefCell::default(),
            running: RefCell::default(),
            names: RefCell::default(),
            dials: RefCell::default(),
        };
        let mut node = Self {
            directory,
            host: Rc::new(host),
            clock: Rc::default(),
            boot: 1,
            agent: None,
            row: row.to_owned(),
            assigned: None,
            token: 0,
            status: Value::Null,
            status_writes: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        };
        node.restart()?;
        Ok(node)
    }

    fn agent_environment(&self) -> anyhow::Result<AgentEnvironment> {
        let directory = fs::canonicalize(self.directory.path())?;
        let path = |name: &str| directory.join(name).display().to_string();
        Ok(AgentEnvironment {
            directory: path("own"),
            disk: Rc::new(HostDisk::new([path("own"), path("etc")])),
            clock: Rc::clone(&self.clock) as _,
            host: Rc::clone(&self.host) as _,
            identity: Identity {
                boot_id: self.boot.to_string(),
                machine_id: "machine".to_owned(),
            },
        })
    }

    /// Restarts the agent's process.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.agent = None;
        self.start(Services::Running)
            .map(|agent| self.agent = Some(agent))
    }

    fn start(&self, services: Services) -> anyhow::Result<Agent> {
        let prefix = self.host.file.parent().context("a file without a directory")?;
        let config = Config::parse(&json!({
            "prefixes": [prefix],
            "reloaders": {"apply": {"argv": ["/bin/apply"], "timeout": "1s"}},
            "checkTargets": ["10.0.0.0/8:179"],
            "server": "https://10.0.0.1:6443",
            "dialTries": 1,
        }))?;
        Ok(Agent::start(self.agent_environment()?, config, services, None)?)
    }

    /// Boots the host: its restore unit runs, and its data plane starts without a configuration.
    pub(super) fn reboot(&mut self) -> anyhow::Result<()> {
        self.agent = None;
        self.boot += 1;
        self.start(Services::NotStarted)?;
        *self.host.running.borrow_mut() = None;
        self.restart()
    }

    /// Reads a file of the agent's state directory.
    pub(super) fn own(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join("own").join(name)
    }

    /// The operator assigns a revision: a different revision is a new assignment.
    pub(super) fn assign(&mut self, revision: &str) {
        if self.assigned.as_deref() != Some(revision) {
            self.token += 1;
        }
        self.assigned = Some(revision.to_owned());
    }

    /// The file of the row, with the content of its revision.
    fn rows(&self) -> Vec<Assignment> {
        let file = |revision: &String| File {
            path: self.host.file.display().to_string(),
            owner: Some("agent".to_owned()),
            group: Some("agent".to_owned()),
            content: vec![Piece::Text(revision.clone())],
            ..File::default()
        };
        let row = |revision: &String| Assignment {
            name: self.row.clone(),
            revision: revision.clone(),
            digest: revision.clone(),
            token: self.token,
            attempt: 0,
            deleting: false,
            content: Content {
                files: vec![file(revision)],
                reload: vec!["apply".to_owned()],
                checks: Checks {
                    interfaces: vec!["eth0".to_owned()],
                    tcp: vec!["10.0.0.1:179".to_owned()],
                    services: Vec::new(),
                    api_server: true,
                },
                settle: Some("0s".to_owned()),
                hold_for: Some("0s".to_owned()),
                confirm_within: Some("2s".to_owned()),
                ..Content::default()
            },
        };
        self.assigned.iter().map(row).collect()
    }

    /// Runs one pass of the agent, and writes its result to the API. Returns the report, unless nothing is assigned or
    /// the process died.
    pub(super) fn pass(&mut self) -> anyhow::Result<Option<Passed>> {
        let rows = self.rows();
        let mut agent = self.agent.take().context("no agent is running")?;
        let mut tried = false;
        let answered = catch_unwind(AssertUnwindSafe(|| {
            agent.assign(&rows, &mut |report| {
                tried = true;
                self.write(report)
            })
        }));
        let Answer { mut reports, .. } = match answered {
            Ok(answer) => answer,
            Err(payload) if payload.is::<Died>() => return Ok(None),
            Err(payload) => resume_unwind(payload),
        };
        self.agent = Some(agent);
        let Some(report) = reports.pop() else {
            return Ok(None);
        };
        let written = self.write(&report);
        Ok(Some(Passed {
            report,
            tried,
            written,
        }))
    }

    /// Runs the local subcommand.
    pub(super) fn restore(&mut self) -> anyhow::Result<bool> {
        Ok(self.agent.as_mut().context("no agent is running")?.restore())
    }

    /// Writes the status for a report, if it has changed. Returns whether it was written, or did not have to be.
    fn write(&mut self, report: &Report) -> bool {
        let new = status(&self.status, report, self.now);
        let unchanged = |status: &Value| {
            let mut status = status.clone();
            status["lastUpdate"] = Value::Null;
            status
        };
        if new.is_null() || unchanged(&new) == unchanged(&self.status) {
            return true;
        }
        let outcome = if self.status_writes.is_empty() {
            "ok".to_owned()
        } else {
            self.status_writes.remove(0)
        };
        let what = format!("writeStatus {}", new["configStatus"].as_str().unwrap_or_default());
        if outcome == "ok" {
            self.host.record_call(Call::Write(what));
            self.status = new;
            return true;
        }
        self.host.record_call(Call::Write(format!("{what} !{outcome}")));
        false
    }

    /// The revision that the agent remembers as good.
    pub(super) fn confirmed(&self) -> anyhow::Result<Option<(String, String)>> {
        let status = muster_node::status(&self.agent_environment()?)?;
        let named = |row: muster_node::RowStatus| Some((row.name, row.confirmed?));
        Ok(status.rows.into_iter().next().and_then(named))
    }
}

/// A completed pass.
pub(super) struct Passed {
    pub report: Report,
    /// Whether a change was started.
    pub tried: bool,
    /// Whether the last status could be written.
    pub written: bool,
}

impl Passed {
    /// The error of this pass.
    pub(super) fn error(&self) -> Option<String> {
        let failed = self.tried && self.report.state != State::Confirmed;
        (failed || !self.written).then(|| self.report.message().unwrap_or_default())
    }
}

/// The status in the tables for a report; `None` if there is nothing new.
pub(super) fn status(before: &Value, report: &Report, now: Timestamp) -> Value {
    let word = match &report.state {
        State::Changing => "provisioning",
        State::Confirmed => "provisioned",
        State::Ended(_) | State::Refused(_) => "invalid",
        State::Waiting(_) | State::Gone => return Value::Null,
    };
    let mut status = json!({"configStatus": word, "lastUpdate": now.to_string()});
    if report.has_ended() {
        status["lastAppliedRevision"] = report.digest.as_str().into();
    } else if let Some(before) = before.get("lastAppliedRevision") {
        status["lastAppliedRevision"] = before.clone();
    }
    if let Some(message) = report.message() {
        status["errorMessage"] = message.into();
    }
    status
}

/// The calls in the vocabulary of the tables: the checks of an attempt, up to the first failure, and the resulting
/// condition. Checks that the original does not run (before a change, during the hold period, after a restore) are left
/// out.
pub(super) fn printed(calls: &[Call], checks: bool) -> Vec<String> {
    let mut printed = Vec::new();
    let mut checked: Vec<&str> = Vec::new();
    let (mut applied, mut failed) = (0, false);
    for call in calls {
        match call {
            Call::Write(text) => printed.push(text.clone()),
            Call::Apply(revision, good) => {
                applied += 1;
                failed |= !good;
                printed.push(format!("apply {revision}"));
            }
            Call::Check(name, good) if applied == 1 && !failed && !checked.contains(name) => {
                checked.push(name);
                if checks {
                    printed.push((*name).to_owned());
                }
                if !good {
                    failed = true;
                    printed.push(format!("setCondition False {}", condition(name)));
                } else if *name == "checkAPIServer" {
                    printed.push("setCondition True HealthChecksPassed".to_owned());
                }
            }
            Call::Check(..) => {}
        }
    }
    printed
}

/// The reason of the condition if this check fails.
pub(super) fn condition(check: &str) -> &'static str {
    let name = match check {
        "checkInterfaces" => "interface eth0",
        "checkReachability" => "tcp 10.0.0.1:179",
        _ => "apiServer",
    };
    Failing::reason(name)
}

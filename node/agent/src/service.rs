//! The agent as a service: it reads rows, writes reports, and reads from the API server what it needs in between.
//!
//! ```text
//!   NodeAssemblage ─► rows (rendered from NodeRevisions) ─► thread of the agent ─► reports ─► status
//!   configuration of the node ──────────────────────────────────┘       └─ a change begins once its begin is written
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Client,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use muster_api::node::{
    NodeAssemblage, NodeRevision,
    assemblage::{NodeRow, NodeRowState},
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{
    CallError, Clock, Shutdown, call,
    call::error_chain,
    status::status_patch,
    watch::{self, watch_cluster},
};
use muster_node::{Assignment, Hold, Report, Server};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use crate::{
    MANAGER,
    config_file::{ConfigFile, Loaded},
    report,
    rows::{self, Contents, RowRequest},
    worker::{Event, Worker},
};

/// The interval of retries and of comparing the configuration.
const TICK: Duration = Duration::from_secs(5);

/// The parts of the service.
pub struct Service {
    /// The client for the API server.
    pub client: Client,
    /// The name of this node.
    pub node: String,
    /// The version of this program.
    pub version: String,
    /// The thread of the agent.
    pub worker: Worker,
    /// Its messages.
    pub events: UnboundedReceiver<Event>,
    /// The configuration of the node, if it can change.
    pub config: Option<Watched>,
    /// The source of the current time.
    pub clock: Clock,
    /// Cancelled when the service must end.
    pub shutdown: Shutdown,
}

/// Why the service ended before a shutdown was requested.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The configuration names another API server: a new process must connect to it.
    #[error("the server in the configuration changed: restarting")]
    ServerChanged,
    /// The agent's thread ended.
    #[error("the thread of the agent ended: please report this as a bug in muster")]
    Ended,
}

/// Runs until shutdown. Whatever the API server does, the agent restores unconfirmed changes.
pub async fn run(service: Service) -> Result<(), ServiceError> {
    let shutdown = service.shutdown.clone();
    let mut shell = Shell::new(service);
    let watched = watcher::Config::default().fields(&format!("metadata.name={}", shell.node));
    let mut watch = Box::pin(watch_cluster::<NodeAssemblage>(shell.client.clone(), watched));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            Some(event) = watch.next() => shell.read(event).await,
            event = shell.events.recv() => shell.handle_event(event.ok_or(ServiceError::Ended)?).await,
            _ = ticks.tick() => shell.tick().await?,
        }
    }
}

/// A configuration that is read again when its text changes.
pub struct Watched {
    /// The configuration file.
    pub file: ConfigFile,
    /// The text that was read; none if it could not be read.
    pub text: Option<String>,
    /// The API server that it names.
    pub server: Option<Server>,
}

impl Watched {
    /// The configuration, if its text has changed.
    pub fn changed(&mut self) -> Option<Loaded> {
        let text = self.file.text().ok();
        if text == self.text {
            return None;
        }
        self.text = text;
        Some(self.file.load())
    }
}

struct Shell {
    client: Client,
    clock: Clock,
    assemblages: Api<NodeAssemblage>,
    node: String,
    version: String,
    worker: Worker,
    events: UnboundedReceiver<Event>,
    config: Option<Watched>,
    assemblage: Option<NodeAssemblage>,
    contents: Contents,
    given: Vec<Assignment>,
    states: BTreeMap<String, NodeRowState>,
    hold: Option<Hold>,
    /// A read or a write failed and must be retried.
    is_behind: bool,
}

impl Shell {
    fn new(service: Service) -> Self {
        let Service {
            client,
            node,
            version,
            worker,
            events,
            config,
            clock,
            shutdown: _,
        } = service;
        Self {
            assemblages: Api::all(client.clone()),
            client,
            clock,
            node,
            version,
            worker,
            events,
            config,
            assemblage: None,
            contents: Contents::new(),
            given: Vec::new(),
            states: BTreeMap::new(),
            hold: None,
            is_behind: false,
        }
    }

    /// Handles an event of the watch for this node's NodeAssemblage.
    async fn read(&mut self, event: watch::Watched<NodeAssemblage>) {
        match event {
            watcher::Event::Apply(guard) | watcher::Event::InitApply(guard) => match guard.0 {
                Ok(assemblage) => self.take(assemblage).await,
                Err(error) => warn!(%error, "the NodeAssemblage of this node cannot be read"),
            },
            // Files stay as they are: only a row requests a removal.
            watcher::Event::Delete(_) => {
                self.assemblage = None;
                self.reset_reports();
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    async fn take(&mut self, assemblage: NodeAssemblage) {
        let known = self.assemblage.as_ref().map(|known| &known.metadata.uid);
        if known.is_some_and(|uid| *uid != assemblage.metadata.uid) {
            self.reset_reports();
        }
        self.assemblage = Some(assemblage);
        self.give().await;
    }

    /// Reports about rows of another object do not apply: the agent is asked again, even if the rows are the same.
    fn reset_reports(&mut self) {
        self.states.clear();
        self.given.clear();
    }

    /// Passes the rows' requests to the agent, and reports those that cannot be passed.
    async fn give(&mut self) {
        let Some(assemblage) = &self.assemblage else {
            return;
        };
        let all = assemblage.spec.rows.clone();
        self.is_behind = !self.read_contents(&all).await;
        let mut given = Vec::new();
        for row in &all {
            match rows::row_request(row, &self.contents) {
                RowRequest::Assignment(assignment) => given.push(*assignment),
                RowRequest::Refused(error) => {
                    let state = self.with_confirmed(error.state(row));
                    self.states.insert(row.name.clone(), state);
                }
                RowRequest::Unread(_) | RowRequest::Nothing => {}
            }
        }
        if given != self.given {
            self.given.clone_from(&given);
            self.worker.assign(given);
        }
        self.write().await;
    }

    /// A rejected row changes nothing on the node.
    fn with_confirmed(&self, state: NodeRowState) -> NodeRowState {
        let before = self.states.get(&state.name);
        NodeRowState {
            confirmed: before.and_then(|before| before.confirmed.clone()),
            ..state
        }
    }

    /// Reads the contents that rows name, and drops others. Whether all were read.
    async fn read_contents(&mut self, all: &[NodeRow]) -> bool {
        let names: Vec<String> = all.iter().filter_map(rows::revision_name).collect();
        self.contents.retain(|name, _| names.contains(name));
        let mut complete = true;
        for name in names {
            // A NodeRevision that did not exist may exist now.
            if matches!(self.contents.get(&name), Some(Some(_))) {
                continue;
            }
            match self.content(&name).await {
                Ok(content) => {
                    complete &= content.is_some();
                    self.contents
                        .insert(name, content.map(|revision| Arc::new(revision.spec.content)));
                }
                Err(error) => {
                    warn!(error = error_chain(&error), "a NodeRevision could not be read");
                    complete = false;
                    if error.is_unreachable() {
                        // The others would fail too, each after its timeout.
                        break;
                    }
                }
            }
        }
        complete
    }

    async fn content(&self, name: &str) -> Result<Option<NodeRevision>, CallError> {
        let revisions: Api<NodeRevision> = Api::all(self.client.clone());
        call(format!("reading NodeRevision {name}"), revisions.get_opt(name)).await
    }

    /// Handles a message of the agent's thread.
    async fn handle_event(&mut self, event: Event) {
        match event {
            Event::Begins(report, answer) => {
                self.record_report(&report);
                let begins = self.write().await && self.is_asked(&report);
                // A thread that no longer waits has not started the change.
                let _ = answer.send(begins);
            }
            Event::Stand { reports, hold } => {
                self.hold = hold;
                for report in &reports {
                    self.record_report(report);
                }
                self.write().await;
            }
        }
    }

    /// Records a report, if it is about the current row.
    fn record_report(&mut self, report: &Report) {
        if let Some(row) = self.row(&report.row).filter(|row| rows::is_about(row, report)) {
            let state = report::state(row, report);
            self.states.insert(report.row.clone(), state);
        }
    }

    /// Whether the row that the report is about is still requested.
    fn is_asked(&self, report: &Report) -> bool {
        self.row(&report.row)
            .is_some_and(|row| rows::is_about(row, report))
    }

    fn row(&self, name: &str) -> Option<&NodeRow> {
        let rows = &self.assemblage.as_ref()?.spec.rows;
        rows.iter().find(|row| row.name == name)
    }

    /// Writes the status if it changed. Whether it is written.
    async fn write(&mut self) -> bool {
        let Some(assemblage) = &self.assemblage else {
            return false;
        };
        let agent = report::agent(&self.version, self.hold.as_ref());
        let status = report::status(assemblage, agent, &self.states, self.clock.now());
        let (old, new) = (
            json!(assemblage.status.clone().unwrap_or_default()),
            json!(status),
        );
        let Some(body) = status_patch(&old, new) else {
            return true;
        };
        match self.patch(body).await {
            Ok(written) => {
                // The watch also delivers rows that changed in the meantime.
                self.assemblage = Some(written);
                true
            }
            Err(error) => {
                warn!(
                    error = error_chain(&error),
                    "a report could not be written, it will be retried"
                );
                self.is_behind = true;
                false
            }
        }
    }

    async fn patch(&self, status: Value) -> Result<NodeAssemblage, CallError> {
        let by = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let body = Patch::Merge(json!({"status": status}));
        let what = format!("writing the status of NodeAssemblage {}", self.node);
        call(what, self.assemblages.patch_status(&self.node, &by, &body)).await
    }

    /// Retries what failed, and compares the configuration.
    async fn tick(&mut self) -> Result<(), ServiceError> {
        self.configure()?;
        if self.is_behind {
            self.give().await;
        }
        Ok(())
    }

    fn configure(&mut self) -> Result<(), ServiceError> {
        let Some(watched) = &mut self.config else {
            return Ok(());
        };
        let Some(loaded) = watched.changed() else {
            return Ok(());
        };
        match loaded.problem {
            None if loaded.config.server != watched.server => return Err(ServiceError::ServerChanged),
            None => {
                info!(file = %watched.file.path().display(), "the configuration changed");
                self.worker.configure(loaded.config, loaded.settled);
            }
            Some(problem) => {
                warn!(%problem, "the configuration cannot be used: the last valid one stays in use");
            }
        }
        Ok(())
    }
}

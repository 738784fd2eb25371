//! The thread of the agent: it blocks while a node changes, without blocking the rest of the process.

use std::{
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use muster_node::{
    Agent, AgentEnvironment, AgentError, ApiServer, Assignment, Config, Hold, Lock, LockError, Report,
    Server, Services, held,
};
use thiserror::Error;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::{
    beat::{Beat, BeatingClock},
    config_file::Settled,
    platform::Platform,
};

/// The interval of reading whether the node is held.
const HOLD: Duration = Duration::from_secs(5);
/// The interval of comparing files with what was confirmed.
const DRIFT: Duration = Duration::from_mins(1);
/// Timeout for writing the report that a change starts.
const ACKNOWLEDGED: Duration = Duration::from_mins(1);

/// The inputs of the agent.
pub struct Start {
    /// Its own directory, absolute; it exists.
    pub directory: PathBuf,
    /// Its environment.
    pub platform: Arc<dyn Platform>,
    /// How it calls its API server.
    pub api_server: Arc<dyn ApiServer + Send + Sync>,
    /// The configuration of the node.
    pub config: Config,
    /// Prefixes of previous configurations: unconfirmed changes below them are restored.
    pub earlier: Vec<String>,
    /// The action to run once nothing is left to restore.
    pub settled: Option<Settled>,
    /// Whether the services of the host run.
    pub services: Services,
}

/// Why an agent cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process uses this directory, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory cannot be read or written.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The boot id or the machine id cannot be read.
    #[error("cannot read the boot_id and the machine-id of this host: {0}")]
    Identity(std::io::Error),
    /// The thread cannot be started.
    #[error("the process cannot start the thread of the agent: {0}")]
    Thread(std::io::Error),
    /// The thread ended during its start.
    #[error("the thread of the agent ended: please report this as a bug in muster")]
    Ended,
}

/// A request to the thread.
enum Request {
    Rows(Vec<Assignment>),
    Configure(Box<Config>, Option<Settled>),
}

/// A message of the thread.
pub enum Event {
    /// A change is about to start: it waits for the answer `true`.
    Begins(Box<Report>, SyncSender<bool>),
    /// The state of all rows.
    Stand {
        /// One report for each row, in order.
        reports: Vec<Report>,
        /// The hold that is active.
        hold: Option<Hold>,
    },
}

/// The agent's thread.
pub struct Worker {
    requests: Sender<Request>,
    beat: Beat,
}

impl Worker {
    /// Starts the thread, and waits until it has restored unconfirmed changes. Its checks may call an API server on
    /// this runtime in the meantime.
    pub async fn spawn(start: Start, events: UnboundedSender<Event>) -> Result<Self, StartError> {
        let (requests, received) = channel();
        let (sender, started) = oneshot::channel();
        let beat = Beat::default();
        let beats = beat.clone();
        let work = move || match Work::start(start, beats) {
            Ok(mut work) => {
                // The process is ending if this or a later message is not received.
                let _ = sender.send(Ok(()));
                work.run(&received, &events);
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        let thread = thread::Builder::new().name("agent".to_owned());
        thread.spawn(work).map_err(StartError::Thread)?;
        started.await.map_err(|_closed| StartError::Ended)??;
        Ok(Self { requests, beat })
    }

    /// Sends it all rows of the node.
    pub fn assign(&self, rows: Vec<Assignment>) {
        // A thread that has ended has reported it.
        let _ = self.requests.send(Request::Rows(rows));
    }

    /// Sends it another configuration of the node.
    pub fn configure(&self, config: Config, settled: Option<Settled>) {
        let _ = self.requests.send(Request::Configure(Box::new(config), settled)); // as above
    }

    /// Its heartbeats.
    pub fn beat(&self) -> Beat {
        self.beat.clone()
    }
}

/// Restores unconfirmed changes, as at boot before networks and the kubelet. Whether all of them are restored.
pub fn restore(start: Start) -> Result<bool, StartError> {
    Ok(Work::start(start, Beat::default())?.restore())
}

struct Work {
    start: Start,
    surroundings: AgentEnvironment,
    agent: Agent,
    rows: Vec<Assignment>,
    hold: Option<Hold>,
    _lock: Lock,
}

impl Work {
    fn start(start: Start, beat: Beat) -> Result<Self, StartError> {
        let lock = Lock::take(&start.directory)?;
        let clock = Rc::new(BeatingClock::new(start.platform.clock(), beat));
        let api_server = Box::new(Shared(Arc::clone(&start.api_server)));
        let surroundings = AgentEnvironment {
            directory: start.directory.display().to_string(),
            disk: start.platform.disk(directories(&start)),
            host: start.platform.host(clock.clone(), api_server),
            clock,
            identity: start.platform.identity().map_err(StartError::Identity)?,
        };
        let agent = Agent::start(surroundings.clone(), start.config.clone(), start.services, None)?;
        let mut work = Self {
            start,
            surroundings,
            agent,
            rows: Vec::new(),
            hold: None,
            _lock: lock,
        };
        work.restore();
        Ok(work)
    }

    /// Restores what could not be restored before. Whether nothing is left: then the configuration in use is kept.
    fn restore(&mut self) -> bool {
        let restored = self.agent.restore();
        if restored && let Some(settled) = self.start.settled.take() {
            settled();
        }
        restored
    }

    fn run(&mut self, requests: &Receiver<Request>, events: &UnboundedSender<Event>) {
        let mut left = Duration::ZERO;
        loop {
            let begun = self.surroundings.clock.since_boot();
            match requests.recv_timeout(left.min(HOLD)) {
                Ok(request) => {
                    self.take(request);
                    for request in requests.try_iter() {
                        self.take(request);
                    }
                    left = Duration::ZERO;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let passed = self.surroundings.clock.since_boot().saturating_sub(begun);
            left = left.saturating_sub(passed);
            // A hold that cannot be read is read again with the next change, which it stops.
            let hold = held(&self.surroundings).unwrap_or_else(|_| self.hold.clone());
            if !left.is_zero() && hold == self.hold {
                continue;
            }
            self.hold = hold;
            left = self.pass(events);
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Rows(rows) => self.rows = rows,
            Request::Configure(config, settled) => self.configure(*config, settled),
        }
    }

    /// The disk gets the prefixes at its start: it is created again, and with it the agent, which reads its memory from
    /// its directory.
    fn configure(&mut self, config: Config, settled: Option<Settled>) {
        let before = std::mem::replace(&mut self.start.config, config);
        self.start.earlier.extend(before.prefixes);
        self.start.settled = settled;
        self.surroundings.disk = self.start.platform.disk(directories(&self.start));
        let (surroundings, config) = (self.surroundings.clone(), self.start.config.clone());
        match Agent::start(surroundings, config, Services::Running, None) {
            Ok(agent) => self.agent = agent,
            // The directory cannot be read: the existing agent continues, with the new definitions.
            Err(_) => self.agent.configure(self.start.config.clone()),
        }
        if self.restore() {
            // From the next change on these are inaccessible.
            self.start.earlier.clear();
        }
    }

    /// One pass over the rows. Returns when the next one is due.
    fn pass(&mut self, events: &UnboundedSender<Event>) -> Duration {
        self.restore();
        let answer = self.agent.assign(&self.rows, &mut |report| {
            let (answer, answered) = sync_channel(1);
            let sent = events.send(Event::Begins(Box::new(report.clone()), answer));
            sent.is_ok() && answered.recv_timeout(ACKNOWLEDGED).unwrap_or(false)
        });
        // The process is ending if this is not received.
        let _ = events.send(Event::Stand {
            reports: answer.reports,
            hold: self.hold.clone(),
        });
        answer.again.unwrap_or(DRIFT).min(DRIFT)
    }
}

/// All directories that the agent may open.
fn directories(start: &Start) -> Vec<String> {
    let own = start.directory.display().to_string();
    let mut directories: Vec<String> = std::iter::once(own)
        .chain(start.config.prefixes.iter().cloned())
        .chain(start.earlier.iter().cloned())
        .collect();
    directories.sort();
    directories.dedup();
    directories
}

/// An API server that is called from several threads.
struct Shared(Arc<dyn ApiServer + Send + Sync>);

impl ApiServer for Shared {
    fn answers(&self, server: &Server, timeout: Duration) -> Result<(), String> {
        self.0.answers(server, timeout)
    }
}

//! The thread of the agent: it blocks while a node changes, and nothing else of the process does.

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
    Agent, AgentError, ApiServer, Assignment, Config, Hold, Lock, LockError, Report, Server, Services,
    Surroundings, held,
};
use thiserror::Error;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::{
    beat::{Beat, BeatingClock},
    config_file::Settled,
    platform::Platform,
};

/// How often is read whether the node is held.
const HOLD: Duration = Duration::from_secs(5);
/// How often files are compared with what was confirmed.
const DRIFT: Duration = Duration::from_mins(1);
/// How long the report that a change begins may take to be written.
const ACKNOWLEDGED: Duration = Duration::from_mins(1);

/// What the agent is started with.
pub struct Start {
    /// Its own folder, absolute; it exists.
    pub folder: PathBuf,
    /// What it stands on.
    pub platform: Arc<dyn Platform>,
    /// How it asks its API server.
    pub api_server: Arc<dyn ApiServer + Send + Sync>,
    /// The configuration of the node.
    pub config: Config,
    /// Prefixes of configurations before: what is unconfirmed below them is restored.
    pub earlier: Vec<String>,
    /// What is to be done once nothing is left to restore.
    pub settled: Option<Settled>,
    /// Whether the services of the host run.
    pub services: Services,
}

/// What keeps an agent from starting.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process works on this folder, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The folder cannot be read or written.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// It is not known which boot of which machine this is.
    #[error("cannot read the boot_id and the machine-id of this host: {0}")]
    Identity(std::io::Error),
    /// There is no thread for it.
    #[error("the process cannot start the thread of the agent: {0}")]
    Thread(std::io::Error),
    /// The thread ended while it started.
    #[error("the thread of the agent ended: please report this as a defect of muster")]
    Ended,
}

/// What is asked of the thread.
enum Request {
    Rows(Vec<Assignment>),
    Configure(Box<Config>, Option<Settled>),
}

/// What the thread says.
pub enum Event {
    /// A change is about to begin: it does once this is answered by `true`.
    Begins(Box<Report>, SyncSender<bool>),
    /// How all rows stand.
    Stand {
        /// One for each row, in their order.
        reports: Vec<Report>,
        /// The hold that is active.
        hold: Option<Hold>,
    },
}

/// The thread.
pub struct Worker {
    requests: Sender<Request>,
    beat: Beat,
}

impl Worker {
    /// Starts it, and waits until it has restored what is unconfirmed. Its checks may ask an API server on this runtime meanwhile.
    pub async fn spawn(start: Start, events: UnboundedSender<Event>) -> Result<Self, StartError> {
        let (requests, received) = channel();
        let (tell, started) = oneshot::channel();
        let beat = Beat::default();
        let beats = beat.clone();
        let work = move || match Work::start(start, beats) {
            Ok(mut work) => {
                // The process is ending if this, or what follows, is not received.
                let _ = tell.send(Ok(()));
                work.run(&received, &events);
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = thread::Builder::new().name("agent".to_owned());
        thread.spawn(work).map_err(StartError::Thread)?;
        started.await.map_err(|_closed| StartError::Ended)??;
        Ok(Self { requests, beat })
    }

    /// Gives it the rows of the node, all of them.
    pub fn assign(&self, rows: Vec<Assignment>) {
        // A thread that has ended has said so.
        let _ = self.requests.send(Request::Rows(rows));
    }

    /// Gives it another configuration of the node.
    pub fn configure(&self, config: Config, settled: Option<Settled>) {
        let _ = self.requests.send(Request::Configure(Box::new(config), settled)); // as above
    }

    /// Its signs of life.
    pub fn beat(&self) -> Beat {
        self.beat.clone()
    }
}

/// Restores what is unconfirmed, as at a boot before networks and the kubelet. Whether all of it is restored.
pub fn restore(start: Start) -> Result<bool, StartError> {
    Ok(Work::start(start, Beat::default())?.restore())
}

struct Work {
    start: Start,
    surroundings: Surroundings,
    agent: Agent,
    rows: Vec<Assignment>,
    hold: Option<Hold>,
    _lock: Lock,
}

impl Work {
    fn start(start: Start, beat: Beat) -> Result<Self, StartError> {
        let lock = Lock::take(&start.folder)?;
        let clock = Rc::new(BeatingClock::new(start.platform.clock(), beat));
        let api_server = Box::new(Shared(Arc::clone(&start.api_server)));
        let surroundings = Surroundings {
            folder: start.folder.display().to_string(),
            disk: start.platform.disk(folders(&start)),
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

    /// Brings back what could not be brought back before. Whether nothing is left: then the configuration that led there is kept.
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
            // A hold that cannot be read is asked for again with the next change, which it stops.
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

    /// The disk knows the prefixes from its start: it is made anew, and with it the agent, which finds its memory in its folder.
    fn configure(&mut self, config: Config, settled: Option<Settled>) {
        let before = std::mem::replace(&mut self.start.config, config);
        self.start.earlier.extend(before.prefixes);
        self.start.settled = settled;
        self.surroundings.disk = self.start.platform.disk(folders(&self.start));
        let (surroundings, config) = (self.surroundings.clone(), self.start.config.clone());
        match Agent::start(surroundings, config, Services::Running, None) {
            Ok(agent) => self.agent = agent,
            // The folder cannot be read: the agent that is there goes on, with the new definitions.
            Err(_) => self.agent.configure(self.start.config.clone()),
        }
        if self.restore() {
            // From the next change on these are out of reach.
            self.start.earlier.clear();
        }
    }

    /// One pass over the rows. When the next one is due.
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

/// All folders that the agent may open.
fn folders(start: &Start) -> Vec<String> {
    let own = start.folder.display().to_string();
    let mut folders: Vec<String> = std::iter::once(own)
        .chain(start.config.prefixes.iter().cloned())
        .chain(start.earlier.iter().cloned())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// An API server that is asked from several threads.
struct Shared(Arc<dyn ApiServer + Send + Sync>);

impl ApiServer for Shared {
    fn answers(&self, server: &Server, timeout: Duration) -> Result<(), String> {
        self.0.answers(server, timeout)
    }
}

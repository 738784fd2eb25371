//! The process of the agent on its host: it restores unconfirmed changes first, then connects, then runs the service.

use std::{
    fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf, rc::Rc, sync::Arc, time::Duration,
};

use kube::Client;
use muster_controllers::runtime::{Clock, Shutdown};
use muster_node::{AgentEnvironment, Hold, PlainHttp, Services, Status, disk::DiskError};
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::{runtime::Handle, sync::mpsc::unbounded_channel, task::JoinSet};
use tracing::{info, warn};

use crate::{
    beat::Beat,
    config_file::{ConfigFile, Loaded},
    connection::{Access, Claim, ConnectError, Probe},
    lease,
    platform::Platform,
    service::{self, Service, ServiceError, Watched},
    worker::{self, Start, StartError, Worker},
};

/// The default path of the agent's own directory.
pub const DIRECTORY: &str = "/var/lib/muster/node";
/// The interval of connection attempts and of systemd watchdog notifications.
const RETRY: Duration = Duration::from_secs(5);
/// How long the agent's thread may send no heartbeat before the service stops notifying the watchdog.
const SILENT: Duration = Duration::from_mins(2);

/// The parts of an agent on a host.
#[derive(Clone)]
pub struct Node {
    /// The configuration of the node.
    pub config: PathBuf,
    /// The agent's own directory, absolute.
    pub directory: PathBuf,
    /// The host.
    pub platform: Arc<dyn Platform>,
}

/// Why the process ended before a shutdown was requested.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The agent's own directory cannot be created.
    #[error("{}: {error}", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The directory of the agent does not exist.
    #[error("there is no directory {}: the agent is not installed on this host", .0.display())]
    NotInstalled(PathBuf),
    /// The token is for another node.
    #[error("the token is for node {claimed}, and --node-name says {given}")]
    OtherNode {
        /// The node named by the token.
        claimed: String,
        /// The node named by the flag.
        given: String,
    },
    /// The name of this node is unknown.
    #[error("the token names no node (Kubernetes includes it from 1.32 on): set --node-name")]
    NoName,
    /// The agent cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The service ended.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The agent's own directory cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The boot id or the machine id cannot be read.
    #[error("cannot read the boot_id and the machine-id of this host: {0}")]
    Identity(std::io::Error),
}

impl Node {
    /// Runs the service until shutdown. `name` is the name of the node for tokens that contain none.
    pub async fn run(
        &self,
        name: Option<String>,
        version: &str,
        shutdown: Shutdown,
    ) -> Result<(), ProcessError> {
        let (sender, events) = unbounded_channel();
        let (start, watched) = self.start(Services::Running)?;
        let Some(worker) = shutdown.run_until_cancelled(Worker::spawn(start, sender)).await else {
            return Ok(());
        };
        let worker = worker?;
        let mut tasks = JoinSet::new();
        // The systemd watchdog expects notifications from the start, connected or not.
        tasks.spawn(watchdog(worker.beat()));
        let Some((client, watched)) = shutdown.run_until_cancelled(self.connect(watched, &worker)).await
        else {
            return Ok(());
        };
        let Claim { node, uid } = this_node(self.access().claim(), name)?;
        info!(node, "the agent is connected");
        let clock = Clock::system();
        tasks.spawn(lease::renew(client.clone(), node.clone(), uid, clock.clone()));
        let service = Service {
            client,
            node,
            version: version.to_owned(),
            worker,
            events,
            config: Some(watched),
            clock,
            shutdown,
        };
        Ok(service::run(service).await?)
    }

    /// Restores unconfirmed changes, and returns whether all are restored: at boot before services read the files, or
    /// on a command. It blocks.
    pub fn restore(&self, services: Services) -> Result<bool, ProcessError> {
        let (start, _) = self.start(services)?;
        Ok(worker::restore(start)?)
    }

    /// The agent's memory. Nothing is written.
    pub fn status(&self) -> Result<Status, ProcessError> {
        Ok(muster_node::status(&self.environment()?)?)
    }

    /// Stops every write except a pending restore for this time.
    pub fn hold(&self, time: Duration, reason: &str) -> Result<Hold, ProcessError> {
        Ok(muster_node::hold_for(&self.environment()?, time, reason)?)
    }

    /// Ends the hold.
    pub fn release(&self) -> Result<(), ProcessError> {
        Ok(muster_node::release(&self.environment()?)?)
    }

    /// The inputs of the agent's thread, and the configuration as it was read.
    fn start(&self, services: Services) -> Result<(Start, Watched), ProcessError> {
        self.make_directory()?;
        let file = ConfigFile::new(&self.config, &self.directory);
        let text = file.text().ok();
        let Loaded {
            config,
            earlier,
            settled,
            problem,
        } = file.load();
        if let Some(problem) = problem {
            warn!(%problem, "the configuration cannot be used: the last valid one stays in use");
        }
        let server = config.server.clone();
        let start = Start {
            directory: self.directory.clone(),
            platform: Arc::clone(&self.platform),
            api_server: Arc::new(Probe::new(self.access(), Handle::current())),
            config,
            earlier,
            settled,
            services,
        };
        Ok((start, Watched { file, text, server }))
    }

    fn make_directory(&self) -> Result<(), ProcessError> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory);
        made.map_err(|error| ProcessError::Directory {
            directory: self.directory.clone(),
            error,
        })
    }

    /// Waits for token, CA certificate and server. Meanwhile the agent has no rows, and restores unconfirmed changes.
    async fn connect(&self, mut watched: Watched, worker: &Worker) -> (Client, Watched) {
        let mut last = String::new();
        loop {
            match self.access().client(watched.server.as_ref()) {
                Ok(client) => return (client, watched),
                Err(error) => warn_once(&mut last, &error),
            }
            tokio::time::sleep(RETRY).await;
            if let Some(loaded) = watched.changed()
                && loaded.problem.is_none()
            {
                watched.server.clone_from(&loaded.config.server);
                worker.configure(loaded.config, loaded.settled);
            }
        }
    }

    fn environment(&self) -> Result<AgentEnvironment, ProcessError> {
        if !self.directory.is_dir() {
            return Err(ProcessError::NotInstalled(self.directory.clone()));
        }
        let clock = self.platform.clock();
        let directory = self.directory.display().to_string();
        Ok(AgentEnvironment {
            disk: self.platform.disk(vec![directory.clone()]),
            host: self.platform.host(Rc::clone(&clock), Box::new(PlainHttp)),
            identity: self.platform.identity().map_err(ProcessError::Identity)?,
            clock,
            directory,
        })
    }

    fn access(&self) -> Access {
        Access::new(&self.directory)
    }
}

/// Notifies systemd that the service runs, and that its thread is alive. Without systemd it does nothing.
async fn watchdog(beat: Beat) {
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
    loop {
        if beat.age() < SILENT {
            let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The same message is logged once.
fn warn_once(last: &mut String, error: &ConnectError) {
    let text = error.to_string();
    if *last != text {
        warn!(error = text, "not connected to the API server yet");
        *last = text;
    }
}

/// The node of the token; otherwise the given name.
fn this_node(claim: Option<Claim>, given: Option<String>) -> Result<Claim, ProcessError> {
    match (claim, given) {
        (Some(claim), Some(given)) if claim.node != given => Err(ProcessError::OtherNode {
            claimed: claim.node,
            given,
        }),
        (Some(claim), _) => Ok(claim),
        (None, Some(node)) => Ok(Claim { node, uid: None }),
        (None, None) => Err(ProcessError::NoName),
    }
}

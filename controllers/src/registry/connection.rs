//! A client for one cluster that outlives its credentials: within its bounds, and with a gate that opens only when it is known which
//! cluster the present credential leads to.
//!
//! ```text
//!   client() ─► gate of the session ─► bounds ─► inner client of the session
//!   probe() ────────────────────────► bounds of probes ─┘
//!   swap: a new session, its gate closed; calls in flight end with the old one, those before its gate go on to the new one's
//! ```
//!
//! Invariant: no call but a probe is sent with a credential before it was seen which cluster answers to it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Request;
use kube::{Client, client::Body};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::watch;
use tower::{BoxError, service_fn};

use super::{
    bounds::{Answer, Bounds},
    kubeconfig::Access,
};
use crate::runtime::{Panicked, sendable::ConfigError};

/// How long a call waits for the gate: two probes and the pause between them.
const GATE_WAIT: Duration = Duration::from_secs(30);

/// Makes a client for an accepted kubeconfig.
pub type Connect = Arc<dyn Fn(&Access) -> Result<Client, ConnectError> + Send + Sync>;

/// The way to clusters that are in this process: the client of the server's URL, as `https://eu-1.test`.
pub fn connect_by_server(clients: BTreeMap<String, Client>) -> Connect {
    Arc::new(move |access| {
        clients
            .get(&access.server)
            .cloned()
            .ok_or_else(|| ConnectError::Field {
                field: "server",
                problem: "no such server is in this process".to_owned(),
            })
    })
}

/// A kubeconfig from which no client can be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A field that is allowed, but has no use as it is.
    #[error("{field}: {problem}")]
    Field {
        /// The field, as it stands in a kubeconfig.
        field: &'static str,
        /// What is wrong with it; never its value.
        problem: String,
    },
    /// kube refuses the configuration.
    #[error("no client can be made")]
    Client(#[source] Box<kube::Error>),
    /// A defect of muster.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<ConfigError> for ConnectError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Field { field, problem } => Self::Field {
                field,
                problem: problem.to_owned(),
            },
            ConfigError::Kube(error) => Self::Client(error),
            ConfigError::Panicked(panicked) => Self::Panicked(panicked),
        }
    }
}

/// A call that was not sent.
#[derive(Debug, Error)]
enum GateError {
    #[error("nothing is sent: {0}")]
    Shut(Arc<str>),
    #[error("nothing is sent: which cluster answers there was not found out within {} s", GATE_WAIT.as_secs())]
    Unchecked,
}

/// Whether calls are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Not yet: which cluster answers is being looked at.
    Unchecked,
    /// Yes.
    Open,
    /// No, for this reason.
    Shut(Arc<str>),
    /// The credential was swapped: the next session has a gate of its own.
    Replaced,
}

/// A living client.
pub(super) struct Connection {
    access: RwLock<Access>,
    /// The gate of each new session.
    closed: Gate,
    session: Arc<RwLock<Session>>,
    calls: Bounds,
    probes: Bounds,
}

/// A client with one credential, and the gate before it.
#[derive(Clone)]
struct Session {
    client: Client,
    gate: Arc<watch::Sender<Gate>>,
}

impl Connection {
    /// Makes a client; sends nothing. Its gate is closed until [`Connection::set_gate`] opens it.
    pub(super) fn open(connect: &Connect, access: Access) -> Result<Self, ConnectError> {
        Self::new(connect, access, Gate::Unchecked)
    }

    /// The same without a gate: for kubeconfigs of which nothing is known that they should lead to.
    pub(super) fn ungated(connect: &Connect, access: Access) -> Result<Self, ConnectError> {
        Self::new(connect, access, Gate::Open)
    }

    fn new(connect: &Connect, access: Access, closed: Gate) -> Result<Self, ConnectError> {
        let session = Arc::new(RwLock::new(Session::new(connect(&access)?, closed.clone())));
        Ok(Self {
            access: RwLock::new(access),
            closed,
            session,
            calls: Bounds::of_calls(),
            probes: Bounds::of_probes(),
        })
    }

    /// Whether `access` leads to the same server, seen by the same CA: then [`Connection::swap`] will do.
    pub(super) fn same_server(&self, access: &Access) -> bool {
        self.access.read().same_server(access)
    }

    /// Whether nothing would change.
    pub(super) fn same_access(&self, access: &Access) -> bool {
        *self.access.read() == *access
    }

    /// From now on calls carry the credential of `access`, once its gate opens; calls in flight end with the old one.
    pub(super) fn swap(&self, connect: &Connect, access: Access) -> Result<(), ConnectError> {
        let next = Session::new(connect(&access)?, self.closed.clone());
        let old = std::mem::replace(&mut *self.session.write(), next);
        old.gate.send_replace(Gate::Replaced);
        *self.access.write() = access;
        Ok(())
    }

    /// Opens or shuts the gate of the present session.
    pub(super) fn set_gate(&self, gate: Gate) {
        self.session.read().gate.send_replace(gate);
    }

    /// A client. All share one gate and one set of bounds. It is made when it is wanted: a client that waits for a call keeps some 10 KiB,
    /// and most clusters of a large fleet are not called most of the time.
    pub(super) fn client(&self) -> Client {
        let (session, bounds) = (Arc::clone(&self.session), self.calls.clone());
        let send = service_fn(move |request: Request<Body>| {
            let (session, bounds) = (Arc::clone(&session), bounds.clone());
            async move {
                let client = admitted(&session).await?;
                bounds.send(&client, request).await
            }
        });
        Client::new(send, "default")
    }

    /// A client that finds out what is behind the gate: it only reads.
    pub(super) fn probe(&self) -> Client {
        let (session, bounds) = (Arc::clone(&self.session), self.probes.clone());
        let send = service_fn(move |request: Request<Body>| {
            let (client, bounds) = (session.read().client.clone(), bounds.clone());
            async move { bounds.send(&client, request).await as Result<http::Response<Answer>, BoxError> }
        });
        Client::new(send, "default")
    }
}

impl Session {
    fn new(client: Client, gate: Gate) -> Self {
        Self {
            client,
            gate: Arc::new(watch::Sender::new(gate)),
        }
    }
}

/// Waits before the gate of the present session, and of the next one if it is swapped meanwhile.
async fn admitted(session: &RwLock<Session>) -> Result<Client, GateError> {
    let wait = async {
        loop {
            let Session { client, gate } = session.read().clone();
            let mut gate = gate.subscribe();
            let decided = gate.wait_for(|gate| *gate != Gate::Unchecked).await;
            match decided.map(|gate| gate.clone()) {
                Ok(Gate::Open) => return Ok(client),
                Ok(Gate::Shut(why)) => return Err(GateError::Shut(why)),
                // The sender is held beside the client, so it does not go while one waits; another session is there.
                Ok(Gate::Replaced | Gate::Unchecked) | Err(_) => {}
            }
        }
    };
    tokio::time::timeout(GATE_WAIT, wait)
        .await
        .unwrap_or(Err(GateError::Unchecked))
}

//! A client for one cluster that survives changes of its credentials: it is limited, and has a gate that opens only
//! when the identity of the cluster behind the present credential is known.
//!
//! ```text
//!   client() ─► gate of the session ─► bounds ─► inner client of the session
//!   probe() ────────────────────────► bounds of probes ─┘
//!   swap: a new session, its gate closed; calls in flight end with the old one, waiting ones move to the new one
//! ```
//!
//! Invariant: no call but a probe is sent with a credential before the identity of the cluster behind it was checked.

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

/// Creates a client for an accepted kubeconfig.
pub type Connect = Arc<dyn Fn(&Access) -> Result<Client, ConnectError> + Send + Sync>;

/// Connects to in-process clusters: the client is chosen by the server's URL, such as `https://eu-1.test`.
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

/// Why no client can be created from a kubeconfig.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A field is allowed, but its value cannot be used.
    #[error("{field}: {problem}")]
    Field {
        /// The field, as named in a kubeconfig.
        field: &'static str,
        /// The problem, without the value.
        problem: String,
    },
    /// kube rejects the configuration.
    #[error("no client can be created")]
    Client(#[source] Box<kube::Error>),
    /// A bug in muster.
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
    #[error("nothing is sent: the identity of the cluster was not determined within {} s", GATE_WAIT.as_secs())]
    Unchecked,
}

/// Whether calls may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Not yet: the cluster's identity is being checked.
    Unchecked,
    /// Calls may be sent.
    Open,
    /// Calls are rejected, for this reason.
    Shut(Arc<str>),
    /// The credential was replaced: the next session has its own gate.
    Replaced,
}

/// A connection to a cluster, usable across changes of its credential.
pub(super) struct Connection {
    access: RwLock<Access>,
    /// The initial gate of each new session.
    closed: Gate,
    session: Arc<RwLock<Session>>,
    calls: Bounds,
    probes: Bounds,
}

/// A client with one credential, and its gate.
#[derive(Clone)]
struct Session {
    client: Client,
    gate: Arc<watch::Sender<Gate>>,
}

impl Connection {
    /// Creates a client without sending anything. Its gate is closed until [`Connection::set_gate`] opens it.
    pub(super) fn open(connect: &Connect, access: Access) -> Result<Self, ConnectError> {
        Self::new(connect, access, Gate::Unchecked)
    }

    /// Like [`Self::open`], but without a gate: for kubeconfigs whose cluster has no recorded identity.
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

    /// Whether `access` has the same server and CA: then [`Connection::swap`] is enough.
    pub(super) fn same_server(&self, access: &Access) -> bool {
        self.access.read().same_server(access)
    }

    /// Whether `access` is unchanged.
    pub(super) fn same_access(&self, access: &Access) -> bool {
        *self.access.read() == *access
    }

    /// Replaces the credential: new calls use that of `access` once its gate opens; calls in flight finish with the old
    /// one.
    pub(super) fn swap(&self, connect: &Connect, access: Access) -> Result<(), ConnectError> {
        let next = Session::new(connect(&access)?, self.closed.clone());
        let old = std::mem::replace(&mut *self.session.write(), next);
        old.gate.send_replace(Gate::Replaced);
        *self.access.write() = access;
        Ok(())
    }

    /// Opens or closes the gate of the present session.
    pub(super) fn set_gate(&self, gate: Gate) {
        self.session.read().gate.send_replace(gate);
    }

    /// A client. All clients share one gate and one set of limits. It is created on demand: a waiting client keeps some
    /// 10 KiB, and most clusters of a large fleet are not called most of the time.
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

    /// A client for probes, which bypasses the gate: it only reads.
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

/// Waits at the gate of the present session, or of the next one if the credential is replaced meanwhile.
async fn admitted(session: &RwLock<Session>) -> Result<Client, GateError> {
    let wait = async {
        loop {
            let Session { client, gate } = session.read().clone();
            let mut gate = gate.subscribe();
            let decided = gate.wait_for(|gate| *gate != Gate::Unchecked).await;
            match decided.map(|gate| gate.clone()) {
                Ok(Gate::Open) => return Ok(client),
                Ok(Gate::Shut(why)) => return Err(GateError::Shut(why)),
                // The sender is stored with the client, so it is dropped only with the session; there is a new session
                // then.
                Ok(Gate::Replaced | Gate::Unchecked) | Err(_) => {}
            }
        }
    };
    tokio::time::timeout(GATE_WAIT, wait)
        .await
        .unwrap_or(Err(GateError::Unchecked))
}

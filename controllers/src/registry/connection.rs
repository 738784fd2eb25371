//! A client for one cluster that outlives its credentials: bounded calls, bounded bodies, and a credential that can be swapped under
//! those who hold the client.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::Limited;
use kube::{Client, client::Body};
use parking_lot::RwLock;
use thiserror::Error;
use tower::{BoxError, ServiceBuilder, service_fn};

use super::kubeconfig::Access;

/// Calls to one cluster at once: enough to overlap waiting, too few to weigh on a small API server.
const CALLS_AT_ONCE: usize = 4;
/// The longest answer that is read, in bytes: a page of 500 large objects is about 10 MiB.
const BODY_MAX: usize = 32 * 1024 * 1024;
/// How long an answer may take to begin. Each call has a deadline for its end, given by its caller.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// Makes a client for an accepted kubeconfig.
pub type Connect = Arc<dyn Fn(&Access) -> Result<Client, ConnectError> + Send + Sync>;

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
}

/// A living client.
pub(super) struct Connection {
    access: RwLock<Access>,
    /// The client that has the credential of `access`.
    inner: Arc<RwLock<Client>>,
    /// What users hold.
    outer: Client,
}

impl Connection {
    /// Makes a client; sends nothing.
    pub(super) fn open(connect: &Connect, access: Access) -> Result<Self, ConnectError> {
        let inner = Arc::new(RwLock::new(connect(&access)?));
        Ok(Self {
            access: RwLock::new(access),
            outer: bounded(Arc::clone(&inner)),
            inner,
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

    /// From now on calls carry the credential of `access`; calls in flight end with the old one.
    pub(super) fn swap(&self, connect: &Connect, access: Access) -> Result<(), ConnectError> {
        let client = connect(&access)?;
        *self.inner.write() = client;
        *self.access.write() = access;
        Ok(())
    }

    /// The client. Clones share its bounds.
    pub(super) fn client(&self) -> Client {
        self.outer.clone()
    }
}

/// A client in front of the current inner one.
fn bounded(inner: Arc<RwLock<Client>>) -> Client {
    let send = service_fn(move |request: Request<Body>| {
        let client = inner.read().clone();
        async move {
            let answer = tokio::time::timeout(HEAD_DEADLINE, client.send(request)).await??;
            Ok::<Response<Limited<Body>>, BoxError>(answer.map(|body| Limited::new(body, BODY_MAX)))
        }
    });
    let service = ServiceBuilder::new()
        .concurrency_limit(CALLS_AT_ONCE)
        .service(send);
    Client::new(service, "default")
}

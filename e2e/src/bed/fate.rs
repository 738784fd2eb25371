//! Fault injection on paused time: every request of muster that may write is numbered across all processes, and one of
//! them can be hit by a fault.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::Method;
use kube::Client;
use muster_apiserver::InProcess;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower::{BoxError, Service, service_fn};

/// The fault that hits the numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The process ends before the request reaches the server.
    Before,
    /// The request takes effect, then the process ends.
    After,
    /// The request takes effect, and the connection breaks before the response. The process goes on.
    AnswerLost,
}

impl Blow {
    /// All faults.
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::AnswerLost];
}

/// The request counter of all processes of a bed.
#[derive(Debug, Default)]
pub(crate) struct Fate(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    open: bool,
    count: usize,
    strike: Option<(usize, Blow)>,
    struck: Option<String>,
}

impl Fate {
    /// Numbers requests from here on, starting at 0, and injects a fault into one of them.
    pub(crate) fn begin(&self, strike: Option<(usize, Blow)>) {
        *self.0.lock() = Book {
            open: true,
            strike,
            ..Book::default()
        };
    }

    /// How many requests were numbered, and which one was hit.
    pub(crate) fn end(&self) -> (usize, Option<String>) {
        let mut book = self.0.lock();
        book.open = false;
        (book.count, book.struck.take())
    }

    fn next(&self, by: &str, request: &http::Request<kube::client::Body>) -> Option<Blow> {
        let mut book = self.0.lock();
        // Leases are disabled on these beds; their renewals would be numbered as well.
        if !book.open || request.method() == Method::GET {
            return None;
        }
        let number = book.count;
        book.count += 1;
        let (_, blow) = book.strike.filter(|(at, _)| *at == number)?;
        book.struck = Some(format!("{by}: {} {}", request.method(), request.uri()));
        Some(blow)
    }
}

/// One life of a process: from its start until it ends or is hit.
#[derive(Debug)]
pub(crate) struct Life {
    fate: Arc<Fate>,
    of: String,
    over: AtomicBool,
    death: Notify,
}

impl Life {
    /// A life of the process with this name.
    pub(crate) fn new(fate: &Arc<Fate>, of: &str) -> Arc<Self> {
        Arc::new(Self {
            fate: Arc::clone(fate),
            of: of.to_owned(),
            over: AtomicBool::new(false),
            death: Notify::new(),
        })
    }

    /// Returns when the process must be dropped.
    pub(crate) async fn ended(&self) {
        self.death.notified().await;
    }

    /// Wraps the process's connection to a server.
    pub(crate) fn door(self: &Arc<Self>, inner: &InProcess, namespace: &str) -> Client {
        let (life, inner) = (Arc::clone(self), inner.clone());
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let (life, mut inner) = (Arc::clone(&life), inner.clone());
            async move {
                life.alive().await;
                let blow = life.fate.next(&life.of, &request);
                if blow == Some(Blow::Before) {
                    life.die().await;
                }
                let answer = inner.call(request).await.map_err(BoxError::from);
                match blow {
                    Some(Blow::After) => life.die().await,
                    Some(Blow::AnswerLost) => {
                        return Err("the connection was closed before the answer".into());
                    }
                    Some(Blow::Before) | None => {}
                }
                answer
            }
        });
        Client::new(service, namespace)
    }

    /// Tasks of an ended process may still run; their requests must never be answered.
    async fn alive(&self) {
        if self.over.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn die(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.death.notify_one();
        std::future::pending::<()>().await;
    }
}

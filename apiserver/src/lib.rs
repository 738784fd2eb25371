//! A Kubernetes API server in one process, for tests, demos and simulated fleets.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let api = muster_apiserver::ApiServer::start().await?;
//! let client = api.client(); // a kube::Client, without a socket
//! let kubeconfig = api.kubeconfig(); // for kubectl, over HTTPS
//! # Ok(()) }
//! ```
//!
//! ```text
//!  in process ─┐                 ┌─ discovery, openapi
//!              ├─► server ───────┼─ read, watch ◄──┐
//!  HTTPS ──────┘   faults        └─ write ───────► store ──► work queue ──► lifecycle worker
//!                  recorder         schema, apply,  │         (collector, namespaces, crd) ─┐
//!                                   patch, builtin  └──────────◄───────────────────────────┘
//! ```
//!
//! - Invariant: one counter of resource versions for all resources of a server.
//! - Invariant: a version of an object is stored once, as JSON text; store, history and responses share it.
//! - Invariant: the versions kept only by the history are bounded in bytes.
//! - Invariant: a write that changes nothing is not a write.
//! - Invariant: nothing blocks a thread and nothing needs a socket unless a listener is opened: the server runs on
//!   paused time, and its clock is tokio's.
//!
//! Where it differs from kube-apiserver: `DEVIATIONS.md`.

mod admission;
mod api_server;
pub mod apply;
pub mod builtin;
pub mod clock;
mod conditions;
mod core;
mod crd;
mod discovery;
mod door;
pub mod fault;
mod http;
mod jsonpath;
mod kinds;
mod lifecycle;
mod meta;
pub mod patch;
pub mod player;
pub mod protobuf;
pub mod record;
mod removal;
mod resources;
pub mod schema;
mod select;
mod send;
mod server;
mod status;
mod store;
mod table;
mod tokens;
mod webhooks;
mod work;

pub use api_server::{ApiServer, Builder, Footprint, ObjectError, StartError};
pub use clock::Clock;
pub use door::{CredentialsError, Identity, InProcess, ListenError, Login};
pub use http::{Body, BodyError, Verb};
pub use send::send;
pub use status::GroupResource;
pub use store::ChangeKind;
pub use webhooks::{Endpoint, HookService, ServicePort};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Real control planes on this machine: etcd, kube-apiserver and their companions, built as ordinary Go dependencies
//! (`go/`), run on loopback without containers and without root.
//!
//! ```text
//!   go/*/go.mod ──build──► cache (programs, files) ──start──► Fleet: one etcd, N × (apiserver, controller-manager, …)
//!                                                              └─ directory: kubeconfigs, logs, pids, scripts
//! ```
//!
//! All functions block, except for the relay that counts bytes: asynchronous callers run them in a separate thread.
//! Invariant: only processes that were started here are ended: PID and start time must match the record. Invariant: a
//! fleet does not outlive the process that started it, however that ends, unless requested ([`Fleet::leave`]).

mod api;
mod cache;
mod cluster_api;
mod fleet;
mod flux;
mod meter;
mod pki;
mod plane;
mod ports;
mod processes;
mod registry;

pub use self::{
    cache::{Built, Cache, PROGRAMS, Program},
    fleet::{Fleet, Plan},
    meter::Meter,
    plane::{Certificate, Plane},
    processes::down,
    registry::Registry,
};

//! Real control planes on this machine: etcd, kube-apiserver and their companions, built as ordinary Go dependencies (`go/`), run on
//! loopback without containers and without root.
//!
//! ```text
//!   go/*/go.mod ──build──► cache (programs, files) ──start──► Fleet: one etcd, N × (apiserver, controller-manager, …)
//!                                                              └─ folder: kubeconfigs, logs, audit logs, pids, a script for each process
//! ```
//!
//! Everything here blocks but the relay that counts bytes: asynchronous callers give it a thread of its own.
//! Invariant: only processes that were started here are ended: pid and start time have to be those on record.
//! Invariant: a fleet does not outlive whoever started it, however that ends, unless it is told to ([`Fleet::leave`]).

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

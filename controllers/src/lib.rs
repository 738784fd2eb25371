//! The controllers of muster: watches, indexes, writes, cluster registry.
//!
//! ```text
//!   management cluster: module ─► proxyassemblage ══ registry ══► Assemblage      downstream: assemblage ─► expand
//!     rolloutwindow ──► module ─► remoteassemblage ─► expand                                              │
//!                                                       └─► gitrepository, kustomization ◄────────────────┘
//!   a cluster with zones: StatefulSets, pods ─► zones ◄─ admission ◄══ API server (reviews)
//!   used by all of them: runtime (clock, watches, indexes, status, events), bindings, reconcile (flags, context,
//!   scheduling); on top: process (the wiring), lease (leader election), metrics, health, record (decisions in files),
//!   notify (notifications of rollouts)
//! ```
//!
//! Invariant: a controller observes, decides (pure), acts, writes status, in this order; only the first step reads,
//! only the third writes. Invariant: each write has a precondition, and a write that changes nothing is not sent.
//! Invariant: nothing here decides what the rollout engine decides. Invariant: the clock and randomness come from
//! [`runtime`]; no other code reads either.

pub mod admission;
pub mod assemblage;
pub mod bindings;
pub mod expand;
pub mod gates;
pub mod gitrepository;
pub mod health;
pub mod hosts;
pub mod kustomization;
pub mod lease;
pub mod machines;
pub mod metrics;
pub mod module;
pub mod node;
pub mod notify;
pub mod process;
pub mod proxyassemblage;
pub mod reconcile;
pub mod record;
pub mod registry;
pub mod remoteassemblage;
pub mod rolloutwindow;
pub mod runtime;
mod targeted;
pub mod upgrade;
pub mod zones;

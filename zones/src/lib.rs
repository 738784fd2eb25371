//! StatefulSets of several zones: what is decided about them, without I/O, clock or randomness.
//!
//! ```text
//!   StatefulSets, pods ──► model (rows) ──┬─► budget: may this pod be evicted
//!   ZoneAwarePodDisruptionBudgets ────────┘
//!   arguments ──► flags        webhook configurations ──► certificate        passes ──► metrics
//! ```
//!
//! A drop-in replacement of grafana/rollout-operator v0.38.1: the same labels, annotations, flags, metrics, texts and codes, except
//! where the original breaks its own guarantees. Test cases of the original are run by `cargo xtask conformance`.
//!
//! Invariant: the same input gives the same answer; the time is an argument.

pub mod budget;
pub mod duration;
pub mod model;

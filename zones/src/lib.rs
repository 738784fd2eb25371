//! Decisions about StatefulSets in several zones, without I/O, clock or randomness.
//!
//! ```text
//!   StatefulSets, pods ──► model (rows) ──┬─► decide: what is scaled (scale) and rolled (roll) now
//!                                         ├─► admit: may there be fewer replicas
//!                                         ├─► budget: may this pod be evicted
//!   ZoneAwarePodDisruptionBudgets ────────┘
//!   arguments ──► flags        webhook configurations ──► certificate        passes ──► metrics
//! ```
//!
//! A drop-in replacement for grafana/rollout-operator v0.38.1: the same labels, annotations, flags, metrics, texts and
//! codes, except where the original violates its own guarantees. `cargo xtask conformance` runs the test cases of the
//! original.
//!
//! Invariant: the same input gives the same answer; the time is an argument. Invariant: no available pod is deleted
//! while a pod of another zone is unavailable, and never more pods of a zone than may be unavailable. Invariant: a pod
//! without evidence of availability is unavailable: missing, unknown, terminating or not observed. Invariant: a pod is
//! deleted only after it is recorded in `status.inFlight`.

pub mod admit;
pub mod authority;
pub mod budget;
pub mod decide;
pub mod duration;
pub mod flags;
pub mod invalid;
pub mod metrics;
pub mod model;
pub mod order;
pub mod roll;
pub mod scale;

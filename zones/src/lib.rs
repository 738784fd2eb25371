//! StatefulSets of several zones: what is decided about them, without I/O, clock or randomness.
//!
//! ```text
//!   StatefulSets, pods ──► model (rows) ──┬─► decide: what is scaled (scale) and rolled (roll) now
//!                                         ├─► admit: may there be fewer replicas
//!                                         ├─► budget: may this pod be evicted
//!   ZoneAwarePodDisruptionBudgets ────────┘
//!   arguments ──► flags        webhook configurations ──► certificate        passes ──► metrics
//! ```
//!
//! A drop-in replacement of grafana/rollout-operator v0.38.1: the same labels, annotations, flags, metrics, texts and codes, except
//! where the original breaks its own guarantees. Test cases of the original are run by `cargo xtask conformance`.
//!
//! Invariant: the same input gives the same answer; the time is an argument.
//! Invariant: no available pod is deleted while a pod of another zone is unavailable, and never more of a zone than may be unavailable.
//! Invariant: absence of evidence is no availability: a pod that is missing, unknown, terminating or not observed is unavailable.
//! Invariant: a pod is deleted only after it stands in `status.inFlight`.

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

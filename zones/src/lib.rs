//! Zones: the StatefulSets with one value of the label `rollout-group` are rolled and scaled one zone at a time. Pure: what is read comes
//! in as rows, `now` is an argument, and what is to be done is a value.
//!
//! ```text
//!   StatefulSets, pods, ZoneRollout ─► model::Group ─► decide ─► Decision { status, actions, reasons, wake_at }
//! ```
//!
//! A drop-in replacement of grafana/rollout-operator: the same labels and annotations, with its guarantees kept where it breaks them.
//!
//! Invariant: no available pod is deleted while a pod of another zone is unavailable, and never more of a zone than may be unavailable.
//! Invariant: absence of evidence is no availability: a pod that is missing, unknown, terminating or not observed is unavailable.
//! Invariant: a pod is deleted only after it stands in `status.inFlight`.

pub mod decide;
pub mod model;
pub mod order;
pub mod roll;

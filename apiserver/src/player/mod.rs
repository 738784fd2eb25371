//! The workload player: plays the controllers, scheduler and kubelets that a cluster has, through the public API.
//!
//! ```text
//! watches ─► world (what is known) ─► decide (pure, per object) ─► plan ─► writes with preconditions
//!               ▲                                                             │
//!               └────────────── answers, before the watches tell ◄────────────┘
//! ```
//!
//! Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, Service (EndpointSlice, address of a load balancer),
//! PersistentVolumeClaim (bound at once), PodDisruptionBudget, Pod and Node. No container runs: a pod becomes ready after a while, see
//! [`Speeds`] for how fast and how it fails.
//!
//! - Invariant: a decision is a function of the objects, the settings and the time; only the driver reads and writes.
//! - Invariant: every write names the version or the uid that it is about; at rest nothing is written.
//! - Invariant: what was made names its owner, so that the collector takes it away; the player deletes no dependents.
//!
//! Not played: adoption of pods and ReplicaSets without an owner, proportional scaling in the middle of a rollout,
//! taints and resources in placement, probes, events.

mod claim;
mod daemon_set;
mod decide;
mod deployment;
mod disruption;
mod driver;
mod hash;
mod job;
mod node;
mod plan;
mod pod;
mod replica_set;
mod revision;
mod service;
mod settings;
mod shelf;
mod stateful_set;
mod template;
mod world;
mod write;

pub use driver::play;
pub use settings::{PREFIX, Speeds};

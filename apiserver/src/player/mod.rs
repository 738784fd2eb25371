//! The workload player: simulates the controllers, scheduler and kubelets of a cluster, through the public API.
//!
//! ```text
//! watches ─► world (cached state) ─► decide (pure, per object) ─► plan ─► writes with preconditions
//!               ▲                                                             │
//!               └────────────── responses, before watch events ◄──────────────┘
//! ```
//!
//! Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, Service (EndpointSlice, address of a load balancer),
//! PersistentVolumeClaim (bound immediately), PodDisruptionBudget, Pod and Node. No container runs: a pod becomes ready
//! after a while, see [`Speeds`] for how fast and how it fails.
//!
//! - Invariant: a decision is a function of the objects, the settings and the time; only the driver reads and writes.
//! - Invariant: every write has the version or the uid that it is based on; in a steady state nothing is written.
//! - Invariant: created objects have an owner reference, so that the collector deletes them; the player deletes no
//!   dependents.
//!
//! Not simulated: adoption of pods and ReplicaSets without an owner, proportional scaling during a rollout, taints and
//! resources in scheduling, probes, events.

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

pub use driver::simulate_workloads;
pub use settings::{PREFIX, Speeds};

//! ClusterUpgrades: a Kubernetes version, rolled out to Clusters of Cluster API by the same engine as modules.
//!
//! ```text
//!   Clusters, rows of the registry ───────────────┐
//!   objects with a version, /version of a cluster ─┼─► pass (pure) ─► status with memory, then one field of each Cluster
//!   PodDisruptionBudgets and webhooks of clusters ─┘
//! ```
//!
//! Invariant: one field of a Cluster is written, by server-side apply, once the memory names the change (W2); never to
//! an older version.
//! Invariant: a Cluster is confirmed by its conditions and by the version that its own API server reports; what could
//! not be read counts as not ready.

pub mod capi;
pub mod evidence;
pub mod first;
pub mod pass;
pub mod preflight;
pub mod reading;
pub mod run;
pub mod status;
pub mod version;

pub use run::{Setup, run};

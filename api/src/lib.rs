//! muster's API: types, CRDs, conditions and reasons, names, digests, and validation that needs no cluster.
//!
//! ```text
//!            Module, BootstrapModule ─── ModuleRevision          what people write, and what a revision was
//!                 │ one row per sync                        RolloutWindow: when changes may begin
//!   ProxyAssemblage, RemoteAssemblage ═══ Assemblage             the syncs of one cluster
//!                 │ names, content addresses
//!   NodeModule, NodeRevision, NodeAssemblage, NodeBudget         files of the nodes of a cluster (`node`)
//!      GitRepository, Kustomization (Flux)    Cluster (CAPI)     as far as muster writes and reads them
//! ```
//!
//! Invariant: this crate does no I/O, reads no clock and uses no randomness: instants are arguments. Invariant: the
//! same input yields the same bytes, regardless of the order of maps (`digest`, `crds`). Invariant: a generated name is
//! a pure function of full identities and contains a hash (`names`). Invariant: every string, list and map of a schema
//! has a maximum size (`crds`, checked by a test).

pub mod amount;
pub mod assemblage;
pub mod cluster;
pub mod cluster_upgrade;
pub mod conditions;
pub mod control;
pub mod control_status;
pub mod crds;
mod definition;
pub mod digest;
pub mod duration;
pub mod evidence;
pub mod failure;
pub mod features;
pub mod flux;
pub mod kind;
pub mod labels;
pub mod module;
pub mod name_syntax;
pub mod names;
pub mod node;
pub mod path;
pub mod plan;
pub mod ranges;
pub mod reasons;
pub mod revision;
pub mod rollout;
pub mod rollout_operator;
pub mod rolloutwindow;
pub mod schema;
pub mod selector;
pub mod shared;
pub mod sync;
pub mod template;
pub mod text;
pub mod unread;
pub mod update_plan;
pub mod validate;
pub mod zonerollout;

pub use amount::Amount;
pub use assemblage::{Assemblage, ProxyAssemblage, RemoteAssemblage};
pub use cluster_upgrade::ClusterUpgrade;
pub use duration::Duration;
pub use module::{BootstrapModule, Module};
pub use revision::ModuleRevision;
pub use rolloutwindow::RolloutWindow;
pub use shared::Shared;
pub use update_plan::UpdatePlan;
pub use zonerollout::ZoneRollout;

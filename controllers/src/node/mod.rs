//! NodeModules: files on the nodes of a cluster, rolled out node by node by the engine that rolls out modules cluster
//! by cluster.
//!
//! ```text
//!   Nodes, Leases, NodeAssemblages, NodeRevisions as rows ─┐
//!   NodeBudget ────────────────────────────────────────────┼─► observation ─► reading (units) ─► decision ─► status, rows
//!   NodeModule, its annotations, objects of bindings ──────┘                  (pure)
//! ```
//!
//! Invariant: a node that vanishes during its change keeps its slot: a configuration that kills nodes is never good,
//! and kills one at a time. Invariant: a node has one change at a time, whichever NodeModule it is from.

pub mod agents;
pub mod budget;
pub mod configured;
pub mod conflicts;
pub mod decision;
pub mod events;
pub mod facts;
pub mod observation;
pub mod pass;
pub mod reading;
pub mod rendering;
pub mod revisions;
pub mod run;
pub mod settings;
pub mod status;
pub mod unit_controls;
pub mod verdicts;

pub use run::NAMESPACE;

//! Machines updated in place: one extension for the three hooks of Cluster API, in front of any number of updaters.
//!
//! ```text
//!   Cluster API ══ https ══► hooks ─┬─ CanUpdateMachine(Set): query the updaters in order ─► UpdatePlan stored ─► response
//!                                   └─ UpdateMachine: from memory ◄── work, machine by machine ══ https ══► updaters
//!                                                                                     └──► nodes: cordon, drain, uncordon
//! ```
//!
//! The decisions are made in `muster-machines`; this module has the watches, the calls, and the store of plans.
//!
//! Invariant: a plan is stored in the API server before Cluster API learns that a change can be made in place.
//! Invariant: `UpdateMachine` is answered from memory, and only by a plan that names the Machine's uid; a started
//! update is finished first.

pub mod config;
pub mod controls;
pub mod events;
pub mod extension;
pub mod hooks;
pub mod index;
pub mod nodes;
pub mod plans;
pub mod run;
pub mod updaters;
pub mod work;

/// The name of the Lease, and of the ExtensionConfig.
pub const NAME: &str = "muster-machines";

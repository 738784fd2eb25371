//! What `Assemblage` and `RemoteAssemblage` have in common: rows become GitRepositories and Kustomizations, and their
//! status becomes the status of the rows.
//!
//! ```text
//!   rows ──► desired (derive: pure) ──► observe (index; live if different) ──► decide (pure) ──► act ──► status     
//!                                            ▲                       │
//!                         watches of both kinds (rows, not objects)  └─ verdict, withdraw, source, drift
//! ```
//!
//! Invariant: a failing row does not affect others: every row gets its decision, its write and its state. Invariant:
//! nothing is deleted because something could not be read; content is removed from a cluster only by [`withdraw`].
//! Invariant: at rest nothing is read and nothing is written.

mod act;
mod collect;
pub mod decide;
pub mod derive;
pub mod desired;
pub mod drift;
mod expander;
pub mod flux_object;
mod known;
mod labels;
mod memory;
mod needs;
mod observe;
pub mod observed;
mod pending;
pub mod plan;
pub mod print;
pub mod row_state;
pub mod rows;
mod settle;
pub mod source;
pub mod status;
mod suspend;
pub mod values;
pub mod verdict;
pub mod view;
pub mod withdraw;

use muster_api::{assemblage::SyncState, reasons::ObjectReason};

pub use self::{
    expander::{Assembled, ExpandError, Expander, Setting},
    needs::{Need, Needs},
    pending::Pending,
};

/// Whether a state is of a row that its origin never had: such a row is not withdrawn when it is absent.
pub fn unclaimed(state: &SyncState) -> bool {
    state.reason.as_deref() == Some(ObjectReason::Unclaimed.as_str())
}

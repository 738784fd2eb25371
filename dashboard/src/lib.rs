//! View models of muster: what the command and the page show, computed once for both.
//!
//! ```text
//!   Modules, BootstrapModules ─┐
//!   Proxy-, RemoteAssemblages ─┼─► Fleet ─► Matrix   (who is at what, at a glance)
//!   Clusters ──────────────────┘        ├─► Tree     (problems one by one, what is alike as one)
//!                                       └─► Why      (the chain of reasons, down to the failing object)
//!   ModuleRevisions ─────────────► History                      (what became of each revision, and the way back)
//! ```
//!
//! Invariant: a view is a pure function of objects as read; nothing here reads or writes a cluster.
//! Invariant: the word of a cell is the word of the status: the one enum of reasons.

mod fleet;
mod group;
mod history;
mod matrix;
mod shape;
mod tree;
mod why;

pub use fleet::{Cell, Fleet, Member, ModuleView, Objects};
pub use group::{fold_names, listed};
pub use history::{History, NoSuchRevision, NoWayBack, Outcome, Past, Seen};
pub use matrix::{Column, Matrix, Row};
pub use shape::Shape;
pub use tree::{Branch, Tree};
pub use why::{Step, Why, why};

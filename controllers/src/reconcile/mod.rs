//! What every controller runs with: flags, the context of a reconcile, and the scheduling of reconciles by
//! kube-runtime.
//!
//! ```text
//!   watch ──► Store (main objects) ─┐
//!   watch ──► Index (small rows) ───┼─► Runner ──► reconcile ──► call ──► API server
//!   streams of keys (registry, …) ──┘                └─► status::patch_if_changed, Events
//! ```
//!
//! Invariant: a reconcile starts only after every index of its [`Runner`] has been filled once.

pub mod context;
pub(crate) mod flux_presence;
pub mod options;
pub mod runner;

pub use context::{Base, Context};
pub use options::{Options, StartupTaint, SyncMode};
pub use runner::Runner;

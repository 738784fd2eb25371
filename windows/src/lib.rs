//! Change windows: whether changes may start in a cluster at an instant, and when that changes.
//!
//! ```text
//!   RolloutWindow objects ──► Window::read ──► Window ─┐
//!   labels and annotations of a Cluster ───────────────┼──► evaluate ──► Open | Closed, next change
//!   kind, name and labels of a module ─────────────────┤
//!   now ───────────────────────────────────────────────┘
//! ```
//!
//! - No window selects the cluster and the module: open.
//! - Otherwise: open while no `deny` entry and at least one `allow` entry (if there is any `allow` window) contains the
//!   instant.
//! - An invalid window closes what it selects; if its selector is invalid too, its whole namespace.
//!
//! Invariant: no clock, no I/O: time zones come from the database compiled into the program, never from a file or the
//! environment.
//! Invariant: the same input gives the same answer, regardless of the order of the windows.
//! Invariant: the next change is found by jumping from one boundary of an entry to the next, within [`HORIZON`] and
//! [`MAX_STEPS`].

mod entry;
mod error;
mod evaluate;
mod search;
mod skipped;
mod subject;
mod window;
mod zone;

pub use error::{Problem, WindowError};
pub use evaluate::{Answer, Closed, State, Summary, evaluate};
pub use search::{HORIZON, MAX_STEPS};
pub use skipped::Skipped;
pub use subject::{Cluster, Module};
pub use window::Window;

use jiff::SignedDuration;

/// A cluster that does not open within this time is reported immediately ([`Closed::is_long`]): 30 days.
pub const LONG: SignedDuration = SignedDuration::from_hours(30 * 24);

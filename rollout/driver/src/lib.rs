//! The shell around the decision: the input of a decision, and the order in which it is written.
//!
//! ```text
//!   memory as read, or rebuilt ─┐
//!   units as read ──────────────┼─► decide ─► Decided ─► the caller writes the memory ─► Remembered ─► writes of assignments
//!   spec, now ──────────────────┘            (pure)      by compare-and-swap (W2)                      each with a test (W3)
//! ```
//!
//! The caller reads and writes. This crate contains no Kubernetes, clock or I/O; the controllers, the model, the
//! simulator and the tests of the engine run the same functions.
//!
//! Invariant: an assignment is written only by a [`AssignmentWrite`], which is created only from a [`Remembered`]: the
//! memory that names the change is written (W2). Invariant: a write of an assignment has the token that was read there
//! as its precondition, and a greater one as its content (W3). Invariant: a lost memory is rebuilt from all assignments
//! and from recorded verdicts before anything changes (W7).

mod change;
mod decide;
mod missing;
mod rules;

pub use change::{Change, NewContent, Tested};
pub use decide::{
    AssignmentWrite, Assignments, Decided, Facts, Planned, Recalled, Remembered, Verdicts, decide, rebuild,
};
pub use missing::{Holder, missing};
pub use rules::{Plan, Rules};

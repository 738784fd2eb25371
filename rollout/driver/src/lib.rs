//! The shell around the decision: what a decision rests on, and in which order it is written.
//!
//! ```text
//!   memory as read, or rebuilt ─┐
//!   units as read ──────────────┼─► decide ─► Decided ─► the caller writes the memory ─► Remembered ─► writes of rows
//!   spec, now ──────────────────┘            (pure)      by compare-and-swap (W2)                      each with a test (W3)
//! ```
//!
//! The caller reads and writes. Nothing here knows Kubernetes, a clock, or I/O; the controllers, the model, the simulator and the
//! tests of the engine run the same functions.
//!
//! Invariant: a row is written only by a [`RowWrite`], and that is made only from a [`Remembered`]: the memory that names the change
//! stands (W2).
//! Invariant: a write of a row carries the token that was read there, and a greater one (W3).
//! Invariant: a memory that is lost is rebuilt from all rows, and from verdicts on record, before anything moves (W7).

mod change;
mod decide;
mod missing;
mod rules;

pub use change::{Change, Tested, Then};
pub use decide::{Decided, Facts, Planned, Recalled, Remembered, RowWrite, Rows, Verdicts, decide, rebuild};
pub use missing::{Holder, missing};
pub use rules::{Plan, Rules};

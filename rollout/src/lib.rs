//! The decision function of muster: which unit changes next, and what the reports mean for a revision.
//!
//! ```text
//!   Spec: the desired state ─────────┐
//!   Memory: what was decided ────────┼──► plan ──► Memory   written by compare-and-swap, and only then
//!   Units: assignments, reports ─────┤        ├──► Steps    Assign, Withdraw, Fence, Abandon, Evaluate, Conclude
//!   now ─────────────────────────────┘        ├──► Reasons  one for each unit
//!                                             └──► wake_at, Summary
//! ```
//!
//! A *unit* is a cluster. Its *assignment* is the entry that is written for it; its *report* is what it reports about
//! an assignment. A unit is *in flight* from the decision to change it until the change is confirmed: the in-flight
//! changes fill the limit.
//!
//! The rules, with the code and the tests of each: `docs/engine.md`. "Rule 4" and "W3" in comments refer to that page.
//!
//! Invariant: a unit that is not in flight is confirmed at its assignment, or has nothing.
//! Invariant: a change starts only while fewer units are in flight than the limit allows.
//! Invariant: the slot of a change that was issued but not written becomes free only after an assignment with a greater
//! token is written.
//! Invariant: a report counts only for the digest and the token that it names.
//! Invariant: steps follow only from the new memory and the assignments, so a lost step is repeated with its token, and
//! a completed step is not.
//! Invariant: a revision that is known to be bad is never newly assigned.
//! Invariant: withdrawals need a complete read, and many at once need an acknowledgement.
//! Invariant: no clock, no randomness, no I/O, no panic, no dependence on hash map order; the order of the units does
//! not matter.
//!
//! Decisions can be recorded with [`record`] and replayed.
//!
//! The code that applies the steps must never lower the token of an assignment, and must let a step fail if the
//! assignment differs from the one that was read.

mod decision;
mod id;
mod memory;
mod plan;
pub mod record;
mod spec;
mod time;
mod unit;
mod verdict;

pub use decision::{Decision, Phase, Step, Summary, Why};
pub use id::{Digest, Incarnation, Revision, StageId, Token, UnitId};
pub use memory::{
    Acknowledged, Course, Evidence, GateCount, InFlight, Kind, MAX_BAD, MAX_BYTES, MAX_CONTROLS,
    MAX_IN_FLIGHT, MAX_MARKS, MAX_MESSAGE, Memory, OpenBatch, Run, RunState, Stopwatch,
};
pub use plan::plan;
pub use spec::{
    Batch, Control, ControlCommand, Deadlines, Domains, Gate, GateId, GateResult, How, Limit, OnFailure,
    OnJoin, Reading, RefusedWrite, Spec, Stage, Strategy, Withdraw,
};
pub use time::Millis;
pub use unit::{
    Absence, Assignment, Class, Content, Desired, Domain, Eligible, Ineligible, Progress, Report,
    StagePosition, State, Unit,
};
pub use verdict::Verdict;

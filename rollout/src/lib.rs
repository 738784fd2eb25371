//! The decision function of muster: which unit changes next, and what the evidence says.
//!
//! ```text
//!   Spec: what people wish ──────────┐
//!   Memory: what was decided ────────┼──► plan ──► Memory   written by compare-and-swap, and only then
//!   Units: rows, reports, fitness ───┤        ├──► Steps    Assign, Withdraw, Fence, Abandon, Evaluate, Conclude
//!   now ─────────────────────────────┘        ├──► Reasons  one for each unit
//!                                             └──► wake_at, Summary
//! ```
//!
//! A *unit* is a cluster today. Its *row* is what stands written for it, its *echo* what it reports about a row.
//! A unit is *charged* from the decision to change it until the change is confirmed: the charges are the window.
//!
//! Its rules, by name, with the code and the tests of each: `docs/engine.md`. "Rule 4" and "W3" in comments are rules of that page.
//!
//! Invariant: who is not charged is confirmed at what its row says, or has nothing.
//! Invariant: a new charge is made only while fewer units are charged than the limit allows.
//! Invariant: an intent that was given out and not written leaves its slot only behind a row with a greater token.
//! Invariant: a report counts only for the digest and the token that it names.
//! Invariant: steps follow from the new memory and the rows alone, so a lost step is repeated with its token and a
//! step carried out is not repeated.
//! Invariant: a revision that is known to be bad is never newly assigned.
//! Invariant: nothing is withdrawn but on a complete read, and not many units at once without an acknowledgement.
//! Invariant: no clock, no randomness, no I/O, no panic, no order of a hash map; permuting the units changes nothing.
//!
//! What was decided can be put on [`record`], and be made again.
//!
//! Who carries the steps out lets a row's token never fall, and lets a step fail if the row is not as it was seen.

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
    Acknowledged, Charge, Clock, Course, Evidence, GateCount, Kind, MAX_BAD, MAX_BYTES, MAX_CHARGES,
    MAX_CONTROLS, MAX_MARKS, MAX_MESSAGE, Memory, OpenBatch, Run, RunState,
};
pub use plan::plan;
pub use spec::{
    Batch, Control, Deadlines, Domains, Gate, GateId, How, Limit, OnFailure, OnJoin, Outcome, Reading,
    Refusal, Says, Spec, Stage, Strategy, Withdraw,
};
pub use time::Millis;
pub use unit::{
    Absence, Class, Content, Desired, Domain, Echo, Eligible, Ineligible, Place, Progress, Row, State, Unit,
};
pub use verdict::Verdict;

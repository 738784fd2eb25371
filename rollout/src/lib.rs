//! The decision function of muster: which unit changes next, and what the evidence says.

mod decision;
mod id;
mod memory;
mod plan;
mod spec;
mod time;
mod unit;

pub use decision::{Decision, Phase, Step, Summary, Verdict, Why};
pub use id::{Digest, Incarnation, Revision, Token, UnitId};
pub use memory::{
    Acknowledged, Charge, Clock, Evidence, Kind, MAX_BAD, MAX_BYTES, MAX_CHARGES, MAX_MARKS, MAX_MESSAGE,
    Memory, Run, RunState,
};
pub use plan::plan;
pub use spec::{Deadlines, How, Limit, OnFailure, OnJoin, Spec, Strategy, Withdraw};
pub use time::Millis;
pub use unit::{Class, Content, Desired, Echo, Eligible, Ineligible, Row, State, Unit};

//! Gates of stages: what is measured elsewhere, read when the engine asks for it.
//!
//! ```text
//!   module: act ── question ──► Readings ──► turn ──► Evaluator ─┬─ http: Secret, GET, JSONPath, comparison
//!              ▲                   │  ▲                          └─ condition: one object
//!              └──── changes ◄─────┘  └──── reading: holds, does not hold, cannot be told ◄──┘
//! ```
//!
//! Invariant: no reconcile waits for a gate: it asks, goes on, and is woken by the reading.
//! Invariant: one evaluation of a gate at a time; a few of a module, of a host, of all.
//! Invariant: a reading counts for what was asked only: this life of the module, this run of this revision, this stage, this definition.
//! Invariant: nothing is opened but hosts that the process was started with; no redirect is followed.
//! Invariant: a Secret is read for one evaluation, and its values stand in nothing that is said of it.
//! Invariant: what cannot be told is no data, with its reason; it never passes.

mod condition;
mod credentials;
mod error;
mod evaluator;
mod fetch;
mod judge;
mod readings;
mod turns;

use jiff::Timestamp;
use muster_api::{digest, rollout::Gate};
use muster_rollout::{GateId, Outcome, Revision};

pub use self::{
    credentials::{Credentials, Login},
    error::GateError,
    evaluator::{Access, Evaluator, Setup},
    fetch::{Ask, Fetch, FetchError, MAX_ANSWER, Web},
    readings::Readings,
};

/// What the engine asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where the gate stands.
    pub place: GateId,
    /// For what it is read.
    pub about: Subject,
    /// The gate.
    pub gate: Gate,
}

/// For what a gate is read: a reading counts for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which life of the module.
    pub module: String,
    /// Which run of it.
    pub run: u64,
    /// What that run rolls out.
    pub revision: Revision,
    /// The stage by its name.
    pub stage: String,
    /// What is asked.
    pub definition: u64,
}

/// What a gate said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it was asked.
    pub at: Timestamp,
    /// What that means.
    pub outcome: Outcome,
    /// The value, or why there is none, for people.
    pub said: String,
}

/// Tells what is asked from other questions; how often, and how many times in a row, is no part of it.
pub fn definition(gate: &Gate) -> u64 {
    let Gate {
        http,
        condition,
        interval: _,
        passes: _,
        timeout: _,
        on_no_data: _,
    } = gate;
    // What came from JSON goes back to it.
    let text = serde_json::to_string(&(http, condition)).unwrap_or_default();
    let hash = digest::sha256_hex(&[&text]);
    hash.get(..16)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

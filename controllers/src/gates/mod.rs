//! Gates of stages: values measured elsewhere, read when the engine needs them.
//!
//! ```text
//!   module: act ── question ──► Readings ──► turn ──► Evaluator ─┬─ http: Secret, GET, JSONPath, comparison
//!              ▲                   │  ▲                          └─ condition: one object
//!              └──── changes ◄─────┘  └─── reading: passes, fails, no data ◄────┘
//! ```
//!
//! Invariant: no reconcile waits for a gate: it requests a reading, continues, and is woken by the result. Invariant:
//! one evaluation of a gate at a time; a limited number per module, per host and in total. Invariant: a reading counts
//! only for its subject: this uid of the module, this run of this revision, this stage, this definition. Invariant:
//! only hosts that the process's flags allow are queried; redirects are not followed. Invariant: a Secret is read for
//! one evaluation, and its values never appear in a result. Invariant: an inconclusive result is no data, with its
//! reason; it never passes.

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
use muster_rollout::{GateId, GateResult, Revision};

pub use self::{
    credentials::{Credentials, Login},
    error::GateError,
    evaluator::{Access, Evaluator, Setup},
    fetch::{Ask, Fetch, FetchError, MAX_ANSWER, Web},
    readings::Readings,
};

/// A request of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The position of the gate in its stage.
    pub place: GateId,
    /// The subject of the reading.
    pub about: Subject,
    /// The gate to read.
    pub gate: Gate,
}

/// The subject of a reading: it counts for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The uid of the module.
    pub module: String,
    /// The run of the module.
    pub run: u64,
    /// The revision that this run rolls out.
    pub revision: Revision,
    /// The name of the stage.
    pub stage: String,
    /// The hash of the gate's definition.
    pub definition: u64,
}

/// The result of reading a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the gate was read.
    pub at: Timestamp,
    /// Whether it passes, fails or has no data.
    pub outcome: GateResult,
    /// The value, or why there is none, as text for people.
    pub message: String,
}

/// A hash that tells definitions apart; how often, and how many times in a row, is not part of it.
pub fn definition(gate: &Gate) -> u64 {
    let Gate {
        http,
        condition,
        interval: _,
        passes: _,
        timeout: _,
        on_no_data: _,
    } = gate;
    // It was parsed from JSON, so it serializes.
    let text = serde_json::to_string(&(http, condition)).unwrap_or_default();
    let hash = digest::sha256_hex(&[&text]);
    hash.get(..16)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

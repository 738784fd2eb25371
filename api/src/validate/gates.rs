//! Validation of gates without evaluating them.

use super::{JsonPathError, Problems, git, git::InsecureSources, json_path, names};
use crate::{
    duration::Duration,
    rollout::{ConditionGate, Gate, GateOperator, HttpGate},
};

/// The shortest interval: measured values do not change faster.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest interval: beyond a day it is no longer obvious what a rollout waits for.
const MAX_INTERVAL: Duration = Duration::from_hours(24);
/// The shortest timeout of an evaluation.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest timeout: it is also how long one gate can block others that wait for their turn.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of consecutive evaluations.
const MAX_PASSES: u32 = 1_000;

/// Why a gate is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Neither or both of http and condition.
    #[error("set exactly one of http and condition")]
    Form,
    /// The interval is too short or too long.
    #[error("interval is {0}: write one from {MIN_INTERVAL} to {MAX_INTERVAL}")]
    Interval(Duration),
    /// The timeout is too short or too long.
    #[error("timeout is {0}: write one from {MIN_TIMEOUT} to {MAX_TIMEOUT}")]
    Timeout(Duration),
    /// The number of passes is zero or too large.
    #[error("passes is {0}: write a number from 1 to {MAX_PASSES}")]
    Passes(u32),
    /// A numeric comparison with a value that is not a number.
    #[error("value {value:?} is not a number, and {op} compares numbers: write a number, or use == or !=")]
    NoNumber {
        /// The rejected value.
        value: String,
        /// The comparison operator.
        op: GateOperator,
    },
    /// An unsupported JSONPath.
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
    /// A condition of a Secret.
    #[error("a gate does not read Secrets: name another kind")]
    Secret,
}

/// Checks the gates of one stage.
pub(super) fn check(found: &mut Problems, stage: &str, gates: &[Gate], insecure: InsecureSources) {
    for (index, gate) in gates.iter().enumerate() {
        let field = format!("{stage}.gates[{index}]");
        let Gate {
            http,
            condition,
            interval,
            passes,
            timeout,
            on_no_data: _,
        } = gate;
        found.gate(&field, http.is_some() != condition.is_some(), GateError::Form);
        let usual = (MIN_INTERVAL..=MAX_INTERVAL).contains(interval);
        found.gate(&field, usual, GateError::Interval(*interval));
        let usual = (MIN_TIMEOUT..=MAX_TIMEOUT).contains(timeout);
        found.gate(&field, usual, GateError::Timeout(*timeout));
        let usual = (1..=MAX_PASSES).contains(passes);
        found.gate(&field, usual, GateError::Passes(*passes));
        if let Some(http) = http {
            self::http(found, &format!("{field}.http"), http, insecure);
        }
        if let Some(condition) = condition {
            self::condition(found, &format!("{field}.condition"), condition);
        }
    }
}

fn http(found: &mut Problems, field: &str, gate: &HttpGate, insecure: InsecureSources) {
    let HttpGate {
        url,
        secret_ref,
        json_path,
        op,
        value,
    } = gate;
    found.check(format!("{field}.url"), git::gate_url(url, insecure));
    if let Some(secret) = secret_ref {
        found.name(
            format!("{field}.secretRef.name"),
            &secret.name,
            names::dns_subdomain,
        );
    }
    let path = json_path::json_path(json_path).map_err(GateError::from);
    found.check(format!("{field}.jsonPath"), path);
    let is_number = value.parse().is_ok_and(f64::is_finite);
    let problem = GateError::NoNumber {
        value: value.clone(),
        op: *op,
    };
    found.gate(&format!("{field}.value"), is_number || !op.is_order(), problem);
}

fn condition(found: &mut Problems, field: &str, gate: &ConditionGate) {
    found.gate(&format!("{field}.kind"), gate.kind != "Secret", GateError::Secret);
    found.name(format!("{field}.name"), &gate.name, names::dns_subdomain);
}

impl Problems {
    fn gate(&mut self, field: &str, holds: bool, problem: GateError) {
        self.check(field, if holds { Ok(()) } else { Err(problem) });
    }
}

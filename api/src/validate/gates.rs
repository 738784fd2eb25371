//! What can be said about gates without asking anybody.

use super::{Found, JsonPathError, git, git::InsecureSources, json_path, names};
use crate::{
    duration::Duration,
    rollout::{ConditionGate, Gate, GateOperator, HttpGate},
};

/// The shortest time from one reading to the next: what is measured changes no sooner.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest: a rollout that waits for longer forgets why.
const MAX_INTERVAL: Duration = Duration::from_hours(24);
/// The shortest time that an answer is given.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest: it is also the longest that one gate keeps a turn which others wait for.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(1);
/// The most readings in a row.
const MAX_PASSES: u32 = 1_000;

/// Why a gate cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Neither or both of http and condition.
    #[error("set exactly one of http and condition")]
    Form,
    /// Too short or too long.
    #[error("interval is {0}: write one from {MIN_INTERVAL} to {MAX_INTERVAL}")]
    Interval(Duration),
    /// Too short or too long.
    #[error("timeout is {0}: write one from {MIN_TIMEOUT} to {MAX_TIMEOUT}")]
    Timeout(Duration),
    /// None, or too many.
    #[error("passes is {0}: write a number from 1 to {MAX_PASSES}")]
    Passes(u32),
    /// An order of what has none.
    #[error("value {value:?} is no number, and {op} compares numbers: write a number, or use == or !=")]
    NoNumber {
        /// What stands there.
        value: String,
        /// How it would be compared.
        op: GateOperator,
    },
    /// A path that is not taken.
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
    /// A condition of a Secret.
    #[error("a gate does not read Secrets: name another kind")]
    Secret,
}

/// Checks the gates of one stage.
pub(super) fn check(found: &mut Found, stage: &str, gates: &[Gate], insecure: InsecureSources) {
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

fn http(found: &mut Found, field: &str, gate: &HttpGate, insecure: InsecureSources) {
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

fn condition(found: &mut Found, field: &str, gate: &ConditionGate) {
    found.gate(&format!("{field}.kind"), gate.kind != "Secret", GateError::Secret);
    found.name(format!("{field}.name"), &gate.name, names::dns_subdomain);
}

impl Found {
    fn gate(&mut self, field: &str, holds: bool, problem: GateError) {
        self.check(field, if holds { Ok(()) } else { Err(problem) });
    }
}

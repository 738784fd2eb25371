//! Tables of object health.

use jiff::Timestamp;
use muster_sync::health::{self, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("health.json", "muster_sync::health::of", healthy).without(WORDS),
    product("health-probes.json", "muster_sync::health::of", judged)
        .without(WORDS)
        .safer_alone(),
    product("readiness.json", "muster_sync::health::of", ready).without(WORDS),
];

/// For current objects the vocabulary is kstatus'. An object that cannot be assessed is not done, like an unhealthy
/// one.
const WORDS: &[&str] = &["message", "terminalMessage", "error"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HealthInput {
    object: Value,
}

fn judged(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: HealthInput = input.parse()?;
    let health = health::health_of(&given.object, Timestamp::UNIX_EPOCH);
    Ok(json!({"healthy": health.state == State::Current, "terminal": health.terminal}))
}

/// This table does not distinguish failures that waiting could resolve.
fn healthy(input: &Input<'_>) -> anyhow::Result<Value> {
    Ok(json!({"healthy": judged(input)?["healthy"]}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadinessInput {
    #[serde(rename = "instance")]
    _instance: Value,
    objects: Vec<Value>,
}

fn ready(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: ReadinessInput = input.parse()?;
    let current = |object: &Value| health::health_of(object, Timestamp::UNIX_EPOCH).state == State::Current;
    Ok(json!({"ready": given.objects.iter().all(current)}))
}

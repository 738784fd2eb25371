//! Tables of what a Node shows about its configuration: the condition, and startup taints.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use muster_api::conditions::NODE_CONFIGURED;
use muster_controllers::node::{
    configured::{self, Configured, ConfiguredStatus, StartupTaint},
    facts::NodeFacts,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product(
        "node-condition.json",
        "muster_controllers::node::configured::condition",
        condition,
    )
    .wording(&["error"])
    // Rewriting an unchanged condition periodically would be a write at rest; Leases serve as heartbeat.
    .without(&["lastHeartbeatTime"]),
    product(
        "node-taints.json",
        "muster_controllers::node::configured::without_startup",
        taints,
    )
    .wording(&["error"])
    .safer_alone(),
];

/// The original's condition.
const THEIRS: &str = "NetworkOperatorReady";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConditionInput {
    now: Timestamp,
    node: Option<Value>,
    status: String,
    reason: String,
    message: String,
    status_update: Option<String>,
}

fn condition(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: ConditionInput = input.parse()?;
    let Some(node) = input.node else {
        // An object that does not exist gets no write.
        return Ok(json!({"conditions": null, "error": null}));
    };
    let node = renamed(node, THEIRS, NODE_CONFIGURED);
    let typed: Node = serde_json::from_value(node.clone())?;
    let wanted = Configured {
        status: match input.status.as_str() {
            "True" => ConfiguredStatus::True,
            "False" => ConfiguredStatus::False,
            other => anyhow::bail!("a status {other:?}"),
        },
        reason: input.reason,
        message: input.message,
    };
    let before = NodeFacts::of(&typed).configured;
    let conditions = node["status"].get("conditions").cloned();
    let mut conditions: Vec<Value> = serde_json::from_value(conditions.unwrap_or_else(|| json!([])))?;
    let error = input.status_update;
    if error.is_none() && before.as_ref() != Some(&wanted) {
        let written = configured::condition(before.as_ref(), &wanted, input.now);
        merge(&mut conditions, &written)?;
    }
    for condition in &mut conditions {
        // In the form in which an API server returns it, without fields that are not compared.
        if condition["message"].is_null() {
            condition["message"] = json!("");
        }
        condition
            .as_object_mut()
            .map(|fields| fields.remove("lastHeartbeatTime"));
    }
    let conditions = renamed(json!(conditions), NODE_CONFIGURED, THEIRS);
    Ok(json!({"conditions": conditions, "error": error}))
}

/// The result of a strategic merge patch with one condition.
fn merge(conditions: &mut Vec<Value>, written: &Value) -> anyhow::Result<()> {
    let known = conditions
        .iter_mut()
        .find(|known| known["type"] == written["type"]);
    let Some(known) = known else {
        conditions.push(written.clone());
        return Ok(());
    };
    for (key, value) in written.as_object().context("a condition is an object")? {
        known[key] = value.clone();
    }
    Ok(())
}

fn renamed(mut value: Value, from: &str, to: &str) -> Value {
    match &mut value {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| *field = renamed(field.take(), from, to)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = renamed(item.take(), from, to)),
        Value::String(text) if text == from => to.clone_into(text),
        _ => {}
    }
    value
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaintsInput {
    node: Option<Node>,
    taints: Vec<String>,
    #[serde(default)]
    node_update: Vec<String>,
    #[serde(default = "once")]
    calls: usize,
}

const fn once() -> usize {
    1
}

/// Each call is a pass over a configured node.
fn taints(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: TaintsInput = input.parse()?;
    let startup: Option<Vec<StartupTaint>> = input
        .taints
        .iter()
        .map(|text| StartupTaint::parse(text))
        .collect();
    let startup = startup.context("a taint that cannot be read")?;
    let mut outcomes = input.node_update.into_iter();
    let mut left = input
        .node
        .map(|node| node.spec.unwrap_or_default().taints.unwrap_or_default());
    let mut calls = Vec::new();
    for _ in 0..input.calls {
        let kept = left
            .as_ref()
            .and_then(|taints| configured::without_startup(taints, &startup));
        let outcome = kept
            .as_ref()
            .and_then(|_| outcomes.next())
            .filter(|outcome| outcome != "ok");
        let updates = usize::from(kept.is_some());
        let is_removed = left.is_some() && outcome.is_none();
        if outcome.is_none()
            && let Some(kept) = kept
        {
            left = Some(kept);
        }
        // After a conflict with another writer the decision is made again.
        let error = outcome.filter(|outcome| !outcome.eq_ignore_ascii_case("conflict"));
        calls.push(json!({"error": error, "nodeUpdates": updates, "taintsRemoved": is_removed}));
    }
    Ok(json!({"calls": calls, "taints": left}))
}

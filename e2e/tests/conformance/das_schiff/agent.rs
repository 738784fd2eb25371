//! Tables of the agent, step by step.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, bail};
use jiff::Timestamp;
use muster_node::{ChangeOutcome, Report, State, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    life,
    node::{Call, Node, Script, printed, status},
};
use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("agent-check-health.json", "muster_node::failing", step)
        .wording(WORDS)
        .safer_alone(),
    product("agent-process-config.json", "muster_node::Agent::assign", step)
        .wording(WORDS)
        .unordered(REPORTED_LAST)
        .safer_alone(),
    product("agent-reconcile.json", "muster_node::Agent::assign", step)
        .wording(WORDS)
        .unordered(REPORTED_LAST)
        .safer_alone(),
    product("agent-restore.json", "muster_node::Agent::restore", step)
        .wording(WORDS)
        .unordered(REPORTED_LAST)
        .safer_alone(),
    product("agent-store.json", "muster_node::status", store)
        .wording(WORDS)
        .safer_alone(),
    product("set-status.json", "muster_node::Report", set_status).wording(WORDS),
    product("sequences-agent.json", "muster_node::Agent", life::sequence)
        .wording(WORDS)
        .unordered(REPORTED_LAST)
        .safer_alone()
        .carried(),
];

const WORDS: &[&str] = &["error", "errorMessage", "message"];
/// R8: muster restores before it reports; the original does the reverse. The order counts where `safer` lists calls.
const REPORTED_LAST: &[&str] = &["calls"];
/// The agent's clock in cases without one.
const NOW: &str = "2000-01-01T01:00:00Z";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepInput {
    now: Option<Timestamp>,
    function: String,
    object: Option<Value>,
    memory: Option<Value>,
    #[serde(default, rename = "restoreOnReconcileFailure")]
    _restore_on_reconcile_failure: bool,
    #[serde(default)]
    apply: BTreeMap<String, Vec<String>>,
    interfaces: Option<String>,
    reachability: Option<String>,
    api_server: Option<String>,
    #[serde(default, rename = "taintsRemoved")]
    _taints_removed: Option<bool>,
    #[serde(default, rename = "removeTaints")]
    _remove_taints: Option<String>,
    #[serde(default, rename = "updateCondition")]
    _update_condition: Option<String>,
    #[serde(default)]
    status_updates: Vec<String>,
    #[serde(default)]
    get: Vec<String>,
    #[serde(default, rename = "localASN")]
    _local_asn: Option<i64>,
    #[serde(default, rename = "reason")]
    _reason: Option<String>,
    error_message: Option<String>,
}

impl StepInput {
    fn script(&self) -> Script {
        let mut script = Script {
            apply: self.apply.clone(),
            api_server: self.api_server.clone(),
            ..Script::default()
        };
        if let Some(error) = &self.interfaces {
            script.links = Err(error.clone());
        }
        if let Some(error) = &self.reachability {
            script.dial.insert("10.0.0.1:179".to_owned(), vec![error.clone()]);
        }
        script
    }
}

fn revision(object: &Value) -> anyhow::Result<&str> {
    object["spec"]["revision"]
        .as_str()
        .context("an object without a revision")
}

/// A node that has confirmed the revision in its memory, with the status of the object.
fn prepared(input: &StepInput) -> anyhow::Result<Node> {
    let mut node = Node::new("network")?;
    if let Some(memory) = &input.memory {
        node.assign(revision(memory)?);
        node.pass()?;
    }
    if let Some(object) = &input.object {
        let status = &object["status"];
        if status["configStatus"] == "invalid"
            && let Some(failed) = status["lastAppliedRevision"].as_str()
        {
            let outcomes = BTreeMap::from([(failed.to_owned(), vec!["failed before".to_owned()])]);
            node.host.script.borrow_mut().apply = outcomes;
            node.assign(failed);
            node.pass()?;
        }
        node.status = status.clone();
    } else {
        node.status = Value::Null;
    }
    node.now = input.now.map_or_else(|| NOW.parse(), Ok)?;
    node.status_writes.clone_from(&input.status_updates);
    *node.host.script.borrow_mut() = input.script();
    node.host.calls.borrow_mut().clear();
    Ok(node)
}

fn step(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: StepInput = input.parse()?;
    let mut node = prepared(&input)?;
    let mut error = None;
    let mut checks = None;
    let mut confirmed = false;
    match input.function.as_str() {
        "checkHealth" => (error, checks) = (check_health(&node), Some(())),
        "processConfig" | "reconcile" | "apply" => (error, confirmed) = assigned(&mut node, &input)?,
        "fetch" => {}
        "restore" => {
            // An unconfirmed change is restored: the agent dies while it applies another revision.
            node.host.script.borrow_mut().dies_at = Some("another".to_owned());
            node.assign("another");
            node.pass()?;
            node.host.calls.borrow_mut().clear();
            node.status = Value::Null;
            node.restart()?;
            node.restore()?;
            // The original runs no checks after a restore.
            node.host
                .calls
                .borrow_mut()
                .retain(|call| !matches!(call, Call::Check(..)));
        }
        "invalidateAndRestore" => invalidate(&mut node, &input)?,
        other => bail!("an unknown step: {other}"),
    }
    let calls = node.host.calls.borrow().clone();
    let calls = match checks {
        // A standalone check counts as one after an apply.
        Some(()) => {
            let mut all = vec![Call::Apply(String::new(), true)];
            all.extend(calls);
            printed(&all, true)[1..].to_vec()
        }
        None => printed(&calls, true),
    };
    let remembered = node.confirmed()?.map(|(_, revision)| revision);
    let mut answer = json!({
        "condition": condition(&calls),
        "calls": calls,
        "error": error,
        "memoryRevision": remembered,
        // Cases define the memory but no disk: the disk contains what this pass has confirmed.
        "diskRevision": remembered.as_ref().filter(|_| confirmed),
        "requeueAfterSeconds": 0,
    });
    if input.object.is_some() {
        answer["status"] = node.status.clone();
    }
    Ok(answer)
}

/// The condition after these calls.
pub(super) fn condition(calls: &[String]) -> Value {
    let set = calls
        .iter()
        .rev()
        .find_map(|call| call.strip_prefix("setCondition "));
    match set.and_then(|set| set.split_once(' ')) {
        Some((status, reason)) => json!({"status": status, "reason": reason, "message": "words of muster"}),
        None => Value::Null,
    }
}

fn check_health(node: &Node) -> Option<String> {
    let config = muster_node::Config::parse(&json!({
        "checkTargets": ["10.0.0.0/8:179"], "server": "https://10.0.0.1:6443", "dialTries": 1,
    }));
    let checks = muster_node::Checks {
        interfaces: vec!["eth0".to_owned()],
        tcp: vec!["10.0.0.1:179".to_owned()],
        services: Vec::new(),
        api_server: true,
    };
    let failing = muster_node::failing(&checks, &config.ok()?, node.host.as_ref());
    failing.first().map(|failing| failing.message.clone())
}

/// The error, and whether the row is confirmed.
fn assigned(node: &mut Node, input: &StepInput) -> anyhow::Result<(Option<String>, bool)> {
    if let Some(error) = input.get.first().filter(|outcome| *outcome != "ok") {
        // Rows that cannot be read never reach the agent.
        return Ok((Some(error.clone()), false));
    }
    match &input.object {
        Some(object) => node.assign(revision(object)?),
        None => node.assigned = None,
    }
    let passed = node.pass()?;
    let confirmed = passed
        .as_ref()
        .is_some_and(|passed| passed.report.state == State::Confirmed);
    Ok((passed.and_then(|passed| passed.error()), confirmed))
}

/// The original's step begins after a failed attempt: earlier calls are left out.
fn invalidate(node: &mut Node, input: &StepInput) -> anyhow::Result<()> {
    let object = input.object.as_ref().context("nothing to invalidate")?;
    let failed = revision(object)?;
    let message = input.error_message.clone().unwrap_or_default();
    node.host
        .script
        .borrow_mut()
        .apply
        .insert(failed.to_owned(), vec![message]);
    node.status_writes.insert(0, "ok".to_owned());
    let before = node.status.clone();
    node.assign(failed);
    node.pass()?;
    let tried = |call: &Call| *call == Call::Apply(failed.to_owned(), false);
    let mut calls = node.host.calls.borrow_mut();
    if let Some(at) = calls.iter().position(tried) {
        calls.drain(..=at);
    }
    if node.status["configStatus"] == "provisioning" {
        node.status = before;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreInput {
    file: Option<String>,
    store: Option<Value>,
}

/// A file of the original corresponds to the agent's memory; invalid text corresponds to a damaged file.
fn store(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: StoreInput = input.parse()?;
    let read: Option<Value> = input
        .file
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let name = read
        .as_ref()
        .or(input.store.as_ref())
        .and_then(|object| object["metadata"]["name"].as_str());
    let mut node = Node::new(name.unwrap_or_default())?;
    if let Some(object) = &read {
        node.assign(revision(object)?);
        node.pass()?;
    } else if let Some(text) = &input.file {
        fs::write(node.own("memory"), text)?;
    }
    let mut answer = json!({});
    if let Some(object) = &input.store {
        node.assign(revision(object)?);
        let passed = node.pass()?;
        answer["storeError"] = passed.and_then(|passed| passed.error()).into();
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(node.own("memory"))?);
        answer["mode"] = format!("{:04o}", mode & 0o7777).into();
    }
    let error = node.restart().err().map(|error| error.to_string());
    let (name, revision) = node.confirmed()?.unwrap_or_default();
    if input.store.is_some() {
        answer["memoryRevision"] = revision.as_str().into();
    }
    answer["error"] = error.into();
    answer["name"] = name.into();
    answer["revision"] = revision.into();
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetStatusInput {
    now: Timestamp,
    config: Value,
    status: String,
    error_message: Option<String>,
    #[serde(default)]
    status_update: String,
}

fn set_status(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: SetStatusInput = input.parse()?;
    let state = match input.status.as_str() {
        "provisioning" => State::Changing,
        "provisioned" => State::Confirmed,
        "invalid" => State::Ended(ChangeOutcome {
            verdict: Verdict::Failed,
            message: input.error_message.clone().unwrap_or_default(),
            failing: Vec::new(),
        }),
        other => bail!("an unknown status: {other}"),
    };
    let report = Report {
        row: "network".to_owned(),
        digest: revision(&input.config)?.to_owned(),
        token: 1,
        attempt: 0,
        state,
        drift: Vec::new(),
        note: None,
        confirmed: None,
        retries: false,
    };
    let before = &input.config["status"];
    if !input.status_update.is_empty() {
        return Ok(json!({"stored": before, "error": input.status_update}));
    }
    let mut stored = status(before, &report, input.now);
    if stored["errorMessage"] == "" {
        stored["errorMessage"] = Value::Null;
    }
    Ok(json!({"stored": stored, "error": null}))
}

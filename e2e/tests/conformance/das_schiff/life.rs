//! Scripted sequences of one agent.

use std::{collections::BTreeMap, fs};

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    agent::condition,
    node::{Node, Script, printed},
};
use crate::registry::Input;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceInput {
    now: Timestamp,
    objects: Vec<Value>,
    agent: AgentInput,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentInput {
    #[serde(rename = "healthcheck")]
    _healthcheck: Value,
    #[serde(rename = "restoreOnReconcileFailure")]
    _restore_on_reconcile_failure: bool,
    #[serde(default)]
    partial_apply: bool,
    memory: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    at: i64,
    actor: String,
    event: String,
    revision: Option<String>,
    links: Option<BTreeMap<String, String>>,
    #[serde(default)]
    dial: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    apply: BTreeMap<String, Vec<String>>,
    list_nodes: Option<String>,
    #[serde(default)]
    status_writes: Vec<String>,
    /// Writes of taints and of the condition, which in muster are the controller's.
    #[serde(default, rename = "nodeWrites")]
    _node_writes: Vec<String>,
    status: Option<String>,
    reason: Option<String>,
}

/// A node as observed from outside.
struct Life {
    node: Node,
    now: Timestamp,
    links: BTreeMap<String, String>,
    partial: bool,
    /// The condition, per writer.
    conditions: BTreeMap<String, Value>,
    unreadable: bool,
    error: Option<String>,
}

pub(super) fn sequence(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: SequenceInput = input.parse()?;
    let mut node = Node::new("network")?;
    if let Some(memory) = &input.agent.memory {
        node.assign(memory);
        node.pass()?;
    }
    let object = input
        .objects
        .iter()
        .find(|object| object["kind"] == "NodeNetworkConfig");
    node.status = object.map_or(Value::Null, |object| object["status"].clone());
    let mut life = Life {
        node,
        now: input.now,
        links: BTreeMap::from([("eth0".to_owned(), "up".to_owned())]),
        partial: input.agent.partial_apply,
        conditions: BTreeMap::new(),
        unreadable: false,
        error: None,
    };
    let mut before = Map::new();
    let mut after = Vec::new();
    for (number, step) in input.steps.iter().enumerate() {
        let calls = life.step(step)?;
        let observed = life.observed()?;
        let mut changed: Map<String, Value> = observed
            .iter()
            .filter(|(key, value)| before.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        changed.insert("step".to_owned(), number.into());
        changed.insert("calls".to_owned(), calls.into());
        changed.insert("error".to_owned(), life.error.take().into());
        after.push(Value::Object(changed));
        before = observed;
    }
    Ok(json!({"after": after}))
}

impl Life {
    fn step(&mut self, step: &Step) -> anyhow::Result<Vec<String>> {
        let node = &mut self.node;
        node.now = self.now + SignedDuration::from_secs(step.at);
        node.host.calls.borrow_mut().clear();
        if let Some(links) = &step.links {
            self.links.clone_from(links);
        }
        let failed = |outcome: &&String| *outcome != "ok";
        *node.host.script.borrow_mut() = Script {
            apply: step.apply.clone(),
            links: Ok(self.links.clone()),
            dial: step.dial.clone(),
            api_server: step.list_nodes.as_ref().filter(failed).cloned(),
            partial: self.partial,
            dies_at: None,
        };
        node.status_writes.clone_from(&step.status_writes);
        match (step.actor.as_str(), step.event.as_str(), &step.revision) {
            ("operator", "assign", Some(revision)) => {
                node.assign(revision);
                if node.status.is_null() {
                    node.status = json!({"configStatus": "", "lastUpdate": null});
                }
            }
            ("operator", "delete", _) => node.status = Value::Null,
            ("agent", "restart", _) => self.error = node.restart().err().map(|error| error.to_string()),
            // An agent without its object gets no row.
            ("agent", "reconcile", _) if node.status.is_null() => {}
            ("agent", "reconcile", _) => self.reconcile()?,
            ("host", "reboot", _) => node.reboot()?,
            ("disk", "truncate", _) => {
                let file = node.own("memory");
                let text = fs::read(&file)?;
                fs::write(&file, &text[..text.len() / 2])?;
                self.unreadable = true;
            }
            ("netplan-agent", "condition", _) => {
                let (status, reason) = (step.status.clone(), step.reason.clone());
                self.set_condition("netplan-agent", &json!({"status": status, "reason": reason}));
            }
            (actor, event, _) => bail!("an unknown step: {actor} {event}"),
        }
        let calls = printed(&self.node.host.calls.borrow(), false);
        self.set_condition("agent", &condition(&calls));
        Ok(calls)
    }

    fn reconcile(&mut self) -> anyhow::Result<()> {
        let passed = self.node.pass()?;
        self.error = passed.and_then(|passed| passed.error());
        Ok(())
    }

    fn set_condition(&mut self, writer: &str, new: &Value) {
        if new.is_null() {
            return;
        }
        let mut new = new.clone();
        let before = self.conditions.get(writer);
        let since = before.filter(|before| before["status"] == new["status"]);
        new["lastTransitionTime"] = since.map_or_else(
            || self.node.now.to_string().into(),
            |before| before["lastTransitionTime"].clone(),
        );
        self.conditions.insert(writer.to_owned(), new);
    }

    /// The node in the vocabulary of the tables.
    fn observed(&self) -> anyhow::Result<Map<String, Value>> {
        let remembered = self.node.confirmed()?.map(|(_, revision)| revision);
        // One condition summarizes all: it is false while any of them is.
        let mut shown = self.conditions.values();
        let false_one = shown.clone().find(|condition| condition["status"] == "False");
        let running = self.node.host.running.borrow().clone();
        let object = !self.node.status.is_null();
        let observed = json!({
            "assigned": self.node.assigned,
            "condition": false_one.or_else(|| shown.next()),
            "disk": if self.unreadable { Some("unreadable".to_owned()) } else { remembered.clone() },
            "memory": remembered,
            "running": running.unwrap_or_else(|| "none".to_owned()),
            "status": if object { self.node.status.clone() } else { Value::Null },
            "taints": [],
        });
        Ok(observed.as_object().cloned().unwrap_or_default())
    }
}

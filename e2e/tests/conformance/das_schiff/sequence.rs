//! Scripted sequences of a fleet: passes of the controller, and reports of agents, in the order of the script.
//!
//! Settings are translated as described in the README of the tables. The original's limit counts the nodes that are
//! changing; muster's also counts nodes that are not Ready, so it is raised by one for each of these. The original
//! writes one node per pass: a pass of muster may change one more node than are changing, and its second row is written
//! by the next pass.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use muster_api::{node::NodeRevision, revision::Verdict};
use muster_controllers::{node::facts::RowFacts, runtime::retry};
use muster_rollout::{Decision, Why};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{fleet::Fleet, rollout::Stored};
use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[product(
    "sequences-rollout.json",
    "controllers::node::pass::next",
    sequence,
)
.wording(&["error", "errorMessage"])
.unordered(&["charged", "deleted", "inFlight"])
.without(NO_COUNTERPART)
.safer_alone()
.carried()];

/// More passes than one change can cause.
const PASSES: usize = 100;
/// Log messages, owner references of the original's own objects, counters of revisions, and times of the agents'
/// clocks.
const NO_COUNTERPART: &[&str] = &[
    "log",
    "owners",
    "ongoing",
    "queued",
    "ready",
    "total",
    "failedAt",
    "failedMessage",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceInput {
    now: Timestamp,
    flags: Flags,
    objects: Vec<Value>,
    #[serde(default)]
    inputs: BTreeMap<String, Vec<Value>>,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Flags {
    max_updating: usize,
    config_timeout_seconds: f64,
    preconfig_timeout_seconds: f64,
    /// The timeout of an API call: it does not affect decisions.
    #[serde(default, rename = "apiTimeoutSeconds")]
    _api_timeout_seconds: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    at: f64,
    actor: String,
    event: String,
    node: Option<String>,
    #[serde(rename = "for")]
    assignment: Option<String>,
    message: Option<String>,
    /// The agent's clock: muster uses its own.
    #[serde(default, rename = "clockOffsetSeconds")]
    _clock_offset_seconds: f64,
    inputs: Option<String>,
    revision: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
    #[serde(default)]
    config_writes: Vec<String>,
}

impl Step {
    fn node(&self) -> anyhow::Result<&str> {
        self.node.as_deref().context("a step without a node")
    }
}

/// What happened in a step, in the vocabularies of the tables and of `safer`.
#[derive(Default)]
struct Happened {
    written: Vec<Value>,
    rows: Vec<Value>,
    deleted: Vec<String>,
    error: Option<String>,
    not: bool,
}

impl Happened {
    fn note_write(&mut self, node: &str, revision: Option<&str>, known: bool, failed: Option<String>) {
        let op = if known { "update" } else { "create" };
        let mut written = json!({"op": op, "kind": "NodeNetworkConfig", "name": node, "revision": revision});
        let mut row = json!({"unit": node, "revision": revision});
        if let Some(error) = failed {
            written["error"] = error.as_str().into();
            row["outcome"] = "unknown".into();
            self.error = Some(error);
        }
        self.written.push(written);
        self.rows.push(row);
    }
}

/// Limits writes to one node per step, as in the original; others wait for the next step, as after a killed process.
struct Pace {
    outcomes: VecDeque<String>,
    written: bool,
}

impl Pace {
    /// The result of the next write; `None` if it is not made in this step.
    fn write(&mut self) -> Option<Result<(), String>> {
        if self.written {
            return None;
        }
        let failed = self.outcomes.pop_front().filter(|outcome| outcome != "ok");
        self.written = failed.is_none();
        Some(failed.map_or(Ok(()), Err))
    }
}

struct Life {
    fleet: Fleet,
    flags: Flags,
    /// The set of inputs that the user has chosen.
    chosen: Option<String>,
    /// The last decision.
    decision: Option<Decision>,
    target: Option<String>,
    /// The status of each node's agent, in the vocabulary of the original.
    reports: BTreeMap<String, Value>,
    /// Since when no process leads.
    stopped: Option<Timestamp>,
    api_down: bool,
    /// When the loop was started, and the number of its passes.
    triggered: Option<Timestamp>,
    passes: Option<usize>,
}

pub(super) fn sequence(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: SequenceInput = input.parse()?;
    let mut life = Life::new(&input)?;
    let (mut after, mut safer) = (Vec::new(), Vec::new());
    for (number, step) in input.steps.iter().enumerate() {
        let at = SignedDuration::try_from_secs_f64(step.at)?;
        life.fleet.world.now = input.now + at;
        let happened = life.step(step).with_context(|| format!("step {number}"))?;
        after.push(life.observed(number, &happened));
        safer.push(life.decided(number, &happened));
    }
    Ok(json!({"after": after, "~safer": {"after": safer}}))
}

impl Life {
    fn new(input: &SequenceInput) -> anyhow::Result<Self> {
        let mut fleet = Fleet::new(input.now);
        let Flags {
            config_timeout_seconds: progress,
            preconfig_timeout_seconds: pickup,
            ..
        } = input.flags;
        let seconds = |seconds: f64| format!("{}ms", seconds * 1_000.0);
        fleet.rollout["deadlines"] =
            json!({"pickup": seconds(pickup), "progress": seconds(progress), "absence": "300s"});
        let mut life = Self {
            fleet,
            flags: input.flags,
            chosen: None,
            decision: None,
            target: None,
            reports: BTreeMap::new(),
            stopped: None,
            api_down: false,
            triggered: None,
            passes: None,
        };
        for (name, objects) in &input.inputs {
            life.fleet.call(name, parts(objects)?);
        }
        let of = |kind: &'static str| input.objects.iter().filter(move |object| object["kind"] == kind);
        if let Some(unknown) = input.objects.iter().find(|object| {
            !["Node", "NetworkConfigRevision", "NodeNetworkConfig"]
                .iter()
                .any(|kind| object["kind"] == **kind)
        }) {
            bail!("an object of an unknown kind: {}", unknown["kind"]);
        }
        for node in of("Node") {
            life.fleet.join(node)?;
        }
        let mut stored = of("NetworkConfigRevision")
            .map(Stored::of)
            .collect::<anyhow::Result<Vec<_>>>()?;
        stored.sort_by_key(|one| std::cmp::Reverse(one.created));
        let configs: Vec<&Value> = of("NodeNetworkConfig").collect();
        life.begin(&stored, &configs)?;
        Ok(life)
    }

    /// What was rolled out before: the first revision that is not bad; it is good if all nodes with a revision have it.
    fn begin(&mut self, stored: &[Stored<'_>], configs: &[&Value]) -> anyhow::Result<()> {
        let target = stored.iter().find(|one| !one.invalid).map(|one| one.name);
        let everywhere = configs.iter().all(|config| {
            Some(config["spec"]["revision"].as_str().unwrap_or_default()) == target
                && config["status"]["configStatus"] == "provisioned"
                && config["status"]["lastAppliedRevision"] == config["spec"]["revision"]
        });
        for one in stored {
            let verdict = match (one.invalid, Some(one.name) == target) {
                (true, _) => Some(Verdict::Bad),
                (false, true) => (everywhere && !configs.is_empty()).then_some(Verdict::Good),
                (false, false) => Some(Verdict::Good),
            };
            self.fleet.store(one.name, one.created, verdict)?;
        }
        for config in configs {
            let node = config["metadata"]["name"]
                .as_str()
                .context("a config without a name")?;
            let revision = config["spec"]["revision"]
                .as_str()
                .context("a config without a revision")?;
            self.fleet.carry(node, revision)?;
            self.fleet.report(node, &config["status"])?;
            self.reports.insert(node.to_owned(), config["status"].clone());
        }
        // If all revisions are bad, the newest one is still the target.
        if let Some(desired) = target.or_else(|| stored.first().map(|newest| newest.name)) {
            self.fleet.aim(Some(desired))?;
        }
        self.target = target.map(str::to_owned);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> anyhow::Result<Happened> {
        let mut happened = Happened::default();
        match (step.actor.as_str(), step.event.as_str()) {
            ("user", "inputs") => self.chosen.clone_from(&step.inputs),
            ("config", "reconcile") => {
                if let Some(chosen) = self.chosen.clone() {
                    self.ask_for(&chosen, &mut happened)?;
                }
            }
            ("config", "store") => {
                let revision = step.revision.as_deref().context("nothing is stored")?;
                self.fleet.call(revision, Fleet::plain(revision));
                self.ask_for(revision, &mut happened)?;
            }
            ("rollout", "reconcile") => self.pass(&step.config_writes, &mut happened)?,
            ("agent", event) => happened.not = !self.report(step, event)?,
            ("node", event) => self.change_node(step, event)?,
            ("gc", "collect") => self.collect(),
            ("operator", "stop") => self.stop(),
            ("operator", "start") => self.start(),
            ("operator", "trigger") => self.triggered = Some(self.fleet.world.now),
            ("api", "down") => self.api_down = true,
            ("api", "up") => self.api_down = false,
            ("time", "passes") => self.loop_on(&mut happened)?,
            (actor, event) => bail!("an unknown step: {actor} {event}"),
        }
        Ok(happened)
    }

    /// Sets the target of the NodeModule; a pass that ends early still records it.
    fn ask_for(&mut self, revision: &str, happened: &mut Happened) -> anyhow::Result<()> {
        if self.api_down {
            happened.error = Some("connection refused".to_owned());
            return Ok(());
        }
        self.fleet.aim(Some(revision))?;
        let (observation, plan) = self.fleet.decide();
        if self.fleet.record(&observation, &plan) {
            let op = json!({"op": "create", "kind": "NetworkConfigRevision", "name": revision});
            happened.written.push(op);
        }
        match &plan.decided {
            Some(decided) => self.target(decided.decision()),
            None => happened.error = observation.invalid.map(|invalid| invalid.message.clone()),
        }
        Ok(())
    }

    /// A withdrawal that waits for an acknowledgement has not started: the previous target still applies.
    fn target(&mut self, decision: &Decision) {
        let held = |why: &Why| matches!(why, Why::WithdrawalHeld { .. });
        if !decision.reasons.iter().any(|(_, why)| held(why)) {
            self.target = self.fleet.target(decision).map(str::to_owned);
        }
    }

    /// Allows this number of nodes to change in addition to those that are not Ready.
    fn limit(&mut self, changing: usize) {
        let in_flight = self.fleet.changing();
        let nodes = self.fleet.world.nodes.values();
        let away = nodes.filter(|node| !in_flight.contains(&node.name) && (!node.ready || node.deleting));
        self.fleet.rollout["maxUnreadyNodes"] = json!(changing + away.count());
        self.fleet.apply();
    }

    fn pass(&mut self, outcomes: &[String], happened: &mut Happened) -> anyhow::Result<()> {
        if self.api_down {
            happened.error = Some("connection refused".to_owned());
        }
        if self.api_down || !self.fleet.is_applied() {
            return Ok(());
        }
        let before = self.fleet.world.revisions.clone();
        let mut pace = Pace {
            outcomes: outcomes.iter().cloned().collect(),
            written: false,
        };
        let in_flight = self.fleet.changing().len();
        let changing = self.flags.max_updating.min(in_flight + 1);
        for _ in 0..PASSES {
            self.limit(changing);
            match self.one_pass(&mut pace, happened) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    happened.error = Some(format!("{error:#}"));
                    return Ok(());
                }
            }
        }
        self.note_deletions(&before, happened);
        Ok(())
    }

    /// Runs one pass. Returns whether it triggers another one.
    fn one_pass(&mut self, pace: &mut Pace, happened: &mut Happened) -> anyhow::Result<bool> {
        let rows: BTreeMap<String, RowFacts> = self
            .fleet
            .world
            .assemblages
            .keys()
            .filter_map(|node| Some((node.clone(), self.fleet.row(node)?)))
            .collect();
        let mut writes = Vec::new();
        let (decision, goes_on) = self.fleet.one_pass(|node, row| {
            let fence = rows
                .get(node)
                .zip(row)
                .is_some_and(|(old, new)| old.row.digest == new.digest);
            if fence {
                // Only the token is raised: the node's assignment does not change.
                return true;
            }
            let outcome = pace.write();
            let succeeds = matches!(outcome, Some(Ok(())));
            writes.extend(outcome.map(|outcome| (node.to_owned(), row.cloned(), outcome.err())));
            succeeds
        })?;
        for (node, row, failed) in writes {
            let revision = row.and_then(|row| self.fleet.name_of(&row.revision?).map(str::to_owned));
            happened.note_write(&node, revision.as_deref(), rows.contains_key(&node), failed);
        }
        self.target(&decision);
        self.decision = Some(decision);
        Ok(goes_on)
    }

    fn note_deletions(&self, before: &BTreeMap<String, NodeRevision>, happened: &mut Happened) {
        let kept = &self.fleet.world.revisions;
        let gone = before.iter().filter(|(name, _)| !kept.contains_key(*name));
        for called in gone.filter_map(|(_, revision)| self.fleet.name_of(&revision.spec.revision)) {
            let op = json!({"op": "delete", "kind": "NetworkConfigRevision", "name": called});
            happened.written.push(op);
            happened.deleted.push(called.to_owned());
        }
    }

    /// An agent reports. Returns whether that applies: the agent must have this assignment.
    fn report(&mut self, step: &Step, event: &str) -> anyhow::Result<bool> {
        let node = step.node()?;
        let assigned = self.fleet.assigned(node);
        if assigned.is_none() || assigned != step.assignment {
            return Ok(false);
        }
        let before = self.reports.get(node);
        let applied = before.map_or(&Value::Null, |before| &before["lastAppliedRevision"]);
        let status = match event {
            "pickup" => json!({"configStatus": "provisioning", "lastAppliedRevision": applied}),
            "succeed" => json!({"configStatus": "provisioned", "lastAppliedRevision": assigned}),
            "fail" => json!({
                "configStatus": "invalid", "lastAppliedRevision": assigned, "errorMessage": step.message,
            }),
            other => bail!("an unknown step of an agent: {other}"),
        };
        self.fleet.report(node, &status)?;
        self.reports.insert(node.to_owned(), status);
        Ok(true)
    }

    fn change_node(&mut self, step: &Step, event: &str) -> anyhow::Result<()> {
        let node = step.node()?;
        match event {
            "add" => self.fleet.join_named(node)?,
            "ready" | "notReady" => self.fleet.set_ready(node, event == "ready"),
            "label" => {}
            "delete" => drop(self.fleet.world.nodes.remove(node)),
            other => bail!("an unknown step of a node: {other}"),
        }
        if let Some(facts) = self.fleet.world.nodes.get_mut(node) {
            for (key, value) in &step.labels {
                match value {
                    Some(value) => facts.labels.insert(key.clone(), value.clone()),
                    None => facts.labels.remove(key),
                };
            }
        }
        Ok(())
    }

    /// A NodeAssemblage is deleted with its Node.
    fn collect(&mut self) {
        let world = &mut self.fleet.world;
        let lives = |name: &String| world.nodes.contains_key(name);
        world.assemblages.retain(|name, _| lives(name));
        let left = &world.assemblages;
        self.reports.retain(|name, _| left.contains_key(name));
    }

    fn stop(&mut self) {
        self.stopped = Some(self.fleet.world.now);
    }

    fn start(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            let gap = self.fleet.world.now.duration_since(stopped);
            self.fleet.world.gap = gap.try_into().unwrap_or_default();
        }
    }

    /// The passes of the loop until now or until it stops: the delay grows with each failure.
    fn loop_on(&mut self, happened: &mut Happened) -> anyhow::Result<()> {
        let Some(mut at) = self.triggered else {
            return Ok(());
        };
        let now = self.fleet.world.now;
        let end = self.stopped.unwrap_or(now).min(now);
        let mut passes = 0;
        while at <= end && self.api_down {
            at += SignedDuration::try_from(retry::backoff(passes))?;
            passes += 1;
        }
        if self.stopped.is_none() && !self.api_down {
            passes += 1;
            self.pass(&[], happened)?;
        }
        let before = self.passes.unwrap_or_default();
        self.passes = Some(before.max(usize::try_from(passes)?));
        Ok(())
    }

    /// The fleet in the vocabulary of the tables.
    fn observed(&self, number: usize, happened: &Happened) -> Value {
        let mut observed = json!({
            "step": number,
            "configs": self.configs(),
            "inFlight": self.fleet.in_flight(),
            "revisions": self.revisions(),
            "target": self.target,
            "written": happened.written,
            "error": happened.error,
        });
        if happened.not {
            observed["happened"] = false.into();
        }
        if let Some(passes) = self.passes {
            observed["passes"] = passes.into();
        }
        observed
    }

    fn configs(&self) -> Map<String, Value> {
        let nodes = self.fleet.world.assemblages.keys().map(|node| {
            let report = self.reports.get(node).unwrap_or(&Value::Null);
            let text = |key: &str| report[key].as_str().unwrap_or_default();
            let mut config = json!({
                "revision": self.fleet.assigned(node),
                "configStatus": text("configStatus"),
                "lastAppliedRevision": text("lastAppliedRevision"),
            });
            if !text("errorMessage").is_empty() {
                config["errorMessage"] = text("errorMessage").into();
            }
            (node.clone(), config)
        });
        nodes.collect()
    }

    fn revisions(&self) -> Vec<Value> {
        let mut stored: Vec<_> = self.fleet.world.revisions.values().collect();
        stored.sort_by_key(|one| std::cmp::Reverse(one.metadata.creation_timestamp.as_ref().map(|at| at.0)));
        let condemned = self
            .decision
            .as_ref()
            .map(|decision| self.fleet.condemned(decision));
        let condemned = condemned.unwrap_or_default();
        let shown = stored.iter().filter_map(|one| {
            let name = self.fleet.name_of(&one.spec.revision)?;
            let evidence = condemned.get(name);
            let before = one.status.as_ref().and_then(|status| status.verdict);
            let bad = evidence.is_some() || before == Some(Verdict::Bad);
            let mut shown = json!({"revision": name, "isInvalid": bad});
            if let Some(evidence) = evidence.filter(|evidence| !evidence.unit.as_str().is_empty()) {
                shown["failedNode"] = evidence.unit.as_str().into();
            }
            Some(shown)
        });
        shown.collect()
    }

    /// The stored decision, in the vocabulary of `safer`.
    fn decided(&self, number: usize, happened: &Happened) -> Value {
        let mut decided = json!({
            "step": number,
            "target": self.target,
            "written": happened.rows,
            "charged": self.fleet.changing(),
            "condemned": self.condemned(),
            "deleted": happened.deleted,
            "error": happened.error,
        });
        if let Some(passes) = self.passes {
            decided["passes"] = passes.into();
        }
        decided
    }

    /// The message of the evidence: the engine's own, or an agent's.
    fn condemned(&self) -> Map<String, Value> {
        let Some(decision) = &self.decision else {
            return Map::new();
        };
        let condemned = self.fleet.condemned(decision).into_iter();
        let named = condemned.filter(|(_, evidence)| !evidence.unit.as_str().is_empty());
        let shown = named.map(|(name, evidence)| {
            let reason = match &*evidence.message {
                "not acknowledged in time" => "NotPickedUp",
                "acknowledged, but not finished in time" => "Overdue",
                _ => "Failed",
            };
            let shown = json!({"unit": evidence.unit.as_str(), "reason": reason});
            (name.to_owned(), shown)
        });
        shown.collect()
    }
}

/// A set of inputs as parts of a NodeModule: each input is a file, and inputs with the same selector form one part.
fn parts(objects: &[Value]) -> anyhow::Result<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for object in objects {
        let kind = object["kind"].as_str().context("an input without a kind")?;
        let name = object["metadata"]["name"]
            .as_str()
            .context("an input without a name")?;
        // The VLAN identifies a layer 2 network on a node, as a path identifies a file.
        let id = object["spec"]["id"]
            .as_i64()
            .map_or_else(|| name.to_owned(), |id| id.to_string());
        let file = json!({
            "path": format!("/etc/network/{}/{id}", kind.to_lowercase()),
            "content": object["spec"].to_string().replace("$(", "$$("),
        });
        let selector = &object["spec"]["nodeSelector"];
        match parts.iter_mut().find(|part| part["selector"] == *selector) {
            Some(part) => part["files"]
                .as_array_mut()
                .context("a part without files")?
                .push(file),
            None if selector.is_null() => parts.push(json!({"files": [file]})),
            None => parts.push(json!({"selector": selector, "files": [file]})),
        }
    }
    Ok(parts.into())
}

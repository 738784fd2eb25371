//! A simulated cluster with one NodeModule, in the vocabulary of the rollout tables. Revisions have the names of the
//! tables; muster names them by a hash of their content.
//!
//! The original's objects have few fields: each Node runs Linux, and has an agent that is alive while the Node is
//! Ready.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::Time};
use muster_api::{
    amount::Amount,
    node::{
        NodeAssemblage, NodeModule, NodeRevision,
        assemblage::{NodePhase, NodeRow},
        content::NodeContent,
        render::{self, Values},
        revision,
    },
    revision::Verdict,
};
use muster_controllers::node::{
    decision::Plan,
    facts::{AssemblageFacts, NodeFacts, RowFacts},
    observation::Observation,
    revisions,
};
use muster_rollout::{Decision, Evidence, Memory, Revision};
use serde_json::{Value, json};

use support::World;

#[allow(dead_code, reason = "the tests of the controller use all of it")]
#[path = "../../../../controllers/tests/node/support.rs"]
mod support;

/// The name of the NodeModule.
const NAME: &str = "network";
/// Upper bound for passes: more deadlines than a simulated cluster can miss.
const BOUND: usize = 1_000;

pub(super) struct Fleet {
    pub world: World,
    /// The parts of each revision, by its name in the tables.
    contents: BTreeMap<String, Value>,
    /// The parts of the target revision, and the rollout settings.
    target: Value,
    pub rollout: Value,
}

impl Fleet {
    /// No nodes and no NodeModule yet. Failed nodes are reverted, and joining nodes get the target.
    pub(super) fn new(now: Timestamp) -> Self {
        let mut world = World::of(&[]);
        world.now = now;
        Self {
            world,
            contents: BTreeMap::new(),
            target: json!([]),
            rollout: json!({
                "onFailure": {"action": "Revert"},
                "onJoin": "Target",
                "onUnreachable": "Skip",
                "historyLimit": 1,
            }),
        }
    }

    /// A fleet in which nothing waits, and no revision is marked as bad.
    pub(super) fn unlimited(now: Timestamp) -> Self {
        let mut fleet = Self::new(now);
        fleet.rollout["maxUnreadyNodes"] = json!("100%");
        fleet.rollout["onFailure"]["maxFailed"] = json!("100%");
        fleet.world.budget.spec.control_plane = Amount::Percent(100);
        fleet
    }

    /// A Node as defined in the tables.
    pub(super) fn join(&mut self, node: &Value) -> anyhow::Result<()> {
        let node: Node = serde_json::from_value(node.clone())?;
        let mut facts = NodeFacts::of(&node);
        facts
            .labels
            .insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        let name = facts.name.clone();
        self.world.join(&name, &[]);
        if facts.uid.is_empty() {
            facts.uid.clone_from(&self.world.nodes[&name].uid);
        }
        self.set_ready(&name, facts.ready);
        self.world.nodes.insert(name, facts);
        Ok(())
    }

    /// A Node with nothing but a name.
    pub(super) fn join_named(&mut self, name: &str) -> anyhow::Result<()> {
        self.join(&json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
    }

    pub(super) fn set_ready(&mut self, node: &str, ready: bool) {
        if ready {
            self.world.is_back(node);
        } else {
            self.world.vanish(node);
        }
    }

    /// The parts of a revision that is distinguished by its name only.
    pub(super) fn plain(revision: &str) -> Value {
        json!([{"files": [{"path": "/etc/network/revision", "content": revision.replace("$(", "$$(")}]}])
    }

    /// Defines the content of a name; if two names have equal contents, the first one is used.
    pub(super) fn call(&mut self, name: &str, parts: Value) {
        self.contents.entry(name.to_owned()).or_insert(parts);
    }

    fn content(&self, name: &str) -> anyhow::Result<NodeContent> {
        let parts = self
            .contents
            .get(name)
            .with_context(|| format!("an unknown revision {name:?}"))?;
        let times = json!({"parts": parts, "settle": "0s", "holdFor": "0s", "confirmWithin": "1s"});
        Ok(serde_json::from_value(times)?)
    }

    fn hash(&self, name: &str) -> anyhow::Result<String> {
        Ok(revision::content_revision(&self.content(name)?))
    }

    /// The name of a revision in the tables.
    pub(super) fn name_of(&self, revision: &str) -> Option<&str> {
        let mut names = self.contents.keys();
        let found = names.find(|name| self.hash(name).is_ok_and(|hash| hash.starts_with(revision)));
        found.map(String::as_str)
    }

    /// Adds a stored revision.
    pub(super) fn store(
        &mut self,
        name: &str,
        created: Timestamp,
        verdict: Option<Verdict>,
    ) -> anyhow::Result<()> {
        self.call(name, Self::plain(name));
        let hash = self.hash(name)?;
        let object = revisions::name(NAME, &uid(), &hash);
        let mut stored: NodeRevision = serde_json::from_value(json!({
            "metadata": {"name": object},
            "spec": {"module": NAME, "uid": uid(), "revision": hash, "content": self.content(name)?},
            "status": {"verdict": verdict},
        }))?;
        stored.metadata.creation_timestamp = Some(Time(created));
        self.world.revisions.insert(object, stored);
        Ok(())
    }

    /// The stored revision with this name.
    pub(super) fn stored(&self, name: &str) -> anyhow::Result<Option<&NodeRevision>> {
        let hash = self.hash(name)?;
        let mut all = self.world.revisions.values();
        Ok(all.find(|stored| stored.spec.revision == hash))
    }

    /// Sets the target of the NodeModule to this revision, or to nothing.
    pub(super) fn aim(&mut self, name: Option<&str>) -> anyhow::Result<()> {
        self.target = match name {
            Some(name) => self.contents.get(name).context("an unknown revision")?.clone(),
            None => json!([]),
        };
        self.apply();
        Ok(())
    }

    /// Writes the NodeModule with the target and the settings, if they have changed.
    pub(super) fn apply(&mut self) {
        let (parts, rollout) = (self.target.clone(), self.rollout.clone());
        let before = self.world.modules.get(NAME).cloned();
        self.world.apply(NAME, "", |spec| {
            spec["parts"] = parts.clone();
            spec["rollout"] = rollout.clone();
            for (key, value) in [("settle", "0s"), ("holdFor", "0s"), ("confirmWithin", "1s")] {
                spec[key] = json!(value);
            }
        });
        if let Some(before) = before.filter(|before| before.spec == self.module().spec) {
            self.world.modules.insert(NAME.to_owned(), before);
        }
    }

    pub(super) fn module(&self) -> &NodeModule {
        &self.world.modules[NAME]
    }

    pub(super) fn is_applied(&self) -> bool {
        self.world.modules.contains_key(NAME)
    }

    /// Assigns this revision to a node, which has not reported on it.
    pub(super) fn carry(&mut self, node: &str, name: &str) -> anyhow::Result<()> {
        self.call(name, Self::plain(name));
        let content = self.content(name)?;
        let facts = self.world.nodes.get(node);
        let labels = facts.map(|facts| facts.labels.clone()).unwrap_or_default();
        let parts = render::matching_parts(&content, &labels)?;
        let digest = render::render(&content, &parts, &Values::new())?.digest();
        let owner =
            facts.map(|facts| json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": facts.uid}));
        let owners: Vec<Value> = owner.into_iter().collect();
        let assemblage: NodeAssemblage = serde_json::from_value(json!({
            "metadata": {"name": node, "resourceVersion": "0", "ownerReferences": owners},
            "spec": {"rows": [{
                "name": NAME, "uid": uid(), "revision": revision::content_revision(&content), "parts": parts, "digest": digest, "token": 2,
            }]},
        }))?;
        self.world.assemblages.insert(node.to_owned(), assemblage);
        Ok(())
    }

    /// The row of a node.
    pub(super) fn row(&self, node: &str) -> Option<RowFacts> {
        let facts = AssemblageFacts::of(self.world.assemblages.get(node)?);
        facts.of_module(NAME).map(|row| (**row).clone())
    }

    /// The name in the tables of the revision that is assigned to a node.
    pub(super) fn assigned(&self, node: &str) -> Option<String> {
        let row = self.row(node)?.row;
        let name = row
            .withdraw
            .is_none()
            .then(|| self.name_of(&row.revision?.clone()).map(str::to_owned));
        name.flatten()
    }

    /// The agent of a node reports a status of the original: for its row, or for an earlier one if the status names
    /// another revision. Unknown states are reported unchanged.
    pub(super) fn report(&mut self, node: &str, status: &Value) -> anyhow::Result<()> {
        let row = self.row(node).context("a report without a row")?;
        let word = status["configStatus"].as_str().unwrap_or_default();
        if word.is_empty() {
            return Ok(());
        }
        let applied = status["lastAppliedRevision"].as_str().unwrap_or_default();
        let is_present = word == "provisioning" || self.assigned(node).as_deref() == Some(applied);
        let word = match word {
            "provisioning" => "updating",
            "provisioned" => "confirmed",
            "invalid" => "failed",
            other => other,
        };
        let digest = if is_present {
            row.row.digest.clone()
        } else {
            Some(format!("sha256:{applied:0>64}"))
        };
        let before = row.state.and_then(|state| state.confirmed);
        let confirmed = (word == "confirmed").then(|| digest.clone()).flatten().or(before);
        let failed = word == "failed";
        let state = json!({
            "name": NAME,
            "digest": digest,
            "token": if is_present { row.row.token } else { row.row.token - 1 },
            "state": word,
            "class": failed.then_some("Revision"),
            "terminal": failed,
            "reason": failed.then_some("Failed"),
            "message": status["errorMessage"],
            "confirmed": confirmed,
        });
        let assemblage = self
            .world
            .assemblages
            .get_mut(node)
            .context("no NodeAssemblage")?;
        assemblage.status = Some(serde_json::from_value(json!({"rows": [state]}))?);
        Ok(())
    }

    /// Assigns this revision to a node, which reports that it is confirmed.
    pub(super) fn confirm(&mut self, node: &str, revision: &str) -> anyhow::Result<()> {
        self.carry(node, revision)?;
        self.report(
            node,
            &json!({"configStatus": "provisioned", "lastAppliedRevision": revision}),
        )
    }

    /// The decision of the next pass.
    pub(super) fn decide(&mut self) -> (Observation, Plan) {
        self.world.decide(NAME)
    }

    /// Records the target, as a pass does first. Returns whether it is new.
    pub(super) fn record(&mut self, observation: &Observation, plan: &Plan) -> bool {
        self.world.record(NAME, observation, plan)
    }

    /// One pass; `succeeds` decides for a node and its row whether the write succeeds. Also returns whether the pass
    /// triggers another one: a write does, an error does not.
    pub(super) fn one_pass(
        &mut self,
        mut succeeds: impl FnMut(&str, Option<&NodeRow>) -> bool,
    ) -> anyhow::Result<(Decision, bool)> {
        let before = self.module().status.clone();
        let (mut wrote, mut failed) = (false, false);
        let decision = self.world.pass_with(NAME, |node, row| {
            wrote = true;
            let succeeds = succeeds(node, row);
            failed |= !succeeds;
            succeeds
        });
        let decision =
            decision.with_context(|| format!("nothing was decided: {:?}", self.module().status))?;
        self.world.gap = Duration::ZERO;
        let changed = wrote || self.module().status != before;
        Ok((decision, changed && !failed))
    }

    /// Runs passes until nothing changes. Also returns the nodes whose row was written.
    pub(super) fn pass(&mut self) -> anyhow::Result<(Decision, Vec<String>)> {
        let mut written = Vec::new();
        for _ in 0..BOUND {
            let (decision, goes_on) = self.one_pass(|node, _| {
                written.push(node.to_owned());
                true
            })?;
            if !goes_on {
                return Ok((decision, written));
            }
        }
        bail!("the controller does not come to rest")
    }

    /// Runs a pass whenever a time-based change is due, and one at the end.
    pub(super) fn until(&mut self, end: Timestamp) -> anyhow::Result<Decision> {
        for _ in 0..BOUND {
            let (_, plan) = self.decide();
            let Some(at) = plan.wake_at.filter(|at| *at < end) else {
                break;
            };
            self.world.now = at.max(self.world.now);
            self.pass()?;
        }
        self.world.now = end;
        Ok(self.pass()?.0)
    }

    /// The nodes with an in-flight change in the stored memory.
    pub(super) fn changing(&self) -> Vec<String> {
        let stored = self
            .world
            .modules
            .get(NAME)
            .and_then(|module| module.status.as_ref()?.rollout.as_ref());
        let memory = stored.and_then(|stored| serde_json::from_str::<Memory>(&stored.memory).ok());
        let memory = memory.unwrap_or_default(); // nothing was decided yet
        let in_flight = memory.in_flight.iter().filter(|(_, change)| change.counts());
        in_flight.map(|(node, _)| node.to_string()).collect()
    }

    /// The bad revisions, and why.
    pub(super) fn condemned<'a>(&'a self, decision: &'a Decision) -> BTreeMap<&'a str, &'a Evidence> {
        let named =
            |(bad, evidence): (&Revision, &'a Evidence)| Some((self.name_of(&bad.to_string())?, evidence));
        decision.memory.bad.iter().filter_map(named).collect()
    }

    /// The target revision of nodes.
    pub(super) fn target(&self, decision: &Decision) -> Option<&str> {
        let memory = &decision.memory;
        let target = memory.run.map(|run| run.target);
        let good = target.filter(|target| !memory.bad.contains_key(target));
        self.name_of(&good.or(memory.last_good)?.to_string())
    }

    /// Nodes whose row is not reported as confirmed.
    pub(super) fn in_flight(&self) -> BTreeSet<&str> {
        let nodes = self.world.assemblages.keys().map(String::as_str);
        nodes
            .filter(|node| self.phase(node) != Some(NodePhase::Confirmed))
            .collect()
    }

    /// The report on the row of a node.
    pub(super) fn phase(&self, node: &str) -> Option<NodePhase> {
        self.row(node)?.report().map(|report| report.state)
    }
}

fn uid() -> String {
    format!("uid-{NAME}")
}

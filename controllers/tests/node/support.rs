//! A simulated cluster: Nodes, NodeModules and everything that the controller writes as plain objects, passes of the
//! controller, and agents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    assemblage::FailureClass,
    node::{
        NodeAssemblage, NodeBudget, NodeModule, NodeRevision,
        assemblage::{NodeAssemblageSpec, NodePhase, NodeRow, NodeRowState},
        budget::{self, NodeBudgetSpec},
        revision::NodeRevisionSpec,
    },
};
use muster_controllers::{
    bindings::{Kinds, KnownObjects},
    node::{
        agents::Missing,
        decision::{self, Plan, Write},
        facts::{AssemblageFacts, NodeFacts, RevisionFacts},
        observation::Observation,
        pass::{self, Lists, Next},
        rendering::Renderings,
        revisions,
    },
};
use muster_rollout::{Decision, Memory};
use serde_json::{Value, json};

/// What the agent of a node does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// It acknowledges it, and confirms it.
    Good,
    /// It acknowledges it, and restores the previous files: the revision is at fault.
    Fails,
    /// It acknowledges it, and cannot tell whether the revision is at fault.
    Inconclusive,
    /// It acknowledges it, and the node never reports again.
    Dies,
    /// It renews its Lease and does nothing else.
    Deaf,
    /// The node has no agent.
    None,
}

pub(crate) struct World {
    pub now: Timestamp,
    pub nodes: BTreeMap<String, NodeFacts>,
    pub agents: BTreeMap<String, Agent>,
    pub modules: BTreeMap<String, NodeModule>,
    pub assemblages: BTreeMap<String, NodeAssemblage>,
    pub revisions: BTreeMap<String, NodeRevision>,
    pub budget: NodeBudget,
    /// How long no process was the leader before the next pass.
    pub gap: Duration,
    /// Nodes whose agent does not renew its Lease.
    pub dead: BTreeSet<String>,
    renderings: Renderings,
    version: u64,
    /// The most nodes that were changing at once, according to the reports.
    pub most: usize,
}

impl World {
    pub(crate) fn of(nodes: &[&str]) -> Self {
        let mut world = Self {
            // Objects have whole seconds, the engine is finer.
            now: "2026-12-01T12:00:00.007Z".parse().unwrap(),
            nodes: BTreeMap::new(),
            agents: BTreeMap::new(),
            modules: BTreeMap::new(),
            assemblages: BTreeMap::new(),
            revisions: BTreeMap::new(),
            budget: NodeBudget::new(budget::NAME, NodeBudgetSpec::default()),
            gap: Duration::ZERO,
            dead: BTreeSet::new(),
            renderings: Renderings::default(),
            version: 0,
            most: 0,
        };
        for node in nodes {
            world.join(node, &[]);
        }
        world
    }

    pub(crate) fn join(&mut self, name: &str, labels: &[(&str, &str)]) {
        let given = [("kubernetes.io/os", "linux"), ("kubernetes.io/hostname", name)];
        let labels = given.iter().chain(labels);
        self.version += 1;
        let facts = NodeFacts {
            name: name.to_owned(),
            uid: format!("node-{}", self.version),
            labels: labels
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            annotations: BTreeMap::new(),
            ready: true,
            deleting: false,
            taints: BTreeSet::new(),
            configured: None,
        };
        self.nodes.insert(name.to_owned(), facts);
        self.agents.insert(name.to_owned(), Agent::Good);
    }

    /// A NodeModule of one file with this content, for all nodes, with `edit` applied to its spec.
    pub(crate) fn apply(&mut self, name: &str, content: &str, edit: impl Fn(&mut Value)) {
        let mut spec = json!({"selector": {}, "parts": [{"files": [{"path": format!("/etc/{name}"), "content": content}]}]});
        edit(&mut spec);
        let before = self.modules.get(name).cloned();
        let generation = before
            .as_ref()
            .and_then(|module| module.metadata.generation)
            .unwrap_or_default();
        let mut module: NodeModule = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": generation + 1},
            "spec": spec,
        }))
        .unwrap();
        if let Some(before) = before {
            module.status = before.status;
            module.metadata.annotations = before.metadata.annotations;
        }
        self.modules.insert(name.to_owned(), module);
    }

    pub(crate) fn annotate(&mut self, module: &str, key: &str, value: &str) {
        let annotations = &mut self.modules.get_mut(module).unwrap().metadata.annotations;
        let annotations = annotations.get_or_insert_default();
        annotations.insert(format!("fleet.muster.dev/{key}"), value.to_owned());
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// The Node disappears, as the control plane observes it.
    pub(crate) fn vanish(&mut self, node: &str) {
        self.nodes.get_mut(node).unwrap().ready = false;
        self.dead.insert(node.to_owned());
    }

    /// The Node comes back.
    pub(crate) fn is_back(&mut self, node: &str) {
        self.nodes.get_mut(node).unwrap().ready = true;
        self.dead.remove(node);
    }

    fn lists<T>(&self, module: &str, read: impl FnOnce(&NodeModule, &Lists<'_>) -> T) -> T {
        let nodes: Vec<_> = self.nodes.values().cloned().map(Arc::new).collect();
        let assemblages = self
            .assemblages
            .values()
            .map(|assemblage| Arc::new(AssemblageFacts::of(assemblage)));
        let revisions = self
            .revisions
            .values()
            .filter(|revision| revision.spec.module == module);
        let modules: Vec<_> = self.modules.values().cloned().map(Arc::new).collect();
        let missing = |node: &str| {
            let none = self.agents.get(node) == Some(&Agent::None) || self.dead.contains(node);
            none.then_some(Missing::Never)
        };
        let lists = Lists {
            nodes: &nodes,
            assemblages: &assemblages.collect::<Vec<_>>(),
            revisions: &revisions.map(RevisionFacts::of).collect::<Vec<_>>(),
            modules: &modules,
            budget: &self.budget,
            missing: &missing,
            kinds: &Kinds::default(),
            objects: &KnownObjects::new(),
            renderings: &self.renderings,
            gap: self.gap,
            now: self.now,
        };
        read(&self.modules[module], &lists)
    }

    /// One pass of the controller, all of whose writes succeed.
    pub(crate) fn pass(&mut self, name: &str) {
        self.pass_with(name, |_, _| true);
    }

    /// One pass of the controller: claims, the NodeRevision and the memory; rows, if `succeeds` returns true for a node
    /// and its row; then, if all of them are written, results of revisions and claims that are over. Returns the
    /// decision, unless nothing could be decided.
    pub(crate) fn pass_with(
        &mut self,
        name: &str,
        mut succeeds: impl FnMut(&str, Option<&NodeRow>) -> bool,
    ) -> Option<Decision> {
        let (observation, plan) = self.decide(name);
        self.record(name, &observation, &plan);
        self.modules.get_mut(name).unwrap().status = Some((*plan.status).clone());
        let module = self.modules[name].clone();
        let remembered = plan.decided?.written(Ok::<_, ()>(())).unwrap();
        let decision = remembered.decision().clone();
        let mut all = true;
        for write in remembered.writes(&decision::decision_rows(&module, &observation, &decision.memory)) {
            let Write { version, row } = write.write().clone();
            let node = write.planned().unit.as_str();
            if succeeds(node, row.as_ref()) {
                self.write(node, name, version.as_deref(), row);
            } else {
                all = false;
            }
        }
        if all {
            self.tidy(name, &observation, &decision.memory);
        }
        if plan.release {
            self.modules.remove(name);
        }
        Some(decision)
    }

    /// The steps after the rows: results of revisions, deletion of those that are not kept, and release of claims that
    /// are over.
    fn tidy(&mut self, name: &str, observation: &Observation, memory: &Memory) {
        for known in &observation.revisions {
            let revision = self.revisions.get_mut(&known.name).unwrap();
            // As an API server returns it.
            let story = serde_json::to_value(revisions::story(known, memory, self.now)).unwrap();
            revision.status = serde_json::from_value(story).unwrap();
        }
        for surplus in revisions::surplus_revisions(&self.modules[name], observation, memory) {
            self.revisions.remove(&surplus.name);
        }
        let released = self.lists(name, |module, lists| pass::released_budget(module, memory, lists));
        if let Some(status) = released {
            self.budget.status = Some(status);
        }
    }

    /// A pass whose process is killed before it writes rows; returns how many it would have written.
    pub(crate) fn decide_without_rows(&mut self, name: &str) -> usize {
        let (observation, plan) = self.decide(name);
        self.record(name, &observation, &plan);
        self.modules.get_mut(name).unwrap().status = Some((*plan.status).clone());
        let decided = plan.decided.unwrap();
        let memory = decided.decision().memory.clone();
        decided
            .planned(&decision::decision_rows(
                &self.modules[name],
                &observation,
                &memory,
            ))
            .len()
    }

    /// The decision of a pass, once it has its claims.
    pub(crate) fn decide(&mut self, name: &str) -> (Observation, Plan) {
        loop {
            match self.lists(name, |module, lists| pass::next_step(module, lists).unwrap()) {
                Next::Read(objects) => panic!("nothing is read here: {objects:?}"),
                Next::Claim(status) => self.budget.status = Some(status),
                Next::Write(observation, plan) => return (*observation, *plan),
            }
        }
    }

    /// Records the target, as the plan says. Returns whether it did not exist before.
    pub(crate) fn record(&mut self, name: &str, observation: &Observation, plan: &Plan) -> bool {
        let Some(target) = observation.target.as_ref().filter(|_| plan.records) else {
            return false;
        };
        let spec = NodeRevisionSpec {
            module: name.to_owned(),
            uid: self.modules[name].metadata.uid.clone(),
            revision: target.revision.clone(),
            content: (*target.content).clone(),
        };
        let object = revisions::name(name, &observation.uid, &target.revision);
        let mut revision = NodeRevision::new(&object, spec);
        revision.metadata.creation_timestamp = Some(Time(self.now));
        self.revisions.insert(object, revision).is_none()
    }

    /// When time alone changes something about a NodeModule.
    pub(crate) fn wakes_at(&mut self, name: &str) -> Option<Timestamp> {
        self.decide(name).1.wake_at
    }

    /// The last good revision of a NodeModule.
    pub(crate) fn last_good(&self, module: &str) -> Value {
        let status = self.modules[module].status.as_ref().unwrap();
        let memory: Value = serde_json::from_str(&status.rollout.as_ref().unwrap().memory).unwrap();
        memory["good"].clone()
    }

    fn write(&mut self, node: &str, module: &str, version: Option<&str>, row: Option<NodeRow>) {
        self.version += 1;
        let known = self
            .assemblages
            .get(node)
            .and_then(|assemblage| assemblage.metadata.resource_version.clone());
        assert_eq!(
            version,
            known.as_deref(),
            "a row is written on the version that was read"
        );
        let uid = self.nodes.get(node).map(|facts| facts.uid.clone());
        let assemblage = self
            .assemblages
            .entry(node.to_owned())
            .or_insert_with(|| NodeAssemblage::new(node, NodeAssemblageSpec::default()));
        assemblage.metadata.resource_version = Some(self.version.to_string());
        assemblage.metadata.owner_references = uid.map(|uid| {
            serde_json::from_value(json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]))
                .unwrap()
        });
        let rows = &mut assemblage.spec.rows;
        let before = rows
            .iter()
            .find(|known| known.name == module)
            .map_or(0, |row| row.token);
        rows.retain(|known| known.name != module);
        if let Some(row) = row {
            assert!(row.token > before, "tokens grow");
            rows.push(row);
        }
    }

    /// Each live agent advances one row by one step.
    pub(crate) fn act(&mut self) {
        let nodes: Vec<String> = self.assemblages.keys().cloned().collect();
        let changing = nodes.iter().filter(|node| self.is_changing(node)).count();
        self.most = self.most.max(changing);
        for node in nodes {
            self.act_on(&node);
        }
    }

    /// Whether a row of the node is assigned and not settled.
    pub(crate) fn is_changing(&self, node: &str) -> bool {
        let facts = self.assemblages.get(node).map(AssemblageFacts::of);
        facts.is_some_and(|facts| facts.rows.iter().any(|row| !row.is_settled()))
    }

    fn act_on(&mut self, node: &str) {
        let agent = self.agents.get(node).copied().unwrap_or(Agent::None);
        if self.dead.contains(node) || matches!(agent, Agent::None | Agent::Deaf) {
            return;
        }
        let facts = AssemblageFacts::of(&self.assemblages[node]);
        let Some(row) = facts.rows.iter().find(|row| !row.is_settled()) else {
            return;
        };
        let known = row.report().map(|report| report.state);
        if known == Some(NodePhase::Failed) {
            return;
        }
        let before = row.state.as_ref().and_then(|state| state.confirmed.clone());
        let mut state = NodeRowState {
            name: row.row.name.clone(),
            digest: row.row.digest.clone(),
            token: row.row.token,
            confirmed: before,
            ..NodeRowState::default()
        };
        let leaves = row.row.withdraw.is_some();
        state.state = match (known, agent) {
            (None, _) if leaves => NodePhase::Withdrawing,
            (None, _) => NodePhase::Updating,
            (Some(_), _) if leaves => NodePhase::Withdrawn,
            (Some(_), Agent::Good) => NodePhase::Confirmed,
            (Some(_), _) => NodePhase::Failed,
        };
        match agent {
            Agent::Dies if known.is_some() => {
                self.vanish(node);
                return;
            }
            Agent::Good if state.state == NodePhase::Confirmed => state.confirmed.clone_from(&state.digest),
            Agent::Fails | Agent::Inconclusive if state.state == NodePhase::Failed => {
                let is_failure = agent == Agent::Fails;
                state.class = Some(if is_failure {
                    FailureClass::Revision
                } else {
                    FailureClass::Infra
                });
                state.terminal = is_failure;
                state.reason = Some(if is_failure { "Failed" } else { "Inconclusive" }.to_owned());
                state.message = Some("tcp 10.0.0.1:179 did not answer".to_owned());
            }
            _ => {}
        }
        let status = self
            .assemblages
            .get_mut(node)
            .unwrap()
            .status
            .get_or_insert_default();
        status.rows.retain(|known| known.name != state.name);
        status.rows.push(state);
    }

    /// This number of passes of one NodeModule and steps of agents, a second each.
    pub(crate) fn run(&mut self, module: &str, times: usize) {
        for _ in 0..times {
            if self.modules.contains_key(module) {
                self.pass(module);
            }
            self.act();
            self.wait(1);
        }
    }

    /// The nodes whose row has this content of a NodeModule.
    pub(crate) fn on(&self, module: &str, content: &str) -> Vec<&str> {
        let revision = self.revisions.values().find(|revision| {
            let files = revision.spec.content.parts.iter().flat_map(|part| &part.files);
            let mut files = files.filter(|file| file.content.as_deref() == Some(content));
            revision.spec.module == module && files.next().is_some()
        });
        let Some(revision) = revision.map(|revision| revision.spec.revision.clone()) else {
            return Vec::new();
        };
        let nodes = self.assemblages.iter().filter(|(_, assemblage)| {
            let mut rows = assemblage.spec.rows.iter();
            rows.any(|row| {
                row.name == module && row.withdraw.is_none() && row.revision.as_ref() == Some(&revision)
            })
        });
        nodes.map(|(node, _)| node.as_str()).collect()
    }

    /// The reason for the state of each node.
    pub(crate) fn words(&self, module: &str) -> String {
        let status = self.modules[module].status.as_ref().unwrap();
        let groups = status
            .reasons
            .iter()
            .map(|group| format!("{}:{}", group.nodes, group.reason));
        groups.collect::<Vec<_>>().join(" ")
    }

    /// Status and reason of Ready.
    pub(crate) fn ready(&self, module: &str) -> (String, String) {
        let status = self.modules[module].status.as_ref().unwrap();
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .unwrap();
        (ready.status.clone(), ready.reason.clone())
    }

    /// The message of a node that needs attention.
    pub(crate) fn message(&self, module: &str, node: &str) -> String {
        let status = self.modules[module].status.as_ref().unwrap();
        let entry = status.attention.iter().find(|entry| entry.node == node).unwrap();
        entry.message.clone()
    }
}

//! One pass over a NodeModule, from lists: what must be read, claimed or written next. Pure; the controller and tests
//! run it.
//!
//! ```text
//!   Lists ─► observation ─► units ─┬─► Next::Read     objects of bindings; then again
//!                                  ├─► Next::Claim    claims on the NodeBudget, by compare-and-swap; then again
//!                                  └─► Next::Write    NodeRevision, status with memory, rows; then claims that are over are released
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    node::{NodeBudget, NodeModule, budget::NodeBudgetStatus, revision, validate},
    reasons::ObjectReason,
    selector::{Matcher, SelectorError},
};
use muster_rollout::{Memory, Revision};

use super::{
    agents::Missing,
    budget::{Counted, Room},
    configured::{self, Configured, StartupTaint},
    conflicts::{self, Claimant, Conflict},
    decision::{self, Plan},
    facts::{AssemblageFacts, Definition, NodeFacts, RevisionFacts},
    observation::{Contents, Observation, ObservedNode},
    reading::{self, Surroundings},
    rendering::Renderings,
};
use crate::{
    bindings::{Kinds, KnownObjects, ObjectId},
    module::{controls::Controls, facts::Invalid, memory, reasons::Vocabulary},
};

/// The objects read from a cluster.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    /// The Nodes, by name.
    pub nodes: &'a [Arc<NodeFacts>],
    /// The NodeAssemblages, by name.
    pub assemblages: &'a [Arc<AssemblageFacts>],
    /// The NodeRevisions of NodeModules with its name.
    pub revisions: &'a [RevisionFacts],
    /// All NodeModules, by name.
    pub modules: &'a [Arc<NodeModule>],
    /// The NodeBudget.
    pub budget: &'a NodeBudget,
    /// Why the agent of a node counts as missing, if it does.
    pub missing: &'a dyn Fn(&str) -> Option<Missing>,
    /// Which kinds bindings may read.
    pub kinds: &'a Kinds,
    /// The objects that were read for bindings.
    pub objects: &'a KnownObjects,
    /// The cached renderings of earlier passes.
    pub renderings: &'a Renderings,
    /// How long no process was the leader since the memory was written.
    pub gap: Duration,
    /// The current time.
    pub now: Timestamp,
}

/// The next step.
#[derive(Clone, Debug)]
pub enum Next {
    /// These objects must be read first.
    Read(BTreeSet<ObjectId>),
    /// The NodeBudget must get this status first, written over the version that was read.
    Claim(NodeBudgetStatus),
    /// This must be written.
    Write(Box<Observation>, Box<Plan>),
}

/// A pass that failed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// An invalid selector, although it was validated, or one of another NodeModule.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A bug in muster.
    #[error("the memory of the rollout cannot be encoded as JSON")]
    Encode(#[from] serde_json::Error),
}

/// The next step for a NodeModule.
pub fn next_step(module: &NodeModule, lists: &Lists<'_>) -> Result<Next, PassError> {
    let mut observed = observation(module, lists)?;
    let name = module.name_any();
    let mut room = room(lists);
    // Each round claims the nodes that would start. A node without a claim leaves its turn to another one, which the
    // budget may allow.
    while observed.invalid.is_none() {
        let around = Surroundings {
            now: lists.now,
            missing: lists.missing,
            room: &room,
            kinds: lists.kinds,
            objects: lists.objects,
            renderings: lists.renderings,
        };
        let needs = reading::read(&module.spec, &name, &mut observed, &around)?;
        if !needs.is_empty() {
            return Ok(Next::Read(needs));
        }
        let mut refused = false;
        for (node, token) in decision::wanted_nodes(module, &observed, lists.now) {
            refused |= !room.claim(&observed.uid, node.as_str(), token);
        }
        if !refused {
            break;
        }
    }
    let status = room.status();
    if adds(&status, lists.budget.status.as_ref()) {
        return Ok(Next::Claim(status));
    }
    let plan = decision::decide(module, &observed, lists.now)?;
    Ok(Next::Write(Box::new(observed), Box::new(plan)))
}

/// The claims that remain once this memory is written, if they differ from the NodeBudget.
pub fn released_budget(module: &NodeModule, memory: &Memory, lists: &Lists<'_>) -> Option<NodeBudgetStatus> {
    let mut room = room(lists);
    let changing = decision::changing(memory);
    let uid = module.uid().unwrap_or_default();
    room.release(&uid, |node| changing.contains(node));
    let status = room.status();
    let before = lists.budget.status.clone().unwrap_or_default();
    (status != before).then_some(status)
}

/// A Node that must be written, in addition to its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWrite {
    /// The name of the node.
    pub node: Arc<NodeFacts>,
    /// The desired condition, if it differs from the current one.
    pub condition: Option<Configured>,
    /// Whether its startup taints must be removed.
    pub untaint: bool,
}

/// The Nodes that must be written: all are checked, because one without NodeModules gets a condition that reports this.
pub fn node_standings(lists: &Lists<'_>, taints: &[StartupTaint]) -> Vec<NodeWrite> {
    // An invalid selector selects nothing.
    let live = lists
        .modules
        .iter()
        .filter(|module| module.metadata.deletion_timestamp.is_none());
    let selectors: Vec<(String, Matcher)> = live
        .filter_map(|module| {
            let selector = Matcher::new(module.spec.selector.as_ref()).ok()?; // as above
            Some((module.name_any(), selector))
        })
        .collect();
    let of = |facts: &Arc<NodeFacts>| {
        let assemblages = lists.assemblages;
        let at = assemblages.binary_search_by(|assemblage| assemblage.name.cmp(&facts.name));
        let assemblage = at.ok().and_then(|at| assemblages.get(at)); // it does not exist yet
        let selecting: Vec<&str> = selectors
            .iter()
            .filter(|(_, selector)| selector.matches(&facts.labels))
            .map(|(name, _)| name.as_str())
            .collect();
        let missing = (lists.missing)(&facts.name);
        let wanted = configured::desired_condition(facts, assemblage.map(|of| &**of), &selecting, missing)?;
        let untaint = configured::is_untainted(facts, taints, &wanted);
        let condition = Some(wanted).filter(|wanted| facts.configured.as_ref() != Some(wanted));
        (condition.is_some() || untaint).then(|| NodeWrite {
            node: Arc::clone(facts),
            condition,
            untaint,
        })
    };
    lists.nodes.iter().filter_map(of).collect()
}

/// Whether there is a new claim: releases alone are written later.
fn adds(status: &NodeBudgetStatus, before: Option<&NodeBudgetStatus>) -> bool {
    let known: BTreeSet<_> = before.iter().flat_map(|status| &status.claims).collect();
    status.claims.iter().any(|claim| !known.contains(claim))
}

fn room<'a>(lists: &Lists<'a>) -> Room<'a> {
    let counted = lists.nodes.iter().map(|node| Counted {
        name: &node.name,
        uid: &node.uid,
        control_plane: node.is_control_plane(),
        available: node.ready && !node.deleting,
    });
    let exists = |uid: &str| {
        lists
            .modules
            .iter()
            .any(|module| module.uid().as_deref() == Some(uid))
    };
    let status = lists.budget.status.clone().unwrap_or_default();
    Room::new(&lists.budget.spec, &status, counted, exists)
}

/// The observation without the units.
fn observation(module: &NodeModule, lists: &Lists<'_>) -> Result<Observation, SelectorError> {
    let deleting = module.metadata.deletion_timestamp.is_some();
    let stored = module.status.as_ref().and_then(|status| status.rollout.as_ref());
    let memory = memory::recall(stored, module.metadata.uid.as_deref());
    let (controls, unreadable) = match Controls::read(&module.metadata, &Vocabulary::NODES) {
        Ok(controls) => (controls, None),
        Err(invalid) => (Controls::default(), Some(invalid)),
    };
    // A NodeModule that is being deleted is withdrawn, whatever its spec.
    let invalid = if deleting {
        unreadable
    } else {
        unreadable
            .or_else(|| controls.too_long(lists.now, &Vocabulary::NODES))
            .or_else(|| invalid(module))
    };
    let own = lists
        .revisions
        .iter()
        .filter(|known| known.module_uid == module.metadata.uid);
    let revisions: Vec<RevisionFacts> = own.cloned().collect();
    let selector = match (&invalid, deleting) {
        (None, false) => Some(Matcher::new(module.spec.selector.as_ref())?),
        _ => None,
    };
    let last_good = memory.memory.last_good.filter(|_| !deleting);
    let target = (!deleting).then(|| Definition {
        revision: revision::content_revision(&module.spec.content),
        content: Arc::new(module.spec.content.clone()),
    });
    let nodes = nodes(module, selector.as_ref(), &memory.memory, lists);
    let conflict = match &invalid {
        None if !deleting => conflict(module, lists)?.map(conflict_error),
        _ => None,
    };
    Ok(Observation {
        uid: module.uid().unwrap_or_default(),
        invalid: invalid.or(conflict),
        deleting,
        controls,
        target,
        last_good: last_good.and_then(|good| on_record(&revisions, good)),
        memory,
        gap: lists.gap,
        revisions,
        nodes,
        units: Vec::new(),
        contents: Contents::default(),
        obstacles: BTreeMap::new(),
        pinned: BTreeMap::new(),
        effects: BTreeMap::new(),
        first_expiry: None,
    })
}

fn invalid(module: &NodeModule) -> Option<Invalid> {
    let found = validate::validate_node_module(&module.name_any(), &module.spec);
    let problems: Vec<String> = found.iter().map(ToString::to_string).collect();
    (!problems.is_empty()).then(|| Invalid {
        reason: ObjectReason::InvalidSpec,
        message: problems.join("; "),
    })
}

fn conflict_error(conflict: Conflict) -> Invalid {
    let Conflict {
        path,
        other_path,
        other,
        node,
    } = conflict;
    let message = if path == other_path {
        format!("{path} is written by NodeModule {other}, too, on node {node}")
    } else {
        format!("{path} conflicts with {other_path} of NodeModule {other} on node {node}")
    };
    Invalid {
        reason: ObjectReason::PathConflict,
        message: format!("{message}; nothing of either is assigned until one of them drops the path"),
    }
}

fn on_record(revisions: &[RevisionFacts], wanted: Revision) -> Option<Definition> {
    let wanted = wanted.to_string();
    let found = revisions
        .iter()
        .find(|known| known.definition.revision.starts_with(&wanted))?;
    Some(found.definition.clone())
}

/// The nodes that are selected, have a row, or are being changed.
fn nodes(
    module: &NodeModule,
    selector: Option<&Matcher>,
    memory: &Memory,
    lists: &Lists<'_>,
) -> Vec<ObservedNode> {
    let name = module.name_any();
    let mut all: BTreeMap<&str, ObservedNode> = BTreeMap::new();
    for node in lists.nodes {
        let selected = selector.is_some_and(|selector| selector.matches(&node.labels));
        if selected || memory.in_flight.contains_key(node.name.as_str()) {
            let observed_node = ObservedNode {
                name: node.name.clone(),
                node: Some(Arc::clone(node)),
                assemblage: None,
                selected,
            };
            all.insert(&node.name, observed_node);
        }
    }
    for assemblage in lists.assemblages {
        let known = all.get_mut(assemblage.name.as_str());
        match known {
            Some(observed_node) => observed_node.assemblage = Some(Arc::clone(assemblage)),
            None if assemblage.of_module(&name).is_some() => {
                let node = lists
                    .nodes
                    .binary_search_by(|node| node.name.cmp(&assemblage.name));
                let observed_node = ObservedNode {
                    name: assemblage.name.clone(),
                    node: node.ok().and_then(|at| lists.nodes.get(at)).cloned(), // the Node is gone
                    assemblage: Some(Arc::clone(assemblage)),
                    selected: false,
                };
                all.insert(&assemblage.name, observed_node);
            }
            None => {}
        }
    }
    all.into_values().collect()
}

/// The labels of nodes, by name.
type Labels = BTreeMap<String, BTreeMap<String, String>>;

fn conflict(module: &NodeModule, lists: &Lists<'_>) -> Result<Option<Conflict>, SelectorError> {
    let others: Vec<&Arc<NodeModule>> = lists
        .modules
        .iter()
        .filter(|other| other.name_any() != module.name_any() && other.metadata.deletion_timestamp.is_none())
        .collect();
    if others.is_empty() {
        return Ok(None);
    }
    let selected = |module: &NodeModule| -> Result<Labels, SelectorError> {
        let selector = Matcher::new(module.spec.selector.as_ref())?;
        let nodes = lists.nodes.iter().filter(|node| selector.matches(&node.labels));
        Ok(nodes
            .map(|node| (node.name.clone(), node.labels.clone()))
            .collect())
    };
    // An invalid selector of another NodeModule is reported there: it assigns nothing.
    let theirs: Vec<(String, &NodeModule, Labels)> = others
        .iter()
        .filter_map(|other| Some((other.name_any(), &***other, selected(other).ok()?)))
        .collect();
    let claimants: Vec<Claimant<'_>> = theirs
        .iter()
        .map(|(name, other, nodes)| Claimant {
            name,
            content: &other.spec.content,
            nodes,
        })
        .collect();
    let own = selected(module)?;
    let claimant = Claimant {
        name: &module.name_any(),
        content: &module.spec.content,
        nodes: &own,
    };
    conflicts::first(claimant, &claimants)
}

//! The input of a decision about one NodeModule.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_api::{control_status::ControlStatus, node::assemblage::NodeRow};
use muster_rollout::{self as engine, Memory, Millis};

use super::{
    facts::{AssemblageFacts, Definition, NodeFacts, RevisionFacts, RowFacts},
    verdicts::recorded_verdicts,
};
use crate::module::{controls::Controls, facts::Invalid, memory::Recalled};

/// The complete input of a decision.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The uid of the NodeModule.
    pub uid: String,
    /// Why nothing can be decided at all.
    pub invalid: Option<Invalid>,
    /// Whether the NodeModule is being deleted.
    pub deleting: bool,
    /// The annotations of the NodeModule.
    pub controls: Controls,
    /// The desired content of nodes. `None`: nothing, or it is unknown.
    pub target: Option<Definition>,
    /// The last good revision in the memory, with its content.
    pub last_good: Option<Definition>,
    /// The engine's memory.
    pub memory: Recalled,
    /// How long no process was the leader since the memory was written.
    pub gap: Duration,
    /// The recorded revisions, newest first.
    pub revisions: Vec<RevisionFacts>,
    /// The nodes that are selected, have a row, or are being changed; by name.
    pub nodes: Vec<ObservedNode>,
    /// The same nodes as units, in the same order.
    pub units: Vec<engine::Unit>,
    /// The possible contents of rows, by node.
    pub contents: Contents,
    /// Why nodes cannot be changed now, as messages for people.
    pub obstacles: BTreeMap<String, String>,
    /// The pins of nodes.
    pub pinned: BTreeMap<String, Pinned>,
    /// The status of the manual controls of nodes.
    pub effects: BTreeMap<String, Vec<ControlStatus>>,
    /// When the first hold or pin of a node expires.
    pub first_expiry: Option<Timestamp>,
}

/// One node of a NodeModule.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedNode {
    /// The name of the node.
    pub name: String,
    /// The Node. `None`: no Node has this name any more.
    pub node: Option<Arc<NodeFacts>>,
    /// The NodeAssemblage with its name.
    pub assemblage: Option<Arc<AssemblageFacts>>,
    /// Whether the NodeModule's selector matches it.
    pub selected: bool,
}

impl ObservedNode {
    /// The node's row for the NodeModule.
    pub fn row(&self, module: &str) -> Option<&Arc<RowFacts>> {
        self.assemblage.as_ref()?.of_module(module)
    }
}

/// The pin of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// The revision with its content.
    pub definition: Definition,
    /// The author, the reason, the expiry, and how to end the pin.
    pub message: String,
}

/// The possible rows of nodes, without tokens, by node and digest.
#[derive(Clone, Debug, Default)]
pub struct Contents(BTreeMap<String, Vec<(engine::Digest, Arc<NodeRow>)>>);

impl Contents {
    /// Adds a possible row of a node.
    pub fn add(&mut self, node: &str, digest: engine::Digest, row: Arc<NodeRow>) {
        self.0.entry(node.to_owned()).or_default().push((digest, row));
    }

    /// The row of a node for a digest.
    pub fn get(&self, node: &str, digest: engine::Digest) -> Option<&Arc<NodeRow>> {
        let of_node = self.0.get(node)?.iter();
        of_node
            .rev()
            .find(|(known, _)| *known == digest)
            .map(|(_, row)| row)
    }
}

impl Observation {
    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&ObservedNode> {
        let at = self
            .nodes
            .binary_search_by(|node| node.name.as_str().cmp(name))
            .ok()?; // not one of these
        self.nodes.get(at)
    }

    /// One-time controls, about known revisions.
    pub fn one_time_controls(&self, now: Timestamp) -> Vec<engine::Control> {
        let target = self.target.as_ref();
        let target = target.and_then(|target| engine::Revision::parse(&target.revision));
        let known: BTreeSet<engine::Revision> =
            self.memory.memory.bad.keys().copied().chain(target).collect();
        self.controls
            .one_shots(now)
            .map(|once| once.engine(&known))
            .collect()
    }

    /// The memory; a lost one is rebuilt from the rows and from the verdicts of NodeRevisions (W7).
    pub fn remembered(&self, now: Millis) -> Memory {
        let recalled = if self.memory.lost {
            muster_driver::Recalled::Lost(recorded_verdicts(&self.revisions))
        } else {
            muster_driver::Recalled::Kept {
                memory: &self.memory.memory,
                gap: self.gap.into(),
            }
        };
        recalled.believed(&self.units, now).into_owned()
    }
}

//! What a decision about one NodeModule rests on.

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
    verdicts::verdicts,
};
use crate::module::{controls::Controls, facts::Invalid, memory::Recalled};

/// Everything that a decision rests on.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The uid of the NodeModule.
    pub uid: String,
    /// Why nothing can be decided at all.
    pub invalid: Option<Invalid>,
    /// The NodeModule is being deleted.
    pub deleting: bool,
    /// The annotations of the NodeModule.
    pub controls: Controls,
    /// What nodes are to have. None: nothing, or it cannot be said.
    pub target: Option<Definition>,
    /// The last good revision that the memory names, in full.
    pub last_good: Option<Definition>,
    /// What the engine remembers.
    pub memory: Recalled,
    /// How long no process led since that was written.
    pub gap: Duration,
    /// The revisions on record, newest first.
    pub revisions: Vec<RevisionFacts>,
    /// The nodes that are selected, have a row, or are being changed; by name.
    pub nodes: Vec<NodeSeen>,
    /// They as units, in the same order.
    pub units: Vec<engine::Unit>,
    /// What rows may get, by node.
    pub contents: Contents,
    /// Why nodes cannot be changed now, for people.
    pub obstacles: BTreeMap<String, String>,
    /// What nodes are pinned to.
    pub pinned: BTreeMap<String, Pinned>,
    /// What became of what people say about nodes.
    pub heard: BTreeMap<String, Vec<ControlStatus>>,
    /// When the first hold or pin of a node ends by itself.
    pub said_until: Option<Timestamp>,
}

/// One node of a NodeModule.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// The Node. None: there is none of this name any more.
    pub node: Option<Arc<NodeFacts>>,
    /// The NodeAssemblage of its name.
    pub assemblage: Option<Arc<AssemblageFacts>>,
    /// The NodeModule's selector matches it.
    pub selected: bool,
}

impl NodeSeen {
    /// Its row of the NodeModule.
    pub fn row(&self, module: &str) -> Option<&Arc<RowFacts>> {
        self.assemblage.as_ref()?.of_module(module)
    }
}

/// What a node is pinned to.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// The revision in full.
    pub definition: Definition,
    /// Who, why, until when, and what ends it.
    pub message: String,
}

/// The rows that nodes may get, without tokens, by node and digest.
#[derive(Clone, Debug, Default)]
pub struct Contents(BTreeMap<String, Vec<(engine::Digest, Arc<NodeRow>)>>);

impl Contents {
    /// Adds a row that a node may get.
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
    pub fn node(&self, name: &str) -> Option<&NodeSeen> {
        let at = self
            .nodes
            .binary_search_by(|node| node.name.as_str().cmp(name))
            .ok()?; // not one of these
        self.nodes.get(at)
    }

    /// Controls that are carried out once, about revisions that are known.
    pub fn once(&self, now: Timestamp) -> Vec<engine::Control> {
        let target = self.target.as_ref();
        let target = target.and_then(|target| engine::Revision::parse(&target.revision));
        let known: BTreeSet<engine::Revision> =
            self.memory.memory.bad.keys().copied().chain(target).collect();
        self.controls.once(now).map(|once| once.engine(&known)).collect()
    }

    /// The memory; a lost one is rebuilt from the rows and from the verdicts of NodeRevisions (W7).
    pub fn remembered(&self, now: Millis) -> Memory {
        let recalled = if self.memory.lost {
            muster_driver::Recalled::Lost(verdicts(&self.revisions))
        } else {
            muster_driver::Recalled::Kept {
                memory: &self.memory.memory,
                gap: self.gap.into(),
            }
        };
        recalled.believed(&self.units, now).into_owned()
    }
}

//! Every module on every cluster, as views show it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{
    module::Summary,
    reasons::{ObjectReason, Reason},
};
use serde::Serialize;

use crate::{Kind, Shape};

/// Every module on every cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// What is rolled out here: modules over clusters, or NodeModules over the nodes of a cluster.
    pub kind: Kind,
    /// Clusters or nodes, by name.
    pub clusters: Vec<Member>,
    /// Modules, by kind and name.
    pub modules: Vec<ModuleView>,
}

/// A cluster or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Name of the cluster or node.
    pub name: String,
    /// Labels of the cluster or node.
    pub labels: BTreeMap<String, String>,
}

/// A module, and its state on each cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleView {
    /// Kind of the module.
    pub kind: Kind,
    /// Name of the module.
    pub name: String,
    /// Namespace of the module.
    pub namespace: String,
    /// Target version.
    pub version: String,
    /// The status of the condition Ready: True, False, or Unknown.
    pub ready: String,
    /// Reason of the condition Ready.
    pub reason: String,
    /// Message of the condition Ready.
    pub message: String,
    /// Since when; for a failure, the time of the failure and not of the start of the rollout.
    pub since: Option<Timestamp>,
    /// Whether the module is being deleted, and with it everything it applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Whether the controller has observed the current spec.
    pub observed: bool,
    /// Whether the module is stuck until someone changes something.
    pub stalled: bool,
    /// Message of the condition TagMoved, if the tag now points to another commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_moved: Option<String>,
    /// Whether Flux reads its source and reports errors about it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_by_flux: bool,
    /// Message of the condition Paused, if the module is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The stage whose approval or gates the rollout waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<String>,
    /// Cluster counts.
    pub summary: Summary,
    /// Cells by cluster, in the order of [`Fleet::clusters`].
    pub cells: Vec<Cell>,
}

/// A module on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Name of the cluster or node.
    pub cluster: String,
    /// State, as a shape.
    pub shape: Shape,
    /// Reason, one CamelCase word.
    pub reason: String,
    /// Assigned version; `None` if nothing is assigned yet.
    pub version: Option<String>,
    /// Since when the reason applies, if known.
    pub since: Option<Timestamp>,
    /// Human-readable message.
    pub message: String,
}

impl Cell {
    /// Name in the legend and in counts: a pin is distinguished from a hold.
    pub fn word(&self) -> &'static str {
        if self.reason == Reason::Pinned.as_str() {
            "pinned"
        } else {
            self.shape.word()
        }
    }
}

impl ModuleView {
    /// Kind and name, as in command arguments: `module/web`.
    pub fn address(&self) -> String {
        self.kind.address(&self.name)
    }

    /// The namespace flag of a command, with a leading space; empty for cluster-scoped kinds.
    pub fn within(&self) -> String {
        self.kind.within(&self.namespace)
    }

    /// The message of a cell, without the evidence of a failure that another cell shows in full.
    pub fn message_of<'a>(&self, cell: &'a Cell) -> &'a str {
        const STOPPED: &str = " and is rolled out no further";
        let is_shown = self.cells.iter().any(|cell| cell.shape == Shape::Failed);
        let is_stopped = cell.reason == Reason::Halted.as_str();
        let end = cell.message.find(STOPPED).filter(|_| is_stopped && is_shown);
        let short = end.and_then(|end| cell.message.get(..end + STOPPED.len()));
        short.unwrap_or(&cell.message)
    }

    /// Whether no cluster is confirmed or in progress.
    pub fn is_all_skipped(&self) -> bool {
        self.reason == ObjectReason::AllSkipped.as_str()
    }

    /// State of the module as a whole, from its own reason.
    pub fn shape(&self) -> Shape {
        match (self.ready.as_str(), self.stalled) {
            ("True", _) => Shape::Ready,
            (_, true) => Shape::Failed,
            _ if self.is_all_skipped() => Shape::Unreachable,
            // A reason that no cluster has, such as `Progressing`, is about work in progress.
            (_, false) => self.reason.parse().map_or(Shape::Updating, Shape::of),
        }
    }
}

impl Fleet {
    /// Finds a module by kind and name.
    pub fn module(&self, kind: impl Into<Kind>, name: &str) -> Option<&ModuleView> {
        let kind = kind.into();
        self.modules
            .iter()
            .find(|module| module.kind == kind && module.name == name)
    }

    /// Number of selected cells per shape; pinned ones are counted separately.
    pub fn counts(&self) -> BTreeMap<(Shape, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for cell in self
            .modules
            .iter()
            .flat_map(|module| &module.cells)
            .filter(|cell| cell.shape != Shape::NotSelected)
        {
            *counts.entry((cell.shape, cell.word())).or_default() += 1;
        }
        if let Some(several) = counts.remove(&(Shape::WaitsForYou, Shape::WaitsForYou.word())) {
            let word = if several == 1 {
                "waits for you"
            } else {
                "wait for you"
            };
            counts.insert((Shape::WaitsForYou, word), several);
        }
        counts
    }
}

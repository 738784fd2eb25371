//! Every module on every cluster, as it is shown.

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
    /// What rolls here: modules over clusters, or NodeModules over the nodes of a cluster.
    pub kind: Kind,
    /// The clusters, by name.
    pub clusters: Vec<Member>,
    /// The modules, by kind and name.
    pub modules: Vec<ModuleView>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A module, and where it stands on each cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleView {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The version that is wanted.
    pub version: String,
    /// The status of the condition Ready: True, False, or Unknown.
    pub ready: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Since when: of a failure its own time, though the rollout is older.
    pub since: Option<Timestamp>,
    /// It is being deleted: nothing of it is to stay in any cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// The controller has seen the spec as it is now.
    pub observed: bool,
    /// Nothing goes on without a change by someone.
    pub stalled: bool,
    /// That its tag names another commit than it did, in the words of the condition TagMoved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_moved: Option<String>,
    /// Flux reads its source, and says of it what can be said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_by_flux: bool,
    /// That it is paused, in the words of the condition Paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The stage whose approval or gates are waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<String>,
    /// The clusters in numbers.
    pub summary: Summary,
    /// By cluster, in the order of [`Fleet::clusters`].
    pub cells: Vec<Cell>,
}

/// One module on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The cluster.
    pub cluster: String,
    /// How it stands.
    pub shape: Shape,
    /// The one word.
    pub reason: String,
    /// The version that it carries; none if nothing was assigned yet.
    pub version: Option<String>,
    /// Since when the reason holds, where that is known.
    pub since: Option<Timestamp>,
    /// For people.
    pub message: String,
}

impl Cell {
    /// The word for the legend and for counts: a pin is kept at a version, and is no hold.
    pub fn word(&self) -> &'static str {
        if self.reason == Reason::Pinned.as_str() {
            "pinned"
        } else {
            self.shape.word()
        }
    }
}

impl ModuleView {
    /// Kind and name, as commands take them: `module/web`.
    pub fn address(&self) -> String {
        self.kind.address(&self.name)
    }

    /// The flag that names its namespace, with a blank before it; empty of a kind that has none.
    pub fn within(&self) -> String {
        self.kind.within(&self.namespace)
    }

    /// The message of one of its cells, without the evidence of a failure that another of its cells has in full.
    pub fn message_of<'a>(&self, cell: &'a Cell) -> &'a str {
        const STOPPED: &str = " and is rolled out no further";
        let is_shown = self.cells.iter().any(|cell| cell.shape == Shape::Failed);
        let is_stopped = cell.reason == Reason::Halted.as_str();
        let end = cell.message.find(STOPPED).filter(|_| is_stopped && is_shown);
        let short = end.and_then(|end| cell.message.get(..end + STOPPED.len()));
        short.unwrap_or(&cell.message)
    }

    /// No cluster of it is confirmed, and none is on the way.
    pub fn is_all_skipped(&self) -> bool {
        self.reason == ObjectReason::AllSkipped.as_str()
    }

    /// How the module stands as a whole, by its own word.
    pub fn shape(&self) -> Shape {
        match (self.ready.as_str(), self.stalled) {
            ("True", _) => Shape::Ready,
            (_, true) => Shape::Failed,
            _ if self.is_all_skipped() => Shape::Unreachable,
            // A word that is no cluster's, such as `Progressing`, is about something that goes on.
            (_, false) => self.reason.parse().map_or(Shape::Updating, Shape::of),
        }
    }
}

impl Fleet {
    /// A module of the view.
    pub fn module(&self, kind: impl Into<Kind>, name: &str) -> Option<&ModuleView> {
        let kind = kind.into();
        self.modules
            .iter()
            .find(|module| module.kind == kind && module.name == name)
    }

    /// How many selected cells there are of each shape, those that are pinned apart.
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

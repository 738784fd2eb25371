//! The model of a plan, for text, Markdown and JSON.

use muster_api::{Duration, reasons::Reason};
use serde::Serialize;

/// What a commit would do to a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Version of this schema. Fields may be added; an incompatible change makes it `plan/v2`.
    pub schema: &'static str,
    /// The modules that change, in dependency order.
    pub modules: Vec<ModulePlan>,
    /// How many modules were checked and do not change.
    pub unchanged: usize,
    /// The modules that are live and in no file, and stay as they are.
    pub unmentioned: Vec<String>,
    /// What could not be checked, and what that leaves open.
    pub notes: Vec<String>,
}

/// The schema version of [`Plan`].
pub(crate) const SCHEMA: &str = "plan/v1";

/// The plan of one module.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModulePlan {
    /// Kind and name: `module/podinfo`.
    pub module: String,
    /// Namespace of the module.
    pub namespace: String,
    /// Source position, `file:line:column`; null for a removed module.
    pub place: Option<String>,
    /// The change of the module itself.
    pub change: Change,
    /// The version that it asks for now.
    pub from: Option<Target>,
    /// The version that it would ask for.
    pub to: Option<Target>,
    /// The fields of its spec that change.
    pub fields: Vec<Field>,
    /// The clusters that it would select.
    pub selected: Vec<String>,
    /// The selected clusters that it does not select now.
    pub joins: Vec<String>,
    /// The clusters that it would no longer select.
    pub leaves: Vec<String>,
    /// The clusters that have the module and lose it: they are no longer selected, and no other module takes over.
    pub loses: Vec<String>,
    /// The modules that take over from a removed one, and in which clusters.
    pub moves: Vec<Move>,
    /// The steps, in order, if every update succeeds.
    pub order: Vec<Step>,
    /// The changes of objects in the changed clusters, if a local clone of their repository is given.
    pub objects: Vec<ObjectChange>,
    /// The clusters that stay as they are or are waited for, and why.
    pub skipped: Vec<Skipped>,
    /// Warnings about the change.
    pub warnings: Vec<String>,
    /// The digest of each cluster's row after the change, by cluster. Empty if the revision is unknown.
    pub digests: std::collections::BTreeMap<String, String>,
    /// How long recent rollouts of this module took.
    pub took: Option<Took>,
}

/// A module that takes over from a removed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The module that takes over: `module/webapp`.
    pub to: String,
    /// Clusters where it takes over.
    pub clusters: Vec<String>,
}

/// The change of a module itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Change {
    /// The module is new.
    Added,
    /// Its manifest changes.
    Changed,
    /// It is removed.
    Removed,
    /// It stays the same, but what it selects or reads changes.
    Around,
}

/// The version that a module asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The tag, or the first digits of the commit.
    pub version: String,
    /// The commit; null if it is unknown.
    pub commit: Option<String>,
    /// The hash by which approvals name the revision; null without the commit.
    pub revision: Option<String>,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Path relative to `spec`: `rollout.maxUnreadyClusters`.
    pub path: String,
    /// Old value; null if the field was not set.
    pub from: Option<String>,
    /// New value; null if the field is removed.
    pub to: Option<String>,
}

/// A step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "does")]
pub enum Step {
    /// These clusters are changed together.
    Change {
        /// Stage of the clusters.
        stage: Option<String>,
        /// What the clusters get.
        gives: Gives,
        /// Names of the clusters.
        clusters: Vec<String>,
    },
    /// A stage is passed under these conditions.
    Pass {
        /// Name of the stage.
        stage: String,
        /// How long the stage soaks.
        soak: Option<Duration>,
        /// Number of gates.
        gates: usize,
        /// Whether it must be approved.
        approval: bool,
    },
    /// The change windows of these clusters are closed until then: all following steps come later.
    Open {
        /// When they open, in local time: `Sun 2026-11-29 03:00 Europe/Berlin`.
        at: String,
        /// Name of the RolloutWindow.
        window: String,
        /// Names of the clusters.
        clusters: Vec<String>,
    },
    /// Nothing is withdrawn until a user acknowledges it.
    Acknowledge {
        /// The value of the acknowledgement.
        withdrawal: String,
        /// Number of clusters of the withdrawal.
        clusters: u32,
    },
}

/// What a cluster gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Gives {
    /// The version that the module asks for.
    Target,
    /// The last good version first, as the cluster joins during a rollout.
    LastGood,
    /// The revision that it is pinned to.
    Pin,
    /// The module is withdrawn.
    Withdrawal,
    /// The module is withdrawn, and another one has its objects by then.
    Move,
}

/// The change of one object, if it is the same in several clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// What happens to the object.
    pub fate: Fate,
    /// Kind, namespace and name: `Deployment.apps web/podinfo`.
    pub object: String,
    /// Its fields that change; empty for a Secret.
    pub fields: Vec<Field>,
    /// Names of the clusters.
    pub clusters: Vec<String>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fate {
    /// It is created.
    Created,
    /// It is changed.
    Changed,
    /// It is deleted.
    Removed,
    /// It stays, and belongs to another module afterwards.
    Moved,
}

/// Clusters that are not changed, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Reason, a CamelCase word.
    #[serde(serialize_with = "word")]
    pub reason: Reason,
    /// What that means for the rollout.
    pub outcome: String,
    /// The reason as text.
    pub message: String,
    /// Names of the clusters.
    pub clusters: Vec<String>,
}

/// How long the last good rollouts of a module took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Took {
    /// Number of known rollouts.
    pub rollouts: usize,
    /// The shortest duration.
    pub shortest_seconds: u64,
    /// The longest duration.
    pub longest_seconds: u64,
}

impl ModulePlan {
    /// The clusters that are updated or withdrawn from.
    pub fn touched(&self) -> std::collections::BTreeSet<&str> {
        touched(&self.order)
    }
}

impl Plan {
    /// Whether nothing changes. A module that changes without touching a cluster is a change, too.
    pub fn changes_nothing(&self) -> bool {
        self.modules.is_empty()
    }

    /// The summary line.
    pub fn total(&self) -> String {
        let touched: std::collections::BTreeSet<&str> =
            self.modules.iter().flat_map(ModulePlan::touched).collect();
        let count = |of: fn(&ModulePlan) -> usize| self.modules.iter().map(of).sum::<usize>();
        let plural = |number: usize, word: &str| match number {
            1 => format!("1 {word}"),
            _ => format!("{number} {word}s"),
        };
        if self.changes_nothing() {
            return format!(
                "Plan: no changes, {} as they are.",
                plural(self.unchanged, "module")
            );
        }
        format!(
            "Plan: {} of {} change{}, {} touched: {} join, {} leave, {} skipped. Secrets are never shown.",
            self.modules.len(),
            plural(self.modules.len() + self.unchanged, "module"),
            if self.modules.len() == 1 { "s" } else { "" },
            plural(touched.len(), "cluster"),
            count(|module| module.joins.len()),
            count(|module| module.leaves.len()),
            count(|module| module.skipped.iter().map(|skipped| skipped.clusters.len()).sum()),
        )
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn word<S: serde::Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

/// The clusters that are updated or withdrawn from.
pub(crate) fn touched(steps: &[Step]) -> std::collections::BTreeSet<&str> {
    let clusters = steps.iter().flat_map(|step| match step {
        Step::Change { clusters, .. } => &clusters[..],
        Step::Pass { .. } | Step::Open { .. } | Step::Acknowledge { .. } => &[],
    });
    clusters.map(String::as_str).collect()
}

//! What a plan says: one value for people, pages and programs.

use muster_api::{Duration, reasons::Reason};
use serde::Serialize;

/// What a commit would do to a fleet, with the version of this form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version of this form. Fields may be added to it; a change of another kind makes it `plan/v2`.
    pub schema: &'static str,
    /// The modules that change, in the order in which they need each other.
    pub modules: Vec<ModulePlan>,
    /// How many modules were looked at and do not change.
    pub unchanged: usize,
    /// The modules that are live and in no file, and stay as they are.
    pub unmentioned: Vec<String>,
    /// What could not be looked at, and what that leaves open.
    pub notes: Vec<String>,
}

/// The version of [`Plan`].
pub(crate) const SCHEMA: &str = "plan/v1";

/// What becomes of one module.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModulePlan {
    /// The module: `module/podinfo`.
    pub module: String,
    /// Its namespace.
    pub namespace: String,
    /// Where it is written: `file:line:column`; none for one that is removed.
    pub place: Option<String>,
    /// What becomes of the module itself.
    pub change: Change,
    /// What it asks for now.
    pub from: Option<Target>,
    /// What it would ask for.
    pub to: Option<Target>,
    /// The fields of its spec that change.
    pub fields: Vec<Field>,
    /// The clusters that it would select.
    pub selected: Vec<String>,
    /// Those of them that it does not select now.
    pub joins: Vec<String>,
    /// The clusters that it would not select any more.
    pub leaves: Vec<String>,
    /// The clusters that have something of it and lose it: it does not select them any more, and no other module takes over.
    pub loses: Vec<String>,
    /// The modules that take over from one that is removed, and in which clusters.
    pub moves: Vec<Move>,
    /// What is done, in this order, where all goes well.
    pub order: Vec<Step>,
    /// What changes in the objects of the clusters that are changed, where a clone of their repository is at hand.
    pub objects: Vec<ObjectChange>,
    /// The clusters that stay as they are or are waited for, and why.
    pub skipped: Vec<Skipped>,
    /// What a person should know before.
    pub warnings: Vec<String>,
    /// What one cluster is to have, by cluster: what its row says once it was changed. Empty as long as the revision is not known.
    pub digests: std::collections::BTreeMap<String, String>,
    /// How long rollouts of this module took lately.
    pub took: Option<Took>,
}

/// A module that takes over what a removed one has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The module that takes over: `module/webapp`.
    pub to: String,
    /// Where.
    pub clusters: Vec<String>,
}

/// What becomes of a module itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Change {
    /// There is none yet.
    Added,
    /// It is written differently.
    Changed,
    /// It is written nowhere any more.
    Removed,
    /// It is as it was, and what it selects or reads is not.
    Around,
}

/// What a module asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The tag, or the first digits of the commit.
    pub version: String,
    /// The commit; none if nobody could say.
    pub commit: Option<String>,
    /// The hash that approvals name; none without the commit.
    pub revision: Option<String>,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// From `spec` on: `rollout.maxUnreadyClusters`.
    pub path: String,
    /// What it was; none: nothing.
    pub from: Option<String>,
    /// What it would be; none: nothing.
    pub to: Option<String>,
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "does")]
pub enum Step {
    /// These clusters are changed together.
    Change {
        /// Their stage.
        stage: Option<String>,
        /// What they get.
        gives: Gives,
        /// They.
        clusters: Vec<String>,
    },
    /// A stage is passed once this holds.
    Pass {
        /// Which.
        stage: String,
        /// How long it is watched.
        soak: Option<Duration>,
        /// How many gates there are.
        gates: usize,
        /// Somebody has to approve.
        approval: bool,
    },
    /// The change windows of these clusters are closed, and open then: nothing of what follows comes before.
    Open {
        /// When, as people there read it: `Sun 2026-11-29 03:00 Europe/Berlin`.
        at: String,
        /// The RolloutWindow.
        window: String,
        /// Which clusters.
        clusters: Vec<String>,
    },
    /// Nothing is withdrawn until somebody acknowledges it.
    Acknowledge {
        /// What the acknowledgement names.
        withdrawal: String,
        /// Of how many clusters.
        clusters: u32,
    },
}

/// What a cluster gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Gives {
    /// What the module asks for.
    Target,
    /// The last good version first, as it joins in the middle of a rollout.
    LastGood,
    /// What it is pinned to.
    Pin,
    /// What it has is withdrawn.
    Withdrawal,
    /// It is withdrawn, and another module has its objects by then.
    Move,
}

/// What becomes of one object, alike in some clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// What becomes of it.
    pub fate: Fate,
    /// The object: `Deployment.apps web/podinfo`.
    pub object: String,
    /// Its fields that change; of a Secret none are told.
    pub fields: Vec<Field>,
    /// Where.
    pub clusters: Vec<String>,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fate {
    /// It is made.
    Created,
    /// It is changed.
    Changed,
    /// It is removed.
    Removed,
    /// It stays, and belongs to another module from then on.
    Moved,
}

/// Clusters that are not changed, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The one word.
    #[serde(serialize_with = "word")]
    pub reason: Reason,
    /// What that means for the rollout.
    pub outcome: String,
    /// The reason, for people.
    pub message: String,
    /// They.
    pub clusters: Vec<String>,
}

/// How long the last good rollouts of a module took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Took {
    /// How many are known.
    pub rollouts: usize,
    /// The shortest.
    pub shortest_seconds: u64,
    /// The longest.
    pub longest_seconds: u64,
}

impl ModulePlan {
    /// The clusters that get something, or are left.
    pub fn touched(&self) -> std::collections::BTreeSet<&str> {
        touched(&self.order)
    }
}

impl Plan {
    /// Nothing is different afterwards. A module that changes without touching a cluster is a change, too.
    pub fn changes_nothing(&self) -> bool {
        self.modules.is_empty()
    }

    /// The last line.
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

/// The clusters that get something, or are left.
pub(crate) fn touched(steps: &[Step]) -> std::collections::BTreeSet<&str> {
    let clusters = steps.iter().flat_map(|step| match step {
        Step::Change { clusters, .. } => &clusters[..],
        Step::Pass { .. } | Step::Open { .. } | Step::Acknowledge { .. } => &[],
    });
    clusters.map(String::as_str).collect()
}

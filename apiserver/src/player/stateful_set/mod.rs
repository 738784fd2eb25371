//! StatefulSets: numbered pods, in order, each with its claims, and their rolling update.

mod moves;
mod pods;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt as _;

use super::plan::{Plan, Verb};
use super::revision::{self, Newest};

/// A StatefulSet, its pods and its revisions.
#[derive(Clone, Debug)]
struct Row<'a> {
    set: &'a StatefulSet,
    spec: StatefulSetSpec,
    /// The pods with their ordinals.
    pods: Vec<(i32, &'a Pod)>,
    /// The name of the revision that all pods have had, and its template. Only a rolling update changes it. A name that
    /// another client wrote into the status is kept if there is such a revision.
    current: (String, PodTemplateSpec),
    /// The name of the current template's revision.
    update: String,
    now: Timestamp,
}

/// Decides what to do about a StatefulSet that controls these revisions and pods. `is_claimed` tells whether a claim
/// with a name exists.
pub(super) fn decide(
    set: &StatefulSet,
    revisions: &[&ControllerRevision],
    pods: &[&Pod],
    is_claimed: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let spec = set.spec.clone().unwrap_or_default(); // the server requires one
    let is_going = set.metadata.deletion_timestamp.is_some();
    let update = match revision::newest(set, &spec.template, revisions) {
        Newest::Is(revision) => revision,
        Newest::Make(_) | Newest::Renumber(_) if is_going => return plan,
        Newest::Make(revision) => {
            plan.write(Verb::Create, revision);
            return plan;
        }
        Newest::Renumber(revision) => {
            plan.write(Verb::Replace, revision);
            return plan;
        }
    };
    let row = Row {
        set,
        pods: pods::numbered(set, pods),
        current: current(set, &spec, revisions, update),
        update: update.name_any(),
        spec,
        now,
    };
    if !is_going {
        moves::plan(&mut plan, &row, &is_claimed);
    }
    status::write(&mut plan, &row);
    let used = |name: &str| {
        let is_a_pods = row
            .pods
            .iter()
            .any(|(_, pod)| pod.labels().get(revision::LABEL).is_some_and(|own| own == name));
        is_a_pods || name == row.current.0 || name == row.update
    };
    revision::prune_history(&mut plan, revisions, row.spec.revision_history_limit, used);
    plan
}

/// The revision that a rollout starts from; the newest one if there was none before, or it no longer exists.
fn current(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    revisions: &[&ControllerRevision],
    update: &ControllerRevision,
) -> (String, PodTemplateSpec) {
    let name = set
        .status
        .as_ref()
        .and_then(|status| status.current_revision.as_deref());
    let found = revisions
        .iter()
        .find(|revision| revision.metadata.name.as_deref() == name);
    let known = found.and_then(|found| Some((found.name_any(), revision::template_of(found)?)));
    known.unwrap_or_else(|| (update.name_any(), spec.template.clone()))
}

impl Row<'_> {
    /// The first ordinal.
    fn start(&self) -> i32 {
        self.spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or_default()
    }

    /// The ordinal after the last one.
    fn end(&self) -> i32 {
        self.start().saturating_add(self.spec.replicas.unwrap_or(1))
    }

    /// Pods with a lower ordinal keep the current revision during a rollout.
    fn partition(&self) -> i32 {
        let strategy = self
            .spec
            .update_strategy
            .as_ref()
            .and_then(|strategy| strategy.rolling_update.as_ref());
        self.start() + strategy.and_then(|rolling| rolling.partition).unwrap_or_default()
    }

    /// Whether the set replaces pods, or waits for a user to delete them.
    fn rolls(&self) -> bool {
        let strategy = self
            .spec
            .update_strategy
            .as_ref()
            .and_then(|strategy| strategy.type_.as_deref());
        strategy != Some("OnDelete")
    }

    /// Whether pods are created and deleted one at a time.
    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }
}

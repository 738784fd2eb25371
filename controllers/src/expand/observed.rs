//! What is cached of live Flux objects: the few facts that decisions need, extracted when the watch delivers them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::ResourceExt;
use muster_api::{
    assemblage::FailureClass,
    conditions::{HEALTHY, PLAN, SHARED_OBJECT, find},
    evidence::{ASSUMED, Assumed, Progress},
    flux::{Kustomization, KustomizationStatus, commit_of},
    kind::GROUP,
    labels::{annotation::RECONCILE_REQUESTED_AT, finalizer},
    plan::PlanReport,
};

use muster_sync::{health::evidence::is_custom, inventory::ObjectId};

use super::{
    flux_object::{SourceKind, is_named_by_content},
    print::{Print, kustomization_print, source_print},
};

/// The cached facts of a live Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KustomizationRow {
    /// The object's uid.
    pub uid: String,
    /// The object's generation.
    pub generation: i64,
    /// The fingerprint of everything that muster derives.
    pub print: Print,
    /// The assemblage that it belongs to by its owner references.
    pub owner: Option<Owner>,
    /// The source that it refers to.
    pub source: String,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether a finalizer lets its controller act before it is gone.
    pub finalized: bool,
    /// The last reconcile request.
    pub requested: Option<String>,
    /// The status that its controller reports.
    pub report: Report,
}

/// The assemblage that an object belongs to by its owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `Assemblage` or `RemoteAssemblage`.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
}

/// The status that a Kustomization's controller reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The condition Ready.
    pub ready: Option<Ready>,
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// The commit of `status.lastAppliedRevision`.
    pub applied_commit: Option<String>,
    /// The last reconcile request that was handled.
    pub handled: Option<String>,
    /// The message about objects that another Kustomization manages.
    pub shared: Option<String>,
    /// Whether its inventory has custom resources.
    pub has_custom: bool,
    /// The first object of its inventory that performs a rollout itself: `Kind/namespace/name`.
    pub rolls_out: Option<String>,
    /// The objects assumed healthy without evidence, at the current generation.
    pub assumed: Option<Assumed>,
    /// The progress of those of its objects that perform a rollout themselves.
    pub progress: Option<Progress>,
    /// The progress of its plan.
    pub plan: Option<ObservedPlan>,
}

/// The progress of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPlan {
    /// The run as reported, and the last control that was handled.
    pub report: PlanReport,
    /// The class of the failure, if the run failed.
    pub class: Option<FailureClass>,
}

/// The condition Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// `True`, `False`, or `Unknown`.
    pub status: Option<bool>,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message, truncated to what a row may have.
    pub message: String,
    /// The condition's `observedGeneration`.
    pub generation: Option<i64>,
    /// The condition's `lastTransitionTime`.
    pub since: Timestamp,
}

/// The cached facts of a live source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// The object's uid.
    pub uid: String,
    /// The object's resourceVersion: sources change seldom.
    pub resource_version: String,
    /// The fingerprint of everything that muster derives.
    pub print: Print,
    /// Whether muster created it: it has muster's label, and its name is derived from its content.
    pub ours: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The commit that it has fetched for its current spec.
    pub commit: Option<String>,
    /// Why it is not ready, as reported by its controller; `None` if Ready=True.
    pub trouble: Option<String>,
}

impl KustomizationRow {
    /// Extracts the facts of a live object.
    pub fn of(object: &Kustomization) -> Self {
        let status = object.status.as_ref();
        Self {
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            print: kustomization_print(object),
            owner: object.owner_references().iter().find_map(Owner::of),
            source: object.spec.source_ref.name.clone(),
            suspended: object.spec.suspend == Some(true),
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalized: object
                .finalizers()
                .iter()
                .any(|finalizer| finalizer == finalizer::FLUX),
            requested: object.annotations().get(RECONCILE_REQUESTED_AT).cloned(),
            report: Report {
                ready: status.and_then(|status| Ready::among(&status.conditions)),
                observed_generation: status.and_then(|status| status.observed_generation),
                applied_commit: status
                    .and_then(|status| status.last_applied_revision.as_deref())
                    .map(|revision| commit_of(revision).to_owned()),
                handled: status.and_then(|status| status.last_handled_reconcile_at.clone()),
                has_custom: status.is_some_and(has_custom),
                rolls_out: status.and_then(rolls_out),
                shared: status.and_then(|status| shared(&status.conditions)),
                progress: status.and_then(|status| progress(&status.conditions, object.metadata.generation)),
                assumed: status.and_then(|status| assumed(&status.conditions, object.metadata.generation)),
                plan: status.and_then(|status| plan(&status.conditions)),
            },
        }
    }
}

impl SourceRow {
    /// Extracts the facts of a live object.
    pub fn of(object: &impl SourceKind) -> Self {
        let generation = object.meta().generation;
        let status = object.report();
        let current = status.filter(|status| status.observed_generation == generation);
        let ready = status
            .and_then(|status| Ready::among(&status.conditions))
            .filter(|ready| ready.generation == generation);
        Self {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            print: source_print(object),
            ours: super::labels::has_muster_labels(object.labels()) && is_named_by_content(object),
            suspended: object.suspend() == Some(true),
            deleting: object.meta().deletion_timestamp.is_some(),
            commit: current
                .and_then(|status| status.artifact.as_ref())
                .map(|artifact| commit_of(&artifact.revision).to_owned()),
            trouble: match ready {
                Some(Ready {
                    status: Some(true), ..
                }) => None,
                Some(Ready {
                    status: Some(false),
                    reason,
                    message,
                    ..
                }) => Some(format!("{reason}: {message}")),
                Some(Ready { status: None, .. }) | None => Some("it is being fetched".to_owned()),
            },
        }
    }

    /// Whether the commit can be read from it now.
    pub fn holds(&self, commit: &str) -> bool {
        !self.deleting && self.commit.as_deref() == Some(commit)
    }
}

impl Owner {
    /// The owner of a reference, if its kind is one of muster's.
    pub fn of(reference: &OwnerReference) -> Option<Self> {
        let ours = reference.api_version.split('/').next() == Some(GROUP);
        ours.then(|| Self {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
        })
    }
}

impl Ready {
    /// The condition Ready in a list.
    pub fn among(conditions: &[Condition]) -> Option<Self> {
        let condition = conditions.iter().find(|condition| condition.type_ == "Ready")?;
        Some(Self {
            status: match condition.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            reason: condition.reason.clone(),
            message: crate::runtime::events::cut(condition.message.clone(), muster_api::schema::MAX_MESSAGE),
            generation: condition.observed_generation,
            since: condition.last_transition_time.0,
        })
    }
}

/// Whether an inventory has custom resources. Its ids are `<namespace>_<name>_<group>_<kind>`.
fn has_custom(status: &KustomizationStatus) -> bool {
    let entries = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    let mut groups = entries.filter_map(|entry| entry.id.rsplit('_').nth(1));
    groups.any(is_custom)
}

/// The first object that performs a rollout itself and reports it in `status.progress`: of muster's own kinds. An
/// inventory does not show this for other kinds.
fn rolls_out(status: &KustomizationStatus) -> Option<String> {
    let entries = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    let ids = entries.filter_map(|entry| entry.id.parse::<ObjectId>().ok()); // skips invalid ids
    ids.filter(|id| id.group == GROUP && ROLL_OUT.contains(&id.kind.as_str()))
        .map(|id| id.to_string())
        .next()
}

/// muster's kinds with `status.progress`.
const ROLL_OUT: [&str; 3] = ["ClusterUpgrade", "NodeModule", "ZoneRollout"];

/// The message of the condition `SharedObject`, if present.
fn shared(conditions: &[Condition]) -> Option<String> {
    let condition = find(conditions, SHARED_OBJECT)?;
    Some(crate::runtime::events::cut(
        condition.message.clone(),
        muster_api::schema::MAX_MESSAGE,
    ))
}

/// The objects without evidence in the condition `Healthy`.
fn assumed(conditions: &[Condition], generation: Option<i64>) -> Option<Assumed> {
    let healthy = find(conditions, HEALTHY)?;
    let current = healthy.status == "True" && healthy.observed_generation == generation;
    let assumed = Assumed::parse(&healthy.message)?;
    (current && healthy.reason == ASSUMED).then_some(assumed)
}

/// The progress in the condition `Healthy`.
fn progress(conditions: &[Condition], generation: Option<i64>) -> Option<Progress> {
    let healthy = find(conditions, HEALTHY)?;
    let current = healthy.status == "Unknown" && healthy.observed_generation == generation;
    Progress::parse(&healthy.message).filter(|_| current)
}

/// The plan in the condition `Plan`.
fn plan(conditions: &[Condition]) -> Option<ObservedPlan> {
    let plan = find(conditions, PLAN)?;
    let class = [FailureClass::Revision, FailureClass::Unit, FailureClass::Infra]
        .into_iter()
        .find(|class| plan.status == "False" && plan.reason == format!("{class:?}"));
    Some(ObservedPlan {
        report: PlanReport::parse(&plan.message),
        class,
    })
}

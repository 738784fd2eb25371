//! Objects that are rolled out, and the assignment of each unit, in terms of modules.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use muster_api::{
    assemblage::{AssemblageStatus, SyncPhase, SyncRow, SyncState, TargetedAssemblageSpec},
    conditions::{PAUSED, READY, STALLED, TAG_MOVED, find, is_true},
    module::{ModuleObject, ModuleSpec, ModuleStatus},
    reasons::Reason,
    rollout::Rollout,
    selector::Matcher,
    sync::GitVersion,
};
use muster_rollout::StageId;

use crate::{
    Cell, ConditionView, Kind, Member, ModuleView, Shape,
    reasons::{MemberFacts, Reasons, ReportedReason},
    recall,
    verbs::with_verbs,
    words::one_line,
};

/// The reason for a cluster that a status does not mention.
const UNKNOWN: &str = "Unknown";

/// What is assigned to a unit, and what is reported about it.
pub trait Carries: Clone {
    /// Assigned version.
    fn version(&self) -> Option<String>;
    /// Whether something is assigned to the unit.
    fn is_concerned(&self) -> bool;
    /// Assigned revision.
    fn revision(&self) -> Option<&str>;
    /// Whether the report about the current assignment is a success; `None` without such a report.
    fn succeeded(&self) -> Option<bool>;
    /// A note about a unit that is up to date.
    fn note(&self) -> Option<String>;

    /// Whether success is reported for the current assignment, and the assignment is of this revision.
    fn is_confirmed(&self, target: Option<&str>) -> bool {
        let revision = self.revision();
        revision.is_some() && revision == target && self.succeeded() == Some(true)
    }
}

/// An assignment and its report.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(&'a SyncRow, Option<&'a SyncState>);

impl<'a> Row<'a> {
    /// The assignment of a module in an assemblage.
    pub(crate) fn of(
        spec: &'a TargetedAssemblageSpec,
        status: Option<&'a AssemblageStatus>,
        module: &str,
    ) -> Option<Self> {
        let row = spec.syncs.iter().find(|row| row.name == module)?;
        Some(Self::reported(row, status))
    }

    pub(crate) fn reported(row: &'a SyncRow, status: Option<&'a AssemblageStatus>) -> Self {
        let mut syncs = status.into_iter().flat_map(|status| &status.syncs);
        let report = syncs.find(|state| state.name == row.name);
        Self(row, report.map(|state| &**state))
    }
}

impl Carries for Row<'_> {
    fn version(&self) -> Option<String> {
        let source = self.0.source.as_ref()?;
        Some(version(&source.version(), self.0.commit.as_deref()))
    }

    fn is_concerned(&self) -> bool {
        self.0.source.is_some()
    }

    fn revision(&self) -> Option<&str> {
        self.0.revision.as_deref()
    }

    fn succeeded(&self) -> Option<bool> {
        let Self(row, report) = self;
        let answer = report.filter(|report| report.token == row.token && report.digest == row.digest)?;
        Some(answer.state == SyncPhase::Succeeded)
    }

    fn note(&self) -> Option<String> {
        self.1?.success_message()
    }
}

/// An object that is rolled out, as views show it, in terms of modules.
pub struct Rolling<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// Metadata of the object.
    pub meta: &'a ObjectMeta,
    /// Target version.
    pub version: String,
    /// Selector for units.
    pub selector: Option<&'a LabelSelector>,
    /// Rollout settings.
    pub rollout: Cow<'a, Rollout>,
    /// Spec of a module; `None` for a NodeModule.
    pub spec: Option<&'a ModuleSpec>,
    /// Status of the object.
    pub status: Cow<'a, ModuleStatus>,
}

impl<'a> Rolling<'a> {
    /// Wraps a module.
    pub fn of<K: ModuleObject>(module: &'a K) -> Self {
        let spec = module.spec();
        Self {
            kind: K::KIND.into(),
            meta: module.meta(),
            version: version(&spec.sync.source.version(), None),
            selector: spec.selector.as_ref(),
            rollout: Cow::Borrowed(&spec.rollout),
            spec: Some(spec),
            status: module.status().map_or_else(Cow::default, Cow::Borrowed),
        }
    }

    /// URL of the source repository, if any.
    pub fn url(&self) -> Option<&'a str> {
        self.spec.map(|spec| spec.sync.source.url())
    }

    /// Conditions of the object.
    pub fn conditions(&self) -> Vec<ConditionView> {
        ConditionView::all(&self.status.conditions)
    }

    fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// A message of the object, or about a unit, on one line and with muster commands in place of kubectl's.
    fn in_verbs(&self, unit: Option<&str>, message: &str) -> String {
        with_verbs(&one_line(message), &self.kind.address(self.name()), unit)
    }

    /// Builds the view. `rows` has the assignment of each member.
    pub fn view<R: Carries>(&self, members: &[Member], rows: Vec<Option<R>>) -> ModuleView {
        let status = &self.status;
        let ready = find(&status.conditions, READY);
        // An invalid selector selects nothing; the module's own condition reports what is wrong with it.
        let matcher = Matcher::new(self.selector).ok();
        // An object that is being deleted selects nothing.
        let deleting = self.meta.deletion_timestamp.is_some();
        let matcher = matcher.filter(|_| !deleting);
        let observed =
            status.observed_generation.is_some() && status.observed_generation == self.meta.generation;
        let known = members.iter().zip(&rows).map(|(member, row)| {
            // ClusterUpgrades ignore a Cluster that does not opt in, whatever its labels.
            let is_left_out = self.kind == Kind::ClusterUpgrade && row.is_none();
            let selected = !is_left_out
                && matcher
                    .as_ref()
                    .is_some_and(|matcher| matcher.matches(&member.labels));
            let known = MemberFacts {
                is_concerned: selected || row.as_ref().is_some_and(R::is_concerned),
                is_confirmed: row
                    .as_ref()
                    .is_some_and(|row| row.is_confirmed(status.revision.as_deref())),
            };
            (member.name.as_str(), known)
        });
        let reported_reasons = Reasons::of(status, observed).each(known);
        let cells = members.iter().zip(rows).zip(reported_reasons);
        let cells =
            cells.map(|((member, row), reported_reason)| self.cell(member, row.as_ref(), reported_reason));
        let mut view = ModuleView {
            kind: self.kind,
            name: self.name().to_owned(),
            namespace: self.meta.namespace.clone().unwrap_or_default(),
            version: self.version.clone(),
            ready: ready.map_or("Unknown", |ready| &ready.status).to_owned(),
            reason: ready.map_or("Pending", |ready| &ready.reason).to_owned(),
            message: ready.map_or_else(
                || "the controller has not reconciled it yet".to_owned(),
                |ready| self.in_verbs(None, &ready.message),
            ),
            since: ready.map(|ready| ready.last_transition_time.0),
            deleting,
            observed,
            stalled: is_true(&status.conditions, STALLED),
            tag_moved: condition_message(&status.conditions, TAG_MOVED),
            read_by_flux: self.spec.is_some_and(|spec| spec.sync.source.flux().is_some()),
            paused: condition_message(&status.conditions, PAUSED)
                .map(|message| self.in_verbs(None, &message)),
            waits_at: self.waits_at(),
            summary: status.summary.clone().unwrap_or_default(),
            cells: cells.collect(),
        };
        view.since = failed_since(&view).or(view.since);
        view
    }

    /// The stage whose approval or gates the rollout waits for, if any: the first stage not passed.
    fn waits_at(&self) -> Option<String> {
        let waits = |reason: &str| {
            [Reason::WaitingApproval, Reason::WaitingGate]
                .iter()
                .any(|word| word.as_str() == reason)
        };
        let status = &self.status;
        if !status.attention.iter().any(|attention| waits(&attention.reason)) {
            return None;
        }
        let passed = recall::memory(status)?.course.passed;
        let mut stages = self.rollout.stages.iter();
        let open = stages.find(|stage| !passed.contains(&StageId::of(&stage.name)))?;
        Some(open.name.clone())
    }

    fn cell<R: Carries>(
        &self,
        member: &Member,
        row: Option<&R>,
        reported_reason: ReportedReason<'_>,
    ) -> Cell {
        let shape = |reason: &str| reason.parse().map_or(Shape::Unknown, Shape::of); // a reason of a newer controller
        let in_verbs = |message: &str| self.in_verbs(Some(&member.name), message);
        let base = Cell {
            cluster: member.name.clone(),
            shape: Shape::NotSelected,
            reason: Reason::Excluded.into(),
            version: row.and_then(R::version),
            since: None,
            message: String::new(),
        };
        match reported_reason {
            ReportedReason::NotSelected => base,
            ReportedReason::Unknown => Cell {
                shape: Shape::Unknown,
                reason: UNKNOWN.to_owned(),
                message: "its status does not say".to_owned(),
                ..base
            },
            ReportedReason::Attention(attention) => Cell {
                shape: shape(&attention.reason),
                reason: attention.reason.clone(),
                since: attention.since.as_ref().map(|since| since.0),
                message: in_verbs(&attention.message),
                ..base
            },
            ReportedReason::Group(group) => {
                // The message of a unit that is up to date is a note.
                let is_note = group.reason == Reason::UpToDate.as_str();
                let note = row.filter(|_| is_note).and_then(R::note);
                let note = note.as_deref().map(one_line);
                Cell {
                    shape: shape(&group.reason),
                    reason: group.reason.clone(),
                    message: note
                        .or_else(|| group.message.as_deref().map(in_verbs))
                        .unwrap_or_default(),
                    ..base
                }
            }
        }
    }
}

/// When the failure happened that keeps a module from being ready. The condition Ready is already false from the start
/// of the rollout.
fn failed_since(view: &ModuleView) -> Option<Timestamp> {
    let is_failure = |cell: &&Cell| cell.shape == Shape::Failed;
    let is_why = |cell: &&Cell| view.stalled && cell.reason == view.reason;
    let first = |cells: &dyn Fn(&&Cell) -> bool| {
        let since = view.cells.iter().filter(cells).filter_map(|cell| cell.since);
        since.min()
    };
    first(&is_failure).or_else(|| first(&is_why))
}

/// The message of a condition, if it is true.
fn condition_message(conditions: &[Condition], type_: &str) -> Option<String> {
    let condition = find(conditions, type_).filter(|condition| condition.status == "True")?;
    Some(one_line(&condition.message))
}

/// Version for display: the tag, or the first digits of the commit.
fn version(version: &GitVersion, commit: Option<&str>) -> String {
    version.display_version(commit.or(Some("?")))
}

/// What is known of a unit in addition to the status of the module.
pub(crate) struct Ground<R> {
    /// The assignment, and the report about it.
    pub row: Option<R>,
    /// Whether the unit is reachable, and since when.
    pub unit: String,
    /// State of the agent, if the chain has a check for it.
    pub agent: Option<String>,
    /// State of the unit after a failed change.
    pub after: String,
}

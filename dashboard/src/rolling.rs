//! What rolls, and what each unit carries of it, in the words of modules.

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
    reasons::{Known, Reasons, Says},
    recall,
    verbs::with_verbs,
    words::one_line,
};

/// The word for a cluster of which a status says nothing.
const UNKNOWN: &str = "Unknown";

/// What was assigned to a unit of something that rolls, and what is reported of it.
pub trait Carries: Clone {
    /// The version that it carries.
    fn version(&self) -> Option<String>;
    /// It is to carry something.
    fn is_concerned(&self) -> bool;
    /// The revision that it is to carry.
    fn revision(&self) -> Option<&str>;
    /// Whether success is reported about it as it is; none if nothing is reported about it as it is.
    fn succeeded(&self) -> Option<bool>;
    /// What is to be known of it although it is up to date.
    fn note(&self) -> Option<String>;

    /// Success is reported about it as it is, and it is of this revision.
    fn is_confirmed(&self, target: Option<&str>) -> bool {
        let revision = self.revision();
        revision.is_some() && revision == target && self.succeeded() == Some(true)
    }
}

/// A row and its echo.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(&'a SyncRow, Option<&'a SyncState>);

impl<'a> Row<'a> {
    /// The row of a module in an assemblage.
    pub(crate) fn of(
        spec: &'a TargetedAssemblageSpec,
        status: Option<&'a AssemblageStatus>,
        module: &str,
    ) -> Option<Self> {
        let row = spec.syncs.iter().find(|row| row.name == module)?;
        Some(Self::echoed(row, status))
    }

    pub(crate) fn echoed(row: &'a SyncRow, status: Option<&'a AssemblageStatus>) -> Self {
        let mut syncs = status.into_iter().flat_map(|status| &status.syncs);
        let echo = syncs.find(|state| state.name == row.name);
        Self(row, echo.map(|state| &**state))
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
        let Self(row, echo) = self;
        let answer = echo.filter(|echo| echo.token == row.token && echo.digest == row.digest)?;
        Some(answer.state == SyncPhase::Succeeded)
    }

    fn note(&self) -> Option<String> {
        self.1?.note()
    }
}

/// Something that rolls, as far as views tell it, in the words of modules.
pub struct Rolling<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// The version that is wanted.
    pub version: String,
    /// Which units it selects.
    pub selector: Option<&'a LabelSelector>,
    /// How it rolls.
    pub rollout: Cow<'a, Rollout>,
    /// What a module asks for; none of a NodeModule.
    pub spec: Option<&'a ModuleSpec>,
    /// Its status.
    pub status: Cow<'a, ModuleStatus>,
}

impl<'a> Rolling<'a> {
    /// A module.
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

    /// The repository that it comes from, if it comes from one.
    pub fn url(&self) -> Option<&'a str> {
        self.spec.map(|spec| spec.sync.source.url())
    }

    /// Its conditions.
    pub fn conditions(&self) -> Vec<ConditionView> {
        ConditionView::all(&self.status.conditions)
    }

    fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// What it says, or says about a unit, on one line and in our verbs.
    fn in_verbs(&self, unit: Option<&str>, message: &str) -> String {
        with_verbs(&one_line(message), &self.kind.address(self.name()), unit)
    }

    /// As it is shown. `rows`: what each member carries of it.
    pub fn view<R: Carries>(&self, members: &[Member], rows: Vec<Option<R>>) -> ModuleView {
        let status = &self.status;
        let ready = find(&status.conditions, READY);
        // A selector that cannot be read selects nothing; the module's own condition says what is wrong with it.
        let matcher = Matcher::new(self.selector).ok();
        // What is being deleted selects nothing any more.
        let deleting = self.meta.deletion_timestamp.is_some();
        let matcher = matcher.filter(|_| !deleting);
        let observed =
            status.observed_generation.is_some() && status.observed_generation == self.meta.generation;
        let known = members.iter().zip(&rows).map(|(member, row)| {
            // A Cluster that does not ask for ClusterUpgrades is none of theirs, whatever its labels.
            let is_left_out = self.kind == Kind::ClusterUpgrade && row.is_none();
            let selected = !is_left_out
                && matcher
                    .as_ref()
                    .is_some_and(|matcher| matcher.matches(&member.labels));
            let known = Known {
                is_concerned: selected || row.as_ref().is_some_and(R::is_concerned),
                is_confirmed: row
                    .as_ref()
                    .is_some_and(|row| row.is_confirmed(status.revision.as_deref())),
            };
            (member.name.as_str(), known)
        });
        let says = Reasons::of(status, observed).each(known);
        let cells = members.iter().zip(rows).zip(says);
        let cells = cells.map(|((member, row), says)| self.cell(member, row.as_ref(), says));
        let mut view = ModuleView {
            kind: self.kind,
            name: self.name().to_owned(),
            namespace: self.meta.namespace.clone().unwrap_or_default(),
            version: self.version.clone(),
            ready: ready.map_or("Unknown", |ready| &ready.status).to_owned(),
            reason: ready.map_or("Pending", |ready| &ready.reason).to_owned(),
            message: ready.map_or_else(
                || "the controller has not looked at it yet".to_owned(),
                |ready| self.in_verbs(None, &ready.message),
            ),
            since: ready.map(|ready| ready.last_transition_time.0),
            deleting,
            observed,
            stalled: is_true(&status.conditions, STALLED),
            tag_moved: said(&status.conditions, TAG_MOVED),
            read_by_flux: self.spec.is_some_and(|spec| spec.sync.source.flux().is_some()),
            paused: said(&status.conditions, PAUSED).map(|message| self.in_verbs(None, &message)),
            waits_at: self.waits_at(),
            summary: status.summary.clone().unwrap_or_default(),
            cells: cells.collect(),
        };
        view.since = failed_since(&view).or(view.since);
        view
    }

    /// The stage whose approval or gates are waited for, if some are: the first that was not passed.
    fn waits_at(&self) -> Option<String> {
        let waits = |reason: &str| {
            [Reason::WaitingApproval, Reason::WaitingGate]
                .iter()
                .any(|word| word.as_str() == reason)
        };
        let status = &self.status;
        if !status.attention.iter().any(|told| waits(&told.reason)) {
            return None;
        }
        let passed = recall::memory(status)?.course.passed;
        let mut stages = self.rollout.stages.iter();
        let open = stages.find(|stage| !passed.contains(&StageId::of(&stage.name)))?;
        Some(open.name.clone())
    }

    fn cell<R: Carries>(&self, member: &Member, row: Option<&R>, says: Says<'_>) -> Cell {
        let shape = |reason: &str| reason.parse().map_or(Shape::Unknown, Shape::of); // a word of a newer controller
        let in_verbs = |message: &str| self.in_verbs(Some(&member.name), message);
        let base = Cell {
            cluster: member.name.clone(),
            shape: Shape::NotSelected,
            reason: Reason::Excluded.into(),
            version: row.and_then(R::version),
            since: None,
            message: String::new(),
        };
        match says {
            Says::NotSelected => base,
            Says::Unknown => Cell {
                shape: Shape::Unknown,
                reason: UNKNOWN.to_owned(),
                message: "its status does not say".to_owned(),
                ..base
            },
            Says::Attention(said) => Cell {
                shape: shape(&said.reason),
                reason: said.reason.clone(),
                since: said.since.as_ref().map(|since| since.0),
                message: in_verbs(&said.message),
                ..base
            },
            Says::Group(group) => {
                // What a unit that is up to date says is a note.
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

/// When the failure was that keeps a module from being ready. The condition Ready is false from the start of its rollout on.
fn failed_since(view: &ModuleView) -> Option<Timestamp> {
    let is_failure = |cell: &&Cell| cell.shape == Shape::Failed;
    let is_why = |cell: &&Cell| view.stalled && cell.reason == view.reason;
    let first = |cells: &dyn Fn(&&Cell) -> bool| {
        let since = view.cells.iter().filter(cells).filter_map(|cell| cell.since);
        since.min()
    };
    first(&is_failure).or_else(|| first(&is_why))
}

/// What a condition says that is there only while something is so.
fn said(conditions: &[Condition], type_: &str) -> Option<String> {
    let condition = find(conditions, type_).filter(|condition| condition.status == "True")?;
    Some(one_line(&condition.message))
}

/// A version for people: the tag, or the first digits of the commit.
fn version(version: &GitVersion, commit: Option<&str>) -> String {
    version.short(commit.or(Some("?")))
}

/// What is known of a unit beside the status of the module.
pub(crate) struct Ground<R> {
    /// What it was given, and what is reported of that.
    pub row: Option<R>,
    /// Whether it can be reached, and since when.
    pub unit: String,
    /// Its agent, where that has a link of its own.
    pub agent: Option<String>,
    /// What became of it after a change that failed.
    pub after: String,
}

//! What is known of a module and its clusters, as plain data: the shared types of all steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_api::{
    assemblage::{Agent, SyncRow},
    control_status::ControlStatus,
    features,
    module::SourceStatus,
    reasons::{ObjectReason, Reason},
    revision::{ModuleRevisionSpec, ModuleRevisionStatus},
    sync::{Binding, Sync},
};
use muster_rollout as engine;
use muster_windows::Closed;

use super::rows::ObservedRow;
use crate::bindings;

/// How soon an agent of this version makes its first report.
const FIRST_REPORT: Duration = Duration::from_mins(1);

/// Values of a cluster's control-plane bindings.
pub(crate) type Values = BTreeMap<String, String>;

/// A revision in full: what is rolled out, at which commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// Hash of the revision, hexadecimal.
    pub revision: String,
    /// The commit that the version resolved to.
    pub commit: String,
    /// The sync that is rolled out.
    pub sync: Sync,
    /// The definitions of the control-plane bindings.
    pub control_plane_bindings: Vec<Binding>,
    /// The built-in cluster variables that its package uses.
    pub given: BTreeSet<String>,
}

impl Definition {
    /// A revision from its parts.
    pub(crate) fn new(
        revision: String,
        commit: String,
        sync: Sync,
        control_plane_bindings: Vec<Binding>,
    ) -> Self {
        Self {
            given: bindings::used_by(&sync.package, &sync.bindings),
            revision,
            commit,
            sync,
            control_plane_bindings,
        }
    }
}

impl From<ModuleRevisionSpec> for Definition {
    fn from(spec: ModuleRevisionSpec) -> Self {
        let ModuleRevisionSpec {
            module_ref: _,
            revision,
            commit,
            sync,
            control_plane_bindings,
        } = spec;
        Self::new(revision, commit, sync, control_plane_bindings)
    }
}

/// The desired state of every selected cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// The version is resolved.
    Known {
        /// The revision in full.
        definition: Box<Definition>,
        /// How its version was resolved.
        source: SourceStatus,
        /// The commit that the tag names now, if it differs.
        moved_to: Option<String>,
    },
    /// The version could not be resolved: nothing new is assigned.
    Unknown {
        /// `SourceNotReady` if the source cannot be read, `VerificationFailed` if it is not verified.
        reason: Reason,
        /// The problem: what, where, since when, what to do.
        message: String,
        /// When the source is read again.
        retry_at: Timestamp,
    },
    /// The module is being deleted: the desired state is empty.
    Nothing,
}

impl Target {
    /// The revision, if it is known.
    pub(crate) fn definition(&self) -> Option<&Definition> {
        match self {
            Self::Known { definition, .. } => Some(definition),
            Self::Unknown { .. } | Self::Nothing => None,
        }
    }
}

/// An error in a module that must be fixed by changing the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Reason for the condition.
    pub reason: ObjectReason,
    /// Message for the condition: what, where, what to do.
    pub message: String,
}

/// The observed state of one cluster for one module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedCluster {
    /// Name of the Cluster.
    pub name: String,
    /// Uid of the Cluster; empty if it is gone.
    pub uid: String,
    /// Whether the module's selector matches it.
    pub selected: bool,
    /// Index of the first stage whose selector matches it.
    pub stage: Option<usize>,
    /// The cluster's value of the `rollout.exclusive` label, if it has one.
    pub domain: Option<String>,
    /// Why it cannot be changed.
    pub obstacle: Option<(Reason, String)>,
    /// Why it must wait for another module or an upgrade.
    pub not_yet: Option<(Reason, String)>,
    /// Why no change may start in it now: its change windows are closed.
    pub closed: Option<Box<Closed>>,
    /// When to evaluate its change windows again.
    pub window_change: Option<Timestamp>,
    /// Whether the module is being deleted and another one takes over what this cluster has of it.
    pub moves: bool,
    /// When its hold or pin expires.
    pub held_until: Option<Timestamp>,
    /// The pin with its revision in full, if it is pinned.
    pub pinned: Option<Pinned>,
    /// The effects of controls on this cluster.
    pub effects: Vec<ControlStatus>,
    /// The assemblage that carries its rows.
    pub carrier: ObservedCarrier,
    /// Its row of this module.
    pub row: Option<Arc<ObservedRow>>,
    /// What the cluster reports of this module although it has no row of it.
    pub left: Option<engine::Report>,
    /// Values of the bindings of its desired content (the target, or its pin); `None` if unknown, or the cluster is not
    /// selected.
    pub values: Option<Result<Values, String>>,
    /// Values of the bindings of the last good revision; `None` for a pinned cluster, which is not rolled back.
    pub last_good_values: Option<Result<Values, String>>,
}

/// What carries a cluster's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ObservedCarrier {
    /// No assemblage was created yet.
    #[default]
    Absent,
    /// An assemblage that an agent reads.
    Agent {
        /// What the agent reports of itself.
        reports: Option<Arc<Agent>>,
        /// When the assemblage was created.
        made: Option<Timestamp>,
    },
    /// This process applies the rows itself, with or without an assemblage, and supports every feature.
    Controller,
}

impl ObservedCarrier {
    /// Features that a row needs and that are not reported.
    pub(crate) fn missing(&self, row: &SyncRow) -> BTreeSet<&'static str> {
        match self {
            Self::Absent => features::missing(row, None),
            Self::Agent { reports, .. } => features::missing(row, reports.as_deref()),
            Self::Controller => BTreeSet::new(),
        }
    }

    /// Whether the agent has reported nothing yet, but is likely to do so soon.
    pub(crate) fn is_new(&self, now: Timestamp) -> bool {
        match self {
            Self::Absent => true,
            Self::Agent { reports: None, made } => made.is_some_and(|made| now < made + FIRST_REPORT),
            Self::Agent { .. } | Self::Controller => false,
        }
    }

    /// Why a row with missing features is not assigned.
    pub(crate) fn refusal(&self, missing: &BTreeSet<&'static str>) -> String {
        match self {
            Self::Agent { reports, .. } => features::refusal(missing, reports.as_deref()),
            Self::Absent | Self::Controller => features::refusal(missing, None),
        }
    }
}

/// A pin whose revision is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pinned {
    /// The revision in full.
    pub definition: Box<Definition>,
    /// Who pinned it, why, until when, and how the pin ends.
    pub message: String,
}

impl ObservedCluster {
    /// Whether it is pinned to another revision than the target.
    pub(crate) fn is_pinned_elsewhere(&self, target: &Target) -> bool {
        let target = target.definition().map(|target| &target.revision);
        self.pinned
            .as_ref()
            .is_some_and(|pinned| Some(&pinned.definition.revision) != target)
    }

    /// Whether it has no row, or the Cluster is gone together with everything of ours in it.
    pub(crate) fn has_nothing(&self) -> bool {
        self.row.is_none() || self.uid.is_empty()
    }
}

/// What is kept of a ModuleRevision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevisionRow {
    /// Name of its module.
    pub module: String,
    /// Hash of the revision.
    pub revision: String,
    /// Uid, a precondition for its deletion.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its history.
    pub status: ModuleRevisionStatus,
}

/// The state of a module by its last decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleState {
    /// The generation of the spec that the decision used.
    pub generation: Option<i64>,
    /// The clusters that are confirmed at their desired state.
    pub confirmed: BTreeSet<String>,
    /// The clusters that have anything of it, or are about to.
    pub present: BTreeSet<String>,
    /// The clusters whose objects are all recorded, and that wait only for another module that holds some of them.
    pub shared: BTreeSet<String>,
}

//! What is known of a module and its clusters, as plain data: the words of all steps.

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

use super::rows::SeenRow;
use crate::bindings;

/// Within what time an agent of this version reports for the first time.
const FIRST_REPORT: Duration = Duration::from_mins(1);

/// The values of a cluster's control-plane bindings.
pub(crate) type Values = BTreeMap<String, String>;

/// A revision in full: what is rolled out, at which commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// Its hash.
    pub revision: String,
    /// The commit that the version stands for.
    pub commit: String,
    /// What is rolled out.
    pub sync: Sync,
    /// The definitions of the control-plane bindings.
    pub control_plane_bindings: Vec<Binding>,
    /// The variables that are given of each cluster and that its package uses.
    pub given: BTreeSet<String>,
}

impl Definition {
    /// A revision of its parts.
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

/// What every selected cluster shall have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// This.
    Known {
        /// The revision.
        definition: Box<Definition>,
        /// How its version was resolved.
        source: SourceStatus,
        /// The commit that the tag names now, if that is another one.
        moved_to: Option<String>,
    },
    /// The version could not be resolved: nothing new moves.
    Unknown {
        /// Whether the source cannot be read (`SourceNotReady`) or is not verified (`VerificationFailed`).
        reason: Reason,
        /// What, where, since when, what to do.
        message: String,
        /// When it is tried again.
        retry_at: Timestamp,
    },
    /// The module is being deleted: nothing is wanted.
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

/// A module that cannot be acted on until it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// One word.
    pub reason: ObjectReason,
    /// What, where, what to do.
    pub message: String,
}

/// One cluster as a module sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterSeen {
    /// Its name.
    pub name: String,
    /// The uid of the Cluster; empty if there is none any more.
    pub uid: String,
    /// The module's selector matches it.
    pub selected: bool,
    /// The place of the first stage whose selector matches it.
    pub stage: Option<usize>,
    /// The value of the label that charged clusters share, if it has one.
    pub domain: Option<String>,
    /// Why it cannot be touched.
    pub obstacle: Option<(Reason, String)>,
    /// Why its turn has not come yet, where that is for the sake of another module, or of an upgrade.
    pub not_yet: Option<(Reason, String)>,
    /// Why no change may begin in it now: its change windows are closed.
    pub closed: Option<Box<Closed>>,
    /// When what its change windows say is to be read again.
    pub window_change: Option<Timestamp>,
    /// The module is being deleted, and another one takes over what it has here.
    pub moves: bool,
    /// When a person's wish to keep it as it is, or at a revision, ends by itself.
    pub held_until: Option<Timestamp>,
    /// What it is pinned to.
    pub pinned: Option<Pinned>,
    /// What became of what people say by its annotations.
    pub heard: Vec<ControlStatus>,
    /// The assemblage that carries its rows.
    pub carrier: CarrierSeen,
    /// Its row of this module.
    pub row: Option<Arc<SeenRow>>,
    /// What the cluster reports of this module although it has no row of it.
    pub left: Option<engine::Echo>,
    /// The values of the bindings of what it shall have: the target, or its pin. None: that is not known, or the cluster is not
    /// selected.
    pub values: Option<Result<Values, String>>,
    /// The values of the last good revision's bindings; of a cluster that is pinned none, as it neither comes from there nor goes back.
    pub last_good_values: Option<Result<Values, String>>,
}

/// What carries a cluster's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum CarrierSeen {
    /// No assemblage: none was made yet.
    #[default]
    Absent,
    /// An assemblage.
    Agent {
        /// What the agent of the cluster reports of itself.
        reports: Option<Arc<Agent>>,
        /// When it was made.
        made: Option<Timestamp>,
    },
    /// An assemblage, or none, whose rows this process carries out itself: it can do all that rows ask for.
    Controller,
}

impl CarrierSeen {
    /// What a row needs that is not reported.
    pub(crate) fn missing(&self, row: &SyncRow) -> BTreeSet<&'static str> {
        match self {
            Self::Absent => features::missing(row, None),
            Self::Agent { reports, .. } => features::missing(row, reports.as_deref()),
            Self::Controller => BTreeSet::new(),
        }
    }

    /// Its agent has reported nothing yet, and is likely to do so within moments.
    pub(crate) fn is_new(&self, now: Timestamp) -> bool {
        match self {
            Self::Absent => true,
            Self::Agent { reports: None, made } => made.is_some_and(|made| now < made + FIRST_REPORT),
            Self::Agent { .. } | Self::Controller => false,
        }
    }

    /// Why such a row is not assigned.
    pub(crate) fn refusal(&self, missing: &BTreeSet<&'static str>) -> String {
        match self {
            Self::Agent { reports, .. } => features::refusal(missing, reports.as_deref()),
            Self::Absent | Self::Controller => features::refusal(missing, None),
        }
    }
}

/// What a cluster is pinned to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pinned {
    /// The revision in full.
    pub definition: Box<Definition>,
    /// Who, why, until when, and what ends it.
    pub message: String,
}

impl ClusterSeen {
    /// It is pinned to something else than the target.
    pub(crate) fn is_pinned_elsewhere(&self, target: &Target) -> bool {
        let target = target.definition().map(|target| &target.revision);
        self.pinned
            .as_ref()
            .is_some_and(|pinned| Some(&pinned.definition.revision) != target)
    }

    /// It has no row, or is itself gone: with it goes all that is ours there.
    pub(crate) fn has_nothing(&self) -> bool {
        self.row.is_none() || self.uid.is_empty()
    }
}

/// A ModuleRevision as a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevisionRow {
    /// The name of its module.
    pub module: String,
    /// The hash.
    pub revision: String,
    /// Its uid: a delete means this one.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its story.
    pub status: ModuleRevisionStatus,
}

/// How a module stands, by its last decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The generation of the spec that was decided on.
    pub generation: Option<i64>,
    /// The clusters that are confirmed at what they shall have.
    pub confirmed: BTreeSet<String>,
    /// The clusters that have something of it, or are about to.
    pub present: BTreeSet<String>,
    /// The clusters where its objects are recorded, and all that it waits for is another module that holds some of them.
    pub shared: BTreeSet<String>,
}

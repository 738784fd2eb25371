//! Which clusters a module affects, and the observed state of one cluster after its contents were looked up. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt};
use muster_api::{
    control_status::ControlStatus,
    labels::annotation,
    module::ModuleObject,
    reasons::Reason,
    selector::{Matcher, SelectorError},
};
use muster_rollout::{self as engine, Memory};

use super::{
    cluster_view::Pair,
    command::ModuleAddress,
    control_effects,
    facts::{Definition, ObservedCarrier, ObservedCluster, Pinned, Values},
    holds::{self, Hold},
    kind::Rolled,
    observation::Observation,
    pins::{self, KnownRevisions, Pin},
    reasons,
    rows::{Asks, Head, ObservedRow},
    unit::Unit,
};
use crate::{
    registry::{ClusterRow, ClusterState},
    runtime::Key,
};

/// A cluster that is selected, has a row of the module, or is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The Cluster.
    pub cluster: Arc<ClusterRow>,
    /// Whether the module's selector matches the cluster.
    pub selected: bool,
    /// Index of the first stage whose selector matches the cluster.
    stage: Option<usize>,
    /// The cluster's value of the `rollout.exclusive` label, if it has one.
    domain: Option<String>,
    /// The cluster's row of this module.
    pub row: Option<Arc<ObservedRow>>,
    /// What the cluster reports of this module although it has no row of it.
    left: Option<engine::Report>,
    /// The assemblage with the cluster's name, also if it is not ours.
    assemblage: Option<Arc<Head>>,
}

/// How a module relates to a pair of cluster and assemblage.
#[derive(Clone, Debug)]
pub(crate) enum Relevance {
    /// Neither selected nor assigned.
    None,
    /// The Cluster is gone, but a row still names it.
    Orphan(Box<ObservedCluster>),
    /// A cluster of the registry that is selected, has a row or is in flight.
    Candidate(Box<Candidate>),
}

/// Determines whether a module affects a cluster, and the cluster's stage and domain in the rollout.
#[derive(Debug)]
pub(crate) struct RelevanceCheck<'a> {
    module: String,
    selector: Option<&'a Matcher>,
    memory: &'a Memory,
    stages: Vec<Matcher>,
    exclusive: Option<&'a str>,
}

impl<'a> RelevanceCheck<'a> {
    /// From a module; one without a selector selects no clusters.
    pub(crate) fn of<K: ModuleObject>(
        module: &'a K,
        selector: Option<&'a Matcher>,
        memory: &'a Memory,
    ) -> Result<Self, SelectorError> {
        let rollout = &module.spec().rollout;
        let stages = rollout
            .stages
            .iter()
            .map(|stage| Matcher::new(Some(&stage.selector)));
        Ok(Self {
            module: module.name_any(),
            selector,
            memory,
            stages: stages.collect::<Result<_, _>>()?,
            exclusive: rollout.exclusive.as_deref(),
        })
    }

    fn stage(&self, cluster: &ClusterRow) -> Option<usize> {
        self.stages
            .iter()
            .position(|stage| stage.matches(&cluster.labels))
    }

    fn domain(&self, cluster: &ClusterRow) -> Option<String> {
        cluster.labels.get(self.exclusive?).cloned()
    }

    /// Classifies a pair: a module affects clusters that are selected, have a row or are in flight, and rows whose
    /// Cluster is gone.
    pub(crate) fn about(&self, pair: &Pair) -> Relevance {
        let assemblage = pair.assemblage.as_ref();
        let own = assemblage.filter(|own| own.head.ours);
        let row = own.and_then(|own| own.of(&self.module));
        let Some(cluster) = &pair.cluster else {
            return match (own, row) {
                (Some(own), Some(row)) => Relevance::Orphan(Box::new(orphan(&own.head.name, row))),
                _ => Relevance::None,
            };
        };
        // Before the cluster has a row, an assemblage of the same name may belong to another Cluster.
        let own = own.filter(|own| cluster.disowns(own.head.owner.as_deref()).is_none());
        let row = row.filter(|_| own.is_some());
        let selected = self
            .selector
            .is_some_and(|selector| selector.matches(&cluster.labels));
        // A cluster that is in flight stays included, although its row may not be visible yet.
        let is_in_flight = || self.memory.in_flight.contains_key(cluster.name.as_str());
        if !selected && row.is_none() && !is_in_flight() {
            return Relevance::None;
        }
        Relevance::Candidate(Box::new(Candidate {
            selected,
            stage: self.stage(cluster),
            domain: self.domain(cluster),
            row: row.cloned(),
            left: own.and_then(|own| own.left_of(&self.module)).cloned(),
            cluster: Arc::clone(cluster),
            assemblage: assemblage.map(|assemblage| Arc::clone(&assemblage.head)),
        }))
    }
}

/// A row whose Cluster is gone.
fn orphan(cluster: &str, row: &Arc<ObservedRow>) -> ObservedCluster {
    let message = format!("there is no Cluster {cluster} any more");
    ObservedCluster {
        name: cluster.to_owned(),
        uid: String::new(),
        selected: false,
        stage: None,
        domain: None,
        obstacle: Some((Reason::Deleting, message)),
        not_yet: None,
        closed: None,
        window_change: None,
        moves: false,
        held_until: None,
        pinned: None,
        effects: Vec::new(),
        carrier: ObservedCarrier::default(),
        row: Some(Arc::clone(row)),
        left: None,
        values: None,
        last_good_values: None,
    }
}

/// The controls that apply to one cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterControls {
    hold: Option<Hold>,
    pin: Option<Pin>,
    effects: Vec<ControlStatus>,
    /// Whether the Cluster itself has a control annotation, even an expired one.
    annotated: bool,
}

impl ClusterControls {
    /// From annotations of the Cluster and of the module.
    pub(crate) fn of(
        candidate: &Candidate,
        module: &ModuleAddress<'_>,
        observed: &Observation,
        now: Timestamp,
    ) -> Self {
        let cluster = &candidate.cluster;
        let revisions = observed.revisions.values();
        let known = KnownRevisions {
            revisions: revisions.map(|row| (row.revision.as_str(), row.status.verdict)),
            memory: &observed.memory.memory,
        };
        let unit = Unit::of_cluster(cluster);
        let hold = holds::hold_of_unit(&unit, module, &observed.controls, now);
        let pin = pins::pin_of_unit(&unit, module, observed.controls.pinned(now), &known, now)
            .filter(|_| !observed.deleting);
        let pinned = pins::annotated(&unit, module);
        Self {
            effects: control_effects::of_unit(&unit, pinned, hold.as_ref(), pin.as_ref(), now),
            annotated: pinned.is_some() || cluster.annotations.contains_key(annotation::HOLD),
            hold,
            pin,
        }
    }

    /// Whether a control may expire or its effect may change, so that the result must not be cached.
    pub(crate) fn is_fleeting(&self) -> bool {
        self.annotated || self.hold.is_some() || self.pin.is_some()
    }

    /// The revision that the cluster is pinned to, if it is unambiguous.
    pub(crate) fn pinned_to(&self, selected: bool) -> Option<&str> {
        let pin = self.pin.as_ref().filter(|_| selected)?;
        pin.revision.as_deref().ok()
    }

    /// The pin with its revision in full, if that revision is recorded.
    pub(crate) fn pinned(&self, definition: Option<Definition>) -> Option<Pinned> {
        let (pin, definition) = self.pin.as_ref().zip(definition)?;
        let version = definition
            .sync
            .source
            .version()
            .display_version(Some(&definition.commit));
        Some(Pinned {
            message: pin.message(&version, &definition.revision),
            definition: Box::new(definition),
        })
    }
}

/// The results of lookups for one cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterLookups {
    /// The pin with its revision in full.
    pub pinned: Option<Pinned>,
    /// Values of the bindings of the desired content.
    pub values: Option<Result<Values, String>>,
    /// Values of the bindings of the last good revision.
    pub last_good_values: Option<Result<Values, String>>,
}

/// Combines candidate, controls and lookups into the observed state of one cluster.
pub(crate) fn observed_cluster<K: Rolled>(
    candidate: Candidate,
    cluster_controls: ClusterControls,
    found: ClusterLookups,
    module: &Key,
    observed: &Observation,
) -> ObservedCluster {
    let Candidate {
        cluster,
        selected,
        stage,
        domain,
        row,
        left,
        assemblage,
    } = candidate;
    let ClusterControls {
        hold,
        pin,
        effects,
        annotated: _,
    } = cluster_controls;
    let ClusterLookups {
        pinned,
        values,
        last_good_values,
    } = found;
    let ends = [
        hold.as_ref().and_then(|hold| hold.until),
        pin.as_ref().and_then(|pin| pin.until),
    ];
    let unmeant = pin.as_ref().filter(|_| pinned.is_none()).and_then(|pin| {
        let error = pin.hindrance(selected)?;
        Some((Reason::Pinned, pin.problem(&cluster.name, &error)))
    });
    let (closed, window_change) = observed.windows.of_cluster(&cluster);
    ObservedCluster {
        name: cluster.name.clone(),
        uid: cluster.uid.clone(),
        selected,
        closed,
        window_change,
        not_yet: observed
            .ties
            .not_yet(&cluster.name, &cluster.labels, selected)
            .map(|message| (Reason::DependencyBehind, message))
            .or_else(|| upgrading(&cluster, observed.avoids_upgrades)),
        moves: observed.ties.moves(&cluster.labels),
        held_until: ends.into_iter().flatten().min(),
        effects,
        stage,
        domain,
        obstacle: obstacle::<K>(&cluster)
            .or_else(|| hold.map(|hold| (hold.reason, hold.message)))
            .or(unmeant)
            .or_else(|| foreign::<K>(&cluster, assemblage.as_deref(), &module.namespace))
            .or_else(|| {
                row.as_deref()
                    .filter(|_| selected && !observed.deleting)
                    .and_then(in_the_way)
            }),
        carrier: carrier::<K>(assemblage.as_deref()),
        row,
        left,
        values,
        last_good_values,
        pinned,
    }
}

/// The reason for waiting while machines of a cluster are being replaced, for a module that avoids upgrades.
fn upgrading(cluster: &ClusterRow, avoids: bool) -> Option<(Reason, String)> {
    (avoids && cluster.upgrading).then(|| {
        let name = &cluster.name;
        let message = format!(
            "machines of Cluster {name} are being replaced: it waits until condition RollingOut of the Cluster is False; \
             next: wait, or set spec.avoid to [] to roll out meanwhile"
        );
        (Reason::RollingOut, message)
    })
}

/// Why the registry says that a cluster cannot be changed.
fn obstacle<K: Rolled>(cluster: &ClusterRow) -> Option<(Reason, String)> {
    let state = if K::NEEDS_AGENT {
        cluster.state.clone()
    } else {
        cluster.bootstrap_state()
    };
    match state {
        ClusterState::Ready => None,
        ClusterState::NotReady { reason, message } => Some((reasons::not_ready_reason(reason), message)),
    }
}

fn carrier<K: Rolled>(assemblage: Option<&Head>) -> ObservedCarrier {
    match assemblage {
        _ if !K::NEEDS_AGENT => ObservedCarrier::Controller,
        None => ObservedCarrier::Absent,
        Some(assemblage) => ObservedCarrier::Agent {
            reports: assemblage.agent.clone(),
            made: assemblage.made,
        },
    }
}

/// An assemblage with the cluster's name that is not ours, or belongs to an earlier Cluster of that name.
fn foreign<K: Rolled>(
    cluster: &ClusterRow,
    assemblage: Option<&Head>,
    namespace: &str,
) -> Option<(Reason, String)> {
    let assemblage = assemblage?;
    let rows = assemblage.foreign_syncs;
    let why = if assemblage.ours {
        cluster.disowns(assemblage.owner.as_deref())?
    } else {
        format!(
            "it is not muster's own and has {rows} syncs: rename it, or delete it (this changes nothing in the cluster)"
        )
    };
    let kind = K::Assemblage::kind(&());
    Some((
        Reason::NameConflict,
        format!("{kind} {namespace}/{}: {why}", cluster.name),
    ))
}

/// A conflict that the cluster reports about its current row: the name is used by an object of another owner, or
/// another manager suspended our object. No revision causes this, and none fixes it. A name conflict applies to every
/// content of the row: where the whole `Assemblage` belongs to another management plane, its agent never reports our
/// digest.
fn in_the_way(row: &ObservedRow) -> Option<(Reason, String)> {
    let report = row.report.as_ref().filter(|_| row.asks == Asks::Carry)?;
    let has_reason = |reason: Reason| report.reason.as_deref() == Some(reason.as_str());
    let reason = if has_reason(Reason::NameConflict) {
        Reason::NameConflict
    } else if has_reason(Reason::Held) && report.digest == row.digest {
        Reason::Held
    } else {
        return None;
    };
    Some((reason, report.message.clone().unwrap_or_default())) // the word alone says enough
}

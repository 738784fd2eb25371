//! One pass over a ClusterUpgrade, from what was read: what to read or write next. Pure; the controller and tests run
//! it.
//!
//! ```text
//!   Clusters, rows of the registry ─┐
//!   readings of their objects ──────┼─► units ─► decision ─┬─► Next::Read        objects of Clusters; then again
//!   preflights, windows ────────────┘                      ├─► Next::Preflight   clusters about to change; then again
//!                                                          └─► Next::Write       status with memory, then one field of each Cluster
//! ```
//!
//! A Cluster has no row with a token: once its field has the version, the token of the in-flight change applies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    cluster_upgrade::{ClusterUpgrade, Preflight},
    control_status::ControlStatus,
    digest,
    module::ModuleKind,
    reasons::{ObjectReason, Reason},
    rollout::{Rollout, Unmatched},
    selector::{Matcher, SelectorError},
};
use muster_driver::{Change, Decided, Facts, NewContent, Planned, Rules};
use muster_rollout::{self as engine, Memory, UnitId};

use super::{
    capi::{Carrier, ClusterFacts},
    evidence::{self, Reading, Served},
    first::{self, Way},
    preflight::Hindrance,
    version::Version,
};
use crate::{
    module::{
        command::ModuleAddress,
        control_effects,
        controls::Controls,
        facts::Invalid,
        holds,
        instants::millis,
        memory::{self, Recalled},
        reasons::{Vocabulary, ineligible, not_ready_reason},
        unit::Unit as Named,
        units, windows,
    },
    registry::{ClusterRow, ClusterState},
    rolloutwindow::Windows,
};

/// The input of a pass.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    /// All ClusterUpgrades of the namespace.
    pub upgrades: &'a [Arc<ClusterUpgrade>],
    /// The Clusters of the namespace, sorted by name.
    pub clusters: &'a [Arc<ClusterFacts>],
    /// Looks up a Cluster in the registry.
    pub row: &'a dyn Fn(&str) -> Option<Arc<ClusterRow>>,
    /// What was read of the objects of Clusters, or why it could not be read.
    pub readings: &'a BTreeMap<String, Result<Arc<Reading>, String>>,
    /// The result of the preflight for Clusters about to change, or why they could not be read.
    pub preflights: &'a BTreeMap<String, Result<Option<Hindrance>, String>>,
    /// The change windows of the namespace.
    pub windows: &'a Windows,
    /// How long there was no leader since the memory was written.
    pub gap: Duration,
    /// The time of the pass.
    pub now: Timestamp,
}

/// The next step.
#[derive(Clone, Debug)]
pub enum Next {
    /// Read the objects of these Clusters first.
    Read(BTreeSet<String>),
    /// Run the preflight in these clusters first: they are about to change.
    Preflight(BTreeSet<String>),
    /// Write the result.
    Write(Box<Observation>, Option<Box<Decided>>),
}

/// Everything that a decision depends on.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Why nothing can be decided, if so.
    pub invalid: Option<Invalid>,
    /// Controls from the annotations of the ClusterUpgrade.
    pub controls: Controls,
    /// The desired version; `None` if it is invalid.
    pub target: Option<Version>,
    /// The engine's memory.
    pub memory: Recalled,
    /// How long there was no leader since the memory was written.
    pub gap: Duration,
    /// The Clusters that are selected or in flight, sorted by name.
    pub clusters: Vec<UpgradeCluster>,
    /// The Clusters as units, in the same order.
    pub units: Vec<engine::Unit>,
    /// Why Clusters cannot be changed now, as messages.
    pub obstacles: BTreeMap<String, String>,
    /// What changing Clusters wait for, and how the others were confirmed.
    pub progress: BTreeMap<String, String>,
    /// Clusters that have a newer version than the target.
    pub newer: BTreeSet<String>,
    /// Clusters whose own API server does not report a version.
    pub assumed: BTreeSet<String>,
    /// The effects of controls, by Cluster.
    pub effects: BTreeMap<String, Vec<ControlStatus>>,
    /// When a hold of a Cluster expires, or a window opens or closes.
    pub until: Option<Timestamp>,
}

/// A Cluster as one ClusterUpgrade observes it.
#[derive(Clone, Debug)]
pub struct UpgradeCluster {
    /// What was read of the Cluster.
    pub facts: Arc<ClusterFacts>,
    /// The objects that carry its version; `None` if they could not be read.
    pub reading: Option<Arc<Reading>>,
    /// Whether the ClusterUpgrade selects it.
    pub selected: bool,
}

/// The hash that identifies a version to the engine.
pub fn revision(version: Version) -> String {
    digest::sha256_hex(&["kubernetes", &version.to_string()])
}

fn hashes(version: Version) -> Option<(engine::Revision, engine::Digest)> {
    let text = revision(version);
    engine::Revision::parse(&text).zip(engine::Digest::parse(&text))
}

/// The next step for a ClusterUpgrade.
pub fn next_step(upgrade: &ClusterUpgrade, lists: &Lists<'_>) -> Result<Next, SelectorError> {
    let mut observed = observation(upgrade, lists)?;
    let Some(target) = observed
        .target
        .filter(|_| observed.invalid.is_none() && !upgrade.spec.suspend)
    else {
        return Ok(Next::Write(Box::new(observed), None));
    };
    let unread: BTreeSet<String> = observed
        .clusters
        .iter()
        .map(|cluster| cluster.facts.name.clone())
        .filter(|name| !lists.readings.contains_key(name))
        .collect();
    if !unread.is_empty() {
        return Ok(Next::Read(unread));
    }
    read(upgrade, target, &mut observed, lists)?;
    let decided = decide(upgrade, &observed, lists.now);
    let begins: BTreeSet<String> = begins(&observed, &decided)
        .filter(|name| !lists.preflights.contains_key(*name))
        .map(str::to_owned)
        .collect();
    if !begins.is_empty() {
        return Ok(Next::Preflight(begins));
    }
    Ok(Next::Write(Box::new(observed), Some(Box::new(decided))))
}

fn decide(upgrade: &ClusterUpgrade, observed: &Observation, now: Timestamp) -> Decided {
    let rollout = Rollout::from(&upgrade.spec.rollout);
    let wishes = units::rollout_settings(&rollout);
    let spec = engine::Spec {
        target: observed.target.and_then(|target| Some(hashes(target)?.0)),
        controls: observed.one_shots(now),
        paused: wishes.paused || observed.controls.paused(now).is_some(),
        ..wishes
    };
    let memory = observed.remembered(now);
    let facts = Facts {
        spec: &spec,
        memory: &memory,
        units: &observed.units,
        now: millis(now),
    };
    muster_driver::decide(facts, &Rules::shipped())
}

/// The Clusters that the decision would start to change.
fn begins<'a>(observed: &'a Observation, decided: &'a Decided) -> impl Iterator<Item = &'a str> {
    let steps = decided.decision().steps.iter().filter_map(Change::of);
    steps.filter_map(|(unit, change)| {
        let new = !observed.memory.memory.in_flight.contains_key(unit);
        (new && matches!(change.then, NewContent::Assigned { .. })).then(|| unit.as_str())
    })
}

impl Observation {
    /// A Cluster by name.
    pub fn cluster(&self, name: &str) -> Option<&UpgradeCluster> {
        let at = self
            .clusters
            .binary_search_by(|cluster| cluster.facts.name.as_str().cmp(name))
            .ok()?; // not one of these
        self.clusters.get(at)
    }

    fn one_shots(&self, now: Timestamp) -> Vec<engine::Control> {
        let target = self.target.and_then(|target| Some(hashes(target)?.0));
        let known: BTreeSet<engine::Revision> =
            self.memory.memory.bad.keys().copied().chain(target).collect();
        self.controls
            .one_shots(now)
            .map(|once| once.engine(&known))
            .collect()
    }

    fn remembered(&self, now: Timestamp) -> Memory {
        let recalled = if self.memory.lost {
            muster_driver::Recalled::Lost(muster_driver::Verdicts::default())
        } else {
            muster_driver::Recalled::Kept {
                memory: &self.memory.memory,
                gap: self.gap.into(),
            }
        };
        recalled.believed(&self.units, millis(now)).into_owned()
    }
}

/// The observation without its units.
fn observation(upgrade: &ClusterUpgrade, lists: &Lists<'_>) -> Result<Observation, SelectorError> {
    let stored = upgrade.status.as_ref().and_then(|status| status.rollout.as_ref());
    let memory = memory::recall(stored, upgrade.metadata.uid.as_deref());
    let (controls, unreadable) = match Controls::read(&upgrade.metadata, &Vocabulary::UPGRADES) {
        Ok(controls) => (controls, None),
        Err(invalid) => (Controls::default(), Some(invalid)),
    };
    let target = Version::parse(&upgrade.spec.target.kubernetes);
    let invalid = unreadable
        .or_else(|| controls.too_long(lists.now, &Vocabulary::UPGRADES))
        .or_else(|| {
            let message = format!(
                "spec.target.kubernetes: {} is not a version such as v1.34.2",
                upgrade.spec.target.kubernetes
            );
            target.is_none().then_some(Invalid {
                reason: ObjectReason::InvalidSpec,
                message,
            })
        });
    let selector = Matcher::new(upgrade.spec.selector.as_ref())?;
    let clusters = lists.clusters.iter().filter_map(|facts| {
        let selected = facts.opts_in && selector.matches(&facts.labels);
        // A started change is finished, even if the Cluster is not selected any more.
        let in_flight = memory.memory.in_flight.contains_key(facts.name.as_str());
        let reading = lists.readings.get(&facts.name);
        (selected || in_flight).then(|| UpgradeCluster {
            facts: Arc::clone(facts),
            reading: reading.and_then(|reading| reading.clone().ok()), // why not is its obstacle
            selected,
        })
    });
    Ok(Observation {
        invalid,
        controls,
        target,
        clusters: clusters.collect(),
        memory,
        gap: lists.gap,
        units: Vec::new(),
        obstacles: BTreeMap::new(),
        progress: BTreeMap::new(),
        newer: BTreeSet::new(),
        assumed: BTreeSet::new(),
        effects: BTreeMap::new(),
        until: None,
    })
}

/// Builds units from the Clusters.
fn read(
    upgrade: &ClusterUpgrade,
    target: Version,
    observed: &mut Observation,
    lists: &Lists<'_>,
) -> Result<(), SelectorError> {
    let rollout = Rollout::from(&upgrade.spec.rollout);
    let stages = rollout
        .stages
        .iter()
        .map(|stage| Matcher::new(Some(&stage.selector)))
        .collect::<Result<Vec<_>, _>>()?;
    let name = upgrade.name_any();
    let address = format!("clusterupgrade/{name}");
    let reader = Reader {
        upgrade,
        address: &address,
        rollout: &rollout,
        stages,
        older: older(upgrade, lists.upgrades),
        target,
        lists,
    };
    let mut units = Vec::with_capacity(observed.clusters.len());
    let (mut obstacles, mut progress) = (BTreeMap::new(), BTreeMap::new());
    let (mut newer, mut all_effects, mut ends) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for cluster in &observed.clusters {
        let name = &cluster.facts.name;
        let made = reader.made_of(cluster, observed);
        obstacles.extend(made.obstacle.map(|message| (name.clone(), message)));
        progress.extend(made.progress.map(|message| (name.clone(), message)));
        if made.is_newer {
            newer.insert(name.clone());
        }
        ends.extend(made.until);
        all_effects.insert(name.clone(), made.effects);
        units.push(made.unit);
    }
    share(&mut units, observed, &rollout);
    observed.units = units;
    (observed.obstacles, observed.progress, observed.newer) = (obstacles, progress, newer);
    let assumed = observed.clusters.iter().filter(|cluster| {
        let reading = cluster.reading.as_ref();
        reading.is_some_and(|reading| reading.served == Served::Nothing)
    });
    observed.assumed = assumed.map(|cluster| cluster.facts.name.clone()).collect();
    (observed.effects, observed.until) = (all_effects, ends.into_iter().min());
    Ok(())
}

/// The ClusterUpgrades that take precedence over this one, with their selectors.
fn older<'a>(upgrade: &ClusterUpgrade, all: &'a [Arc<ClusterUpgrade>]) -> Vec<(&'a ClusterUpgrade, Matcher)> {
    let age = |upgrade: &ClusterUpgrade| {
        let created = upgrade.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (created, upgrade.name_any())
    };
    let own = age(upgrade);
    let before = all
        .iter()
        .filter(|other| other.metadata.deletion_timestamp.is_none() && age(other) < own);
    // An invalid selector of another ClusterUpgrade selects nothing.
    before
        .filter_map(|other| Some((&**other, Matcher::new(other.spec.selector.as_ref()).ok()?)))
        .collect()
}

/// The unit of a Cluster, with its messages.
struct Made {
    unit: engine::Unit,
    obstacle: Option<String>,
    progress: Option<String>,
    is_newer: bool,
    effects: Vec<ControlStatus>,
    until: Option<Timestamp>,
}

struct Reader<'a> {
    upgrade: &'a ClusterUpgrade,
    address: &'a str,
    rollout: &'a Rollout,
    stages: Vec<Matcher>,
    older: Vec<(&'a ClusterUpgrade, Matcher)>,
    target: Version,
    lists: &'a Lists<'a>,
}

/// The content that a Cluster has in the engine's form.
#[derive(Clone, Copy)]
struct Shown {
    version: Version,
    token: engine::Token,
}

impl Reader<'_> {
    fn made_of(&self, cluster: &UpgradeCluster, snapshot: &Observation) -> Made {
        let facts = &cluster.facts;
        let change = snapshot.memory.memory.in_flight.get(facts.name.as_str());
        let reading = cluster.reading.as_deref();
        let shown = reading.and_then(|reading| self.present_content(reading, change));
        let is_newer = reading
            .and_then(Reading::oldest)
            .is_some_and(|oldest| oldest > self.target);
        let standing = shown
            .zip(reading)
            .and_then(|(shown, reading)| self.version_state(reading, shown, change.is_some()));
        let (revision, digest) = hashes(self.target).unzip();
        let assigned = shown.and_then(|shown| {
            let (revision, digest) = hashes(shown.version)?;
            Some(engine::Assignment {
                token: shown.token,
                content: engine::Content::Carries {
                    revision: Some(revision),
                    digest,
                },
            })
        });
        let observed = shown.zip(standing.as_ref()).and_then(|(shown, standing)| {
            Some(engine::Report {
                digest: Some(hashes(shown.version)?.1),
                token: shown.token,
                state: standing.state.clone(),
            })
        });
        let named = Named {
            words: &Vocabulary::UPGRADES,
            name: &facts.name,
            annotations: &facts.annotations,
        };
        let now = self.lists.now;
        let namespace = self.upgrade.namespace().unwrap_or_default();
        let address = ModuleAddress {
            namespace: &namespace,
            module: self.address,
        };
        let hold = holds::hold_of_unit(&named, &address, &snapshot.controls, now);
        let moves = change.is_some() || shown.is_some_and(|shown| shown.version == self.target);
        let way = self.way(cluster, hold.as_ref(), moves);
        let row = (self.lists.row)(&facts.name);
        let (closed, opens) = row.map_or((None, None), |row| self.window(&row));
        let eligible = match &way {
            Way::No(reason, _) => engine::Eligible::No(ineligible(*reason, self.rollout)),
            Way::NotYet(reason, _) => engine::Eligible::NotYet(ineligible(*reason, self.rollout)),
            Way::Free => closed.as_ref().map_or(engine::Eligible::Yes, |closed| {
                windows::closed(closed, false, self.rollout)
            }),
        };
        let obstacle = match way {
            Way::No(_, message) | Way::NotYet(_, message) => Some(message),
            Way::Free => closed.map(|closed| closed.to_string()),
        };
        let desired = match (revision, digest) {
            (Some(revision), Some(digest)) => engine::Desired::Content {
                revision,
                digest,
                last_good: None,
            },
            _ => engine::Desired::Unresolved,
        };
        Made {
            unit: engine::Unit {
                id: facts.name.as_str().into(),
                incarnation: engine::Incarnation::of(&facts.uid),
                desired,
                assigned,
                observed,
                eligible,
                place: self.stage_of(facts),
                domain: None,
                available: true,
                pinned: false,
            },
            obstacle,
            progress: standing
                .map(|standing| standing.message)
                .filter(|message| !message.is_empty()),
            is_newer,
            until: hold
                .as_ref()
                .and_then(|hold| hold.until)
                .into_iter()
                .chain(opens)
                .min(),
            effects: control_effects::of_unit(&named, None, hold.as_ref(), None, now),
        }
    }

    /// The content of a Cluster as the engine sees it: from the first field on the version of the in-flight change,
    /// otherwise the oldest version. A version newer than the target counts as the target.
    fn present_content(&self, reading: &Reading, change: Option<&engine::InFlight>) -> Option<Shown> {
        let oldest = reading.oldest()?;
        let first = reading.carriers.first()?.wanted?;
        let of = |version: Version| version.min(self.target).max(oldest.min(self.target));
        let Some(change) = change else {
            return Some(Shown {
                version: of(oldest),
                token: engine::Token(1),
            });
        };
        let (first, oldest) = (of(first), of(oldest));
        Some(match change.digest {
            Some(digest) if hashes(first).is_some_and(|(_, known)| known == digest) => Shown {
                version: first,
                token: change.token,
            },
            // A fence writes nothing: it is complete once the memory contains it.
            None => Shown {
                version: oldest,
                token: change.token,
            },
            Some(_) => Shown {
                version: oldest,
                token: engine::Token(1),
            },
        })
    }

    /// `is_in_flight`: whether a change of it is in flight.
    fn version_state(
        &self,
        reading: &Reading,
        shown: Shown,
        is_in_flight: bool,
    ) -> Option<evidence::VersionState> {
        if let Some(newer) = reading.oldest().filter(|oldest| *oldest > self.target) {
            return Some(evidence::VersionState {
                state: engine::State::Succeeded,
                message: format!("it has {newer}"),
            });
        }
        let is_target = shown.version == self.target;
        if is_target || is_in_flight {
            let what = if is_target {
                &self.upgrade.spec.what[..]
            } else {
                &[]
            };
            return evidence::version_state(reading, what, shown.version);
        }
        // Changes in a Cluster that muster did not change take no slot.
        Some(evidence::VersionState {
            state: engine::State::Succeeded,
            message: String::new(),
        })
    }

    /// What blocks a Cluster; `moves`: whether its topology already has the target, or need not be changed.
    fn way(&self, cluster: &UpgradeCluster, hold: Option<&holds::Hold>, moves: bool) -> Way {
        let facts = &cluster.facts;
        let Some(row) = (self.lists.row)(&facts.name).filter(|row| row.uid == facts.uid) else {
            let message = format!("Cluster {} has not been read by the registry yet", facts.name);
            return Way::No(Reason::Deleting, message);
        };
        if let ClusterState::NotReady { reason, message } = row.bootstrap_state() {
            return Way::No(not_ready_reason(reason), message);
        }
        if let Some((other, _)) = self
            .older
            .iter()
            .find(|(_, selector)| selector.matches(&facts.labels))
            && cluster.selected
        {
            let message = format!(
                "ClusterUpgrade {} selects it, too, and is older; next: narrow one of the selectors, or delete the older one",
                other.name_any()
            );
            return Way::No(Reason::Conflict, message);
        }
        if let Some(hold) = hold {
            return Way::No(hold.reason, hold.message.clone());
        }
        let reading = match self.lists.readings.get(&facts.name) {
            Some(Ok(reading)) => reading,
            Some(Err(error)) => return Way::NotYet(Reason::PreflightUnknown, error.clone()),
            None => return Way::NotYet(Reason::PreflightUnknown, "it was not read yet".to_owned()),
        };
        if moves {
            return Way::Free;
        }
        let strict = self.upgrade.spec.preflight == Preflight::Strict;
        let preflight = self.lists.preflights.get(&reading.cluster.name);
        first::upgrade_change(reading, self.target, strict, preflight)
    }

    /// Why no change may start in a cluster now, and when that changes. A window's bypass never applies to a
    /// ClusterUpgrade.
    fn window(&self, row: &ClusterRow) -> (Option<Box<muster_windows::Closed>>, Option<Timestamp>) {
        if self.lists.windows.all().is_empty() {
            return (None, None);
        }
        let cluster = muster_windows::Cluster {
            labels: &row.labels,
            annotations: &row.annotations,
        };
        let module = muster_windows::Module {
            kind: ModuleKind::Module,
            name: self.address,
            labels: self.upgrade.labels(),
        };
        let answer = muster_windows::evaluate(self.lists.windows.all(), &cluster, &module, self.lists.now);
        let closed = match answer.state {
            muster_windows::State::Open { .. } => None,
            muster_windows::State::Closed(closed) => Some(Box::new(closed)),
        };
        (closed, answer.next_change)
    }

    fn stage_of(&self, facts: &ClusterFacts) -> engine::StagePosition {
        let stage = self.stages.iter().position(|stage| stage.matches(&facts.labels));
        match (stage.map(u8::try_from), self.rollout.unmatched) {
            (Some(Ok(stage)), _) => engine::StagePosition::Stage(stage),
            (_, Unmatched::Exclude) if !self.stages.is_empty() => engine::StagePosition::Excluded,
            (_, Unmatched::Exclude | Unmatched::Last) => engine::StagePosition::Last,
        }
    }
}

/// Sets the domains, numbered among those of all Clusters.
fn share(units: &mut [engine::Unit], observed: &Observation, rollout: &Rollout) {
    let Some(key) = &rollout.exclusive else { return };
    let value = |cluster: &UpgradeCluster| cluster.facts.labels.get(key).cloned();
    let values: Vec<Option<String>> = observed.clusters.iter().map(value).collect();
    let numbers: BTreeMap<&String, usize> = values
        .iter()
        .flatten()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .zip(0..)
        .collect();
    for (unit, value) in units.iter_mut().zip(&values) {
        let number = value.as_ref().and_then(|value| numbers.get(value));
        unit.domain = number.and_then(|number| engine::Domain::nth(*number));
    }
}

/// The first fields of Clusters, in the form for the driver.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The observation.
    pub observed: &'a Observation,
}

impl muster_driver::Assignments for Fields<'_> {
    type Write = Vec<Carrier>;

    fn token(&self, unit: &UnitId) -> Option<engine::Token> {
        let at = self
            .observed
            .units
            .binary_search_by(|known| known.id.cmp(unit))
            .ok()?; // not one of these
        Some(self.observed.units.get(at)?.assigned?.token)
    }

    /// An older version than the target is never written: there is neither a withdrawal nor a rollback.
    fn knows(&self, _unit: &UnitId, change: Change) -> bool {
        let target = self.observed.target.and_then(hashes);
        matches!(change.then, NewContent::Assigned { digest, .. } if target.is_some_and(|(_, known)| known == digest))
    }

    fn write(&self, planned: &Planned) -> Option<Vec<Carrier>> {
        planned.change?;
        let reading = self.observed.cluster(planned.unit.as_str())?.reading.as_ref()?;
        let fields = reading.to_write(self.observed.target?);
        (!fields.is_empty()).then(|| fields.into_iter().cloned().collect())
    }
}

/// The fields to write after the first one of a Cluster that is in flight: they are part of the change that the memory
/// names.
pub fn following(observed: &Observation, memory: &Memory) -> Vec<(String, Vec<Carrier>)> {
    let Some(target) = observed.target else {
        return Vec::new();
    };
    let digest = hashes(target).map(|(_, digest)| digest);
    // A Cluster that is held or cannot be changed is not written to.
    let free = observed
        .clusters
        .iter()
        .zip(&observed.units)
        .filter(|(cluster, unit)| {
            let change = memory.in_flight.get(cluster.facts.name.as_str());
            let is_free = !matches!(unit.eligible, engine::Eligible::No(_));
            is_free && change.is_some_and(|change| change.digest == digest)
        });
    free.filter_map(|(cluster, _)| {
        let reading = cluster
            .reading
            .as_ref()
            .filter(|reading| reading.has_begun(target))?;
        let fields: Vec<Carrier> = reading.to_write(target).into_iter().cloned().collect();
        (!fields.is_empty()).then(|| (cluster.facts.name.clone(), fields))
    })
    .collect()
}

/// Whether the Cluster waits for something read from other objects, which the watch of the Cluster does not show.
pub fn rests_on_objects(unit: &engine::Unit) -> bool {
    let (engine::Eligible::No(why) | engine::Eligible::NotYet(why)) = unit.eligible else {
        return false;
    };
    let of_objects = [
        Reason::VersionSkew,
        Reason::ManagedElsewhere,
        Reason::Remediating,
        Reason::RollingOut,
        Reason::PreflightUnknown,
    ];
    Reason::of_code(why.code).is_some_and(|reason| of_objects.contains(&reason))
}

/// Whether to read the objects of a Cluster again soon: it is in flight, or not confirmed where it should be.
pub fn is_moving(observed: &Observation, memory: &Memory, name: &str) -> bool {
    memory.in_flight.contains_key(name)
        || observed.progress.contains_key(name) && !observed.newer.contains(name)
}

//! Converts what was observed to the engine's form: units and settings. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use muster_api::{
    amount::Amount,
    assemblage::SyncRow,
    digest,
    module::{ModuleSpec, OnDelete},
    reasons::Reason,
    rollout as api,
    rolloutwindow::ClosedClusters,
    schema::MAX_ROW,
};
use muster_rollout as engine;

use super::{
    cluster_view::ClusterView,
    contents::{Choice, Content, Made, Units},
    facts::{Definition, ObservedCluster, Values},
    gates,
    instants::millis,
    observation::Observation,
    reasons::ineligible,
    refusals,
    rows::{self, ObservedRow},
    windows,
};

/// Renders the contents of one definition, each once: most clusters have the same values, or none.
struct Recipe<'a> {
    module: &'a str,
    definition: &'a Definition,
    made: Made,
}

impl<'a> Recipe<'a> {
    fn new(module: &'a str, definition: &'a Definition, made: Made) -> Self {
        Self {
            module,
            definition,
            made,
        }
    }

    /// The content of a row for these values; an error is a message for users. `None` if the engine cannot parse its
    /// hashes.
    fn content(&mut self, values: &Values) -> Result<Option<Arc<Content>>, String> {
        if let Some(made) = self.made.get(values) {
            return made.clone();
        }
        let made = self.make(values);
        self.made.insert(values.clone(), made.clone());
        made
    }

    fn make(&self, values: &Values) -> Result<Option<Arc<Content>>, String> {
        let definition = self.definition;
        let digest = digest::digest(&definition.revision, values);
        let row = SyncRow {
            name: self.module.to_owned(),
            source: Some(definition.sync.source.clone()),
            package: Some(definition.sync.package.clone()),
            bindings: definition.sync.bindings.clone(),
            values: values.clone(),
            commit: Some(definition.commit.clone()),
            revision: Some(definition.revision.clone()),
            digest: Some(digest.clone()),
            ..SyncRow::default()
        };
        let bytes = serde_json::to_vec(&row).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_ROW {
            return Err(format!(
                "its row would have {bytes} bytes, more than {MAX_ROW}: make the values of the bindings, or package.flux, smaller"
            ));
        }
        let parsed = engine::Revision::parse(&definition.revision).zip(engine::Digest::parse(&digest));
        Ok(parsed.map(|(revision, digest)| {
            Arc::new(Content {
                print: rows::print(&row),
                row,
                revision,
                digest,
            })
        }))
    }
}

/// The contents that the clusters of a module may get.
struct Recipes<'a> {
    target: Option<Recipe<'a>>,
    last_good: Option<Recipe<'a>>,
}

/// A unit for each cluster, with the contents that it may get.
pub(crate) fn units(
    clusters: &[ObservedCluster],
    observed: &Observation,
    module: &str,
    rollout: &api::Rollout,
) -> Units {
    let mut units = Units::default();
    units.put(clusters.iter().enumerate(), observed, module, rollout);
    units.share(clusters, rollout);
    units
}

/// Builds the units of the clusters at these indexes again, when nothing else changed.
pub(crate) fn refresh_units(
    view: &mut ClusterView,
    places: &[usize],
    observed: &Observation,
    module: &str,
    rollout: &api::Rollout,
) {
    let ClusterView { clusters, units, .. } = view;
    let changed = places
        .iter()
        .filter_map(|place| Some((*place, clusters.get(*place)?)));
    units.put(changed, observed, module, rollout);
    units.share(clusters, rollout);
}

impl Units {
    fn put<'a>(
        &mut self,
        clusters: impl Iterator<Item = (usize, &'a ObservedCluster)>,
        observed: &Observation,
        module: &str,
        rollout: &api::Rollout,
    ) {
        let [target, last_good] = std::mem::take(&mut self.made);
        let recipe = |definition, made| Recipe::new(module, definition, made);
        let mut recipes = Recipes {
            target: observed
                .target
                .definition()
                .map(|definition| recipe(definition, target)),
            last_good: observed
                .last_good
                .as_ref()
                .map(|definition| recipe(definition, last_good)),
        };
        for (place, cluster) in clusters {
            self.obstacles.remove(&cluster.name);
            let (unit, choice) = unit(
                cluster,
                observed,
                module,
                rollout,
                &mut recipes,
                &mut self.obstacles,
            );
            self.contents.put(place, choice);
            match self.all.get_mut(place) {
                Some(old) => *old = unit,
                None => self.all.push(unit),
            }
        }
        // Clusters whose labels change often leave unused contents behind.
        let made = [recipes.target, recipes.last_good]
            .map(|recipe| recipe.map_or_else(Made::new, |recipe| recipe.made));
        self.made = made.map(|made| {
            if made.len() > self.all.len() {
                Made::new()
            } else {
                made
            }
        });
    }

    /// Sets the domains, numbered among those of all clusters.
    fn share(&mut self, clusters: &[ObservedCluster], rollout: &api::Rollout) {
        if rollout.exclusive.is_none() {
            return;
        }
        let domains: BTreeSet<&str> = clusters
            .iter()
            .filter_map(|cluster| cluster.domain.as_deref())
            .collect();
        let domains: BTreeMap<&str, usize> = domains.into_iter().zip(0..).collect();
        for (unit, cluster) in self.all.iter_mut().zip(clusters) {
            let domain = cluster.domain.as_deref().and_then(|domain| domains.get(domain));
            unit.domain = domain.and_then(|number| engine::Domain::nth(*number));
        }
    }
}

/// The settings of a module in the engine's form. A module that is being deleted is withdrawn as `onDelete` says,
/// paused or not; an explicit `onDelete` releases the brake.
pub(crate) fn engine_spec(module: &ModuleSpec, observed: &Observation, now: Timestamp) -> engine::Spec {
    let wishes = rollout_settings(&module.rollout);
    let deleting = observed.deleting;
    let explicit = deleting && module.on_delete.is_some();
    let how = match module.on_delete {
        Some(OnDelete::Orphan) if deleting => engine::How::Orphan,
        _ => engine::How::Prune,
    };
    let target = observed.target.definition();
    engine::Spec {
        target: target.and_then(|target| engine::Revision::parse(&target.revision)),
        readings: gates::readings(&observed.gates),
        controls: controls(observed, now),
        withdraw: engine::Withdraw {
            brake: wishes.withdraw.brake.filter(|_| !explicit),
            how,
            acknowledged: observed
                .controls
                .acknowledged(now)
                .map(|control| control.what.clone()),
            moving: moving(observed),
            ..wishes.withdraw
        },
        paused: !deleting && (wishes.paused || observed.controls.paused(now).is_some()),
        abandoned: observed.controls.given_up(now),
        refused: refusals::of_engine(&observed.refused),
        window_change: windows::next_change(observed.clusters()).map(millis),
        ..wishes
    }
}

/// The clusters where a successor takes over from a module that is being deleted.
fn moving(observed: &Observation) -> BTreeSet<engine::UnitId> {
    let moving = observed.clusters().iter().filter(|cluster| cluster.moves);
    moving.map(|cluster| cluster.name.as_str().into()).collect()
}

/// The settings in `spec.rollout`, marked as a complete read: no reconcile starts before every list is complete.
pub fn rollout_settings(rollout: &api::Rollout) -> engine::Spec {
    engine::Spec {
        strategy: match rollout.strategy {
            api::Strategy::Replace => engine::Strategy::Replace,
            api::Strategy::Incremental => engine::Strategy::Incremental,
        },
        limit: limit(rollout.max_unready_clusters),
        min_ready: engine::Millis::seconds(rollout.min_ready_seconds.into()),
        batch: rollout.batch.as_ref().map(|batch| engine::Batch {
            start: batch.start,
            factor: batch.factor,
            max: batch.max.unwrap_or(u32::MAX),
        }),
        domains: match rollout.exclusive {
            Some(_) => engine::Domains::EXCLUSIVE,
            None => engine::Domains::ANY,
        },
        stages: rollout.stages.iter().map(stage).collect(),
        on_failure: match rollout.on_failure.action {
            api::FailureAction::Halt => engine::OnFailure::Halt,
            api::FailureAction::Revert => engine::OnFailure::Revert,
            api::FailureAction::Continue => engine::OnFailure::Continue,
        },
        max_failed: limit(rollout.on_failure.max_failed),
        deadlines: engine::Deadlines {
            pickup: engine::Millis(rollout.deadlines.pickup.as_millis()),
            progress: engine::Millis(rollout.deadlines.progress.as_millis()),
            absence: engine::Millis(rollout.deadlines.absence.as_millis()),
            total: rollout
                .deadlines
                .total
                .map(|total| engine::Millis(total.as_millis())),
        },
        on_join: match rollout.on_join {
            api::OnJoin::LastGood => engine::OnJoin::LastGood,
            api::OnJoin::Target => engine::OnJoin::Target,
        },
        withdraw: engine::Withdraw {
            max: limit(rollout.withdraw.max),
            brake: Some(limit(rollout.withdraw.brake)),
            ..engine::Withdraw::default()
        },
        paused: rollout.paused,
        complete: true,
        ..engine::Spec::default()
    }
}

fn stage(stage: &api::Stage) -> engine::Stage {
    engine::Stage {
        name: stage.name.as_str().into(),
        limit: stage.max_unready_clusters.map(limit),
        soak: engine::Millis(stage.soak.as_millis()),
        approval: stage.approval == api::Approval::Required,
        gates: stage.gates.iter().map(gates::engine).collect(),
    }
}

/// The one-shot controls, with known revisions.
fn controls(observed: &Observation, now: Timestamp) -> Vec<engine::Control> {
    let memory = &observed.memory.memory;
    let target = observed.target.definition();
    let target = target.and_then(|target| engine::Revision::parse(&target.revision));
    let known = memory.bad.keys().copied().chain(target).collect();
    observed
        .controls
        .one_shots(now)
        .map(|once| once.engine(&known))
        .collect()
}

fn limit(amount: Amount) -> engine::Limit {
    match amount {
        Amount::Count(count) => engine::Limit::Count(count),
        Amount::Percent(percent) => engine::Limit::Percent(percent),
    }
}

fn unit(
    cluster: &ObservedCluster,
    observed: &Observation,
    module: &str,
    rollout: &api::Rollout,
    recipes: &mut Recipes<'_>,
    obstacles: &mut BTreeMap<String, String>,
) -> (engine::Unit, Choice) {
    let choice = choice(cluster, observed, module, recipes, obstacles);
    let pinned = cluster.is_pinned_elsewhere(&observed.target);
    let row = cluster.row.as_deref();
    let unit = engine::Unit {
        id: choice.unit.clone(),
        incarnation: engine::Incarnation::of(&cluster.uid),
        desired: desired(cluster, observed, &choice),
        assigned: row.map(|row| assigned(row, &choice)),
        observed: row.map_or_else(|| cluster.left.clone(), |row| row.reported.clone()),
        eligible: eligible(cluster, &choice, rollout, obstacles),
        place: stage_of(cluster, rollout, pinned),
        domain: None,
        available: true,
        pinned,
    };
    (unit, choice)
}

/// A cluster of no stage keeps what it has if `unmatched` is `Exclude`, unless it is pinned.
fn stage_of(cluster: &ObservedCluster, rollout: &api::Rollout, pinned: bool) -> engine::StagePosition {
    match (cluster.stage.map(u8::try_from), rollout.unmatched) {
        (Some(Ok(place)), _) => engine::StagePosition::Stage(place),
        (_, api::Unmatched::Exclude) if !rollout.stages.is_empty() && !pinned => {
            engine::StagePosition::Excluded
        }
        (_, api::Unmatched::Exclude | api::Unmatched::Last) => engine::StagePosition::Last,
    }
}

fn desired(cluster: &ObservedCluster, observed: &Observation, choice: &Choice) -> engine::Desired {
    if !cluster.selected || observed.deleting {
        return engine::Desired::Nothing;
    }
    match &choice.wanted {
        Some(content) => engine::Desired::Content {
            revision: content.revision,
            digest: content.digest,
            last_good: choice.last_good.as_ref().map(|good| good.digest),
        },
        None => engine::Desired::Unresolved,
    }
}

/// The possible contents of a cluster's row; records an obstacle if there is one.
fn choice(
    cluster: &ObservedCluster,
    observed: &Observation,
    module: &str,
    recipes: &mut Recipes<'_>,
    obstacles: &mut BTreeMap<String, String>,
) -> Choice {
    let nothing = Choice {
        unit: cluster.name.as_str().into(),
        wanted: None,
        last_good: None,
    };
    let Some(Ok(values)) = cluster.values.as_ref().filter(|_| !observed.deleting) else {
        return nothing;
    };
    let mut understood = |content: Result<Option<Arc<Content>>, String>| {
        content.unwrap_or_else(|message| {
            obstacles.insert(cluster.name.clone(), message);
            None
        })
    };
    let wanted = match (&cluster.pinned, &mut recipes.target) {
        (Some(pinned), _) => understood(Recipe::new(module, &pinned.definition, Made::new()).content(values)),
        (None, Some(target)) => understood(target.content(values)),
        (None, None) => None,
    };
    let last_good = match (&wanted, &mut recipes.last_good, &cluster.last_good_values) {
        (Some(_), Some(good), Some(Ok(values))) => understood(good.content(values)),
        _ => None,
    };
    Choice {
        wanted,
        last_good,
        ..nothing
    }
}

fn eligible(
    cluster: &ObservedCluster,
    choice: &Choice,
    rollout: &api::Rollout,
    obstacles: &mut BTreeMap<String, String>,
) -> engine::Eligible {
    let no = |reason: Reason| engine::Eligible::No(ineligible(reason, rollout));
    if let Some((reason, message)) = &cluster.obstacle {
        obstacles.insert(cluster.name.clone(), message.clone());
        return no(*reason);
    }
    if let Some(Err(message)) = &cluster.values {
        obstacles.insert(cluster.name.clone(), message.clone());
    }
    if obstacles.contains_key(&cluster.name) {
        return no(Reason::BindingFailed);
    }
    let wanted = choice.wanted.as_ref();
    let missing = wanted
        .map(|content| cluster.carrier.missing(&content.row))
        .unwrap_or_default();
    if !missing.is_empty() {
        obstacles.insert(cluster.name.clone(), cluster.carrier.refusal(&missing));
        return no(Reason::SyncUnsupported);
    }
    if let Some(closed) = &cluster.closed {
        obstacles.insert(cluster.name.clone(), closed.to_string());
        return windows::closed(closed, cluster.not_yet.is_some(), rollout);
    }
    match &cluster.not_yet {
        Some((reason, message)) => {
            obstacles.insert(cluster.name.clone(), message.clone());
            engine::Eligible::NotYet(ineligible(*reason, rollout))
        }
        None => engine::Eligible::Yes,
    }
}

/// The row's actual content: if it does not match its digest, it was edited manually and counts as another assignment.
fn assigned(row: &ObservedRow, choice: &Choice) -> engine::Assignment {
    let engine::Content::Carries { revision, digest } = row.assigned.content else {
        return row.assigned;
    };
    if choice
        .get(digest)
        .is_none_or(|content| content.print == row.print)
    {
        return row.assigned;
    }
    let print = row.print.to_string();
    let edited = digest::sha256_hex(&[row.digest.as_deref().unwrap_or_default(), &print]);
    let content = engine::Content::Carries {
        revision,
        digest: engine::Digest::parse(&edited).unwrap_or(digest),
    };
    engine::Assignment {
        content,
        ..row.assigned
    }
}

/// What depends on the memory, and so is computed for each decision, even if units were kept: stages continue without a
/// closed cluster if its windows say so, unless a change of it is in flight; and a cluster that waits for another
/// module is not retargeted in flight either.
pub(crate) fn apply_windows(view: &mut ClusterView, memory: &engine::Memory, rollout: &api::Rollout) {
    for (unit, cluster) in view.units.all.iter_mut().zip(&view.clusters) {
        let Some(window) = windows::closing(cluster, unit) else {
            continue;
        };
        unit.eligible = if window.while_closed == ClosedClusters::Skip && memory.may_skip(unit) {
            engine::Eligible::No(ineligible(window.reason(), rollout))
        } else if let Some((reason, _)) = cluster.not_yet.as_ref().filter(|_| is_in_flight(unit, memory)) {
            engine::Eligible::NotYet(ineligible(*reason, rollout))
        } else {
            windows::closed(window, cluster.not_yet.is_some(), rollout)
        };
    }
}

fn is_in_flight(unit: &engine::Unit, memory: &engine::Memory) -> bool {
    memory.in_flight.get(&unit.id).is_some_and(|change| {
        let counts = change.incarnation == unit.incarnation && !change.skipped && !change.unbegun;
        counts && unit.token() >= change.token
    })
}

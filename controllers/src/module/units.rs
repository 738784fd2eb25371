//! From what was observed to what the engine understands: units and settings. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_api::{
    amount::Amount,
    assemblage::{FailureClass, SyncPhase, SyncRow, Withdraw as WithdrawRow},
    digest,
    module::{ModuleSpec, OnDelete},
    reasons::Reason,
    rollout as api,
    schema::{MAX_ROW, MAX_TOKEN},
};
use muster_rollout as engine;

use super::{
    gates,
    observe::{ClusterSeen, Definition, Observation, Values},
    rows::{self, Asks, Echo, SeenRow},
};

/// The greatest token of a report that is believed without a row that has it. A restored fleet may report tokens that nobody here
/// remembers, and new ones must be greater; a report that left no room for those would stop the module for good.
const BELIEVED: u64 = MAX_TOKEN / 2;

/// What a cluster's row is to hold for a digest, without name and token.
pub type Contents = BTreeMap<(String, engine::Digest), SyncRow>;

/// The clusters as units, and the contents that rows may get.
#[derive(Debug, Default)]
pub struct Units {
    /// One for each cluster that was seen.
    pub all: Vec<engine::Unit>,
    /// By cluster and digest.
    pub contents: Contents,
    /// Why a cluster cannot be touched, for people.
    pub obstacles: BTreeMap<String, String>,
}

/// A unit for each cluster, with the contents that it may get.
pub fn units(seen: &Observation, module: &str, rollout: &api::Rollout) -> Units {
    let mut units = Units::default();
    let domains: BTreeSet<&str> = seen
        .clusters
        .iter()
        .filter_map(|cluster| cluster.domain.as_deref())
        .collect();
    let domains: BTreeMap<&str, usize> = domains.into_iter().zip(0..).collect();
    for cluster in &seen.clusters {
        let unit = unit(cluster, seen, module, rollout, &mut units);
        let domain = cluster.domain.as_deref().and_then(|domain| domains.get(domain));
        units.all.push(engine::Unit {
            domain: domain.and_then(|number| engine::Domain::nth(*number)),
            ..unit
        });
    }
    units
}

/// The settings of a module as the engine has them. What is being deleted is withdrawn as `onDelete` says, paused or not; an explicit
/// `onDelete` releases the brake.
pub fn spec(module: &ModuleSpec, seen: &Observation, now: Timestamp) -> engine::Spec {
    let wishes = wishes(&module.rollout);
    let deleting = seen.deleting;
    let explicit = deleting && module.on_delete.is_some();
    let how = match module.on_delete {
        Some(OnDelete::Orphan) if deleting => engine::How::Orphan,
        _ => engine::How::Prune,
    };
    let target = seen.target.definition();
    engine::Spec {
        target: target.and_then(|target| engine::Revision::parse(&target.revision)),
        readings: gates::readings(&seen.gates),
        controls: controls(seen, now),
        withdraw: engine::Withdraw {
            brake: wishes.withdraw.brake.filter(|_| !explicit),
            how,
            acknowledged: seen
                .controls
                .acknowledged(now)
                .map(|control| control.what.clone()),
            ..wishes.withdraw
        },
        paused: !deleting && (wishes.paused || seen.controls.paused(now).is_some()),
        abandoned: seen.controls.given_up(now),
        ..wishes
    }
}

/// What `spec.rollout` says, of a complete read: no reconcile starts before every list is complete.
pub fn wishes(rollout: &api::Rollout) -> engine::Spec {
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
        exclusive: rollout.exclusive.is_some(),
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

/// What people say once, about revisions that are known.
fn controls(seen: &Observation, now: Timestamp) -> Vec<engine::Control> {
    let memory = &seen.memory.memory;
    let target = seen.target.definition();
    let target = target.and_then(|target| engine::Revision::parse(&target.revision));
    let known = memory.bad.keys().copied().chain(target).collect();
    seen.controls.once(now).map(|once| once.engine(&known)).collect()
}

fn limit(amount: Amount) -> engine::Limit {
    match amount {
        Amount::Count(count) => engine::Limit::Count(count),
        Amount::Percent(percent) => engine::Limit::Percent(percent),
    }
}

fn unit(
    cluster: &ClusterSeen,
    seen: &Observation,
    module: &str,
    rollout: &api::Rollout,
    units: &mut Units,
) -> engine::Unit {
    let desired = desired(cluster, seen, module, units);
    let pinned = cluster.is_pinned_elsewhere(&seen.target);
    engine::Unit {
        id: cluster.name.as_str().into(),
        incarnation: engine::Incarnation::of(&cluster.uid),
        desired,
        assigned: cluster
            .row
            .as_ref()
            .map(|row| assigned(row, &cluster.name, &units.contents)),
        observed: cluster
            .row
            .as_ref()
            .and_then(|row| Some(observed(row, row.echo.as_ref()?))),
        eligible: eligible(cluster, rollout, units),
        place: place(cluster, rollout, pinned),
        domain: None,
        pinned,
    }
}

/// Who is left out keeps what it has, unless a person wants it to have something.
fn place(cluster: &ClusterSeen, rollout: &api::Rollout, pinned: bool) -> engine::Place {
    match (cluster.stage.map(u8::try_from), rollout.unmatched) {
        (Some(Ok(place)), _) => engine::Place::Stage(place),
        (_, api::Unmatched::Exclude) if !rollout.stages.is_empty() && !pinned => engine::Place::Excluded,
        (_, api::Unmatched::Exclude | api::Unmatched::Last) => engine::Place::Last,
    }
}

fn desired(cluster: &ClusterSeen, seen: &Observation, module: &str, units: &mut Units) -> engine::Desired {
    if !cluster.selected || seen.deleting {
        return engine::Desired::Nothing;
    }
    let (Some(target), Some(Ok(values))) = (cluster.shall_have(&seen.target), &cluster.values) else {
        return engine::Desired::Unresolved;
    };
    let Some((revision, digest)) = content(cluster, target, values, module, units) else {
        return engine::Desired::Unresolved;
    };
    let good = seen.last_good.as_ref().zip(
        cluster
            .last_good_values
            .as_ref()
            .and_then(|values| values.as_ref().ok()),
    );
    engine::Desired::Content {
        revision,
        digest,
        last_good: good
            .and_then(|(good, values)| content(cluster, good, values, module, units))
            .map(|(_, digest)| digest),
    }
}

/// Notes what the cluster's row holds for a definition, and names it.
fn content(
    cluster: &ClusterSeen,
    definition: &Definition,
    values: &Values,
    module: &str,
    units: &mut Units,
) -> Option<(engine::Revision, engine::Digest)> {
    let full = digest::digest(&definition.revision, values);
    let row = SyncRow {
        name: module.to_owned(),
        source: Some(definition.sync.source.clone()),
        package: Some(definition.sync.package.clone()),
        bindings: definition.sync.bindings.clone(),
        values: values.clone(),
        commit: Some(definition.commit.clone()),
        revision: Some(definition.revision.clone()),
        digest: Some(full.clone()),
        ..SyncRow::default()
    };
    let bytes = serde_json::to_vec(&row).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > MAX_ROW {
        let message = format!(
            "its row would have {bytes} bytes, more than {MAX_ROW}: make the values of the bindings smaller"
        );
        units.obstacles.insert(cluster.name.clone(), message);
        return None;
    }
    let (revision, digest) = (
        engine::Revision::parse(&definition.revision)?,
        engine::Digest::parse(&full)?,
    );
    units.contents.insert((cluster.name.clone(), digest), row);
    Some((revision, digest))
}

fn eligible(cluster: &ClusterSeen, rollout: &api::Rollout, units: &mut Units) -> engine::Eligible {
    let no = |reason: Reason| engine::Eligible::No(ineligible(reason, rollout));
    if let Some((reason, message)) = &cluster.obstacle {
        units.obstacles.insert(cluster.name.clone(), message.clone());
        return no(*reason);
    }
    if let Some(Err(message)) = &cluster.values {
        units.obstacles.insert(cluster.name.clone(), message.clone());
    }
    if units.obstacles.contains_key(&cluster.name) {
        return no(Reason::BindingFailed);
    }
    match &cluster.not_yet {
        Some(message) => {
            units.obstacles.insert(cluster.name.clone(), message.clone());
            engine::Eligible::NotYet(ineligible(Reason::DependencyBehind, rollout))
        }
        None => engine::Eligible::Yes,
    }
}

fn ineligible(reason: Reason, rollout: &api::Rollout) -> engine::Ineligible {
    engine::Ineligible {
        code: reason.rank(),
        rank: reason.rank(),
        absence: absence(reason, rollout.on_unreachable),
    }
}

/// What people wish for clusters that do not answer, or do not let us in. All others are skipped.
pub fn absence(reason: Reason, wish: api::OnUnreachable) -> engine::Absence {
    match (reason, wish) {
        (Reason::Unreachable | Reason::CredentialsRejected, api::OnUnreachable::Wait) => {
            engine::Absence::Wait
        }
        (Reason::Unreachable | Reason::CredentialsRejected, api::OnUnreachable::Fail) => {
            engine::Absence::Fail
        }
        _ => engine::Absence::Skip,
    }
}

fn assigned(row: &SeenRow, cluster: &str, contents: &Contents) -> engine::Row {
    let digest = row.digest.as_deref().and_then(engine::Digest::parse);
    let digest = digest.map(|digest| held(row, digest, contents.get(&(cluster.to_owned(), digest))));
    engine::Row {
        token: engine::Token(row.token.unwrap_or(0)),
        content: match (row.asks, digest) {
            (Asks::Carry, Some(digest)) => engine::Content::Carries {
                revision: row.revision.as_deref().and_then(engine::Revision::parse),
                digest,
            },
            (Asks::Withdraw(WithdrawRow::Prune | WithdrawRow::Orphan), _) => engine::Content::Withdraw,
            (Asks::Carry | Asks::Bare, _) => engine::Content::Nothing,
        },
    }
}

/// What a row holds in truth: if it is not what belongs to its digest, somebody has edited it, and it is another assignment than ours.
fn held(row: &SeenRow, digest: engine::Digest, content: Option<&SyncRow>) -> engine::Digest {
    match content {
        Some(content) if rows::print(content) != row.print => {
            let print = row.print.to_string();
            let edited = digest::sha256_hex(&[row.digest.as_deref().unwrap_or_default(), &print]);
            engine::Digest::parse(&edited).unwrap_or(digest)
        }
        _ => digest,
    }
}

fn observed(row: &SeenRow, echo: &Echo) -> engine::Echo {
    let believed = row.token.unwrap_or(0).max(BELIEVED);
    let message = || {
        echo.message
            .as_deref()
            .or(echo.reason.as_deref())
            .unwrap_or("no message")
            .into()
    };
    engine::Echo {
        digest: echo.digest.as_deref().and_then(engine::Digest::parse),
        token: engine::Token(echo.token.filter(|token| *token <= believed).unwrap_or(0)),
        state: match (echo.phase, echo.class) {
            (SyncPhase::Succeeded, _) => engine::State::Succeeded,
            (SyncPhase::Withdrawn, _) => engine::State::Withdrawn,
            (SyncPhase::Failed, class) => engine::State::Failed {
                class: class.map_or(engine::Class::Revision, self::class),
                terminal: echo.terminal,
                message: message(),
            },
            (SyncPhase::Updating, Some(class)) => engine::State::Failed {
                class: self::class(class),
                terminal: false,
                message: message(),
            },
            (SyncPhase::Updating | SyncPhase::Withdrawing, _) => engine::State::Updating,
        },
    }
}

fn class(class: FailureClass) -> engine::Class {
    match class {
        FailureClass::Revision => engine::Class::Revision,
        FailureClass::Unit => engine::Class::Unit,
        FailureClass::Infra => engine::Class::Infra,
    }
}

//! A module's status: what was observed and decided, for users and tools, and the engine's memory. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::ResourceExt;
use muster_api::{
    conditions::{self, Conditions, Status, bounded},
    control::Control,
    control_status::ControlStatus,
    labels::annotation,
    module::{Attention, ModuleObject, ModuleStatus, RolloutStatus, Summary},
    reasons::{Bucket, ObjectReason, Reason},
    schema::{MAX_ATTENTION, MAX_MESSAGE},
};
use muster_rollout::{self as engine, Phase};

use super::{
    by_hand,
    command::{ModuleAddress, command},
    control_effects::{self, UnitEffects},
    facts::{ObservedCluster, Target},
    groups::groups,
    memory,
    observation::Observation,
    reasons::{Explained, Pause, Vocabulary},
};

/// The maximum number of clusters in one command, so that it fits a terminal.
const MAX_NAMED: usize = 20;
/// The maximum number of clusters whose problem a condition shows.
const MAX_TOLD: usize = 3;

/// The status while nothing can be decided: suspended, or an invalid spec. Everything else stays unchanged.
pub(crate) fn idle_status<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    now: Timestamp,
) -> ModuleStatus {
    let new_conditions = match &observed.invalid {
        Some(invalid) => Conditions::ready(Status::False, invalid.reason, &*invalid.message)
            .stalled(invalid.reason, &*invalid.message),
        None => Conditions::ready(
            Status::False,
            ObjectReason::Suspended,
            "spec.suspend is true: nothing is assigned or withdrawn, clusters keep what they have",
        ),
    };
    let before = module.status().cloned().unwrap_or_default();
    let conditions = merged(module, &new_conditions, &before.conditions, now);
    ModuleStatus {
        observed_generation: module.meta().generation,
        state: state_word(&conditions, &[]),
        conditions,
        last_handled_reconcile_at: requested_at(module),
        ..before
    }
}

/// The status of a module that is rolling out or done.
pub(crate) fn rolling_status<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    decision: &engine::Decision,
    explained: &[Explained<'_>],
    open: Option<&str>,
    now: Timestamp,
) -> Result<ModuleStatus, serde_json::Error> {
    let before = module.status().cloned().unwrap_or_default();
    let summary = summary(&observed.view.units.all, decision, explained);
    let attention = attention(explained, &before.attention, now);
    let pause = pause(module, observed, now);
    let new_conditions = conditions(module, observed, decision, explained, open, &summary);
    let new_conditions = match (&observed.target, observed.deleting) {
        (Target::Unknown { .. }, _) | (_, false) => new_conditions,
        (_, true) => leaving(module, observed, explained, &attention, new_conditions),
    };
    let new_conditions = match pause {
        Some(pause) => new_conditions.with(
            conditions::PAUSED,
            Status::True,
            Reason::Paused,
            format!("the rollout is paused{pause}; no new updates start, those in progress finish"),
        ),
        None => new_conditions,
    };
    let (source, revision) = match &observed.target {
        Target::Known {
            definition, source, ..
        } => (Some(source.clone()), Some(definition.revision.clone())),
        Target::Unknown { .. } | Target::Nothing => (before.source, before.revision),
    };
    let conditions = merged(module, &new_conditions, &before.conditions, now);
    Ok(ModuleStatus {
        observed_generation: module.meta().generation,
        state: state_word(&conditions, explained),
        conditions,
        source,
        revision,
        reasons: groups(explained),
        attention,
        controls: controls(observed, now),
        summary: Some(summary),
        rollout: Some(memory::store(&decision.memory, module.meta().uid.as_deref())?),
        last_handled_reconcile_at: requested_at(module),
    })
}

/// The controls and their effects: ineffective ones first.
fn controls(observed: &Observation, now: Timestamp) -> Vec<ControlStatus> {
    let mut all = by_hand::effects(&observed.controls, observed.clusters(), now);
    all.extend(control_effects::all(
        &Vocabulary::CLUSTERS,
        &observed.controls,
        unit_effects(observed.clusters()),
        now,
    ));
    all.sort_by_key(|status| status.effect);
    all.truncate(MAX_ATTENTION);
    all
}

fn unit_effects(clusters: &[ObservedCluster]) -> impl Iterator<Item = UnitEffects<'_>> + Clone {
    clusters.iter().map(|cluster| UnitEffects {
        name: &cluster.name,
        selected: cluster.selected,
        effects: &cluster.effects,
    })
}

/// Whether `new` differs from `old` only in clusters: reasons, counts, attention, and messages of unchanged conditions.
pub(crate) fn differs_by_clusters_only(old: &ModuleStatus, new: &ModuleStatus) -> bool {
    let ModuleStatus {
        observed_generation,
        conditions,
        state,
        source,
        revision,
        summary: _,
        reasons: _,
        attention: _,
        controls,
        rollout,
        last_handled_reconcile_at,
    } = old;
    let word = |condition: &Condition| {
        let Condition {
            type_,
            status,
            reason,
            observed_generation,
            ..
        } = condition.clone();
        (type_, status, reason, observed_generation)
    };
    *observed_generation == new.observed_generation
        && conditions.iter().map(word).eq(new.conditions.iter().map(word))
        && *state == new.state
        && *source == new.source
        && *revision == new.revision
        && *controls == new.controls
        && *rollout == new.rollout
        && *last_handled_reconcile_at == new.last_handled_reconcile_at
}

/// The state of a module in one word for a table: a pause and holds are shown next to a success, too.
pub(crate) fn state_word(conditions: &[Condition], explained: &[Explained<'_>]) -> Option<String> {
    let ready = conditions::find(conditions, conditions::READY)?;
    let is = |reason: Reason| match reason {
        Reason::Paused => conditions::is_true(conditions, conditions::PAUSED),
        _ => explained.iter().any(|explanation| explanation.reason == reason),
    };
    let also = [Reason::Paused, Reason::Held, Reason::Pinned];
    let also = also
        .iter()
        .filter(|reason| is(**reason))
        .map(|reason| reason.as_str());
    let also = also.filter(|word| *word != ready.reason);
    let words: Vec<&str> = std::iter::once(&*ready.reason).chain(also).collect();
    Some(words.join(","))
}

/// The kind and name of a module, for kubectl: `module/podinfo`.
pub(crate) fn object_reference<K: ModuleObject>(module: &K) -> String {
    format!("{}/{}", K::KIND.as_str().to_lowercase(), module.name_any())
}

/// Whether the rollout is paused, who paused it, and how to resume it. A module that is being deleted is withdrawn even
/// if paused.
pub(crate) fn pause<K: ModuleObject>(module: &K, observed: &Observation, now: Timestamp) -> Option<Pause> {
    if observed.deleting {
        return None;
    }
    let control = observed.controls.paused(now);
    let lift = control.map(|_| {
        let address = object_reference(module);
        let namespace = module.namespace().unwrap_or_default();
        let address = ModuleAddress {
            namespace: &namespace,
            module: &address,
        };
        command(&address, annotation::PAUSED, None)
    });
    let in_spec = module
        .spec()
        .rollout
        .paused
        .then(|| "set spec.rollout.paused to false".to_owned());
    let ways: Vec<String> = in_spec.into_iter().chain(lift).collect();
    (!ways.is_empty()).then(|| Pause {
        provenance: control.map_or_else(String::new, Control::provenance),
        resume: format!("; to resume: {}", ways.join(" and ")),
    })
}

/// The version for users: the tag, or the first digits of the commit.
pub(crate) fn display_version<K: ModuleObject>(module: &K, target: &Target) -> String {
    let wanted = module.spec().sync.source.version();
    let commit = match target {
        Target::Known { source, .. } => Some(source.commit.as_str()),
        Target::Unknown { .. } | Target::Nothing => None,
    };
    match wanted.display_version(commit) {
        version if version.is_empty() => "the version".to_owned(),
        version => version,
    }
}

/// The engine's memory as stored in the status.
pub(crate) fn stored<K: ModuleObject>(module: &K) -> Option<&RolloutStatus> {
    module.status()?.rollout.as_ref()
}

fn requested_at<K: ModuleObject>(module: &K) -> Option<String> {
    module
        .annotations()
        .get(annotation::RECONCILE_REQUESTED_AT)
        .cloned()
}

fn merged<K: ModuleObject>(
    module: &K,
    new_conditions: &Conditions,
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    new_conditions.merge(before, module.meta().generation.unwrap_or_default(), now)
}

/// Counts of units.
pub(crate) fn summary(
    units: &[engine::Unit],
    decision: &engine::Decision,
    explained: &[Explained<'_>],
) -> Summary {
    let counted = |bucket: Bucket| {
        count(
            explained
                .iter()
                .filter(|explanation| explanation.reason.bucket() == bucket),
        )
    };
    let engine::Summary { total, updated, .. } = decision.summary;
    Summary {
        total,
        updated,
        ready: ready_as_they_are(units, explained),
        updating: counted(Bucket::Updating),
        waiting: counted(Bucket::Waiting),
        failed: counted(Bucket::Failed),
        skipped: counted(Bucket::Skipped),
        held: counted(Bucket::Held),
        withdrawing: counted(Bucket::Withdrawing),
        clusters: format!("{updated}/{total}"),
    }
}

/// The units that report success at their present content, desired or not: a stopped rollout is not an outage.
fn ready_as_they_are(units: &[engine::Unit], explained: &[Explained<'_>]) -> u32 {
    // The engine gives a reason for each unit, in the same order.
    let pairs = units.iter().zip(explained);
    count(pairs.filter(|(unit, explanation)| {
        let changing = matches!(
            explanation.reason.bucket(),
            Bucket::Updating | Bucket::Withdrawing
        );
        let ready = unit.state_at_assignment() == Some(&engine::State::Succeeded);
        unit.selected() && unit.is_eligible() && ready && !changing
    }))
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// The clusters that are not in their desired state, worst first. `since` of a reason without a time from the engine is
/// when it was first shown.
pub(crate) fn attention(explained: &[Explained<'_>], before: &[Attention], now: Timestamp) -> Vec<Attention> {
    let mut worst: Vec<&Explained<'_>> = explained
        .iter()
        .filter(|explanation| !matches!(explanation.reason, Reason::UpToDate | Reason::Excluded))
        .collect();
    let order = |a: &&Explained<'_>, b: &&Explained<'_>| {
        let place = |explanation: &Explained<'_>| (urgency(explanation.reason), explanation.reason.rank());
        place(a).cmp(&place(b)).then_with(|| a.cluster.cmp(b.cluster))
    };
    // In a large fleet most are not shown: those need no order.
    if worst.len() > MAX_ATTENTION {
        worst.select_nth_unstable_by(MAX_ATTENTION, order);
        worst.truncate(MAX_ATTENTION);
    }
    worst.sort_unstable_by(order);
    let entry = |explanation: &Explained<'_>| {
        let known = before
            .iter()
            .find(|old| old.cluster == explanation.cluster && old.reason == explanation.reason.as_str());
        let since = explanation
            .since
            .map(Time)
            .or_else(|| known.and_then(|old| old.since.clone()))
            .unwrap_or(Time(now));
        Attention {
            cluster: explanation.cluster.to_owned(),
            reason: explanation.reason.into(),
            since: Some(since),
            message: bounded(&explanation.message(), MAX_MESSAGE).into_owned(),
        }
    };
    worst.into_iter().map(entry).collect()
}

/// The order for a user: failures, then blocked clusters, then changing ones, then waiting ones.
const fn urgency(reason: Reason) -> u8 {
    match reason.bucket() {
        Bucket::Failed => 0,
        Bucket::Withdrawing => 1,
        Bucket::Skipped | Bucket::Held => 2,
        Bucket::Updating => 3,
        Bucket::Waiting => 4,
        Bucket::Updated | Bucket::Excluded => 5,
    }
}

fn conditions<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    decision: &engine::Decision,
    explained: &[Explained<'_>],
    open: Option<&str>,
    summary: &Summary,
) -> Conditions {
    let mut new_conditions = ready(module, observed, decision, explained, open, summary);
    if let Some(halt) = halt(decision, explained) {
        new_conditions = new_conditions.with(conditions::HALTED, Status::True, halt.reason, halt.message());
    }
    let everything = module
        .spec()
        .selector
        .as_ref()
        .is_some_and(|selector| *selector == LabelSelector::default());
    if everything && !module.annotations().contains_key(annotation::SELECT_ALL) {
        let message = format!(
            "the empty selector selects every cluster of the namespace; if this is intended, annotate the module with {}=true",
            annotation::SELECT_ALL
        );
        new_conditions = new_conditions.with(
            conditions::SELECTS_ALL,
            Status::True,
            ObjectReason::SelectsAll,
            message,
        );
    }
    if let Target::Known {
        source,
        moved_to: Some(commit),
        ..
    } = &observed.target
    {
        let tag = source.tag.as_deref().unwrap_or_default();
        let message = format!(
            "tag {tag} now points to commit {commit}; clusters stay at {}, the commit it was first resolved to; next: push a new tag to roll out the new commit",
            source.commit
        );
        new_conditions = new_conditions.with(
            conditions::TAG_MOVED,
            Status::True,
            ObjectReason::TagMoved,
            message,
        );
    }
    new_conditions
}

/// What stopped the rollout, if it is stopped.
pub(crate) fn halt<'a>(
    decision: &engine::Decision,
    explained: &'a [Explained<'a>],
) -> Option<&'a Explained<'a>> {
    let stopped = matches!(
        decision.summary.phase,
        Phase::Halted | Phase::Aborted | Phase::Reverting
    );
    let mut candidates = explained.iter().filter(|_| stopped);
    candidates.find(|explanation| {
        matches!(
            explanation.reason,
            Reason::Halted | Reason::KnownBad | Reason::Aborted
        )
    })
}

fn ready<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    decision: &engine::Decision,
    explained: &[Explained<'_>],
    open: Option<&str>,
    summary: &Summary,
) -> Conditions {
    let version = display_version(module, &observed.target);
    if let Target::Unknown { reason, message, .. } = &observed.target {
        return Conditions::ready(Status::False, *reason, &**message).reconciling(*reason, &**message);
    }
    let phase = decision.summary.phase;
    ready_conditions(&Vocabulary::CLUSTERS, &version, phase, explained, open, summary)
}

/// The conditions of a module whose version is known, by the reasons of its units.
pub(crate) fn ready_conditions(
    words: &Vocabulary,
    version: &str,
    phase: Phase,
    explained: &[Explained<'_>],
    open: Option<&str>,
    summary: &Summary,
) -> Conditions {
    let about = |explanation: &Explained<'_>| {
        let (clusters, cluster) = (&summary.clusters, explanation.cluster);
        let units = words.units;
        format!(
            "{version} on {clusters} {units}: {cluster}: {}",
            explanation.message()
        )
    };
    let Some(worst) = worst(explained) else {
        return match fault(explained) {
            Some(fault) => {
                let message = about(fault);
                Conditions::ready(Status::False, fault.reason, &*message).stalled(fault.reason, message)
            }
            None => at_rest(words, version, open, summary, explained),
        };
    };
    let message = about(worst);
    let new_conditions = Conditions::ready(Status::False, worst.reason, &*message);
    match phase {
        // Its row has been refused by the API server for too long.
        _ if worst.is_write_overdue() => new_conditions.stalled(worst.reason, message),
        Phase::Halted | Phase::Aborted => new_conditions.stalled(worst.reason, message),
        Phase::Idle | Phase::Rolling | Phase::Reverting | Phase::Paused | Phase::Done => {
            new_conditions.reconciling(ObjectReason::Progressing, message)
        }
    }
}

/// The cluster that keeps the module from being ready. A cluster that cannot or must not be changed does not: it is
/// counted as skipped or held.
fn worst<'a>(explained: &'a [Explained<'a>]) -> Option<&'a Explained<'a>> {
    let open = explained.iter().filter(|explanation| {
        !matches!(
            explanation.reason.bucket(),
            Bucket::Skipped | Bucket::Held | Bucket::Updated | Bucket::Excluded
        )
    });
    open.min_by_key(|explanation| {
        (
            urgency(explanation.reason),
            explanation.reason.rank(),
            explanation.cluster,
        )
    })
}

/// A cluster that is skipped because of the module itself: only a change of the module or of its dependencies fixes
/// that.
fn fault<'a>(explained: &'a [Explained<'a>]) -> Option<&'a Explained<'a>> {
    let faults = explained.iter().filter(|explanation| {
        matches!(
            explanation.reason,
            Reason::BindingFailed | Reason::NameConflict | Reason::SyncUnsupported
        )
    });
    faults.min_by_key(|explanation| (explanation.reason.rank(), explanation.cluster))
}

fn at_rest(
    words: &Vocabulary,
    version: &str,
    open: Option<&str>,
    summary: &Summary,
    explained: &[Explained<'_>],
) -> Conditions {
    let (Summary { total, updated, .. }, units) = (summary, words.units);
    if *total == 0 {
        return Conditions::ready(
            Status::True,
            words.none,
            format!("spec.selector selects no {} of this {}", words.unit, words.home),
        );
    }
    // A cluster that cannot be changed or is held may have the version, but is not known to be ready now.
    let ready = count(
        explained
            .iter()
            .filter(|explanation| explanation.reason == Reason::UpToDate),
    );
    let where_ = if ready == *updated {
        format!("ready on {updated} of {total} {units}")
    } else {
        format!("on {updated} of {total} {units}, ready on {ready}")
    };
    let apart = apart(explained, Bucket::Skipped, "skipped") + &apart(explained, Bucket::Held, "held");
    if ready == 0 {
        return Conditions::ready(
            Status::Unknown,
            ObjectReason::AllSkipped,
            format!("{version} is confirmed on none of {total} {units}{apart}"),
        );
    }
    let open = open.map_or_else(String::new, |open| {
        format!("; the rollout completes when it passes {open}")
    });
    Conditions::ready(
        Status::True,
        ObjectReason::Succeeded,
        format!("{version} is {where_}{apart}{open}"),
    )
}

/// The clusters that a finished rollout left out, and why.
fn apart(explained: &[Explained<'_>], bucket: Bucket, word: &str) -> String {
    let mut all: Vec<&Explained<'_>> = explained
        .iter()
        .filter(|explanation| explanation.reason.bucket() == bucket)
        .collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_unstable_by_key(|explanation| (explanation.reason.rank(), explanation.cluster));
    let more = all.len().saturating_sub(MAX_TOLD);
    let named = all.iter().take(MAX_TOLD);
    let named: Vec<String> = named
        .map(|explanation| format!("{} ({})", explanation.cluster, explanation.reason))
        .collect();
    format!("; {} {word}: {}{}", all.len(), named.join(", "), and_more(more))
}

fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// What a deletion waits for, and how to end that.
fn leaving<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    explained: &[Explained<'_>],
    attention: &[Attention],
    new_conditions: Conditions,
) -> Conditions {
    let left: Vec<&Explained<'_>> = explained
        .iter()
        .filter(|explanation| explanation.reason != Reason::Excluded)
        .collect();
    let held = left
        .iter()
        .find(|explanation| explanation.reason == Reason::WithdrawalHeld);
    let (reason, message) = match (held, left.first()) {
        (Some(held), _) => (
            Reason::WithdrawalHeld.as_str(),
            format!("being deleted: {}", held.message()),
        ),
        (None, None) => match observed.refused.iter().next() {
            Some((cluster, refused)) => (
                Reason::WriteFailed.as_str(),
                format!(
                    "being deleted: the row of {cluster} cannot be removed: {}",
                    refused.message
                ),
            ),
            None => (
                ObjectReason::Terminating.as_str(),
                "being deleted: nothing is left in any cluster".to_owned(),
            ),
        },
        (None, Some(first)) => {
            let begin = format!("being deleted: {} clusters still to be withdrawn", left.len());
            let rest = stuck(module, &left, attention)
                .unwrap_or_else(|| format!(", first {}: {}", first.cluster, first.message()));
            (ObjectReason::Terminating.as_str(), begin + &rest)
        }
    };
    new_conditions
        .with(conditions::READY, Status::False, reason, &*message)
        .with(conditions::RECONCILING, Status::True, reason, message)
}

/// The clusters that cannot be withdrawn now: which, why, since when, and how to abandon them; `None` if there are
/// none.
fn stuck<K: ModuleObject>(module: &K, left: &[&Explained<'_>], attention: &[Attention]) -> Option<String> {
    let stuck: Vec<&&Explained<'_>> = left
        .iter()
        .filter(|explanation| explanation.reason.is_ineligible())
        .collect();
    if stuck.is_empty() {
        return None;
    }
    let since = |explanation: &Explained<'_>| {
        let entry = attention
            .iter()
            .find(|entry| entry.cluster == explanation.cluster)?;
        entry.since.as_ref().map(|since| format!(" since {}", since.0))
    };
    let one = |explanation: &&&Explained<'_>| {
        let since = since(explanation).unwrap_or_default();
        format!(
            "{} ({}{since}: {})",
            explanation.cluster,
            explanation.reason,
            explanation.message()
        )
    };
    let described: Vec<String> = stuck.iter().take(MAX_TOLD).map(one).collect();
    let more = and_more(stuck.len().saturating_sub(MAX_TOLD));
    let names: Vec<&str> = stuck
        .iter()
        .take(MAX_NAMED)
        .map(|explanation| explanation.cluster)
        .collect();
    let (namespace, address) = (module.namespace().unwrap_or_default(), object_reference(module));
    let address = ModuleAddress {
        namespace: &namespace,
        module: &address,
    };
    let give_up = command(&address, annotation::ABANDON, Some(&names.join(",")));
    Some(format!(
        "; waiting for {}{more}, withdrawn once reachable or deleted; to abandon them and leave their objects in place: {give_up}",
        described.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_rollout::{Absence, Ineligible, UnitId, Why};

    use super::*;
    use crate::module::reasons::{Background, explain_reason, precedence};

    /// A cluster that cannot be changed shows only its reason.
    static NONE: BTreeMap<String, String> = BTreeMap::new();

    /// An engine reason that maps to this public one.
    fn why(reason: Reason) -> Why {
        let at = engine::Millis::seconds(1);
        match reason {
            Reason::Pinned => Why::Pinned { message: None },
            Reason::Updating => Why::Updating {
                since: at,
                until: None,
                picked_up: true,
                message: None,
            },
            Reason::WaitingTurn => Why::WaitingTurn {
                holders: [].into(),
                limit: 1,
            },
            Reason::Overdue => Why::Overdue { since: at },
            Reason::WriteFailed => Why::WriteFailed {
                since: at,
                overdue: true,
                message: "denied".into(),
            },
            Reason::UpToDate => Why::UpToDate,
            Reason::Excluded => Why::Excluded,
            _ => Why::Ineligible {
                reason: Ineligible {
                    code: reason.code(),
                    rank: precedence(reason),
                    absence: Absence::Skip,
                },
                since: None,
            },
        }
    }

    /// The Ready condition of a module with one cluster for each of these reasons: status, reason, and whether it is
    /// stalled.
    fn ready(reasons: &[Reason]) -> (String, String, bool) {
        let background = Background::plain(&NONE);
        let units: Vec<(UnitId, Why)> = reasons
            .iter()
            .map(|reason| (reason.as_str().into(), why(*reason)))
            .collect();
        let explained: Vec<Explained<'_>> = units
            .iter()
            .map(|(unit, why)| explain_reason(unit, why, &background))
            .collect();
        let given: Vec<Reason> = explained.iter().map(|explanation| explanation.reason).collect();
        assert_eq!(given, reasons);
        let total = count(
            explained
                .iter()
                .filter(|explanation| explanation.reason != Reason::Excluded),
        );
        let summary = Summary {
            total,
            ..Summary::default()
        };
        let conditions = ready_conditions(
            &Vocabulary::CLUSTERS,
            "v2",
            Phase::Done,
            &explained,
            None,
            &summary,
        )
        .merge(&[], 1, Timestamp::UNIX_EPOCH);
        let ready = conditions::find(&conditions, conditions::READY).unwrap().clone();
        (
            ready.status,
            ready.reason,
            conditions::is_true(&conditions, conditions::STALLED),
        )
    }

    /// Ready is True only where something was confirmed, and a fault of the module itself prevents it.
    #[test]
    fn ready_is_true_where_a_cluster_is_confirmed() {
        use Reason::{
            BindingFailed, ClusterPaused, ControlPlaneNotReady, CredentialsRejected, Deleting, Excluded,
            Held, KindMissing, KubeconfigRejected, NameConflict, NoKubeconfig, Overdue, Pinned,
            SyncUnsupported, Unreachable, UpToDate, Updating, WaitingTurn, WriteFailed,
        };
        let check = |reasons: &[Reason], status: &str, reason: &str, stalled: bool| {
            assert_eq!(
                ready(reasons),
                (status.to_owned(), reason.to_owned(), stalled),
                "{reasons:?}"
            );
        };
        check(&[], "True", "NoClusters", false);
        check(&[Excluded], "True", "NoClusters", false);
        check(&[UpToDate], "True", "Succeeded", false);
        let apart = [
            Deleting,
            ClusterPaused,
            ControlPlaneNotReady,
            NoKubeconfig,
            KubeconfigRejected,
            Unreachable,
            CredentialsRejected,
            KindMissing,
            Held,
            Pinned,
        ];
        for skipped in apart {
            check(&[skipped], "Unknown", "AllSkipped", false);
            check(&[skipped, UpToDate], "True", "Succeeded", false);
        }
        check(&apart, "Unknown", "AllSkipped", false);
        check(&[WriteFailed], "False", "WriteFailed", true);
        check(
            &[UpToDate, WriteFailed, WaitingTurn],
            "False",
            "WriteFailed",
            true,
        );
        for fault in [NameConflict, BindingFailed, SyncUnsupported] {
            check(&[fault], "False", fault.as_str(), true);
            check(&[fault, UpToDate, Unreachable], "False", fault.as_str(), true);
            check(&[fault, Updating], "False", "Updating", false);
        }
        check(&[UpToDate, WaitingTurn], "False", "WaitingTurn", false);
        check(&[UpToDate, Overdue, WaitingTurn], "False", "Overdue", false);
    }
}

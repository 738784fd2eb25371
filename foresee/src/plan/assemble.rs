//! Builds the plan of a module from both sides and the order in which clusters would change. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use muster_api::{
    ModuleRevision,
    assemblage::SyncRow,
    digest,
    module::{ModuleObject, OnDelete},
    reasons::Reason,
    revision::Verdict,
    rollout::{OnUnreachable, Rollout},
    selector::Matcher,
    sync::VerifyMode,
};
use muster_controllers::{
    module::{self, Prospect},
    registry::ClusterRow,
};
use muster_rollout::{Assignment, Content, RunState, Unit};
use serde_json::Value;

use super::{
    applier::Id,
    change::{self, Subject},
    fields,
    model::{Change, Field, ModulePlan, Move, Skipped, Target, Took},
    objects::Difference,
    order::Course,
    read,
    versions::Unknown,
};

/// How many past rollouts are used to estimate the duration of the next one.
const LATELY: usize = 5;

/// Everything that is known about one module.
pub(crate) struct Findings<'a, K> {
    /// Namespace of the module.
    pub namespace: &'a str,
    /// The Kustomization that prunes it.
    pub pruned: Option<&'a Id>,
    /// The module on both sides.
    pub subject: &'a Subject<K>,
    /// The commit before, if it is known.
    pub before: Option<String>,
    /// The commit after.
    pub after: Result<String, Unknown>,
    /// The clusters before.
    pub clusters_before: &'a [Arc<ClusterRow>],
    /// The clusters after.
    pub clusters_after: &'a [Arc<ClusterRow>],
    /// The input of the rollout decision.
    pub prospect: &'a Prospect,
    /// The predicted steps.
    pub course: &'a Course,
    /// The rows of clusters before; `None` if their inputs did not change.
    pub rows_before: Option<&'a BTreeMap<String, SyncRow>>,
    /// The changes of objects, as far as they are known.
    pub difference: Difference,
    /// The modules that take over its objects.
    pub moves: Vec<Move>,
    /// The changed modules that it depends on.
    pub after_modules: &'a [String],
    /// The revisions of all modules.
    pub revisions: &'a [ModuleRevision],
}

/// The plan of the module; `None` if nothing changes.
pub(crate) fn assemble<K: ModuleObject>(findings: &Findings<'_, K>) -> Option<ModulePlan> {
    let Findings {
        subject,
        course,
        prospect,
        ..
    } = findings;
    let name = kube::ResourceExt::name_any(&subject.after);
    let rollout = &subject.after.spec().rollout;
    let is_removed = subject.change == Some(Change::Removed);
    let before = selected(subject.before.as_ref(), findings.clusters_before);
    let selected = if is_removed {
        BTreeSet::new()
    } else {
        selected(Some(&subject.after), findings.clusters_after)
    };
    let joins: Vec<String> = selected.difference(&before).cloned().collect();
    let leaves: Vec<String> = before.difference(&selected).cloned().collect();
    let reads_else = findings
        .rows_before
        .is_some_and(|before| digests(before) != digests(&prospect.rows));
    let around = !joins.is_empty() || !leaves.is_empty() || reads_else;
    let change = subject.change.or_else(|| around.then_some(Change::Around))?;
    let is_known = findings.after.is_ok() && !is_removed;
    Some(ModulePlan {
        module: read::address(K::KIND, &name),
        namespace: findings.namespace.to_owned(),
        place: subject.origin.as_ref().map(ToString::to_string),
        change,
        from: subject
            .before
            .as_ref()
            .map(|before| target(before, findings.before.as_deref())),
        to: (!is_removed).then(|| target(&subject.after, findings.after.as_deref().ok())),
        fields: changed_fields(subject),
        skipped: skipped(prospect, course, rollout, &selected),
        warnings: warnings(findings, &selected),
        loses: loses(prospect, &findings.moves),
        moves: findings.moves.clone(),
        order: course.steps.clone(),
        objects: findings.difference.changes.clone(),
        digests: if is_known {
            digests(&prospect.rows)
        } else {
            BTreeMap::new()
        },
        took: took::<K>(findings.revisions, &name).filter(|_| !is_removed),
        selected: selected.into_iter().collect(),
        joins,
        leaves,
    })
}

/// The clusters that have the module, are no longer selected, and where no other module takes over.
fn loses(prospect: &Prospect, moves: &[Move]) -> Vec<String> {
    let carries = |unit: &&Unit| {
        let carries = |row: Assignment| matches!(row.content, Content::Carries { .. });
        !unit.selected() && unit.assigned.is_some_and(carries)
    };
    let moves = |cluster: &String| moves.iter().any(|to| to.clusters.contains(cluster));
    let leaving = prospect.units.iter().filter(carries);
    let clusters = leaving.map(|unit| unit.id.to_string());
    clusters.filter(|cluster| !moves(cluster)).collect()
}

fn digests(rows: &BTreeMap<String, SyncRow>) -> BTreeMap<String, String> {
    let digest = |(cluster, row): (&String, &SyncRow)| Some((cluster.clone(), row.digest.clone()?));
    rows.iter().filter_map(digest).collect()
}

/// The clusters that a module selects.
pub(crate) fn selected<K: ModuleObject>(
    module: Option<&K>,
    clusters: &[Arc<ClusterRow>],
) -> BTreeSet<String> {
    // A selector that cannot be parsed selects nothing; its error is reported elsewhere.
    let matcher = module.and_then(|module| Matcher::new(module.spec().selector.as_ref()).ok());
    let matching = clusters.iter().filter(|cluster| {
        matcher
            .as_ref()
            .is_some_and(|matcher| matcher.matches(&cluster.labels))
    });
    matching.map(|cluster| cluster.name.clone()).collect()
}

fn target<K: ModuleObject>(module: &K, commit: Option<&str>) -> Target {
    let spec = module.spec();
    Target {
        version: change::version(spec),
        revision: commit.map(|commit| digest::revision(commit, &spec.sync, &spec.control_plane_bindings)),
        commit: commit.map(str::to_owned),
    }
}

fn changed_fields<K: ModuleObject>(subject: &Subject<K>) -> Vec<Field> {
    let (Some(before), Some(Change::Changed)) = (&subject.before, subject.change) else {
        return Vec::new();
    };
    // A spec always serializes to JSON.
    let value = |module: &K| serde_json::to_value(module.spec()).unwrap_or(Value::Null);
    fields::between(&value(before), &value(&subject.after))
}

fn skipped(
    prospect: &Prospect,
    course: &Course,
    rollout: &Rollout,
    selected: &BTreeSet<String>,
) -> Vec<Skipped> {
    let mut all: BTreeMap<(Reason, String), Skipped> = BTreeMap::new();
    for (cluster, reason) in &course.finally {
        let left_out = *reason == Reason::Excluded && selected.contains(cluster);
        if *reason == Reason::UpToDate || *reason == Reason::Excluded && !left_out {
            continue;
        }
        let cluster_message = prospect
            .messages
            .iter()
            .find(|cluster_message| cluster_message.cluster == *cluster);
        let cluster_message =
            cluster_message.filter(|cluster_message| cluster_message.reason == *reason && !left_out);
        let message =
            cluster_message.map_or_else(String::new, |cluster_message| cluster_message.message.clone());
        // Clusters with different windows, or time zones, do not open together.
        let by_window = matches!(reason, Reason::WindowClosed | Reason::WindowInvalid);
        let apart = if by_window { message.clone() } else { String::new() };
        let skipped = all.entry((*reason, apart)).or_insert_with(|| Skipped {
            reason: *reason,
            outcome: outcome(*reason, rollout),
            message,
            clusters: Vec::new(),
        });
        skipped.clusters.push(cluster.clone());
    }
    all.into_values().collect()
}

/// How the rollout treats a cluster with this final reason.
fn outcome(reason: Reason, rollout: &Rollout) -> String {
    let text = match (reason, rollout.on_unreachable) {
        (Reason::Unreachable | Reason::CredentialsRejected, OnUnreachable::Skip) => {
            "skipped until it is back (onUnreachable: Skip)"
        }
        (Reason::Unreachable | Reason::CredentialsRejected, OnUnreachable::Wait) => {
            "the rollout waits for it (onUnreachable: Wait)"
        }
        (Reason::Unreachable | Reason::CredentialsRejected, OnUnreachable::Fail) => {
            "skipped until it is back; if it disappears during its update, it counts as failed (onUnreachable: Fail)"
        }
        (Reason::Held, _) => "stays as it is until it is released",
        (Reason::Pinned, _) => "stays at its pinned revision",
        (Reason::KnownBad | Reason::Halted, _) => "refused",
        (Reason::Aborted, _) => "not started",
        (Reason::BindingFailed | Reason::NameConflict, _) => "skipped until that is fixed",
        (Reason::Excluded, _) => "excluded: no stage selects it (unmatched: Exclude)",
        (Reason::DependencyBehind | Reason::WindowClosed | Reason::WindowInvalid, _) => "waits",
        (
            Reason::WaitingStage
            | Reason::WaitingApproval
            | Reason::WaitingGate
            | Reason::WaitingBatch
            | Reason::WaitingDomain
            | Reason::WaitingTurn
            | Reason::SourceNotReady
            | Reason::VerificationFailed
            | Reason::Paused,
            _,
        ) => "its turn is not reached",
        _ => "skipped until that is over",
    };
    text.to_owned()
}

fn warnings<K: ModuleObject>(findings: &Findings<'_, K>, selected: &BTreeSet<String>) -> Vec<String> {
    let Findings {
        subject, prospect, ..
    } = findings;
    let spec = subject.after.spec();
    let removed = subject.change == Some(Change::Removed);
    let mut warnings = Vec::new();
    if let Some(wrong) = &prospect.wrong {
        warnings.push(wrong.clone());
    }
    if let Some(id) = findings.pruned {
        warnings.push(format!("{id} prunes it: the directory no longer has it"));
    }
    match spec.on_delete.filter(|_| removed) {
        Some(OnDelete::Orphan) => {
            warnings.push("its objects stay in the clusters (onDelete: Orphan)".to_owned());
        }
        Some(OnDelete::Withdraw) => {
            warnings.push("the brake does not hold it: onDelete: Withdraw is explicit".to_owned());
        }
        None => {}
    }
    if spec.suspend && !removed {
        warnings.push("spec.suspend is true: nothing is assigned or withdrawn".to_owned());
    } else if prospect.spec.paused {
        warnings.push(format!(
            "it is paused: nothing starts before it is resumed (muster rollout resume {}); the order applies after that",
            read::address(K::KIND, &kube::ResourceExt::name_any(&subject.after))
        ));
    }
    if let (Err(unknown), false) = (&findings.after, removed) {
        warnings.push(format!(
            "the commit of {} is not known: {unknown}; the order is that of a new revision",
            change::version(spec)
        ));
    }
    let verify = spec.sync.source.git().and_then(|git| git.verify.as_ref());
    if let Some(verify) = verify.filter(|_| !removed && module::resolved(&subject.after).is_none()) {
        warnings.push(format!(
            "{} of {} must be signed by a key of Secret {}: the controller verifies that before any assignment, a plan does not",
            if verify.mode == VerifyMode::Tag { "the tag" } else { "the commit" },
            change::version(spec),
            verify.secret_ref.name
        ));
    }
    if selected.is_empty() && !removed {
        warnings.push("its selector matches no cluster".to_owned());
    }
    let running = prospect.memory.run.filter(|run| run.state == RunState::Open);
    if running.is_some_and(|run| Some(run.target) != prospect.spec.target) && !removed {
        warnings.push("a rollout is in progress, and this one would replace it".to_owned());
    }
    let unknown = findings.difference.unknown.iter();
    warnings.extend(unknown.map(|why| format!("objects unknown: {why}")));
    if !findings.after_modules.is_empty() {
        warnings.push(format!(
            "in each cluster it is updated after {}, which it depends on",
            findings.after_modules.join(", ")
        ));
    }
    warnings
}

fn took<K: ModuleObject>(revisions: &[ModuleRevision], name: &str) -> Option<Took> {
    let own = revisions.iter().filter(|revision| {
        let module = &revision.spec.module_ref;
        module.kind == K::KIND && module.name == name
    });
    let mut good: Vec<(jiff::Timestamp, u64)> = own
        .filter_map(|revision| revision.status.as_ref())
        .flat_map(|status| {
            let last = (status.verdict, status.started.as_ref(), status.finished.as_ref());
            let first = status.first.as_ref();
            let first = first.map(|first| (first.verdict, Some(&first.started), first.finished.as_ref()));
            first.into_iter().chain([last])
        })
        .filter_map(|(verdict, started, finished)| {
            let (started, finished) = (started?.0, finished?.0);
            let seconds = u64::try_from(finished.duration_since(started).as_secs()).ok()?;
            // A rollout that found its version everywhere changed nothing, and gives no estimate for one that does.
            (verdict == Some(Verdict::Good) && seconds > 0).then_some((finished, seconds))
        })
        .collect();
    good.sort_unstable();
    let lately: Vec<u64> = good
        .iter()
        .rev()
        .take(LATELY)
        .map(|(_, seconds)| *seconds)
        .collect();
    Some(Took {
        rollouts: lately.len(),
        shortest_seconds: *lately.iter().min()?,
        longest_seconds: *lately.iter().max()?,
    })
}

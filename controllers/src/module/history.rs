//! ModuleRevisions: each revision in full, and its history.
//!
//! The content is written once, before anything of a revision is assigned: a cluster that joins later gets the last
//! good one from here. The history is derived from the engine's memory, not from single decisions, so that a crash
//! cannot lose it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use muster_api::{
    conditions::{Conditions, READY, Status, bounded, find},
    labels::{self, label},
    module::{ModuleObject, Summary},
    reasons::{ObjectReason, Reason},
    revision::{
        Evidence, FirstRollout, ModuleReference, ModuleRevision, ModuleRevisionSpec, ModuleRevisionStatus,
        Verdict,
    },
    schema::{MAX_ATTENTION, MAX_MESSAGE},
};
use muster_driver::Verdicts;
use muster_rollout::{Memory, Millis, Revision, RunState};
use parking_lot::Mutex;

use super::{
    Error,
    controls::Controls,
    facts::{Definition, RevisionRow},
};
use crate::{
    reconcile::Context,
    runtime::{Api, Index, Key, call, status::patch_if_changed},
};

/// Bad revisions of one module that are kept regardless of `historyLimit`; equal to the maximum of that field.
const MOST_BAD: usize = 100;

/// The ModuleRevisions of all modules of one kind.
pub(crate) struct History {
    rows: Arc<Index<ModuleRevision, RevisionRow>>,
    /// The contents that were requested, by module and revision, as long as they are recorded. Contents are immutable,
    /// so an entry is never stale.
    contents: Mutex<BTreeMap<Key, BTreeMap<String, Definition>>>,
}

impl History {
    /// The revisions of modules of kind `K`.
    pub(crate) fn of<K: ModuleObject>() -> Self {
        let rows = Index::new(
            |revision: &ModuleRevision| {
                (revision.spec.module_ref.kind == K::KIND).then(|| revision_row(revision))
            },
            |key: &Key, row: &RevisionRow| vec![Key::new(&key.namespace, &row.module)],
        );
        Self {
            rows: Arc::new(rows),
            contents: Mutex::default(),
        }
    }

    /// The index, filled by a watch.
    pub(crate) fn rows(&self) -> Arc<Index<ModuleRevision, RevisionRow>> {
        Arc::clone(&self.rows)
    }

    /// The revisions of a module, by name of the ModuleRevision.
    pub(crate) fn about(&self, module: &Key) -> BTreeMap<String, RevisionRow> {
        self.rows.about(module).into_iter().collect()
    }

    /// A revision of a module in full, found by the engine's short form of its hash.
    pub(crate) async fn definition(
        &self,
        module: &Key,
        revision: &str,
        context: &Context,
    ) -> Result<Option<Definition>, Error> {
        let is_it = |known: &&Definition| known.revision.starts_with(revision);
        let known = self
            .contents
            .lock()
            .get(module)
            .and_then(|all| all.values().find(is_it).cloned());
        if known.is_some() {
            return Ok(known);
        }
        let rows = self.about(module);
        let Some((name, _)) = rows.iter().find(|(_, row)| row.revision.starts_with(revision)) else {
            return Ok(None);
        };
        let revisions: Api<ModuleRevision> = Api::namespaced(context.client.clone(), &module.namespace);
        let found = call(
            format!("reading ModuleRevision {}/{name}", module.namespace),
            revisions.get_opt(name),
        )
        .await?;
        let definition = found.map(|found| Definition::from(found.spec));
        if let Some(definition) = &definition {
            let mut contents = self.contents.lock();
            let all = contents.entry(module.clone()).or_default();
            all.retain(|known, _| rows.values().any(|row| row.revision == *known));
            all.insert(definition.revision.clone(), definition.clone());
        }
        Ok(definition)
    }

    /// Drops the entries of a deleted module.
    pub(crate) fn drop_module(&self, module: &Key) {
        self.contents.lock().remove(module);
    }
}

pub(super) fn revision_row(revision: &ModuleRevision) -> RevisionRow {
    RevisionRow {
        module: revision.spec.module_ref.name.clone(),
        revision: revision.spec.revision.clone(),
        uid: revision.uid().unwrap_or_default(),
        created: revision.creation_timestamp().map(|created| created.0),
        status: revision.status.clone().unwrap_or_default(),
    }
}

/// The ModuleRevision of a definition, owned by its module.
pub(crate) fn revision_object<K: ModuleObject>(module: &K, definition: &Definition) -> ModuleRevision {
    let Definition {
        revision,
        commit,
        sync,
        control_plane_bindings,
        given: _,
    } = definition.clone();
    let spec = ModuleRevisionSpec {
        module_ref: ModuleReference {
            kind: K::KIND,
            name: module.name_any(),
            uid: module.uid(),
        },
        revision,
        commit,
        sync,
        control_plane_bindings,
    };
    let words = [
        (label::MODULE, module.name_any()),
        (label::MODULE_KIND, K::KIND.to_string()),
        (label::MANAGED_BY, labels::MUSTER.to_owned()),
        (label::APP_MANAGED_BY, labels::MUSTER.to_owned()),
    ];
    let name = revision_name(module, &spec.revision);
    let mut object = ModuleRevision::new(&name, spec);
    object.metadata = ObjectMeta {
        namespace: module.namespace(),
        labels: Some(words.map(|(key, value)| (key.to_owned(), value)).into()),
        owner_references: module.owner_ref(&()).map(|owner| vec![owner]),
        ..object.metadata
    };
    object
}

/// Creates the ModuleRevision unless it exists.
pub(crate) async fn record_revision(object: &ModuleRevision, context: &Context) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    let revisions: Api<ModuleRevision> = Api::namespaced(context.client.clone(), &namespace);
    let parameters = PostParams {
        field_manager: Some(labels::manager::CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    let what = format!("creating ModuleRevision {namespace}/{}", object.name_any());
    match call(what, revisions.create(&parameters, object)).await {
        Ok(_) => Ok(()),
        // The name is a pure function of module and content: an existing object is the same.
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The changed histories, by name of the ModuleRevision: pure.
pub(crate) fn changed_stories(
    revisions: &BTreeMap<String, RevisionRow>,
    memory: &Memory,
    counts: &Summary,
    controls: &Controls,
    skipped: &BTreeMap<String, Vec<String>>,
    now: Timestamp,
) -> BTreeMap<String, ModuleRevisionStatus> {
    let changed = revisions.iter().filter_map(|(name, row)| {
        let mut status = story(row, memory, counts, controls, now)?;
        for entry in skipped.get(&row.revision).into_iter().flatten() {
            let entry = bounded(entry, MAX_MESSAGE).into_owned();
            if !status.skipped.contains(&entry) && status.skipped.len() < MAX_ATTENTION {
                status.skipped.push(entry);
            }
        }
        (status != row.status).then(|| (name.clone(), status))
    });
    changed.collect()
}

/// The verdict on a revision from the memory, given that its record has verdict `before` and whether its rollout
/// `began`.
pub(crate) fn revision_verdict(
    memory: &Memory,
    revision: Revision,
    before: Option<Verdict>,
    began: bool,
) -> Option<Verdict> {
    let run = memory.run.filter(|run| run.target == revision);
    match (memory.verdict(revision), run, before) {
        (Some(muster_rollout::Verdict::Bad), ..) => Some(Verdict::Bad),
        (Some(muster_rollout::Verdict::Good), ..) => Some(Verdict::Good),
        (None, Some(run), _) if run.state == RunState::Aborted => Some(Verdict::Aborted),
        (None, Some(_), _) => None,
        (None, None, Some(verdict)) => Some(verdict),
        // It had a run, which another one replaced; without a run there is no history.
        (None, None, None) => began.then_some(Verdict::Superseded),
    }
}

fn story(
    row: &RevisionRow,
    memory: &Memory,
    counts: &Summary,
    controls: &Controls,
    now: Timestamp,
) -> Option<ModuleRevisionStatus> {
    let revision = Revision::parse(&row.revision)?;
    let run = memory.run.filter(|run| run.target == revision);
    let verdict = revision_verdict(memory, revision, row.status.verdict, row.status.started.is_some());
    let mut status = row.status.clone();
    let open = run.is_some_and(|run| run.state == RunState::Open);
    if let Some(run) = run {
        let began = time(run.started);
        if let Some(before) = status
            .started
            .take()
            .filter(|before| !same_second(before, &began))
        {
            // It is rolled out again, which may finish at once if every cluster already has it. The first rollout stays
            // recorded.
            let finished = status.finished.take();
            let counts = status.counts.take();
            status.first.get_or_insert_with(|| FirstRollout {
                started: before,
                finished,
                verdict: row.status.verdict,
                clusters: counts.map(|counts| counts.clusters),
            });
        }
        status.started = Some(began);
    }
    if open {
        (status.finished, status.counts) = (None, None);
    } else if verdict.is_some() && status.finished.is_none() {
        (status.finished, status.counts) = (Some(Time(now)), Some(counts.clone()));
    }
    status.observed_generation = Some(1);
    let recorded = memory.course.recorded.as_ref().filter(|_| run.is_some());
    status.evidence = match memory.bad.get(&revision).or(recorded) {
        Some(bad) => vec![Evidence {
            cluster: bad.unit.to_string(),
            at: Some(time(bad.at)),
            message: bad.message.to_string(),
        }],
        // It is retried: earlier observations no longer apply.
        None if open => Vec::new(),
        None => status.evidence,
    };
    status.verdict = verdict;
    let aborted = aborted_by(row, &controls.aborted(&row.revision));
    status.conditions = conditions(verdict, &status, aborted).merge(&row.status.conditions, 1, now);
    Some(status)
}

/// Compares to the second: times in objects are whole seconds, the engine's are finer.
fn same_second(one: &Time, other: &Time) -> bool {
    one.0.as_second() == other.0.as_second()
}

/// Who aborted its rollout. The annotation may be removed: what was recorded once stays.
fn aborted_by(row: &RevisionRow, aborted: &str) -> String {
    let recorded =
        find(&row.status.conditions, READY).filter(|ready| ready.reason == Reason::Aborted.as_str());
    match recorded {
        Some(condition) if aborted.is_empty() => condition.message.clone(),
        _ if aborted.is_empty() => "ended by a person".to_owned(),
        _ => format!("aborted{aborted}"),
    }
}

fn conditions(verdict: Option<Verdict>, status: &ModuleRevisionStatus, aborted: String) -> Conditions {
    let evidence = || {
        status.evidence.first().map_or_else(String::new, |first| {
            format!("{}: {}", first.cluster, first.message)
        })
    };
    match verdict {
        Some(Verdict::Good) => Conditions::ready(
            Status::True,
            ObjectReason::Succeeded,
            "confirmed on every eligible selected cluster",
        ),
        Some(Verdict::Bad) => Conditions::ready(Status::False, Reason::KnownBad, evidence()),
        Some(Verdict::Aborted) => Conditions::ready(Status::False, Reason::Aborted, aborted),
        Some(Verdict::Superseded) => Conditions::ready(
            Status::False,
            ObjectReason::Progressing,
            "another revision replaced it before it finished",
        ),
        None => Conditions::ready(
            Status::False,
            ObjectReason::Progressing,
            "its rollout is under way",
        )
        .reconciling(ObjectReason::Progressing, "its rollout is under way"),
    }
}

/// Writes the history of a revision, and publishes the event of its end.
pub(crate) async fn write_history(
    namespace: &str,
    name: &str,
    row: &RevisionRow,
    status: &ModuleRevisionStatus,
    context: &Context,
) -> Result<(), Error> {
    let revisions: Api<ModuleRevision> = Api::namespaced(context.client.clone(), namespace);
    let Some(revision) = call(
        format!("reading ModuleRevision {namespace}/{name}"),
        revisions.get_opt(name),
    )
    .await?
    else {
        return Ok(());
    };
    if revision.uid().as_ref() == Some(&row.uid) {
        let written = patch_if_changed(
            &revisions,
            &revision,
            revision.status.as_ref(),
            status,
            labels::manager::CONTROLLER,
        )
        .await?;
        // The write tests the observed version, so it succeeds only once and nothing is counted twice.
        if written.is_some()
            && let Some((verdict, took)) = ended(revision.status.as_ref(), status)
        {
            context
                .metrics
                .rollout_ended(revision.spec.module_ref.kind.as_str(), verdict, took);
        }
    }
    Ok(())
}

/// The verdict and duration of a rollout that ended between two histories of a revision.
fn ended(before: Option<&ModuleRevisionStatus>, after: &ModuleRevisionStatus) -> Option<(Verdict, Duration)> {
    let was_over = before.is_some_and(|before| before.finished.is_some());
    let (started, finished) = (after.started.as_ref()?, after.finished.as_ref()?);
    // Clocks may differ: no rollout ends before it started.
    let took = Duration::try_from(finished.0.duration_since(started.0)).unwrap_or_default();
    after.verdict.filter(|_| !was_over).map(|verdict| (verdict, took))
}

/// The revisions beyond the limit, oldest first. The desired ones (target or pin), the last good one and the bad ones
/// are kept.
pub(crate) fn surplus_revisions(
    revisions: &BTreeMap<String, RevisionRow>,
    memory: &Memory,
    wanted: &BTreeSet<&str>,
    limit: u32,
) -> Vec<String> {
    let bad = newest_bad(revisions);
    let kept = |row: &RevisionRow| {
        let revision = Revision::parse(&row.revision);
        wanted.contains(row.revision.as_str())
            || bad.contains(row.revision.as_str())
            || revision.is_some_and(|revision| {
                memory.verdict(revision).is_some()
                    || memory
                        .run
                        .is_some_and(|run| run.target == revision || run.from == Some(revision))
            })
    };
    let excess = revisions
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut old: Vec<(&String, &RevisionRow)> = revisions.iter().filter(|(_, row)| !kept(row)).collect();
    old.sort_by_key(|(name, row)| (row.created, (*name).clone()));
    old.into_iter()
        .take(excess)
        .map(|(name, _)| name.clone())
        .collect()
}

/// The newest bad revisions, as many as are ever kept: more than the engine remembers.
fn newest_bad(revisions: &BTreeMap<String, RevisionRow>) -> BTreeSet<&str> {
    let bad = revisions
        .values()
        .filter(|row| row.status.verdict == Some(Verdict::Bad));
    let mut bad: Vec<&RevisionRow> = bad.collect();
    bad.sort_by_key(|row| Reverse((row.status.finished.as_ref().map(|time| time.0), row.created)));
    bad.into_iter()
        .take(MOST_BAD)
        .map(|row| row.revision.as_str())
        .collect()
}

/// The verdicts recorded in ModuleRevisions: a lost memory is rebuilt from them and from the rows (W7).
pub(crate) fn recorded_verdicts(revisions: &BTreeMap<String, RevisionRow>) -> Verdicts {
    let judged = |verdict: Verdict| {
        revisions
            .values()
            .filter(move |row| row.status.verdict == Some(verdict))
    };
    let last_good = judged(Verdict::Good)
        .max_by_key(|row| (row.status.finished.as_ref().map(|time| time.0), &row.revision));
    let bad = judged(Verdict::Bad).filter_map(|row| Some((Revision::parse(&row.revision)?, remembered(row))));
    Verdicts {
        last_good: last_good.and_then(|row| Revision::parse(&row.revision)),
        bad: bad.collect(),
    }
}

fn remembered(row: &RevisionRow) -> muster_rollout::Evidence {
    let first = row.status.evidence.first();
    let at = first
        .and_then(|first| first.at.as_ref())
        .and_then(|at| u64::try_from(at.0.as_millisecond()).ok());
    muster_rollout::Evidence {
        unit: first.map_or("", |first| &first.cluster).into(),
        message: first.map_or("", |first| &first.message).into(),
        at: Millis(at.unwrap_or(0)),
    }
}

/// Deletes a revision that is beyond the limit.
pub(crate) async fn delete_revision(
    namespace: &str,
    name: &str,
    row: &RevisionRow,
    context: &Context,
) -> Result<(), Error> {
    let revisions: Api<ModuleRevision> = Api::namespaced(context.client.clone(), namespace);
    let preconditions = Preconditions {
        uid: Some(row.uid.clone()),
        resource_version: None,
    };
    let parameters = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match call(
        format!("deleting ModuleRevision {namespace}/{name}"),
        revisions.delete(name, &parameters),
    )
    .await
    {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn time(at: Millis) -> Time {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Time(Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
}

/// The name of the ModuleRevision of a revision of this module.
pub(crate) fn revision_name<K: ModuleObject>(module: &K, revision: &str) -> String {
    muster_api::names::module_revision_name(
        K::KIND,
        &module.namespace().unwrap_or_default(),
        &module.name_any(),
        revision,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn rows(digits: &str) -> BTreeMap<String, RevisionRow> {
        let row = |(age, digit): (usize, char)| {
            let row = RevisionRow {
                module: "web".to_owned(),
                revision: revision(digit),
                uid: digit.to_string(),
                created: Timestamp::from_second(i64::try_from(age).unwrap()).ok(),
                status: ModuleRevisionStatus::default(),
            };
            (format!("web-{digit}"), row)
        };
        digits.chars().enumerate().map(row).collect()
    }

    fn memory(target: char, state: RunState, good: Option<char>) -> Memory {
        let parsed = |digit| Revision::parse(&revision(digit)).unwrap();
        let run = muster_rollout::Run {
            id: 1,
            target: parsed(target),
            from: None,
            started: Millis::seconds(5),
            state,
        };
        Memory {
            run: Some(run),
            last_good: good.map(parsed),
            ..Memory::default()
        }
    }

    #[test]
    fn the_oldest_go_first_and_target_pinned_last_good_and_bad_ones_stay() {
        let mut memory = memory('a', RunState::Open, Some('b'));
        let evidence = muster_rollout::Evidence {
            unit: "eu-1".into(),
            message: "m".into(),
            at: Millis(0),
        };
        memory
            .bad
            .insert(Revision::parse(&revision('c')).unwrap(), evidence);
        let (target, pinned) = (revision('a'), revision('e'));
        let check = |limit, expect: &[&str]| {
            assert_eq!(
                surplus_revisions(
                    &rows("cbadefg"),
                    &memory,
                    &BTreeSet::from([&*target, &pinned]),
                    limit
                ),
                expect,
                "limit {limit}"
            );
        };
        check(7, &[]);
        check(6, &["web-d"]);
        check(1, &["web-d", "web-f", "web-g"]);
    }

    #[test]
    fn the_condemned_are_kept_though_the_engine_has_forgotten_them() {
        let digits = "0123456789abcdef";
        let mut rows = rows(digits);
        for row in rows.values_mut() {
            row.status.verdict = Some(Verdict::Bad);
        }
        let memory = memory('f', RunState::Good, Some('f'));
        assert_eq!(
            surplus_revisions(&rows, &memory, &BTreeSet::new(), 1),
            Vec::<String>::new()
        );
        let more = (0..MOST_BAD).map(|number| {
            let row = RevisionRow {
                revision: format!("{number:063}a"),
                created: Timestamp::from_second(1_000).ok(),
                ..rows["web-0"].clone()
            };
            (format!("more-{number:03}"), row)
        });
        rows.extend(more.collect::<Vec<_>>());
        assert_eq!(
            surplus_revisions(&rows, &memory, &BTreeSet::new(), 1).len(),
            digits.len() - 1
        );
    }

    #[test]
    fn what_is_tried_again_has_no_evidence_of_before() {
        let mut rows = rows("a");
        let status = &mut rows.get_mut("web-a").unwrap().status;
        status.verdict = Some(Verdict::Bad);
        status.evidence = vec![Evidence {
            cluster: "eu-1".to_owned(),
            at: None,
            message: "m".to_owned(),
        }];
        let changed = changed_stories(
            &rows,
            &memory('a', RunState::Open, None),
            &Summary::default(),
            &Controls::default(),
            &BTreeMap::new(),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            (changed["web-a"].verdict, changed["web-a"].evidence.len()),
            (None, 0)
        );
    }

    #[test]
    fn revision_history_follows_the_memory_and_is_written_once() {
        let now = Timestamp::from_second(60).unwrap();
        let counts = Summary {
            total: 2,
            ..Summary::default()
        };
        let mut rows = rows("ab");
        let mut apply = |memory: &Memory| {
            let changed = changed_stories(
                &rows,
                memory,
                &counts,
                &Controls::default(),
                &BTreeMap::new(),
                now,
            );
            for (name, status) in &changed {
                rows.get_mut(name).unwrap().status = status.clone();
            }
            let again = changed_stories(
                &rows,
                memory,
                &counts,
                &Controls::default(),
                &BTreeMap::new(),
                now,
            );
            let histories = changed.into_iter().map(|(name, status)| {
                (
                    name,
                    status.verdict,
                    status.started.is_some(),
                    status.finished.is_some(),
                )
            });
            (histories.collect::<Vec<_>>(), again.len())
        };
        let (histories, again) = apply(&memory('a', RunState::Open, None));
        assert_eq!(histories[0], ("web-a".to_owned(), None, true, false));
        assert_eq!(again, 0, "recorded once");
        let (histories, _) = apply(&memory('a', RunState::Good, Some('a')));
        assert_eq!(histories, [("web-a".to_owned(), Some(Verdict::Good), true, true)]);
        let (histories, _) = apply(&memory('b', RunState::Open, Some('a')));
        assert_eq!(
            histories,
            [("web-b".to_owned(), None, true, false)],
            "the last good one keeps its verdict"
        );
        let (histories, _) = apply(&memory('a', RunState::Good, Some('a')));
        let b = histories.iter().find(|(name, ..)| name == "web-b").unwrap();
        assert_eq!(b.1, Some(Verdict::Superseded));
    }

    #[test]
    fn a_revision_that_is_rolled_out_again_keeps_its_first_rollout() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let counts = Summary {
            clusters: "4/5".to_owned(),
            ..Summary::default()
        };
        let mut rows = rows("a");
        let mut apply = |started: u64, state, now| {
            let mut memory = memory('a', state, Some('a'));
            memory.run.as_mut().unwrap().started = Millis(started * 1_000 + 7);
            let changed = changed_stories(
                &rows,
                &memory,
                &counts,
                &Controls::default(),
                &BTreeMap::new(),
                at(now),
            );
            if let Some(status) = changed.get("web-a") {
                // As the API server returns it.
                let read = serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap();
                rows.get_mut("web-a").unwrap().status = read;
            }
            let status = rows["web-a"].status.clone();
            let span = |from: &Time, to: Option<&Time>| (from.0.as_second(), to.map(|to| to.0.as_second()));
            let first = status.first.as_ref();
            (
                span(status.started.as_ref().unwrap(), status.finished.as_ref()),
                first.map(|first| span(&first.started, first.finished.as_ref())),
                first.and_then(|first| Some((first.verdict?, first.clusters.clone()?))),
            )
        };
        assert_eq!(apply(10, RunState::Open, 10), ((10, None), None, None));
        assert_eq!(apply(10, RunState::Good, 70), ((10, Some(70)), None, None));
        assert_eq!(apply(10, RunState::Good, 80), ((10, Some(70)), None, None));
        // The engine found every cluster at it already: it started and finished in one decision.
        let first = Some((10, Some(70)));
        let good = Some((Verdict::Good, "4/5".to_owned()));
        assert_eq!(
            apply(100, RunState::Good, 100),
            ((100, Some(100)), first, good.clone())
        );
        assert_eq!(
            apply(200, RunState::Open, 200),
            ((200, None), first, good.clone())
        );
        assert_eq!(apply(200, RunState::Good, 260), ((200, Some(260)), first, good));
    }

    #[test]
    fn a_lost_memory_remembers_verdicts() {
        let mut rows = rows("abc");
        rows.get_mut("web-a").unwrap().status.verdict = Some(Verdict::Good);
        rows.get_mut("web-b").unwrap().status.verdict = Some(Verdict::Bad);
        let memory = muster_driver::rebuild(&[], recorded_verdicts(&rows), Millis(0));
        assert_eq!(memory.last_good, Revision::parse(&revision('a')));
        assert!(memory.is_bad(Revision::parse(&revision('b')).unwrap()));
        assert!(!memory.is_bad(Revision::parse(&revision('c')).unwrap()));
    }
}

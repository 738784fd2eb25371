//! The pure step: from what was observed to what is to be written.

use std::{cell::LazyCell, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncRow, Withdraw},
    evidence::Progress,
    module::{ModuleObject, ModuleStatus, ReasonGroup},
    reasons::{ObjectReason, Reason},
    revision::ModuleRevision,
    rollout::FailureAction,
};
use muster_rollout::{self as engine, How, Memory, Millis, Step, Why, record::Case};

use super::{
    dependencies::Standing,
    events,
    gates::{self, Gates},
    heard, history,
    intent::{Change, Intent},
    observe::{CarrierSeen, ClusterSeen, Observation, Target},
    reasons::{self, Background, Explained},
    refusals,
    rows::{Asks, SeenRow},
    status,
    units::{self, Contents},
};
use crate::{gates::Question, runtime::Event};

/// How often a status is written that says something new of clusters and of nothing else.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// What is to be written about one module, in this order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The content of the target, if it is not on record: written before anything of it is assigned.
    pub record: Option<Box<ModuleRevision>>,
    /// Status and memory: written by compare-and-swap before any row is touched (W2).
    pub status: Box<ModuleStatus>,
    /// What becomes of rows.
    pub intents: Vec<Intent>,
    /// The rows that were refused and that are still to be written, now or later.
    pub refused: refusals::Rows,
    /// Told once the memory stands.
    pub events: Vec<Event>,
    /// Controls that took effect: the annotation, and what is told of it once the memory stands.
    pub applied: Vec<(&'static str, Event)>,
    /// Stories of revisions that are to be told differently.
    pub stories: BTreeMap<String, muster_api::revision::ModuleRevisionStatus>,
    /// Revisions beyond the history limit.
    pub forget: Vec<String>,
    /// Clusters whose assemblage is to be made without rows, so that their agents can report what they can.
    pub introduce: Vec<String>,
    /// Gates that are to be read.
    pub questions: Vec<Question>,
    /// The module is being deleted and nothing of it is left in any row.
    pub release: bool,
    /// How it stands, for modules that it is tied to. None: there are none, or that cannot be said.
    pub standing: Option<Standing>,
    /// When time alone will change something.
    pub wake_at: Option<Timestamp>,
    /// The status is written for nothing but what it says of clusters.
    pub reports: bool,
    /// What the engine was asked, and what it said. None: it was not.
    pub asked: Option<Box<Asked>>,
}

/// What the engine was asked about the units in sight, and what it said.
#[derive(Clone, Debug)]
pub struct Asked {
    now: Millis,
    spec: engine::Spec,
    memory: Memory,
    decision: engine::Decision,
}

impl Asked {
    /// As it is put on record.
    pub fn case(self, units: &[engine::Unit]) -> Case {
        let Self {
            now,
            spec,
            memory,
            decision,
        } = self;
        Case {
            now,
            spec,
            memory,
            units: units.to_vec(),
            decision,
        }
    }
}

/// Decides about one module.
pub fn decide<K: ModuleObject>(
    module: &K,
    seen: &Observation,
    now: Timestamp,
) -> Result<Plan, serde_json::Error> {
    if seen.invalid.is_some() || (module.spec().suspend && !seen.deleting) {
        return Ok(Plan::only(status::idle(module, seen, now), module.status()));
    }
    let name = module.name_any();
    let units = &seen.sight.units;
    let memory = remembered(seen, &units.all, millis(now));
    let spec = units::spec(module.spec(), seen, now);
    let decision = engine::plan(&spec, &memory, &units.all, millis(now));
    let background = background(module, seen, &decision, now);
    let told = explain(&decision, &background);
    let open = open(module, seen, &decision);
    let status = status::rolling(module, seen, &decision, &told, open.as_deref(), now)?;
    let counts = status.summary.clone().unwrap_or_default();
    let before = &seen.memory.memory;
    let intents = intents(&name, &decision, &units.contents, seen);
    let refused = refusals::left(&seen.refused, &intents);
    let intents: Vec<Intent> = intents
        .into_iter()
        .filter(|intent| refusals::again(&refused, intent, now).is_none())
        .collect();
    let mut events = events::between(
        before,
        &decision,
        &told,
        &status,
        module.status(),
        &background.aborted,
    );
    events.extend(gates::events(before, &decision.memory, &seen.gates));
    let mut applied = events::applied(&seen.controls, before, &decision, &status, module.status(), now);
    for (control, event) in heard::news(&status.controls, module.status()) {
        match control {
            Some(control) => applied.push((control, event)),
            None => events.push(event),
        }
    }
    let plan = Plan {
        record: record(module, seen),
        events,
        applied,
        standing: seen.ties.any().then(|| standing(module, seen, &told, &intents)),
        intents,
        stories: history::stories(&seen.revisions, &decision.memory, &counts, &seen.controls, now),
        forget: forget(module, seen, &decision.memory),
        introduce: introduce(seen, &decision),
        questions: gates::questions(module, &decision),
        release: seen.deleting && seen.clusters().iter().all(ClusterSeen::has_nothing),
        wake_at: wake_at(&decision, seen, &refused, now),
        refused,
        status: Box::new(status),
        asked: Some(Box::new(Asked {
            now: millis(now),
            spec,
            memory,
            decision,
        })),
        reports: false,
    };
    Ok(plan.paced(module.status(), seen.reported_at, now))
}

impl Plan {
    /// Whether some cluster is to get something.
    pub fn assigns(&self) -> bool {
        self.intents.iter().any(assigns)
    }

    /// Whether some cluster is to be withdrawn from.
    pub fn withdraws(&self) -> bool {
        let withdraws =
            |intent: &Intent| matches!(&intent.change, Change::Put(row) if row.withdraw.is_some());
        self.intents.iter().any(withdraws)
    }

    /// Whether some cluster's agent does not report a feature that its row needs.
    pub fn lacks_features(&self) -> bool {
        let group = |group: &ReasonGroup| group.reason == Reason::SyncUnsupported.as_str();
        self.status.reasons.iter().any(group)
    }

    /// Nothing moves; only the status says why.
    fn only(status: ModuleStatus, before: Option<&ModuleStatus>) -> Self {
        Self {
            record: None,
            events: events::conditions(&status, before),
            applied: Vec::new(),
            status: Box::new(status),
            intents: Vec::new(),
            refused: refusals::Rows::new(),
            stories: BTreeMap::new(),
            forget: Vec::new(),
            introduce: Vec::new(),
            questions: Vec::new(),
            release: false,
            standing: None,
            wake_at: None,
            asked: None,
            reports: false,
        }
    }

    /// What a status says of clusters changes with every event of a large fleet: alone it is written every five seconds at most.
    fn paced(mut self, before: Option<&ModuleStatus>, last: Option<Timestamp>, now: Timestamp) -> Self {
        let Some(before) = before.filter(|before| **before != *self.status && self.only_reports(before))
        else {
            return self;
        };
        let next = last.map(|last| last + REPORT_INTERVAL);
        match next.filter(|next| *next > now) {
            None => self.reports = true,
            Some(next) => {
                *self.status = before.clone();
                self.wake_at = Some(self.wake_at.map_or(next, |at| at.min(next)));
            }
        }
        self
    }

    fn only_reports(&self, before: &ModuleStatus) -> bool {
        let nothing_else = self.record.is_none()
            && self.intents.is_empty()
            && self.events.is_empty()
            && self.applied.is_empty()
            && self.stories.is_empty()
            && self.forget.is_empty()
            && self.introduce.is_empty()
            && !self.release;
        nothing_else && status::differs_by_clusters_only(before, &self.status)
    }
}

/// The memory; a lost one is rebuilt from the rows and from the verdicts of ModuleRevisions (W7).
pub(super) fn remembered(seen: &Observation, units: &[engine::Unit], now: Millis) -> Memory {
    if seen.memory.lost {
        return history::rebuild(&seen.revisions, units, now);
    }
    let memory = seen.memory.memory.clone();
    if seen.gap.is_zero() {
        return memory;
    }
    memory.after_gap(seen.gap.into(), now)
}

/// Clusters that wait for the report of an agent that has nothing to report on.
fn introduce(seen: &Observation, decision: &engine::Decision) -> Vec<String> {
    let waits = |(unit, why): &&(engine::UnitId, Why)| {
        let absent = seen
            .cluster(unit.as_str())
            .is_some_and(|cluster| cluster.carrier == CarrierSeen::Absent);
        absent && reasons::word(why).0 == Reason::SyncUnsupported
    };
    let waiting = decision.reasons.iter().filter(waits);
    waiting.map(|(unit, _)| unit.to_string()).collect()
}

/// What messages about this decision speak of.
pub(super) fn background<'a, K: ModuleObject>(
    module: &'a K,
    seen: &'a Observation,
    decision: &engine::Decision,
    now: Timestamp,
) -> Background<'a> {
    Background {
        namespace: module.namespace().unwrap_or_default(),
        module: status::address(module),
        pause: status::pause(module, seen, now),
        obstacles: &seen.sight.units.obstacles,
        progress: progress(seen),
        pins: pins(seen, decision),
        source: match &seen.target {
            Target::Unknown { message, .. } => Some(message),
            Target::Known { .. } | Target::Nothing => None,
        },
        version: status::version(module, &seen.target),
        revision: seen.target.definition().map_or("", |target| &target.revision),
        aborted: seen
            .target
            .definition()
            .map_or_else(String::new, |target| seen.controls.aborted(&target.revision)),
        stuck: module.spec().rollout.on_failure.action == FailureAction::Revert
            && decision.memory.last_good.is_none(),
        gates: Gates {
            stages: &module.spec().rollout.stages,
            answers: &seen.gates,
        },
    }
}

/// How far clusters are whose objects report it.
fn progress(seen: &Observation) -> BTreeMap<&str, &Progress> {
    let progress = seen.clusters().iter().filter_map(|cluster| {
        let row = cluster.row.as_deref()?;
        let echo = row
            .echo
            .as_ref()
            .filter(|echo| echo.token == row.token && echo.digest == row.digest)?;
        Some((cluster.name.as_str(), echo.progress.as_ref()?))
    });
    progress.collect()
}

/// Every reason of a decision, in words.
pub(super) fn explain<'a>(
    decision: &'a engine::Decision,
    background: &'a Background<'a>,
) -> Vec<Explained<'a>> {
    let reasons = decision.reasons.iter();
    reasons
        .map(|(unit, why)| reasons::explain(unit, why, background))
        .collect()
}

fn assigns(intent: &Intent) -> bool {
    matches!(&intent.change, Change::Put(row) if row.withdraw.is_none())
}

fn standing<K: ModuleObject>(
    module: &K,
    seen: &Observation,
    told: &[Explained<'_>],
    intents: &[Intent],
) -> Standing {
    let confirmed = told.iter().filter(|told| told.reason == Reason::UpToDate);
    let present = seen.clusters().iter().filter(|cluster| {
        let row = cluster.row.as_ref().is_some_and(|row| !row.is_withdrawn());
        row && !cluster.uid.is_empty()
    });
    let assigned = intents.iter().filter(|intent| assigns(intent));
    let waits = |cluster: &&ClusterSeen| cluster.row.as_deref().is_some_and(waits_for_holder);
    let shared = seen.clusters().iter().filter(waits);
    Standing {
        generation: module.meta().generation,
        confirmed: confirmed.map(|told| told.cluster.to_owned()).collect(),
        present: present
            .map(|cluster| &cluster.name)
            .chain(assigned.map(|intent| &intent.cluster))
            .cloned()
            .collect(),
        shared: shared.map(|cluster| cluster.name.clone()).collect(),
    }
}

/// It reports about what it was assigned that another module holds some of its objects: it has recorded all of them by then.
fn waits_for_holder(row: &SeenRow) -> bool {
    let echo = row.echo.as_ref().filter(|_| row.asks == Asks::Carry);
    echo.is_some_and(|echo| {
        echo.digest == row.digest
            && echo.token == row.token
            && echo.reason.as_deref() == Some(ObjectReason::SharedObject.as_str())
    })
}

/// What is said of each cluster that is pinned: by whom, to what, and whether it is there.
fn pins(seen: &Observation, decision: &engine::Decision) -> BTreeMap<String, String> {
    let charges = || {
        decision
            .memory
            .charges
            .iter()
            .filter(|(_, charge)| charge.counts())
    };
    let limit = decision.summary.limit;
    let turn = || {
        let holders: Vec<engine::UnitId> = charges().map(|(unit, _)| unit.clone()).collect();
        if u32::try_from(holders.len()).is_ok_and(|held| held < limit) {
            return "its turn has not come yet".to_owned();
        }
        reasons::waiting(&holders, limit, "it")
    };
    let turn = LazyCell::new(turn);
    let pins = seen.clusters().iter().filter_map(|cluster| {
        let pinned = cluster.pinned.as_ref()?;
        let charge = decision.memory.charges.get(cluster.name.as_str());
        let carried = cluster.row.as_ref().and_then(|row| row.revision.as_ref());
        let step = match charge {
            Some(charge) if charge.counts() => "; it is on its way there".to_owned(),
            _ if carried == Some(&pinned.definition.revision) => String::new(),
            _ => format!("; {}", *turn),
        };
        Some((cluster.name.clone(), format!("{}{step}", pinned.message)))
    });
    pins.collect()
}

/// What is in the way of the last stage when nobody waits behind it: all clusters are ready, and the rollout is not over.
fn open<K: ModuleObject>(module: &K, seen: &Observation, decision: &engine::Decision) -> Option<String> {
    let Some(Why::WaitingGate {
        stage,
        gate,
        last,
        passes,
    }) = &decision.open
    else {
        return None;
    };
    let gates = Gates {
        stages: &module.spec().rollout.stages,
        answers: &seen.gates,
    };
    Some(gates.told(stage, *gate, *last, *passes))
}

/// The steps of the engine as changes of rows; at the end of a module's deletion, the rows themselves.
fn intents(
    module: &str,
    decision: &engine::Decision,
    contents: &Contents,
    seen: &Observation,
) -> Vec<Intent> {
    let mut intents: Vec<Intent> = decision
        .steps
        .iter()
        .filter_map(|step| intent(module, step, contents))
        .collect();
    if seen.deleting && intents.is_empty() {
        let left = seen
            .clusters()
            .iter()
            .filter(|cluster| cluster.row.as_deref().is_some_and(SeenRow::is_withdrawn));
        intents.extend(left.map(|cluster| Intent {
            cluster: cluster.name.clone(),
            change: Change::Remove {
                name: module.to_owned(),
            },
        }));
    }
    intents
}

fn intent(module: &str, step: &Step, contents: &Contents) -> Option<Intent> {
    let (unit, change) = match step {
        Step::Assign {
            unit,
            revision: _,
            digest,
            token,
        } => {
            let content = contents.get(unit.as_str(), *digest)?;
            let row = SyncRow {
                token: Some(token.0),
                ..content.row.clone()
            };
            (unit, Change::Put(Box::new(row)))
        }
        Step::Withdraw { unit, token, how } => {
            let how = match how {
                How::Prune => Withdraw::Prune,
                How::Orphan => Withdraw::Orphan,
            };
            (
                unit,
                Change::Put(Box::new(SyncRow::withdrawal(module, token.0, how))),
            )
        }
        Step::Fence { unit, token } => (
            unit,
            Change::Fence {
                name: module.to_owned(),
                token: token.0,
            },
        ),
        Step::Abandon { unit, token } => (
            unit,
            Change::Abandon {
                name: module.to_owned(),
                token: token.0,
            },
        ),
        // Verdicts are told from the memory, where they stand whatever happens to this step.
        Step::Conclude { .. } | Step::Evaluate { .. } => return None,
    };
    Some(Intent {
        cluster: unit.to_string(),
        change,
    })
}

fn record<K: ModuleObject>(module: &K, seen: &Observation) -> Option<Box<ModuleRevision>> {
    let target = seen.target.definition()?;
    let object = history::object(module, target);
    (!seen.revisions.contains_key(&object.name_any())).then(|| Box::new(object))
}

fn forget<K: ModuleObject>(module: &K, seen: &Observation, memory: &Memory) -> Vec<String> {
    if seen.deleting {
        // They are owned by the module, and go with it.
        return Vec::new();
    }
    let pinned = seen
        .clusters()
        .iter()
        .filter_map(|cluster| cluster.pinned.as_ref());
    let pinned = pinned.map(|pinned| &*pinned.definition);
    let wanted = pinned.chain(seen.target.definition());
    history::surplus(
        &seen.revisions,
        memory,
        &wanted.map(|wanted| wanted.revision.as_str()).collect(),
        module.spec().rollout.history_limit,
    )
}

fn wake_at(
    decision: &engine::Decision,
    seen: &Observation,
    refused: &refusals::Rows,
    now: Timestamp,
) -> Option<Timestamp> {
    let retry = match &seen.target {
        Target::Unknown { retry_at, .. } => Some(*retry_at),
        Target::Known { .. } | Target::Nothing => None,
    };
    let decided = decision.wake_at.map(timestamp);
    let released = seen
        .clusters()
        .iter()
        .filter_map(|cluster| cluster.held_until)
        .min();
    let again = refused.values().map(|refused| refused.again).min();
    [decided, retry, seen.controls.end(now), released, again]
        .into_iter()
        .flatten()
        .min()
}

pub(super) fn millis(at: Timestamp) -> Millis {
    // Only a host whose clock stands before 1970 gives a negative number.
    Millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

fn timestamp(at: Millis) -> Timestamp {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ready: &str, message: &str, count: u32) -> ModuleStatus {
        let ready = serde_json::json!({"type": "Ready", "status": ready, "reason": "Succeeded", "message": message,
            "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let group = serde_json::json!({"reason": "UpToDate", "count": count, "clusters": "eu-{1..9}"});
        let status = serde_json::json!({"conditions": [ready], "reasons": [group], "attention": []});
        serde_json::from_value(status).unwrap()
    }

    /// What is written, when it is looked at again, and whether that is for clusters alone.
    fn paced(new: &ModuleStatus, last: Option<i64>) -> (ModuleStatus, Option<i64>, bool) {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let before = status("True", "on 8 clusters", 8);
        let mut plan = Plan::only(new.clone(), None);
        plan.events.clear();
        let plan = plan.paced(Some(&before), last.map(at), at(100));
        (*plan.status, plan.wake_at.map(Timestamp::as_second), plan.reports)
    }

    #[test]
    fn what_is_said_of_clusters_alone_is_written_every_five_seconds() {
        let before = status("True", "on 8 clusters", 8);
        let new = status("True", "on 9 clusters", 9);
        assert_eq!(paced(&new, None), (new.clone(), None, true), "the first at once");
        assert_eq!(paced(&new, Some(95)), (new.clone(), None, true));
        assert_eq!(paced(&new, Some(96)), (before.clone(), Some(101), false));
        assert_eq!(paced(&before, Some(96)), (before, None, false), "nothing is new");
        let flipped = status("False", "on 9 clusters", 9);
        assert_eq!(
            paced(&flipped, Some(99)),
            (flipped.clone(), None, false),
            "with all else that changed"
        );
    }
}

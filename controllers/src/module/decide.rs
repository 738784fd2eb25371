//! The pure step: from what was observed to what to write.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    module::{ModuleObject, ModuleStatus, ReasonGroup},
    reasons::{ObjectReason, Reason},
    revision::ModuleRevision,
    rollout::FailureAction,
};
use muster_driver::{Change, Decided, Facts, NewContent, Planned, Rules};
use muster_rollout::{self as engine, Memory, Millis, Why, record::Case};

use super::{
    by_hand, control_effects,
    events::{self, Scene},
    facts::{ModuleState, ObservedCarrier, ObservedCluster, Target},
    gates::{self, Gates},
    history,
    instants::{millis, timestamp},
    intent::Rows,
    observation::Observation,
    pins::{self, PinnedUnit},
    reasons::{self, Background, Explained, Vocabulary},
    refusals,
    rows::{Asks, ObservedRow},
    status, units, windows,
};
use crate::{gates::Question, runtime::Event};

/// The minimum time between writes of a status that differs only in what it says about clusters.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// What to write for one module, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The ModuleRevision of the target, if it is not recorded yet: written before anything of it is assigned.
    pub record: Option<Box<ModuleRevision>>,
    /// Status and memory: written by compare-and-swap before any row is touched (W2).
    pub status: Box<ModuleStatus>,
    /// The decision; `None` if nothing is assigned.
    pub decided: Option<Decided>,
    /// Row writes to make now, without those that were refused recently.
    pub planned: Vec<Planned>,
    /// Rows that were refused and are still to be written, now or later.
    pub refused: refusals::Rows,
    /// Events, published once the memory is written.
    pub events: Vec<Event>,
    /// Controls that took effect: the annotation, and its event, published once the memory is written.
    pub applied: Vec<(&'static str, Event)>,
    /// Changed histories, by name of the ModuleRevision.
    pub stories: BTreeMap<String, muster_api::revision::ModuleRevisionStatus>,
    /// ModuleRevisions beyond the history limit, to be deleted.
    pub forget: Vec<String>,
    /// Controls of plan runs that no row carries yet, by cluster.
    pub by_hand: Vec<(String, json_patch::Patch)>,
    /// Clusters to create an empty assemblage for, so that their agents can report their features.
    pub introduce: Vec<String>,
    /// Gates to read.
    pub questions: Vec<Question>,
    /// Whether to remove the finalizer: the module is being deleted and no row has anything of it.
    pub release: bool,
    /// The module's state for modules that are related to it; `None` if there are none, or the state is unknown.
    pub standing: Option<ModuleState>,
    /// When to decide again if nothing changes before.
    pub wake_at: Option<Timestamp>,
    /// Whether the status is written only because of what it says about clusters.
    pub reports: bool,
    /// The engine's input and output; `None` if it was not called.
    pub engine_call: Option<Box<EngineCall>>,
}

/// The engine's input and output for the observed units.
#[derive(Clone, Debug)]
pub(crate) struct EngineCall {
    now: Millis,
    spec: engine::Spec,
    memory: Memory,
    decision: engine::Decision,
}

impl EngineCall {
    /// The form in which a decision is recorded.
    pub(crate) fn case(self, units: &[engine::Unit]) -> Case {
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
pub(crate) fn decide<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    now: Timestamp,
) -> Result<Plan, serde_json::Error> {
    if observed.invalid.is_some() || (module.spec().suspend && !observed.deleting) {
        return Ok(Plan::only(
            status::idle_status(module, observed, now),
            module.status(),
        ));
    }
    let name = module.name_any();
    let units = &observed.view.units;
    let memory = observed.remembered(&units.all, millis(now));
    let spec = units::engine_spec(module.spec(), observed, now);
    let facts = Facts {
        spec: &spec,
        memory: &memory,
        units: &units.all,
        now: millis(now),
    };
    let decided = muster_driver::decide(facts, &Rules::shipped());
    let decision = decided.decision();
    let background = background(module, observed, decision, now);
    let explained = explain_reasons(decision, &background);
    let open = open(module, observed, decision);
    let status = status::rolling_status(module, observed, decision, &explained, open.as_deref(), now)?;
    let counts = status.summary.clone().unwrap_or_default();
    let before = &observed.memory.memory;
    let mut planned = decided.planned(&Rows {
        module: &name,
        observed,
    });
    let refused = refusals::remaining_refusals(&observed.refused, &decision.memory, &planned);
    planned.retain(|planned| refusals::retry_at(&refused, planned, now).is_none());
    let scene = Scene {
        words: &Vocabulary::CLUSTERS,
        version: events::event_version(&status),
        summary: &counts,
        attention: module.status().map_or(&[][..], |status| &status.attention),
        aborted: &background.aborted,
    };
    let conditions_before = module.status().map_or(&[][..], |status| &status.conditions);
    let mut events = events::between(before, decision, &explained, &scene);
    events.extend(events::condition_events(&status.conditions, conditions_before));
    events.extend(events::of_gates(before, &decision.memory, &observed.gates));
    let mut applied = events::applied(
        &observed.controls,
        before,
        decision,
        &Vocabulary::CLUSTERS,
        (&status.conditions, conditions_before),
        now,
    );
    let controls_before = module.status().map_or(&[][..], |status| &status.controls);
    for (control, event) in control_effects::news(&status.controls, controls_before) {
        match control {
            Some(control) => applied.push((control, event)),
            None => events.push(event),
        }
    }
    let plan = Plan {
        record: record(module, observed),
        by_hand: by_hand(observed, &planned, now),
        events,
        applied,
        standing: observed
            .ties
            .any()
            .then(|| module_state(module, observed, &explained, &planned)),
        planned,
        stories: history::changed_stories(
            &observed.revisions,
            &decision.memory,
            &counts,
            &observed.controls,
            &by_hand::skipped(&observed.controls, observed.clusters(), now),
            now,
        ),
        forget: surplus_revisions(module, observed, &decision.memory),
        introduce: introduce(observed, decision),
        questions: gates::questions(module, decision),
        release: observed.deleting && observed.clusters().iter().all(ObservedCluster::has_nothing),
        wake_at: wake_at(decision, observed, &refused, now),
        refused,
        status: Box::new(status),
        engine_call: Some(Box::new(EngineCall {
            now: millis(now),
            spec,
            memory,
            decision: decided.decision().clone(),
        })),
        decided: Some(decided),
        reports: false,
    };
    Ok(plan.paced(module.status(), observed.reported_at, now))
}

/// The controls of plan runs, without rows that are changed now anyway.
fn by_hand(observed: &Observation, planned: &[Planned], now: Timestamp) -> Vec<(String, json_patch::Patch)> {
    let mut writes = by_hand::writes(&observed.controls, observed.clusters(), now);
    writes.retain(|(cluster, _)| planned.iter().all(|planned| planned.unit.as_str() != cluster));
    writes
}

impl Plan {
    /// Whether a cluster gets content.
    pub(crate) fn assigns(&self) -> bool {
        self.planned.iter().any(assigns)
    }

    /// Whether the module is withdrawn from a cluster.
    pub(crate) fn withdraws(&self) -> bool {
        let withdraws = |change: Change| matches!(change.then, NewContent::Withdrawn(_));
        self.planned
            .iter()
            .any(|planned| planned.change.is_some_and(withdraws))
    }

    /// Whether a cluster's agent lacks a feature that its row needs.
    pub(crate) fn lacks_features(&self) -> bool {
        let group = |group: &ReasonGroup| group.reason == Reason::SyncUnsupported.as_str();
        self.status.reasons.iter().any(group)
    }

    /// A plan that writes only the status.
    fn only(status: ModuleStatus, before: Option<&ModuleStatus>) -> Self {
        Self {
            record: None,
            events: events::condition_events(
                &status.conditions,
                before.map_or(&[][..], |before| &before.conditions),
            ),
            applied: Vec::new(),
            status: Box::new(status),
            decided: None,
            planned: Vec::new(),
            refused: refusals::Rows::new(),
            stories: BTreeMap::new(),
            forget: Vec::new(),
            introduce: Vec::new(),
            by_hand: Vec::new(),
            questions: Vec::new(),
            release: false,
            standing: None,
            wake_at: None,
            engine_call: None,
            reports: false,
        }
    }

    /// In a large fleet, the clusters' part of a status changes with every event: a change of that part alone is
    /// written every five seconds at most.
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
            && self.planned.is_empty()
            && self.events.is_empty()
            && self.applied.is_empty()
            && self.stories.is_empty()
            && self.forget.is_empty()
            && self.introduce.is_empty()
            && self.by_hand.is_empty()
            && !self.release;
        nothing_else && status::differs_by_clusters_only(before, &self.status)
    }
}

/// Clusters that wait for the first report of their agent and have no assemblage for it to report in.
fn introduce(observed: &Observation, decision: &engine::Decision) -> Vec<String> {
    let waits = |(unit, why): &&(engine::UnitId, Why)| {
        // In a large fleet, only a few clusters are looked up.
        reasons::word(why).0 == Reason::SyncUnsupported
            && observed
                .cluster(unit.as_str())
                .is_some_and(|cluster| cluster.carrier == ObservedCarrier::Absent)
    };
    let waiting = decision.reasons.iter().filter(waits);
    waiting.map(|(unit, _)| unit.to_string()).collect()
}

/// The context of the messages about this decision.
pub(super) fn background<'a, K: ModuleObject>(
    module: &'a K,
    observed: &'a Observation,
    decision: &engine::Decision,
    now: Timestamp,
) -> Background<'a> {
    Background {
        words: &Vocabulary::CLUSTERS,
        namespace: module.namespace().unwrap_or_default(),
        module: status::object_reference(module),
        pause: status::pause(module, observed, now),
        obstacles: &observed.view.units.obstacles,
        progress: progress(observed),
        pins: pinned(observed, decision),
        source: match &observed.target {
            Target::Unknown { reason, message, .. } => Some((*reason, message)),
            Target::Known { .. } | Target::Nothing => None,
        },
        version: status::display_version(module, &observed.target),
        revision: observed.target.definition().map_or("", |target| &target.revision),
        aborted: observed
            .target
            .definition()
            .map_or_else(String::new, |target| observed.controls.aborted(&target.revision)),
        stuck: module.spec().rollout.on_failure.action == FailureAction::Revert
            && decision.memory.last_good.is_none(),
        gates: Gates {
            stages: &module.spec().rollout.stages,
            answers: &observed.gates,
        },
    }
}

/// The progress of clusters whose objects report it.
fn progress(observed: &Observation) -> BTreeMap<&str, String> {
    let progress = observed.clusters().iter().filter_map(|cluster| {
        let row = cluster.row.as_deref()?;
        let report = row.report.as_ref()?;
        let progress = report.progress.as_ref()?;
        let is_of_row = report.token == row.token && report.digest == row.digest;
        is_of_row.then(|| (cluster.name.as_str(), progress.to_string()))
    });
    progress.collect()
}

/// Every reason of a decision, with its message.
pub(super) fn explain_reasons<'a>(
    decision: &'a engine::Decision,
    background: &'a Background<'a>,
) -> Vec<Explained<'a>> {
    let reasons = decision.reasons.iter();
    reasons
        .map(|(unit, why)| reasons::explain_reason(unit, why, background))
        .collect()
}

fn assigns(planned: &Planned) -> bool {
    let change = planned.change.map(|change| change.then);
    matches!(change, Some(NewContent::Assigned { .. }))
}

fn module_state<K: ModuleObject>(
    module: &K,
    observed: &Observation,
    explained: &[Explained<'_>],
    planned: &[Planned],
) -> ModuleState {
    let confirmed = explained.iter().filter(|entry| entry.reason == Reason::UpToDate);
    let present = observed.clusters().iter().filter(|cluster| {
        let row = cluster.row.as_ref().is_some_and(|row| !row.is_withdrawn());
        row && !cluster.uid.is_empty()
    });
    let assigned = planned.iter().filter(|planned| assigns(planned));
    let waits = |cluster: &&ObservedCluster| cluster.row.as_deref().is_some_and(waits_for_holder);
    let shared = observed.clusters().iter().filter(waits);
    ModuleState {
        generation: module.meta().generation,
        confirmed: confirmed.map(|entry| entry.cluster.to_owned()).collect(),
        present: present
            .map(|cluster| cluster.name.clone())
            .chain(assigned.map(|planned| planned.unit.to_string()))
            .collect(),
        shared: shared.map(|cluster| cluster.name.clone()).collect(),
    }
}

/// Whether the row's report says that another module holds some of its objects: by then all of them are recorded.
fn waits_for_holder(row: &ObservedRow) -> bool {
    let report = row.report.as_ref().filter(|_| row.asks == Asks::Carry);
    report.is_some_and(|report| {
        report.digest == row.digest
            && report.token == row.token
            && report.reason.as_deref() == Some(ObjectReason::SharedObject.as_str())
    })
}

/// The message for each pinned cluster.
fn pinned(observed: &Observation, decision: &engine::Decision) -> BTreeMap<String, String> {
    let placed = observed.clusters().iter().filter_map(|cluster| {
        let pinned = cluster.pinned.as_ref()?;
        let carried = cluster.row.as_ref().and_then(|row| row.revision.as_ref());
        Some(PinnedUnit {
            unit: &cluster.name,
            message: &pinned.message,
            carries: carried == Some(&pinned.definition.revision),
        })
    });
    pins::pin_messages(&Vocabulary::CLUSTERS, decision, placed)
}

/// What blocks the last stage when no cluster is left behind it: all clusters are ready, but the rollout is not
/// finished.
fn open<K: ModuleObject>(module: &K, observed: &Observation, decision: &engine::Decision) -> Option<String> {
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
        answers: &observed.gates,
    };
    Some(gates.describe(stage, *gate, *last, *passes))
}

fn record<K: ModuleObject>(module: &K, observed: &Observation) -> Option<Box<ModuleRevision>> {
    let target = observed.target.definition()?;
    let object = history::revision_object(module, target);
    (!observed.revisions.contains_key(&object.name_any())).then(|| Box::new(object))
}

fn surplus_revisions<K: ModuleObject>(module: &K, observed: &Observation, memory: &Memory) -> Vec<String> {
    if observed.deleting {
        // Owned by the module, and garbage-collected with it.
        return Vec::new();
    }
    let pinned = observed
        .clusters()
        .iter()
        .filter_map(|cluster| cluster.pinned.as_ref());
    let pinned = pinned.map(|pinned| &*pinned.definition);
    let wanted = pinned.chain(observed.target.definition());
    history::surplus_revisions(
        &observed.revisions,
        memory,
        &wanted.map(|wanted| wanted.revision.as_str()).collect(),
        module.spec().rollout.history_limit,
    )
}

fn wake_at(
    decision: &engine::Decision,
    observed: &Observation,
    refused: &refusals::Rows,
    now: Timestamp,
) -> Option<Timestamp> {
    let retry = match &observed.target {
        Target::Unknown { retry_at, .. } => Some(*retry_at),
        Target::Known { .. } | Target::Nothing => None,
    };
    let decided = decision.wake_at.map(timestamp);
    let released = observed
        .clusters()
        .iter()
        .filter_map(|cluster| cluster.held_until)
        .min();
    let again = refused
        .values()
        .map(|refused| refused.again)
        .filter(|at| *at > now)
        .min();
    // The engine's own wake-up time ignores a window change in the past.
    let window = windows::next_change(observed.clusters());
    [
        decided,
        retry,
        observed.controls.end(now),
        released,
        again,
        window,
    ]
    .into_iter()
    .flatten()
    .min()
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

    /// Applies the pacing: the status that is written, the next decision, and whether it is written for clusters only.
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

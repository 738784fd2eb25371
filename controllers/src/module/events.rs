//! What happened to a module between two decisions, for `kubectl describe` and `kubectl get events`. Pure, and on change only.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{
    conditions::{self, READY},
    labels::annotation,
    module::ModuleStatus,
    reasons::{Bucket, EventReason, ObjectReason, Reason},
};
use muster_rollout::{Decision, Memory, Outcome, RunState, UnitId};

use super::{
    controls::Controls,
    gates::{self, Answers},
    instants::millis,
    reasons::{self, Explained},
};
use crate::runtime::Event;

/// The action that every event of a module is about.
const ACTION: &str = "Rollout";

/// The events of a decision. `memory` and `before` are those of before; `aborted`: who aborted the rollout, if somebody did.
pub fn between(
    memory: &Memory,
    decision: &Decision,
    told: &[Explained<'_>],
    status: &ModuleStatus,
    before: Option<&ModuleStatus>,
    aborted: &str,
) -> Vec<Event> {
    // A cause stands before what it causes.
    let mut events: Vec<Event> = begun(memory, &decision.memory, status).into_iter().collect();
    events.extend(clusters(memory, decision, told, before));
    events.extend(ended(memory, &decision.memory, told, status, aborted));
    events.extend(conditions(status, before));
    events
}

/// A gate that did hold, or was not read yet, and that does not hold now or gives no data.
pub fn of_gates(before: &Memory, after: &Memory, answers: &Answers) -> Vec<Event> {
    let told = answers.iter().filter_map(|(place, (about, reading))| {
        let at = usize::from(place.gate);
        let last = |memory: &Memory| memory.course.gates.get(at).and_then(|gate| gate.last);
        let counted = last(after).filter(|(at, _)| *at == millis(reading.at))?;
        let known = last(before).filter(|_| before.run.map(|run| run.id) == Some(about.run));
        let is_news = known.is_none_or(|(_, outcome)| outcome != reading.outcome);
        if !is_news || counted.1 == Outcome::Pass {
            return None;
        }
        let note = format!(
            "gate {} of stage {} {}: {}",
            at + 1,
            about.stage,
            gates::failing(reading.outcome),
            reading.said
        );
        Some(warning(EventReason::GateNotPassed, note))
    });
    told.collect()
}

fn version(status: &ModuleStatus) -> &str {
    status
        .source
        .as_ref()
        .map_or("", |source| source.tag.as_deref().unwrap_or(&source.commit))
}

/// A run that began.
fn begun(before: &Memory, after: &Memory, status: &ModuleStatus) -> Option<Event> {
    let is_new = before.run.map(|old| old.id) != Some(after.run?.id);
    let total = status.summary.as_ref().map_or(0, |summary| summary.total);
    let note = format!("rolling out {} to {total} clusters", version(status));
    is_new.then(|| normal(EventReason::RolloutStarted, note))
}

/// A run that ended.
fn ended(
    before: &Memory,
    after: &Memory,
    told: &[Explained<'_>],
    status: &ModuleStatus,
    aborted: &str,
) -> Vec<Event> {
    let Some(run) = after.run else { return Vec::new() };
    let old = before.run.filter(|old| old.id == run.id);
    if old.map(|old| old.state) == Some(run.state) {
        return Vec::new();
    }
    let summary = status.summary.clone().unwrap_or_default();
    let version = version(status);
    let keeps =
        |told: &&Explained<'_>| matches!(told.reason, Reason::Halted | Reason::KnownBad | Reason::Aborted);
    let kept = match told.iter().filter(keeps).count() {
        0 => String::new(),
        1 => "; 1 cluster keeps what it has".to_owned(),
        kept => format!("; {kept} clusters keep what they have"),
    };
    match run.state {
        RunState::Open => Vec::new(),
        RunState::Good => vec![normal(
            EventReason::RolloutFinished,
            format!("{version} is ready on {} clusters", summary.clusters),
        )],
        RunState::Aborted => vec![warning(
            EventReason::RolloutAborted,
            format!("{version} is rolled out no further: it was aborted{aborted}{kept}"),
        )],
        RunState::Halted | RunState::KnownBad => {
            let bad = after.bad.get(&run.target);
            let evidence = bad.map_or_else(String::new, |bad| format!("{}: {}", bad.unit, bad.message));
            let mut on: Vec<UnitId> = after.marks.keys().cloned().collect();
            if on.is_empty() {
                on.extend(bad.map(|bad| bad.unit.clone()));
            }
            let on = reasons::few(&on);
            let halted = format!("{version} is rolled out no further: it failed on {on}{kept}");
            vec![
                warning(
                    EventReason::RevisionCondemned,
                    format!("{version} failed: {evidence}"),
                ),
                warning(EventReason::RolloutHalted, halted),
            ]
        }
    }
}

/// Clusters that were confirmed, failed, or were withdrawn from.
fn clusters(
    memory: &Memory,
    decision: &Decision,
    told: &[Explained<'_>],
    before: Option<&ModuleStatus>,
) -> Vec<Event> {
    let known: BTreeMap<&str, &str> = before
        .into_iter()
        .flat_map(|before| &before.attention)
        .map(|old| (old.cluster.as_str(), old.reason.as_str()))
        .collect();
    let mut events = Vec::new();
    // Those that did the same at once are told of together: else a fleet that changes at once is as many writes again.
    let mut together: BTreeMap<(EventReason, String), Vec<&str>> = BTreeMap::new();
    for told in told {
        let old = known.get(told.cluster).copied();
        let was_charged = memory.charges.contains_key(told.cluster);
        let is_charged = decision.memory.charges.contains_key(told.cluster);
        match told.reason {
            Reason::UpToDate if was_charged && !is_charged => {
                let what = (EventReason::ClusterUpdated, told.message());
                together.entry(what).or_default().push(told.cluster);
            }
            Reason::Excluded if was_charged && !is_charged => {
                let what = (
                    EventReason::ClusterWithdrawn,
                    "withdrawn, nothing of this module is left".to_owned(),
                );
                together.entry(what).or_default().push(told.cluster);
            }
            reason if reason.bucket() == Bucket::Failed && old != Some(reason.as_str()) => {
                events.push(warning(
                    EventReason::ClusterFailed,
                    format!("{}: {}: {}", told.cluster, reason, told.message()),
                ));
            }
            Reason::WithdrawalHeld if old != Some(Reason::WithdrawalHeld.as_str()) => {
                events.push(warning(
                    EventReason::WithdrawalHeld,
                    format!("{}: {}", told.cluster, told.message()),
                ));
            }
            _ => {}
        }
    }
    let note = |what: &str, clusters: &[&str]| format!("{}: {what}", reasons::few(clusters));
    events.extend(
        together
            .into_iter()
            .map(|((reason, what), clusters)| normal(reason, note(&what, &clusters))),
    );
    events
}

/// Conditions that came.
pub fn conditions(status: &ModuleStatus, before: Option<&ModuleStatus>) -> Vec<Event> {
    let reason_of = |status: Option<&ModuleStatus>, type_: &str| {
        status
            .into_iter()
            .flat_map(|status| &status.conditions)
            .find(|condition| condition.type_ == type_)
            .map(|condition| condition.reason.clone())
    };
    let mut events = Vec::new();
    for condition in &status.conditions {
        if reason_of(before, &condition.type_).as_ref() == Some(&condition.reason) {
            continue;
        }
        let is = |type_: &str, reason: &str| condition.type_ == type_ && condition.reason == reason;
        let reason = if is(READY, Reason::SourceNotReady.as_str()) {
            EventReason::SourceNotReady
        } else if condition.type_ == conditions::TAG_MOVED {
            EventReason::TagMoved
        } else if is(READY, ObjectReason::InvalidSpec.as_str())
            || is(READY, ObjectReason::Unsupported.as_str())
            || is(READY, ObjectReason::InvalidControl.as_str())
        {
            EventReason::InvalidSpec
        } else {
            continue;
        };
        events.push(warning(reason, condition.message.clone()));
    }
    events
}

/// The controls that take effect by a decision, and what is told of each. That one did stands in status or memory, so that it is not
/// told again by who comes next. A cluster that is given up is told of where its row is emptied.
pub fn applied(
    controls: &Controls,
    memory: &Memory,
    decision: &Decision,
    status: &ModuleStatus,
    before: Option<&ModuleStatus>,
    now: Timestamp,
) -> Vec<(&'static str, Event)> {
    let mut applied = Vec::new();
    let mut told = |key: &'static str, note: String| {
        applied.push((
            key,
            Event::normal(EventReason::ControlApplied, ACTION, format!("{key}: {note}")),
        ));
    };
    let said = |status: &ModuleStatus| {
        let paused = conditions::find(&status.conditions, conditions::PAUSED);
        paused.map(|paused| paused.message.clone())
    };
    if let Some(pause) = said(status).filter(|_| controls.paused(now).is_some())
        && before.and_then(said).as_ref() != Some(&pause)
    {
        told(annotation::PAUSED, pause);
    }
    let named = |memory: &Memory| memory.acknowledged.map(|acknowledged| acknowledged.named);
    if let Some(control) = controls.acknowledged(now)
        && let Some(set) = named(&decision.memory)
        && named(memory) != Some(set)
    {
        let by = control.told();
        told(
            annotation::ACKNOWLEDGE_WITHDRAWAL,
            format!("the withdrawal {} is acknowledged{by}, and begins", control.what),
        );
    }
    for once in controls.once(now) {
        let taken = decision.taken.iter().find(|(id, _)| *id == once.id());
        let Some((_, effect)) = taken else { continue };
        let about = match &once.stage {
            Some(stage) => format!("stage {stage} of revision {}", once.revision),
            None => format!("revision {}", once.revision),
        };
        let (key, by) = (once.key, once.control.told());
        let event = if *effect {
            Event::normal(EventReason::ControlApplied, ACTION, format!("{key}: {about}{by}"))
        } else {
            let note = format!(
                "{key}: {about}{by} has no effect: that is not what is being rolled out, or it is over; see kubectl get modulerevisions"
            );
            Event::warning(EventReason::ControlWithoutEffect, ACTION, note)
        };
        applied.push((key, event));
    }
    applied
}

fn normal(reason: EventReason, note: String) -> Event {
    Event::normal(reason, ACTION, note)
}

pub fn warning(reason: EventReason, note: String) -> Event {
    Event::warning(reason, ACTION, note)
}

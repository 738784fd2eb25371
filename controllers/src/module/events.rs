//! Events of a module or NodeModule between two decisions, for `kubectl describe` and `kubectl get events`. Pure, and
//! only on change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::{
    conditions::{self, READY},
    labels::annotation,
    module::{Attention, ModuleStatus, Summary},
    reasons::{Bucket, EventReason, ObjectReason, Reason},
};
use muster_rollout::{Decision, GateResult, Memory, RunState, UnitId};

use super::{
    controls::Controls,
    gates::{self, Answers},
    instants::millis,
    reasons::{self, Explained, Vocabulary},
};
use crate::runtime::Event;

/// The action of every event about a module.
const ACTION: &str = "Rollout";

/// The context of a decision's events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// What units are called in messages.
    pub words: &'static Vocabulary,
    /// The desired version.
    pub version: &'a str,
    /// Counts of units.
    pub summary: &'a Summary,
    /// The units that needed attention before this decision.
    pub attention: &'a [Attention],
    /// Who aborted the rollout; empty if it was not aborted.
    pub aborted: &'a str,
}

/// The events of a decision. `memory` is the one before the decision.
pub(crate) fn between(
    memory: &Memory,
    decision: &Decision,
    explained: &[Explained<'_>],
    scene: &Scene<'_>,
) -> Vec<Event> {
    // A cause precedes its effects.
    let mut events: Vec<Event> = begun(memory, &decision.memory, scene).into_iter().collect();
    events.extend(units(memory, decision, explained, scene));
    events.extend(ended(memory, &decision.memory, explained, scene));
    events
}

/// Events for gates that passed or were unread before, and now fail or give no data.
pub(crate) fn of_gates(before: &Memory, after: &Memory, answers: &Answers) -> Vec<Event> {
    let events = answers.iter().filter_map(|(place, (about, reading))| {
        let at = usize::from(place.gate);
        let last = |memory: &Memory| memory.course.gates.get(at).and_then(|gate| gate.last);
        let counted = last(after).filter(|(at, _)| *at == millis(reading.at))?;
        let known = last(before).filter(|_| before.run.map(|run| run.id) == Some(about.run));
        let is_news = known.is_none_or(|(_, outcome)| outcome != reading.outcome);
        if !is_news || counted.1 == GateResult::Pass {
            return None;
        }
        let note = format!(
            "gate {} of stage {} {}: {}",
            at + 1,
            about.stage,
            gates::failing(reading.outcome),
            reading.message
        );
        Some(warning(EventReason::GateNotPassed, note))
    });
    events.collect()
}

/// The version of a module as shown in events.
pub(crate) fn event_version(status: &ModuleStatus) -> &str {
    status
        .source
        .as_ref()
        .map_or("", |source| source.tag.as_deref().unwrap_or(&source.commit))
}

/// The event of a run that started.
fn begun(before: &Memory, after: &Memory, scene: &Scene<'_>) -> Option<Event> {
    let is_new = before.run.map(|old| old.id) != Some(after.run?.id);
    let note = format!(
        "rolling out {} to {} {}",
        scene.version, scene.summary.total, scene.words.units
    );
    is_new.then(|| normal(EventReason::RolloutStarted, note))
}

/// The event of a run that ended.
fn ended(before: &Memory, after: &Memory, explained: &[Explained<'_>], scene: &Scene<'_>) -> Vec<Event> {
    let Some(run) = after.run else { return Vec::new() };
    let old = before.run.filter(|old| old.id == run.id);
    if old.map(|old| old.state) == Some(run.state) {
        return Vec::new();
    }
    let Scene {
        words,
        version,
        summary,
        aborted,
        ..
    } = scene;
    let keeps =
        |entry: &&Explained<'_>| matches!(entry.reason, Reason::Halted | Reason::KnownBad | Reason::Aborted);
    let kept = match explained.iter().filter(keeps).count() {
        0 => String::new(),
        1 => format!("; 1 {} keeps what it has", words.unit),
        kept => format!("; {kept} {} keep what they have", words.units),
    };
    match run.state {
        RunState::Open => Vec::new(),
        RunState::Good => vec![normal(
            EventReason::RolloutFinished,
            format!("{version} is ready on {} {}", summary.clusters, words.units),
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

/// An event about one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened<'a> {
    /// The unit's name.
    pub unit: &'a str,
    /// The event's reason.
    pub reason: EventReason,
    /// The event's message.
    pub note: String,
    /// Whether the event has type `Warning`.
    pub is_warning: bool,
}

/// Units that were confirmed, failed, vanished or were withdrawn, in the order of their names.
pub(crate) fn unit_events<'a>(
    memory: &Memory,
    decision: &Decision,
    explained: &[Explained<'a>],
    scene: &Scene<'_>,
) -> Vec<Happened<'a>> {
    let words = scene.words;
    let known: BTreeMap<&str, &str> = scene
        .attention
        .iter()
        .map(|old| (old.cluster.as_str(), old.reason.as_str()))
        .collect();
    let of = |entry: &Explained<'a>| {
        let is_new = known.get(entry.cluster).copied() != Some(entry.reason.as_str());
        let was_in_flight = memory.in_flight.contains_key(entry.cluster);
        let is_over = was_in_flight && !decision.memory.in_flight.contains_key(entry.cluster);
        let with_reason = || format!("{}: {}", entry.reason, entry.message());
        let (reason, note, is_warning) = match entry.reason {
            Reason::UpToDate if is_over => (words.updated, entry.message(), false),
            Reason::Excluded if is_over => {
                let note = format!("withdrawn, nothing of this {} is left", words.module);
                (words.withdrawn, note, false)
            }
            Reason::LostInChange if is_new => (EventReason::NodeLost, with_reason(), true),
            Reason::WithdrawalHeld if is_new => (EventReason::WithdrawalHeld, entry.message(), true),
            reason if reason.bucket() == Bucket::Failed && is_new => (words.failed, with_reason(), true),
            _ => return None,
        };
        Some(Happened {
            unit: entry.cluster,
            reason,
            note,
            is_warning,
        })
    };
    explained.iter().filter_map(of).collect()
}

/// The events of units. Units with the same event are combined into one: otherwise a fleet that changes at once doubles
/// the number of writes.
fn units(memory: &Memory, decision: &Decision, explained: &[Explained<'_>], scene: &Scene<'_>) -> Vec<Event> {
    let mut together: BTreeMap<(EventReason, String), Vec<&str>> = BTreeMap::new();
    let mut events = Vec::new();
    for happened in unit_events(memory, decision, explained, scene) {
        let Happened {
            unit,
            reason,
            note,
            is_warning,
        } = happened;
        if is_warning {
            events.push(warning(reason, format!("{unit}: {note}")));
        } else {
            together.entry((reason, note)).or_default().push(unit);
        }
    }
    let note = |what: &str, units: &[&str]| format!("{}: {what}", reasons::few(units));
    events.extend(
        together
            .into_iter()
            .map(|((reason, what), units)| normal(reason, note(&what, &units))),
    );
    events
}

/// Events for conditions that became true.
pub(crate) fn condition_events(now: &[Condition], before: &[Condition]) -> Vec<Event> {
    let reason_of = |type_: &str| conditions::find(before, type_).map(|condition| &condition.reason);
    let mut events = Vec::new();
    for condition in now {
        if reason_of(&condition.type_) == Some(&condition.reason) {
            continue;
        }
        let is = |type_: &str, reason: &str| condition.type_ == type_ && condition.reason == reason;
        let reason = if is(READY, Reason::SourceNotReady.as_str()) {
            EventReason::SourceNotReady
        } else if is(READY, Reason::VerificationFailed.as_str()) {
            EventReason::VerificationFailed
        } else if condition.type_ == conditions::TAG_MOVED {
            EventReason::TagMoved
        } else if is(READY, ObjectReason::InvalidSpec.as_str())
            || is(READY, ObjectReason::Unsupported.as_str())
            || is(READY, ObjectReason::InvalidControl.as_str())
            || is(READY, ObjectReason::PathConflict.as_str())
        {
            EventReason::InvalidSpec
        } else {
            continue;
        };
        events.push(warning(reason, condition.message.clone()));
    }
    events
}

/// The controls that take effect by a decision, with their events. Status or memory records that, so that a new leader
/// does not repeat the event. The event of an abandoned cluster is published where its row is emptied.
pub(crate) fn applied(
    controls: &Controls,
    memory: &Memory,
    decision: &Decision,
    words: &Vocabulary,
    (conditions, before): (&[Condition], &[Condition]),
    now: Timestamp,
) -> Vec<(&'static str, Event)> {
    let mut applied = Vec::new();
    let mut add = |key: &'static str, note: String| {
        applied.push((
            key,
            Event::normal(EventReason::ControlApplied, ACTION, format!("{key}: {note}")),
        ));
    };
    let pause_message = |conditions: &[Condition]| {
        let paused = conditions::find(conditions, conditions::PAUSED);
        paused.map(|paused| paused.message.clone())
    };
    if let Some(pause) = pause_message(conditions).filter(|_| controls.paused(now).is_some())
        && pause_message(before).as_ref() != Some(&pause)
    {
        add(annotation::PAUSED, pause);
    }
    let named = |memory: &Memory| memory.acknowledged.map(|acknowledged| acknowledged.named);
    if let Some(control) = controls.acknowledged(now)
        && let Some(set) = named(&decision.memory)
        && named(memory) != Some(set)
    {
        let by = control.provenance();
        add(
            annotation::ACKNOWLEDGE_WITHDRAWAL,
            format!("the withdrawal {} is acknowledged{by}, and begins", control.what),
        );
    }
    for once in controls.one_shots(now) {
        let taken = decision.taken.iter().find(|(id, _)| *id == once.id());
        let Some((_, effect)) = taken else { continue };
        let about = match &once.stage {
            Some(stage) => format!("stage {stage} of revision {}", once.revision),
            None => format!("revision {}", once.revision),
        };
        let (key, by) = (once.key, once.control.provenance());
        let event = if *effect {
            Event::normal(EventReason::ControlApplied, ACTION, format!("{key}: {about}{by}"))
        } else {
            let note = format!(
                "{key}: {about}{by} has no effect: it names something that is not being rolled out, or is finished; see kubectl get {}",
                words.revisions
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

pub(crate) fn warning(reason: EventReason, note: String) -> Event {
    Event::warning(reason, ACTION, note)
}

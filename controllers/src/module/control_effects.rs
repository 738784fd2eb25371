//! The effects of level controls: shown in the status of the module or NodeModule, and by an event when new. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_api::{
    conditions::bounded,
    control::Control,
    control_status::{ControlStatus, Effect},
    labels::annotation,
    reasons::{EventReason, Reason},
    schema::{MAX_ATTENTION, MAX_MESSAGE},
};

use super::{
    controls::Controls,
    holds::Hold,
    pins::{self, Pin},
    reasons::Vocabulary,
    unit::Unit,
};
use crate::runtime::Event;

/// The action of these events.
const ACTION: &str = "Control";
/// Controls of a module whose events are about the annotation itself.
const OF_MODULE: [&str; 4] = [
    annotation::PAUSED,
    annotation::HOLD,
    annotation::PIN,
    annotation::RELEASE,
];

/// The effects of one unit's controls, and of those of the module that fail for this unit.
pub(crate) fn of_unit(
    unit: &Unit<'_>,
    pin_annotation: Option<(&str, &str)>,
    hold: Option<&Hold>,
    pin: Option<&Pin>,
    now: Timestamp,
) -> Vec<ControlStatus> {
    let about = |control: &str, (effect, message): (Effect, String)| {
        entry(control, Some(unit.name), effect, &message)
    };
    let read = |text: &str| Control::parse(text).and_then(|control| control.meant(now));
    let kept = unit.annotations.get(annotation::HOLD);
    let kept = kept.and_then(|text| match read(text) {
        Ok(control) => level_effect(
            &control,
            now,
            &format!("kept as it is, for all {}", unit.words.modules),
        ),
        Err(error) => Some((Effect::WithoutEffect, format!("it cannot be read: {error}"))),
    });
    let over = pin_annotation.and_then(|(key, text)| {
        let control = read(text).ok().filter(|control| control.is_over(now))?;
        Some((key.to_owned(), (Effect::Over, ended(&control))))
    });
    let pinned = pin.and_then(|pin| Some((pin.key.clone(), pinned(pin, unit.name, hold)?)));
    let kept = kept.map(|effect| (annotation::HOLD.to_owned(), effect));
    let all = kept.into_iter().chain(over).chain(pinned);
    all.map(|(key, effect)| about(&key, effect)).collect()
}

/// A pin in the module's annotation is shown once for all its units, unless it fails for this unit.
fn pinned(pin: &Pin, unit: &str, hold: Option<&Hold>) -> Option<(Effect, String)> {
    match (&pin.revision, hold) {
        (Err(error), _) => Some((Effect::WithoutEffect, pin.problem(unit, error))),
        (Ok(_), Some(hold)) if hold.reason == Reason::Held => {
            let message = format!(
                "it is also held, and a hold takes precedence over a pin: {}",
                hold.message
            );
            Some((Effect::WithoutEffect, message))
        }
        (Ok(revision), _) if pin.on_unit => {
            let revision = revision.get(..pins::SHORTEST).unwrap_or(revision);
            Some((
                Effect::Applied,
                format!("pinned to revision {revision}{}", pin.provenance),
            ))
        }
        (Ok(_), _) => None,
    }
}

/// A unit, and the effects of its own controls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitEffects<'a> {
    /// Name of the unit.
    pub name: &'a str,
    /// Whether the module selects it.
    pub selected: bool,
    /// The effects of its controls.
    pub effects: &'a [ControlStatus],
}

/// The effects of all controls of a module and its units: ineffective ones first, and no more than a status can hold.
pub(crate) fn all<'a>(
    words: &Vocabulary,
    controls: &Controls,
    units: impl Iterator<Item = UnitEffects<'a>> + Clone,
    now: Timestamp,
) -> Vec<ControlStatus> {
    let mut levels = controls.levels().peekable();
    let named = levels.peek().is_some();
    let selected = units.clone().filter(|unit| named && unit.selected);
    let known: BTreeSet<&str> = selected.map(|unit| unit.name).collect();
    let of_module = levels.flat_map(|(key, control)| of_module(words, key, control, &known, now));
    let of_units = units.flat_map(|unit| unit.effects.iter().cloned());
    let mut all: Vec<ControlStatus> = of_module.chain(of_units).collect();
    all.sort_by(|a, b| (a.effect, &a.control, &a.cluster).cmp(&(b.effect, &b.control, &b.cluster)));
    all.truncate(MAX_ATTENTION);
    all
}

fn of_module(
    words: &Vocabulary,
    key: &'static str,
    control: &Control,
    known: &BTreeSet<&str>,
    now: Timestamp,
) -> Vec<ControlStatus> {
    if key == annotation::PAUSED || control.is_over(now) {
        let outcome = level_effect(control, now, "no new updates start");
        return outcome
            .map(|(effect, message)| entry(key, None, effect, &message))
            .into_iter()
            .collect();
    }
    if !control.holds(now) {
        return Vec::new();
    }
    let unit = |name: &&str| name.split_once('@').map_or(*name, |(unit, _)| unit).to_owned();
    let (here, nowhere): (Vec<&str>, Vec<&str>) = control
        .names()
        .into_iter()
        .partition(|name| known.contains(unit(name).as_str()));
    let lost = nowhere.iter().map(|name| {
        let message = format!("the {} selects no {} of this name", words.module, words.unit);
        entry(key, Some(&unit(name)), Effect::WithoutEffect, &message)
    });
    let mut statuses: Vec<ControlStatus> = lost.collect();
    if !here.is_empty() {
        let does = match key {
            annotation::PIN => "pinned",
            annotation::RELEASE => "no longer waited for",
            _ => "kept as it is",
        };
        let message = format!("{}: {does}{}", here.join(", "), control.provenance());
        statuses.push(entry(key, None, Effect::Applied, &message));
    }
    statuses
}

/// The effect of a control that can be parsed; nothing for `false`.
fn level_effect(control: &Control, now: Timestamp, does: &str) -> Option<(Effect, String)> {
    if control.is_over(now) {
        return Some((Effect::Over, ended(control)));
    }
    control
        .holds(now)
        .then(|| (Effect::Applied, format!("{does}{}", control.provenance())))
}

fn ended(control: &Control) -> String {
    format!("expired{}", control.provenance())
}

pub(crate) fn entry(control: &str, unit: Option<&str>, effect: Effect, message: &str) -> ControlStatus {
    ControlStatus {
        control: control.to_owned(),
        cluster: unit.map(str::to_owned),
        effect,
        message: bounded(message, MAX_MESSAGE).into_owned(),
    }
}

/// The events of new effects, each with the module's annotation that it is about, if any. A pause is reported by its
/// condition; an expiry only if the control had already expired when first observed.
pub(crate) fn news(
    statuses: &[ControlStatus],
    known: &[ControlStatus],
) -> Vec<(Option<&'static str>, Event)> {
    let fresh = statuses.iter().filter_map(|status| {
        let old = known
            .iter()
            .find(|old| old.control == status.control && old.cluster == status.cluster);
        let key = OF_MODULE
            .into_iter()
            .find(|key| *key == status.control && status.cluster.is_none());
        let about = status
            .cluster
            .as_ref()
            .map_or_else(String::new, |cluster| format!("{cluster}: "));
        let note = format!("{}: {about}{}", status.control, status.message);
        let event = match (status.effect, old) {
            (_, Some(old)) if old == status => return None,
            (Effect::Over, Some(_)) => return None,
            (Effect::Applied, _) if key == Some(annotation::PAUSED) => return None,
            (Effect::Applied, _) => Event::normal(EventReason::ControlApplied, ACTION, note),
            (Effect::Over, None) => {
                let note = format!("{note}; it expired before it was observed, and has no effect");
                Event::warning(EventReason::ControlWithoutEffect, ACTION, note)
            }
            (Effect::WithoutEffect, _) => Event::warning(EventReason::ControlWithoutEffect, ACTION, note),
        };
        Some((key, event))
    });
    fresh.collect()
}

//! The events of a history, and their times.

use muster_rollout::{Absence, Class, ControlCommand, Ineligible, Limit, Millis, Revision, UnitId};
use rand::{RngExt as _, rngs::StdRng};

use crate::{Closure, FleetEvent, Pace, SpecChange, Trouble, UnitEvent, revision};

/// The numbers of revisions that fail everywhere.
pub(super) const BAD: u64 = 3;
pub(super) const WORSE: u64 = 5;
/// The revisions that are targeted: few, so that each occurs again.
const TARGETS: u64 = 6;

/// The reason of closed windows, with the code of some caller.
const CLOSED: Ineligible = Ineligible {
    code: 27,
    rank: 27,
    absence: Absence::Skip,
};

/// The events of a history, unordered.
pub(super) fn all(random: &mut StdRng, ids: &[UnitId], horizon: Millis) -> Vec<(Millis, FleetEvent)> {
    let most = 12 + 2 * ids.len().min(30);
    let count = random.random_range(2..=most);
    let mut happenings = Vec::new();
    for _ in 0..count {
        let at = Millis(random.random_range(0..horizon.0));
        let happening = one(random, ids);
        if let FleetEvent::To(id, what) = &happening
            && let Some(undone) = undone(*what).filter(|_| random.random_bool(0.8))
        {
            let later = at.plus(Millis::seconds(random.random_range(1..900)));
            happenings.push((later, FleetEvent::To(id.clone(), undone)));
        }
        happenings.push((at, happening));
    }
    happenings.retain(|(at, _)| *at < horizon);
    happenings
}

fn one(random: &mut StdRng, ids: &[UnitId]) -> FleetEvent {
    match random.random_range(0..100) {
        0..62 => {
            let place = random.random_range(0..ids.len().max(1));
            let id = ids.get(place).cloned().unwrap_or_else(|| UnitId::from("u-0"));
            FleetEvent::To(id, what(random))
        }
        62..70 => FleetEvent::Crash {
            gap: Millis::seconds(random.random_range(0..700)),
            lost: random.random_bool(0.3),
        },
        _ => FleetEvent::Wish(random_change(random, ids)),
    }
}

fn what(random: &mut StdRng) -> UnitEvent {
    match random.random_range(0..100) {
        0..8 => UnitEvent::Breaks(Trouble::Fails(Class::Unit)),
        8..14 => UnitEvent::Breaks(Trouble::Fails(Class::Infra)),
        14..18 => UnitEvent::Breaks(Trouble::Deaf),
        18..24 => UnitEvent::Breaks(Trouble::Stuck),
        24..30 => UnitEvent::Recovers,
        30..34 => UnitEvent::Takes(Pace {
            pickup: Millis(random.random_range(0..60_000)),
            work: Millis(random.random_range(0..700_000)),
        }),
        34..48 => UnitEvent::Disappears(absence(random)),
        48..54 => UnitEvent::IsHeld(absence(random)),
        54..57 => UnitEvent::IsBehind,
        57..60 => UnitEvent::Returns,
        60..63 => UnitEvent::Joins,
        63..66 => UnitEvent::Leaves,
        66..68 => UnitEvent::IsReplaced,
        68..77 => UnitEvent::IsDeselected,
        77..80 => UnitEvent::IsReselected,
        80..83 => UnitEvent::GetsValues,
        83..85 => UnitEvent::IsUnresolved,
        85..88 => UnitEvent::IsPinned(target(random)),
        88..92 => UnitEvent::IsForgotten,
        _ => UnitEvent::Lies,
    }
}

/// Additional events of some histories: change windows close, and units become unavailable. Unordered.
pub(super) fn disturbances(
    random: &mut StdRng,
    ids: &[UnitId],
    horizon: Millis,
) -> Vec<(Millis, FleetEvent)> {
    let mut happenings = Vec::new();
    for id in ids {
        for _ in 0..random.random_range(0..3) {
            let at = Millis(random.random_range(0..horizon.0));
            let later = at.plus(Millis::seconds(random.random_range(1..900)));
            let (what, undone) = if random.random_bool(0.5) {
                let closure = Closure {
                    why: CLOSED,
                    reverts: random.random_bool(0.5),
                    withdrawals: random.random_bool(0.5),
                    skips: random.random_bool(0.3),
                };
                (UnitEvent::Closes(closure), UnitEvent::Opens)
            } else {
                (UnitEvent::IsUnavailable, UnitEvent::IsAvailable)
            };
            for (at, what) in [(at, what), (later, undone)] {
                happenings.push((at, FleetEvent::To(id.clone(), what)));
            }
        }
    }
    happenings.retain(|(at, _)| *at < horizon);
    happenings
}

/// The event that ends this one.
const fn undone(what: UnitEvent) -> Option<UnitEvent> {
    match what {
        UnitEvent::Breaks(_) => Some(UnitEvent::Recovers),
        UnitEvent::Disappears(_) | UnitEvent::IsHeld(_) | UnitEvent::IsBehind => Some(UnitEvent::Returns),
        UnitEvent::Leaves => Some(UnitEvent::Joins),
        UnitEvent::IsDeselected => Some(UnitEvent::IsReselected),
        UnitEvent::IsUnresolved => Some(UnitEvent::IsResolved),
        UnitEvent::IsPinned(_) => Some(UnitEvent::IsUnpinned),
        _ => None,
    }
}

fn random_change(random: &mut StdRng, ids: &[UnitId]) -> SpecChange {
    match random.random_range(0..100) {
        0..42 => SpecChange::Target(Some(target(random))),
        42..45 => SpecChange::Target(None),
        45..55 => SpecChange::Limit(random_limit(random, ids.len())),
        55..65 => SpecChange::Pause(random.random_bool(0.3)),
        65..78 => SpecChange::Acknowledge,
        78..82 => SpecChange::GiveUp(
            ids.iter()
                .filter(|_| random.random_bool(0.2))
                .take(5)
                .cloned()
                .collect(),
        ),
        _ => SpecChange::Say(random_command(random)),
    }
}

fn random_command(random: &mut StdRng) -> ControlCommand {
    let revision = target(random);
    let stage = format!("stage-{}", random.random_range(0..3)).into();
    match random.random_range(0..10) {
        0..2 => ControlCommand::Abort(revision),
        2..6 => ControlCommand::Retry(revision),
        6..9 => ControlCommand::Approve(revision, stage),
        _ => ControlCommand::Promote(revision, stage),
    }
}

fn target(random: &mut StdRng) -> Revision {
    revision(random.random_range(1..=TARGETS))
}

/// A limit for this number of units.
pub(super) fn random_limit(random: &mut StdRng, count: usize) -> Limit {
    match random.random_range(0..20) {
        0 => Limit::Count(0),
        1..12 if count <= 20 => Limit::Count(random.random_range(1..=4)),
        _ => Limit::Percent(random.random_range(10..=70)),
    }
}

/// One of the possible meanings of an absence.
fn absence(random: &mut StdRng) -> Absence {
    match random.random_range(0..6) {
        0 => Absence::Wait,
        1 => Absence::Fail,
        _ => Absence::Skip,
    }
}

//! The events of a history, and their times.

use muster_rollout::{Absence, Class, Ineligible, Limit, Millis, Revision, Says, UnitId};
use rand::{RngExt as _, rngs::StdRng};

use crate::{Closure, Happening, Pace, Trouble, What, Wish, revision};

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
pub(super) fn all(random: &mut StdRng, ids: &[UnitId], horizon: Millis) -> Vec<(Millis, Happening)> {
    let most = 12 + 2 * ids.len().min(30);
    let count = random.random_range(2..=most);
    let mut happenings = Vec::new();
    for _ in 0..count {
        let at = Millis(random.random_range(0..horizon.0));
        let happening = one(random, ids);
        if let Happening::To(id, what) = &happening
            && let Some(undone) = undone(*what).filter(|_| random.random_bool(0.8))
        {
            let later = at.plus(Millis::seconds(random.random_range(1..900)));
            happenings.push((later, Happening::To(id.clone(), undone)));
        }
        happenings.push((at, happening));
    }
    happenings.retain(|(at, _)| *at < horizon);
    happenings
}

fn one(random: &mut StdRng, ids: &[UnitId]) -> Happening {
    match random.random_range(0..100) {
        0..62 => {
            let place = random.random_range(0..ids.len().max(1));
            let id = ids.get(place).cloned().unwrap_or_else(|| UnitId::from("u-0"));
            Happening::To(id, what(random))
        }
        62..70 => Happening::Crash {
            gap: Millis::seconds(random.random_range(0..700)),
            lost: random.random_bool(0.3),
        },
        _ => Happening::Wish(wish(random, ids)),
    }
}

fn what(random: &mut StdRng) -> What {
    match random.random_range(0..100) {
        0..8 => What::Breaks(Trouble::Fails(Class::Unit)),
        8..14 => What::Breaks(Trouble::Fails(Class::Infra)),
        14..18 => What::Breaks(Trouble::Deaf),
        18..24 => What::Breaks(Trouble::Stuck),
        24..30 => What::Recovers,
        30..34 => What::Takes(Pace {
            pickup: Millis(random.random_range(0..60_000)),
            work: Millis(random.random_range(0..700_000)),
        }),
        34..48 => What::Disappears(absence(random)),
        48..54 => What::IsHeld(absence(random)),
        54..57 => What::IsBehind,
        57..60 => What::Returns,
        60..63 => What::Joins,
        63..66 => What::Leaves,
        66..68 => What::IsReplaced,
        68..77 => What::IsDeselected,
        77..80 => What::IsReselected,
        80..83 => What::GetsValues,
        83..85 => What::IsUnresolved,
        85..88 => What::IsPinned(target(random)),
        88..92 => What::IsForgotten,
        _ => What::Lies,
    }
}

/// Additional events of some histories: change windows close, and units become unavailable. Unordered.
pub(super) fn disturbances(random: &mut StdRng, ids: &[UnitId], horizon: Millis) -> Vec<(Millis, Happening)> {
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
                (What::Closes(closure), What::Opens)
            } else {
                (What::IsUnavailable, What::IsAvailable)
            };
            for (at, what) in [(at, what), (later, undone)] {
                happenings.push((at, Happening::To(id.clone(), what)));
            }
        }
    }
    happenings.retain(|(at, _)| *at < horizon);
    happenings
}

/// The event that ends this one.
const fn undone(what: What) -> Option<What> {
    match what {
        What::Breaks(_) => Some(What::Recovers),
        What::Disappears(_) | What::IsHeld(_) | What::IsBehind => Some(What::Returns),
        What::Leaves => Some(What::Joins),
        What::IsDeselected => Some(What::IsReselected),
        What::IsUnresolved => Some(What::IsResolved),
        What::IsPinned(_) => Some(What::IsUnpinned),
        _ => None,
    }
}

fn wish(random: &mut StdRng, ids: &[UnitId]) -> Wish {
    match random.random_range(0..100) {
        0..42 => Wish::Target(Some(target(random))),
        42..45 => Wish::Target(None),
        45..55 => Wish::Limit(limit(random, ids.len())),
        55..65 => Wish::Pause(random.random_bool(0.3)),
        65..78 => Wish::Acknowledge,
        78..82 => Wish::GiveUp(
            ids.iter()
                .filter(|_| random.random_bool(0.2))
                .take(5)
                .cloned()
                .collect(),
        ),
        _ => Wish::Say(says(random)),
    }
}

fn says(random: &mut StdRng) -> Says {
    let revision = target(random);
    let stage = format!("stage-{}", random.random_range(0..3)).into();
    match random.random_range(0..10) {
        0..2 => Says::Abort(revision),
        2..6 => Says::Retry(revision),
        6..9 => Says::Approve(revision, stage),
        _ => Says::Promote(revision, stage),
    }
}

fn target(random: &mut StdRng) -> Revision {
    revision(random.random_range(1..=TARGETS))
}

/// A limit for this number of units.
pub(super) fn limit(random: &mut StdRng, count: usize) -> Limit {
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

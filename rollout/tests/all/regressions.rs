//! Histories that once broke a law, minimized: each is replayed, followed by a fair time.

use crate::coverage::Coverage;
use crate::histories::{Event, Event::*, run_history};
use crate::history_simulation::{Settings, UnitEvent::*};

/// A leader decides on the current state, and all its writes are lost.
const LOST: Event = Lead { lag: 0, sent: 0 };
/// A leader decides on the current state, and its writes are pending.
const SENT: Event = Lead { lag: 0, sent: 15 };
/// A leader decides on a previous state, and all its writes are lost.
const STALE: Event = Lead { lag: 1, sent: 0 };

fn check(events: &[Event]) {
    let coverage = Coverage::default();
    let mut play = run_history(&coverage, events, &Settings::PLAIN).unwrap();
    play.fair_run("r9", 1, &[]).unwrap();
    assert!(play.world.memory.in_flight.is_empty());
}

#[test]
fn a_fence_of_an_abandoned_unit_counts_as_absent() {
    let waits = [Unit(1, Disappears), Unit(2, IsDeselected)];
    let before = [
        Round,
        Round,
        Round,
        GiveUp(vec![3]),
        Target(5),
        Round,
        Round,
        SENT,
    ];
    let mut events = vec![Round];
    events.extend(waits);
    events.extend(before);
    events.extend([Waver(3), Unit(3, Disappears), LOST, LOST]);
    check(&events);
}

#[test]
fn an_in_flight_change_missing_from_a_stale_view_keeps_its_slot() {
    let lost_twice = [
        Round,
        LOST,
        Round,
        Round,
        Round,
        Forget,
        LOST,
        Unit(1, IsForgotten),
        Round,
        Forget,
    ];
    let mut events = lost_twice.to_vec();
    events.extend([Target(1), Deliver(0), Deliver(0), Unit(1, IsReplaced), STALE]);
    check(&events);
}

#[test]
fn what_was_given_up_is_not_withdrawn_on_a_stale_view() {
    check(&[
        Round,
        Round,
        Unit(0, IsDeselected),
        Round,
        GiveUp(vec![0]),
        SENT,
        STALE,
        Deliver(0),
        Round,
    ]);
}

#[test]
fn a_returned_unit_that_is_abandoned_is_not_confirmed() {
    let released = [LOST, Round, Unit(0, Disappears), LOST, Time(301), LOST];
    let mut events = released.to_vec();
    events.extend([
        Unit(0, IsDeselected),
        Unit(0, Returns),
        GiveUp(vec![0]),
        LOST,
        LOST,
    ]);
    check(&events);
}

#[test]
fn an_uncertain_unit_after_a_lost_memory_takes_a_slot_whatever_its_target() {
    let one_in_doubt = [
        Round,
        Unit(0, Works),
        Round,
        Round,
        LOST,
        Target(2),
        Round,
        Forget,
    ];
    let mut events = one_in_doubt.to_vec();
    events.extend([Target(0), Unit(1, Breaks), Unit(1, Works), Round]);
    events.extend([Unit(2, Disappears), Target(1), Round]);
    check(&events);
}

#[test]
fn a_unit_counted_in_the_view_keeps_its_slot_beside_a_returned_one() {
    let back = [
        LOST,
        Round,
        Unit(0, Disappears),
        LOST,
        Time(301),
        Lead { lag: 0, sent: 106 },
    ];
    let mut events = back.to_vec();
    events.extend([Target(1), Deliver(0), Unit(0, Returns), Unit(1, Works)]);
    events.extend([Lead { lag: 0, sent: 14 }, Unit(1, Works)]);
    check(&events);
}

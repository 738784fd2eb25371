//! Promise: changes of the wall clock do not affect deadlines, and a hold that was set in this boot ends on time.

use std::time::Duration;

use jiff::SignedDuration;
use muster_node::{State, hold_for, release};

use crate::support::world::{World, assign, file, path, reason, row};

const HOUR: i64 = 3600;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// DX8.
#[test]
fn a_change_takes_as_long_whatever_the_wall_clock_does() {
    let mut taken = Vec::new();
    for shift in [0, HOUR, -HOUR, TEN_YEARS, -TEN_YEARS] {
        let world = World::new();
        world.disk.put(&path("a"), "previous a");
        let mut agent = world.start();
        // The clock is corrected during the acknowledgement, so that the end is after the correction.
        let row = row(1, vec![file(&path("a"), "link-down")]);
        let answer = agent.assign(std::slice::from_ref(&row), &mut |_| {
            world.clock.set_wall(SignedDuration::from_secs(shift));
            true
        });
        let State::Ended(outcome) = &answer.reports[0].state else {
            panic!()
        };
        taken.push((world.clock.since_boot.get(), outcome.clone()));
        assert_eq!(world.read(&path("a")).unwrap(), "previous a");
    }
    assert!(taken.windows(2).all(|pair| pair[0] == pair[1]), "{taken:?}");
}

#[test]
fn a_hold_ends_when_it_was_to_end() {
    for shift in [0, HOUR, -HOUR, TEN_YEARS, -TEN_YEARS] {
        let world = World::new();
        let mut agent = world.start();
        hold_for(
            &world.agent_environment(),
            Duration::from_hours(2),
            "works on the rack",
        )
        .unwrap();
        world.clock.set_wall(SignedDuration::from_secs(shift));
        let row = row(1, vec![file(&path("a"), "new")]);
        world
            .clock
            .advance(Duration::from_hours(2) - Duration::from_secs(1));
        assert_eq!(reason(&mut agent, &row), "HeldLocally", "shift {shift}");
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(reason(&mut agent, &row), "Confirmed", "shift {shift}");
    }
}

#[test]
fn a_hold_outlives_a_reboot() {
    let mut world = World::new();
    hold_for(
        &world.agent_environment(),
        Duration::from_hours(2),
        "works on the rack",
    )
    .unwrap();
    world.clock.advance(Duration::from_mins(30));
    world.reboot();
    let row = row(1, vec![file(&path("a"), "new")]);
    let mut agent = world.start();
    assert_eq!(reason(&mut agent, &row), "HeldLocally");
    world.clock.advance(Duration::from_mins(90));
    assert_eq!(reason(&mut agent, &row), "Confirmed");
}

#[test]
fn released_is_released() {
    let world = World::new();
    let mut agent = world.start();
    hold_for(&world.agent_environment(), Duration::MAX, "for good").unwrap();
    let row = row(1, vec![file(&path("a"), "new")]);
    let answer = assign(&mut agent, std::slice::from_ref(&row));
    assert_eq!(answer.reports[0].state.reason(), "HeldLocally");
    assert_eq!(world.read(&path("a")), None);
    release(&world.agent_environment()).unwrap();
    assert_eq!(reason(&mut agent, &row), "Confirmed");
}

//! Rule 5: time without a leader counts against no unit, whatever happened before.

use std::collections::BTreeMap;

use muster_rollout::{InFlight, Memory, Millis, UnitId};
use proptest::prelude::*;

use crate::coverage::Coverage;
use crate::histories::{history, run_history, runner};
use crate::history_simulation::Settings;

/// The time spent of the deadline of an in-flight change, and of its absence.
fn spent(change: &InFlight, now: Millis) -> (Millis, Option<Millis>) {
    let running = change.clock.from.map_or(Millis(0), |from| now.since(from));
    (
        change.clock.spent.plus(running),
        change.absent_since.map(|since| now.since(since)),
    )
}

fn all_spent(memory: &Memory, now: Millis) -> BTreeMap<UnitId, (Millis, Option<Millis>)> {
    memory
        .in_flight
        .iter()
        .map(|(id, change)| (id.clone(), spent(change, now)))
        .collect()
}

#[test]
fn nothing_runs_over_a_gap_and_nothing_is_prolonged_by_none() {
    let coverage = Coverage::default();
    let gaps = (0..4_000_000u64, 0..4_000_000u64);
    let result = runner(400).run(&(history(60), gaps), |(events, (gap, beyond))| {
        let mut play = run_history(
            &coverage,
            &events,
            &Settings {
                max_failed: 1,
                ..Settings::PLAIN
            },
        )?;
        play.lead(0, 0).map_err(TestCaseError::fail)?;
        let (memory, then) = (play.world.memory.clone(), play.world.now);
        prop_assert_eq!(&memory.clone().after_gap(Millis(0), then), &memory, "none");
        let now = then.plus(Millis(gap));
        let after = memory.clone().after_gap(Millis(gap), now);
        prop_assert_eq!(
            all_spent(&after, now),
            all_spent(&memory, then),
            "what ran before the gap, and no more"
        );
        // There was a leader for a part of it: that part counts. A gap that is longer than the actual one extends no
        // deadline.
        let later = now.plus(Millis(beyond));
        let partial = memory.clone().after_gap(Millis(gap), later);
        let all = memory.clone().after_gap(Millis(u64::MAX), later);
        for (id, change) in &memory.in_flight {
            let ran = |memory: &Memory| spent(&memory.in_flight[id], later);
            let (before, part, none) = (spent(change, later), ran(&partial), ran(&all));
            prop_assert!(part.0 <= before.0 && part.1 <= before.1, "a gap adds nothing");
            let lost = |some: Millis, less: Millis| some.since(less) <= Millis(gap);
            prop_assert!(lost(before.0, part.0), "no more than the gap is forgiven");
            prop_assert!(
                part.1
                    .zip(before.1)
                    .is_none_or(|(part, before)| lost(before, part))
            );
            prop_assert!(none.0 >= change.clock.spent, "what was spent stays spent");
        }
        let was: Vec<_> = memory
            .in_flight
            .values()
            .map(|change| (change.failed, change.skipped))
            .collect();
        play.world.now = now;
        play.world.memory = after;
        let decision = play.lead(0, 0).map_err(TestCaseError::fail)?;
        if memory.in_flight.keys().eq(decision.memory.in_flight.keys()) {
            let is: Vec<_> = decision
                .memory
                .in_flight
                .values()
                .map(|change| (change.failed, change.skipped))
                .collect();
            prop_assert_eq!(is, was, "no deadline ended in a time without a leader");
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    coverage.assert_all(&["why: Ineligible", "why: Updating"]);
}

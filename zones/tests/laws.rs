//! Promise: over random histories with crashes of leaders, late deletions, lost answers and statuses that lag, with drains and autoscalers, never
//! two zones are disturbed by us, never more pods of a zone than may be, no pod leaves unprepared, and a good revision gets everywhere.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failed expectation is meant to end the test"
)]

mod player;

#[test]
fn never_two_zones_and_never_more_than_may_be() {
    let mut all = player::Tally::default();
    for seed in 0..600 {
        match player::play(seed) {
            Ok(tally) => all.add(&tally),
            Err(broken) => panic!("{broken}"),
        }
    }
    // A history in which nothing happens breaks no law.
    let happened = [
        all.deletions,
        all.evictions,
        all.downscales,
        all.conflicts,
        all.kills,
        all.condemned,
    ];
    assert!(happened.iter().all(|count| *count > 200), "{all:?}");
}

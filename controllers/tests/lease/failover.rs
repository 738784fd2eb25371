//! Which candidate takes over, and when.

use std::time::Duration;

use muster_controllers::lease::LONGEST_GAP;
use tokio::time::Instant;

use super::support::{Bed, SECOND, keep, pass};

/// Within one lease and one retry after the last renewal, whenever between two renewals the leader was killed; never
/// before the killed leader, if it were still running, would have stopped acting.
#[tokio::test(start_paused = true)]
async fn after_a_crash_within_the_lease_and_one_retry() {
    let mut longest = Duration::ZERO;
    for millis in (0..12_000).step_by(390) {
        let bed = Bed::new();
        let first = keep(bed.lead("a").await);
        let next = tokio::spawn(bed.candidate("b").stand());
        pass(Duration::from_millis(millis)).await;
        let crashed = Instant::now();
        // The leadership that the killed process would still have.
        let believes = first.leadership.clone();
        drop(first);
        let term = next.await.unwrap();
        let took = crashed.elapsed();
        longest = longest.max(took);
        assert!(took <= 17 * SECOND, "killed after {millis} ms: {took:?}");
        assert!(
            believes.check().is_err(),
            "killed after {millis} ms: two that may act"
        );
        assert!(
            term.gap <= 17 * SECOND && term.gap >= 10 * SECOND,
            "{:?}",
            term.gap
        );
        let spec = bed.spec().await;
        assert_eq!(spec.lease_transitions, Some(1));
        assert!(spec.holder_identity.unwrap().starts_with("b_"));
    }
    println!("the longest failover: {longest:?}");
    assert!(longest > 14 * SECOND, "the table has the worst cases");
}

/// A released lease is taken at the next try.
#[tokio::test(start_paused = true)]
async fn after_a_release_within_one_retry() {
    let bed = Bed::new();
    let first = bed.lead("a").await;
    let leadership = first.leadership();
    let next = tokio::spawn(bed.candidate("b").stand());
    pass(3 * SECOND).await;
    let released = Instant::now();
    first.release().await;
    assert!(
        leadership.check().is_err(),
        "a process that releases does not act"
    );
    assert_eq!(bed.holder().await, None);
    let term = next.await.unwrap();
    assert!(released.elapsed() <= 2 * SECOND, "{:?}", released.elapsed());
    assert!(term.gap <= 2 * SECOND, "since the release: {:?}", term.gap);
}

/// There was no leader before: the length of the gap is unknown.
#[tokio::test(start_paused = true)]
async fn the_first_of_all() {
    let bed = Bed::new();
    let term = bed.lead("a").await;
    assert_eq!(term.gap, LONGEST_GAP);
    assert_eq!(bed.spec().await.lease_transitions, Some(0));
}

/// A candidate that starts after the leader was killed knows only the Lease object.
#[tokio::test(start_paused = true)]
async fn a_late_candidate_waits_a_whole_lease() {
    let bed = Bed::new();
    drop(bed.lead("a").await);
    pass(3600 * SECOND).await;
    let started = Instant::now();
    let term = bed.candidate("b").stand().await;
    assert_eq!(
        started.elapsed(),
        15 * SECOND,
        "the clocks of others prove nothing"
    );
    assert_eq!(term.gap, 3615 * SECOND);
}

/// A restarted process with the same name is another holder.
#[tokio::test(start_paused = true)]
async fn a_lease_under_the_same_name_belongs_to_another_process() {
    let bed = Bed::new();
    let candidate = bed.candidate("a");
    let me = candidate.identity().to_owned();
    drop(bed.lead("a").await);
    assert_eq!(
        bed.holder().await.as_ref(),
        Some(&me),
        "the seed makes the names alike"
    );
    let started = Instant::now();
    candidate.stand().await;
    assert_eq!(started.elapsed(), 15 * SECOND);
}

/// A Lease deleted under its holder is not taken before the holder has noticed or has not renewed for too long.
#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_still_its_holders() {
    let bed = Bed::new();
    let first = keep(bed.lead("a").await);
    let next = tokio::spawn(bed.candidate("b").stand());
    pass(6 * SECOND).await;
    bed.delete().await;
    pass(60 * SECOND).await;
    assert!(first.leadership.check().is_ok());
    assert!(!next.is_finished());
    let (lost, deleted) = (first.leadership.clone(), Instant::now());
    drop(first);
    bed.delete().await;
    next.await.unwrap();
    assert!(lost.check().is_err());
    assert!(deleted.elapsed() >= 10 * SECOND && deleted.elapsed() <= 17 * SECOND);
}

//! The holder of the Lease, and what may happen to it.

use std::time::Duration;

use muster_apiserver::{
    fault::{Failure, Fault, Match, Rule},
    record::RequestRecord,
};
use muster_controllers::{lease::Lost, runtime::call::error_chain};
use serde_json::json;

use super::support::{Bed, Kept, LEASE, SECOND, holder_is, keep, pass};

/// The process is still the leader.
fn leads(kept: &Kept) -> bool {
    kept.leadership.check().is_ok() && !kept.lost.is_finished()
}

/// A temporary failure: how soon it must end, and how long until acting ends if it does not.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails() {
    async fn check(fault: Fault, lasts: Duration, expect: Result<(), &str>) {
        let bed = Bed::new();
        let kept = keep(bed.lead("a").await);
        pass(6 * SECOND).await;
        let rule = bed.fail("a", fault.clone());
        pass(lasts).await;
        bed.api.faults().remove(rule);
        pass(60 * SECOND).await;
        let what = format!("{fault:?} for {lasts:?}");
        match expect {
            Ok(()) => assert!(leads(&kept), "{what}"),
            Err(expect) => {
                assert!(kept.leadership.check().is_err(), "{what}");
                let (lost, after) = kept.lost.await.unwrap();
                assert_eq!(
                    after,
                    15 * SECOND,
                    "two thirds of the lease after the renewal at 5 s: {what}"
                );
                assert_eq!(error_chain(&lost), expect, "{what}");
            }
        }
    }
    let lost = "Lease muster-controller was not renewed for 10 s: this process stops acting and ends, another process may become the leader";
    let with = |why: &str| format!("{lost}: {why}");
    check(Fault::Status(Failure::Unavailable), 7 * SECOND, Ok(())).await;
    check(Fault::Refuse, 7 * SECOND, Ok(())).await;
    check(Fault::Delay(3600 * SECOND), 6 * SECOND, Ok(())).await;
    check(Fault::Status(Failure::TooManyRequests(1)), 7 * SECOND, Ok(())).await;
    let why = "writing Lease muster-controller: the server is currently unable to handle the request";
    check(Fault::Status(Failure::Unavailable), 12 * SECOND, Err(&with(why))).await;
    let why = "writing Lease muster-controller: no answer within 2 s";
    check(Fault::Delay(3600 * SECOND), 12 * SECOND, Err(&with(why))).await;
    let why = "writing Lease muster-controller: forbidden by a fault rule";
    check(Fault::Status(Failure::Forbidden), 12 * SECOND, Err(&with(why))).await;
}

/// What another writer may do to the Lease while it is held.
#[tokio::test(start_paused = true)]
async fn hands_on_the_lease() {
    async fn check(what: &str, change: serde_json::Value, expect: Option<&str>) {
        let bed = Bed::new();
        let kept = keep(bed.lead("a").await);
        pass(6 * SECOND).await;
        bed.edit(change).await;
        pass(30 * SECOND).await;
        match expect {
            None => assert!(leads(&kept), "{what}"),
            Some(expect) => {
                let (lost, after) = kept.lost.await.unwrap();
                assert!(after <= 10 * SECOND, "noticed by the next renewal: {what}");
                assert!(matches!(lost, Lost::Taken { .. }));
                assert_eq!(error_chain(&lost), expect, "{what}");
            }
        }
    }
    let taken =
        |by: &str| format!("Lease muster-controller was taken by {by}: this process stops acting and ends");
    check(
        "annotated",
        json!({"metadata": {"annotations": {"a": "b"}}}),
        None,
    )
    .await;
    check(
        "another duration",
        json!({"spec": {"leaseDurationSeconds": 1}}),
        None,
    )
    .await;
    check(
        "a renewal of the past",
        json!({"spec": {"renewTime": "1970-01-01T00:00:00.000000Z"}}),
        None,
    )
    .await;
    check(
        "an odd count",
        json!({"spec": {"leaseTransitions": 2_147_483_647}}),
        None,
    )
    .await;
    check("given to another", holder_is("b"), Some(&taken("b"))).await;
    check(
        "emptied",
        json!({"spec": {"holderIdentity": null}}),
        Some(&taken("nobody")),
    )
    .await;
    let again = json!({"spec": {"acquireTime": "2026-01-01T00:00:06.000000Z"}});
    let bed = Bed::new();
    let me = bed.candidate("a").identity().to_owned();
    check("taken by another of this name", again, Some(&taken(&me))).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_by_hand_it_is_made_again() {
    let bed = Bed::new();
    let kept = keep(bed.lead("a").await);
    for _ in 0..3 {
        pass(7 * SECOND).await;
        bed.delete().await;
    }
    pass(15 * SECOND).await;
    assert!(leads(&kept));
    assert!(bed.holder().await.unwrap().starts_with("a_"));
}

/// A lost response does not tell whether the write happened.
#[tokio::test(start_paused = true)]
async fn answers_that_are_lost() {
    let bed = Bed::new();
    let lost = |path: &str| Rule {
        after: 0,
        ..Rule::times(
            Match {
                verbs: vec![muster_apiserver::Verb::Create, muster_apiserver::Verb::Update],
                path: Some(path.to_owned()),
                ..Match::client("a")
            },
            Fault::DropResponse,
            1,
        )
    };
    bed.api.faults().add(lost("/leases"));
    let started = tokio::time::Instant::now();
    let term = bed.candidate("a").stand().await;
    assert!(
        started.elapsed() <= 2 * SECOND,
        "it looks again, and finds its own attempt"
    );
    assert_eq!(bed.spec().await.lease_transitions, Some(0), "taken once");
    let kept = keep(term);
    for _ in 0..4 {
        bed.api.faults().add(lost(&format!("/leases/{LEASE}")));
        pass(10 * SECOND).await;
    }
    assert!(leads(&kept));
}

/// Only the renewals are written, each third of the lease.
#[tokio::test(start_paused = true)]
async fn renewals_are_all_that_is_written() {
    let bed = Bed::new();
    let kept = keep(bed.lead("a").await);
    let standby = tokio::spawn(bed.candidate("b").stand());
    bed.api.recorder().clear();
    pass(600 * SECOND).await;
    assert!(leads(&kept));
    assert!(!standby.is_finished());
    let renewals = bed.writes("a");
    assert!((119..=121).contains(&renewals), "{renewals}");
    assert_eq!(bed.writes("b"), 0);
    let requests = bed.api.recorder().requests();
    let elsewhere = |request: &&std::sync::Arc<RequestRecord>| !request.path.contains("/leases/");
    assert_eq!(requests.iter().filter(elsewhere).count(), 0);
}

/// The process was stopped (SIGSTOP) beyond its time: it does not act, and does not renew, although no other process
/// has the Lease.
#[tokio::test(start_paused = true)]
async fn a_process_that_did_not_run() {
    let bed = Bed::new();
    let kept = keep(bed.lead("a").await);
    pass(6 * SECOND).await;
    let writes = bed.writes("a");
    tokio::time::advance(60 * SECOND).await;
    assert!(kept.leadership.check().is_err());
    let (lost, _) = kept.lost.await.unwrap();
    assert!(matches!(lost, Lost::NotRenewed { .. }), "{lost}");
    assert_eq!(bed.writes("a"), writes);
}

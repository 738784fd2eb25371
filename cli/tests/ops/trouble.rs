//! Promise: whatever the management cluster's API server does, a command ends in time, with code 2 and a readable
//! error.

use std::time::Duration;

use muster_apiserver::fault::{Failure, Fault, Match, Rule};

use crate::bed::Bed;

/// Longer than any command with a request timeout of two seconds may take.
const ENDS: Duration = Duration::from_secs(20);

const VERBS: &[&str] = &[
    "matrix",
    "matrix -w",
    "tree",
    "why module/web",
    "get all",
    "get modules -w",
    "events",
    "rollout status module/web",
    "rollout pause module/web",
    "hold eu-1",
    "reconcile module/web",
];

async fn check(fault: Fault, expected: &str) {
    let bed = Bed::new().await;
    bed.management.faults().add(Rule::always(Match::default(), fault));
    for verb in VERBS {
        let words = format!("{verb} --request-timeout 2s");
        let output = tokio::time::timeout(ENDS, bed.muster(&words))
            .await
            .unwrap_or_else(|_elapsed| panic!("{verb} has not ended: {expected}"));
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(2), ""),
            "{verb}: {}",
            output.err
        );
        assert!(
            output.err.starts_with("error: ") && output.err.contains(expected),
            "{verb}: {}",
            output.err
        );
        for code in [
            "ApiError",
            "ServiceError",
            "Some(",
            "Status {",
            "ListMeta",
            "(Connect)",
        ] {
            assert!(!output.err.contains(code), "{verb}: {}", output.err);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent() {
    check(Fault::Delay(Duration::from_hours(1)), "no complete answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drips() {
    check(Fault::Drip(Duration::from_secs(1)), "no complete answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses() {
    check(Fault::Status(Failure::Unauthorized), "Unauthorized").await;
    check(Fault::Status(Failure::Forbidden), "forbidden").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_well() {
    check(Fault::Status(Failure::Internal), "nternal").await;
    check(
        Fault::Status(Failure::Unavailable),
        "unable to handle the request",
    )
    .await;
    check(Fault::Status(Failure::TooManyRequests(1_000)), "oo many requests").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached() {
    check(Fault::Refuse, "could not be reached").await;
    check(Fault::DropResponse, "could not be reached").await;
}

//! Promise: a new desired state during an update is applied after it: a started update is finished, and the rest is
//! planned from there.

use serde_json::json;

use crate::support::*;

const NEWER: (&str, &str) = ("v1.35.0", "b");

/// CX2, R37: the digest of the decision is pinned.
#[tokio::test(start_paused = true)]
async fn what_was_begun_is_finished_first() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let [first] = &bed.plans().await[..] else { panic!() };
    let digest = first.spec.to.clone();
    bed.answers(
        "image",
        &[json!({"status": "Success", "retryAfterSeconds": 5, "message": "writing"})],
    );
    bed.update("m1", NEW).await;
    pass(3).await;
    for _ in 0..5 {
        let response = bed.update("m1", NEWER).await;
        assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");
        assert!(
            response["message"]
                .as_str()
                .unwrap()
                .contains("machine/version is not what was planned"),
            "{response}"
        );
        pass(5).await;
    }
    let sent = bed.updaters.calls.lock().clone();
    assert!(
        sent.iter().all(|(_, _, sent)| *sent == digest),
        "only the decision is applied"
    );
    bed.answers("image", &[]);
    bed.until_done("m1", NEWER).await;
    let plans = bed.plans().await;
    assert_eq!(plans.len(), 2);
    let second = plans.iter().find(|plan| plan.spec.to != digest).unwrap();
    assert_eq!(second.spec.source, "m1");
    let last = bed.updaters.calls.lock().last().cloned().unwrap();
    assert_eq!(
        (last.0.as_str(), &last.2),
        ("kubelet", &second.spec.to),
        "only the version is left"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_covered_is_never_done() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.until_done("m1", NEW).await;
    bed.updaters.covers.lock().clear();
    for _ in 0..5 {
        let response = bed.update("m1", NEWER).await;
        assert_eq!(response["status"], "Failure");
        assert!(
            response["message"]
                .as_str()
                .unwrap()
                .contains("and the change is not covered"),
            "{response}"
        );
        pass(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_in_the_plan_that_was_made_last() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.until_done("m1", NEW).await;
    // There and back: the Machine is no longer as the first plan states.
    bed.can(NEW, OLD, json!({})).await;
    bed.until_done("m1", OLD).await;
    bed.can(OLD, NEW, json!({})).await;
    let calls = bed.calls("kubelet", "m1");
    assert_eq!(
        bed.entry(&uid).await.state,
        muster_api::update_plan::MachineUpdateState::Pending
    );
    bed.until_done("m1", NEW).await;
    assert_eq!(bed.calls("kubelet", "m1"), calls + 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_in_the_middle_of_an_update_does_not_end_it() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let working = json!({"status": "Success", "retryAfterSeconds": 5, "message": "writing"});
    bed.answers("image", &[working]);
    bed.update("m1", NEW).await;
    pass(3).await;
    // The MachineDeployment changes again: Cluster API queries for its Machines, including this one, and continues what
    // it started.
    assert_eq!(bed.can(NEW, NEWER, json!({})).await["status"], "Success");
    for restarts in [false, true] {
        if restarts {
            bed.start().await;
        }
        let response = bed.update("m1", NEW).await;
        assert_eq!(response["status"], "Success", "{response}");
        assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");
        pass(2).await;
    }
    bed.answers("image", &[]);
    bed.until_done("m1", NEW).await;
    // The response was lost.
    bed.until_done("m1", NEW).await;
    let calls = bed.calls("kubelet", "m1");
    bed.until_done("m1", NEWER).await;
    assert_eq!(bed.calls("kubelet", "m1"), calls + 1);
    pass(2).await;
    assert_eq!(
        bed.entry(&uid).await.state,
        muster_api::update_plan::MachineUpdateState::Updated
    );
}

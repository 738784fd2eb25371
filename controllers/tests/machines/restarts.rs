//! Promise: killed during an update, it continues: the decision remains, finished steps are not forgotten, and the time
//! of a step continues.

use muster_api::update_plan::MachineUpdateState;
use muster_machines::Hook;
use serde_json::json;

use crate::support::*;

/// CX3, R30: killed during an update, the remaining steps are queried from the updaters again.
#[tokio::test(start_paused = true)]
async fn an_update_goes_on_where_it_was() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let working = json!({"status": "Success", "retryAfterSeconds": 5, "message": "writing the image"});
    bed.answers("image", &[working]);
    bed.update("m1", NEW).await;
    pass(4).await;
    let entry = bed.entry(&uid).await;
    assert_eq!((entry.state, entry.step), (MachineUpdateState::Updating, 1));
    bed.start().await;
    let response = bed.update("m1", NEW).await;
    assert!(
        response["message"]
            .as_str()
            .unwrap()
            .starts_with("step 2 of 2, updater image"),
        "{response}"
    );
    bed.answers("image", &[]);
    bed.until_done("m1", NEW).await;
    assert_eq!(bed.calls("kubelet", "m1"), 1, "its step was over");
}

#[tokio::test(start_paused = true)]
async fn what_failed_stays_failed() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.answers("kubelet", &[json!({"status": "Failure", "message": "disk full"})]);
    bed.update("m1", NEW).await;
    pass(300).await;
    // The first half of its time was before the restart.
    bed.start().await;
    bed.update("m1", NEW).await;
    pass(303).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    bed.start().await;
    let calls = bed.calls("kubelet", "m1");
    let response = bed.update("m1", NEW).await;
    assert_eq!(
        (&response["status"], &response["message"]),
        (&json!("Failure"), &json!("disk full"))
    );
    pass(60).await;
    assert_eq!(bed.calls("kubelet", "m1"), calls);
}

const NEWER: (&str, &str) = ("v1.35.0", "b");

/// A plan of one Machine has its objects: a started update is finished, and its completion is not forgotten.
#[tokio::test(start_paused = true)]
async fn of_one_machine_what_was_begun_is_finished_first_though_something_else_is_desired_since() {
    for is_done in [false, true] {
        let mut bed = Bed::new();
        let uid = bed.control_plane("cp", &json!({})).await.0;
        bed.start().await;
        let request = json!({"current": objects("cp-0", OLD), "desired": objects("cp-0", NEW)});
        let response = bed.call(Hook::CanUpdateMachine, &request).await;
        assert_eq!(response["status"], "Success", "{response}");
        let [first] = &bed.plans().await[..] else { panic!() };
        let digest = first.spec.to.clone();
        if is_done {
            bed.until_done("cp-0", NEW).await;
        } else {
            bed.answers(
                "image",
                &[json!({"status": "Success", "retryAfterSeconds": 5, "message": "writing"})],
            );
            bed.update("cp-0", NEW).await;
        }
        pass(4).await;
        bed.start().await;
        let response = bed.update("cp-0", NEWER).await;
        assert_eq!(response["status"], "Success", "{response}");
        assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");
        bed.answers("image", &[]);
        bed.until_done("cp-0", NEWER).await;
        let calls = bed.updaters.calls.lock().clone();
        let ends: Vec<(&str, bool)> = calls
            .iter()
            .map(|(by, _, sent)| (by.as_str(), *sent == digest))
            .collect();
        let (last, before) = ends.split_last().unwrap();
        assert_eq!(*last, ("kubelet", false), "{ends:?}");
        assert!(before.iter().all(|(_, is_first)| *is_first), "{ends:?}");
        assert_eq!(before.last(), Some(&("image", true)), "{ends:?}");
        pass(2).await;
        assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updated);
    }
}

/// Retried while it was in progress in no process, it still counts as started: later decisions apply after it.
#[tokio::test(start_paused = true)]
async fn what_was_retried_before_it_was_asked_for_again_has_begun() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let [first] = &bed.plans().await[..] else { panic!() };
    let digest = first.spec.to.clone();
    bed.answers("kubelet", &[json!({"status": "Failure", "message": "disk full"})]);
    bed.update("m1", NEW).await;
    pass(605).await;
    bed.start().await;
    bed.annotate("fleet.muster.dev/retry", json!("m1")).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updating);
    bed.answers("kubelet", &[]);
    let response = bed.can(NEW, NEWER, json!({})).await;
    assert_eq!(response["status"], "Success", "{response}");
    let calls = bed.calls("kubelet", "m1");
    bed.until_done("m1", NEW).await;
    let sent = bed.updaters.calls.lock().clone();
    assert!(sent.iter().all(|(_, _, sent)| *sent == digest), "{sent:?}");
    assert_eq!(bed.calls("kubelet", "m1"), calls + 1);
}

//! Promise: an annotation that a user sets on a plan is handled once, whether the update is in progress, failed, or
//! only recorded; a plan is deleted once none of its Machines needs it.

use muster_api::update_plan::MachineUpdateState;
use serde_json::json;

use crate::support::*;

const RETRY: &str = "fleet.muster.dev/retry";
const ABORT: &str = "fleet.muster.dev/abort";

async fn working() -> (Bed, String) {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.machine("m2", "old").await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let working = json!({"status": "Success", "retryAfterSeconds": 5, "message": "downloading"});
    bed.answers("image", &[working]);
    bed.update("m1", NEW).await;
    pass(3).await;
    assert_eq!(bed.entry(&uid).await.step, 1);
    (bed, uid)
}

#[tokio::test(start_paused = true)]
async fn abort_ends_an_update_with_the_way_out_and_retry_goes_on_with_its_step() {
    let (mut bed, uid) = working().await;
    bed.annotate(
        ABORT,
        json!({"for": "m1", "by": "ann", "reason": "wrong image", "at": "2026-11-28T12:05:00Z"}),
    )
    .await;
    let response = bed.update("m1", NEW).await;
    assert_eq!(response["status"], "Failure");
    let message = response["message"].as_str().unwrap();
    for part in [
        "aborted by ann (wrong image)",
        "muster machines retry m1 -n fleet",
        "kubectl delete machine m1 -n fleet",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    let calls = bed.calls("image", "m1");
    pass(120).await;
    assert_eq!(bed.calls("image", "m1"), calls, "no updater is called after that");
    // The process that reads it next has no update in progress.
    bed.start().await;
    bed.answers("image", &[]);
    bed.annotate(RETRY, json!("true")).await;
    let entry = bed.entry(&uid).await;
    assert_eq!((entry.state, entry.step), (MachineUpdateState::Updating, 1));
    let kubelet = bed.calls("kubelet", "m1");
    bed.until_done("m1", NEW).await;
    assert_eq!(
        bed.calls("kubelet", "m1"),
        kubelet,
        "the step that was complete is not called again"
    );
    pass(2).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updated);
    let [plan] = &bed.plans().await[..] else { panic!() };
    let status = plan.status.clone().unwrap();
    assert_eq!(status.last_handled_retry.as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_control_is_carried_out_once() {
    let (mut bed, uid) = working().await;
    bed.annotate(RETRY, json!("m1")).await;
    pass(1900).await;
    for restarts in [false, true] {
        if restarts {
            bed.start().await;
        }
        assert_eq!(bed.update("m1", NEW).await["status"], "Failure");
        pass(20).await;
        assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    }
    bed.annotate(RETRY, json!("m2")).await;
    assert_eq!(
        bed.entry(&uid).await.state,
        MachineUpdateState::Failed,
        "another Machine is named"
    );
    // Values longer than the status keeps are distinguished even if only their ends differ.
    let others = vec!["m2"; 600].join(",");
    bed.annotate(RETRY, json!(format!("{others},m3"))).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    bed.annotate(RETRY, json!(format!("{others},m1"))).await;
    assert_ne!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    // A removed annotation can be set again.
    pass(1900).await;
    bed.annotate(RETRY, json!("m1")).await;
    assert_ne!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    pass(1900).await;
    bed.annotate(RETRY, json!(null)).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    bed.annotate(RETRY, json!("m1")).await;
    assert_ne!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    pass(1900).await;
    // An invalid annotation changes nothing.
    bed.annotate(RETRY, json!("{\"for\": 1}")).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    bed.annotate(RETRY, json!("m2, m1")).await;
    assert_ne!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_plan_goes_when_no_machine_needs_it() {
    const DAY: u64 = 24 * 3600;
    let (bed, _) = working().await;
    bed.answers("image", &[]);
    bed.until_done("m1", NEW).await;
    bed.annotate(ABORT, json!("m2")).await;
    pass(DAY + 7200).await;
    assert_eq!(bed.plans().await.len(), 1, "m2 is not updated");
    bed.annotate(RETRY, json!("m2")).await;
    bed.until_done("m2", NEW).await;
    pass(1200).await;
    assert!(bed.plans().await.is_empty());
}

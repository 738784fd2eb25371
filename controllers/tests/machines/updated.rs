//! Promise: a Machine is done when each updater of its plan has acknowledged its digest; a failure has its message, and
//! ends by a deadline.

use muster_api::update_plan::MachineUpdateState;
use serde_json::json;

use crate::support::*;

async fn decided() -> (Bed, String) {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    bed.start().await;
    assert_eq!(bed.can(OLD, NEW, json!({})).await["status"], "Success");
    (bed, uid)
}

#[tokio::test(start_paused = true)]
async fn one_updater_after_the_other() {
    let (bed, uid) = decided().await;
    let working = json!({"status": "Success", "retryAfterSeconds": 5, "message": "downloading"});
    let done = json!({"status": "Success", "retryAfterSeconds": 0, "message": "digest={digest}"});
    bed.answers("kubelet", &[working.clone(), working, done]);
    let response = bed.update("m1", NEW).await;
    assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");
    pass(3).await;
    let response = bed.update("m1", NEW).await;
    assert_eq!(response["message"], "step 1 of 2, updater kubelet: downloading");
    assert_eq!(bed.calls("image", "m1"), 0, "it is the second");
    let entry = bed.entry(&uid).await;
    assert_eq!(
        (entry.state, entry.message.as_deref()),
        (MachineUpdateState::Updating, Some("downloading"))
    );
    bed.until_done("m1", NEW).await;
    assert_eq!((bed.calls("kubelet", "m1"), bed.calls("image", "m1")), (3, 1));
    let [plan] = &bed.plans().await[..] else { panic!() };
    let sent = bed.updaters.calls.lock().clone();
    assert!(
        sent.iter().all(|(_, _, digest)| *digest == plan.spec.to),
        "{sent:?}"
    );
    pass(2).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updated);
    // Queried again, as after a lost response: done, and no updater is called.
    bed.until_done("m1", NEW).await;
    assert_eq!((bed.calls("kubelet", "m1"), bed.calls("image", "m1")), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn an_end_without_the_digest_is_none_and_the_deadline_ends_it() {
    let (bed, uid) = decided().await;
    bed.answers(
        "kubelet",
        &[json!({"status": "Success", "retryAfterSeconds": 0, "message": "done"})],
    );
    bed.update("m1", NEW).await;
    pass(300).await;
    let response = bed.update("m1", NEW).await;
    assert_eq!(response["status"], "Success");
    assert!(
        response["retryAfterSeconds"].as_i64().unwrap() > 0,
        "never an end by accident: {response}"
    );
    pass(301).await;
    let response = bed.update("m1", NEW).await;
    assert_eq!(response["status"], "Failure");
    assert!(
        response["message"]
            .as_str()
            .unwrap()
            .contains("but not with digest="),
        "{response}"
    );
    pass(2).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    let calls = bed.calls("kubelet", "m1");
    pass(600).await;
    assert_eq!(bed.calls("kubelet", "m1"), calls, "only a retry goes on");
    bed.answers("kubelet", &[]);
    bed.annotate(
        "fleet.muster.dev/retry",
        json!({"for": "m1", "at": "2026-11-28T12:21:00Z"}),
    )
    .await;
    bed.until_done("m1", NEW).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_plan_is_never_done() {
    let (bed, _) = decided().await;
    bed.machine("m9", "new").await;
    let response = bed.update("m9", NEW).await;
    assert_eq!(response["status"], "Failure");
    assert!(
        response["message"]
            .as_str()
            .unwrap()
            .starts_with("no UpdatePlan names Machine fleet/m9"),
        "{response}"
    );
    let response = bed.update("m10", NEW).await;
    assert_eq!(response["message"], "Machine fleet/m10 is not known here yet");
    assert!(bed.updaters.calls.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let (bed, _) = decided().await;
    bed.until_done("m1", NEW).await;
    pass(5).await;
    let before = bed.api.revision();
    for _ in 0..60 {
        bed.update("m1", NEW).await;
        pass(10).await;
    }
    assert_eq!(bed.api.revision(), before);
}

//! Promise: `kubectl describe` of a Machine and of its MachineDeployment or control plane shows what was decided and
//! the result, once.

use muster_machines::Hook;
use serde_json::{Value, json};

use crate::support::*;

/// The reason and note of each event of an object, by uid.
async fn events(bed: &Bed, uid: &str) -> Vec<(String, String)> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    let found = bed.read(&path).await;
    let mut events: Vec<&Value> = found["items"].as_array().unwrap().iter().collect();
    events.sort_by_key(|event| event["eventTime"].as_str().unwrap().to_owned());
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let of_object = events
        .into_iter()
        .filter(|event| event["regarding"]["uid"] == uid);
    of_object
        .map(|event| (text(event, "reason"), text(event, "note")))
        .collect()
}

fn reasons(events: &[(String, String)]) -> Vec<&str> {
    events.iter().map(|(reason, _)| reason.as_str()).collect()
}

/// MachineDeployment `web`, to which the queried MachineSets belong; returns its uid.
async fn deployment(bed: &Bed) -> String {
    let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "web"}, "spec": {}});
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/machinedeployments");
    let made = bed.post(&path, &body).await;
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn of_a_machine_its_beginning_its_failure_and_its_end() {
    let mut bed = Bed::new();
    let uid = bed.machine("m1", "old").await;
    let of_deployment = deployment(&bed).await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.can(OLD, NEW, json!({})).await;
    pass(2).await;
    let planned = events(&bed, &of_deployment).await;
    assert_eq!(reasons(&planned), ["UpdatePlanned"], "asked twice, said once");
    assert!(
        planned[0].1.ends_with("in place, by kubelet, image"),
        "{planned:?}"
    );
    bed.answers("image", &[json!({"status": "Failure", "message": "disk full"})]);
    bed.update("m1", NEW).await;
    pass(1_805).await;
    bed.start().await;
    bed.update("m1", NEW).await;
    pass(5).await;
    let failed = events(&bed, &uid).await;
    assert_eq!(reasons(&failed), ["UpdateStarted", "UpdateFailed"]);
    assert!(
        failed[1]
            .1
            .contains("step 2 of 2: disk full; next: muster machines retry m1 -n fleet"),
        "{failed:?}"
    );
    bed.answers("image", &[]);
    bed.annotate("fleet.muster.dev/retry", json!("m1")).await;
    bed.until_done("m1", NEW).await;
    pass(2).await;
    let ended = events(&bed, &uid).await;
    assert_eq!(
        reasons(&ended),
        ["UpdateStarted", "UpdateFailed", "UpdateRetried", "MachineUpdated"],
        "{ended:?}"
    );
}

/// During an update an uncovered change replaces nothing.
#[tokio::test(start_paused = true)]
async fn nothing_is_said_to_be_replaced_in_the_middle_of_an_update() {
    let mut bed = Bed::new();
    let (_, uid) = bed.control_plane("cp", &json!({})).await;
    bed.start().await;
    let request = json!({"current": objects("cp-0", OLD), "desired": objects("cp-0", NEW)});
    bed.call(Hook::CanUpdateMachine, &request).await;
    bed.until_done("cp-0", NEW).await;
    bed.updaters.covers.lock().clear();
    let response = bed.update("cp-0", ("v1.35.0", "b")).await;
    assert_eq!(response["status"], "Failure", "{response}");
    pass(2).await;
    assert_eq!(reasons(&events(&bed, &uid).await), ["UpdatePlanned"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_deployment_what_becomes_of_a_change_that_is_not_covered() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    let uid = deployment(&bed).await;
    bed.start().await;
    bed.updaters.covers.lock().remove("image");
    let fallback = |value: &str| json!({"fleet.muster.dev/update-fallback": value});
    for _ in 0..3 {
        bed.can(OLD, NEW, fallback("Hold")).await;
    }
    bed.can(OLD, NEW, fallback("Replace")).await;
    pass(2).await;
    let all = events(&bed, &uid).await;
    assert_eq!(reasons(&all), ["UpdateHeld", "UpdateNotCovered"]);
    let (_, of_control_plane) = bed.control_plane("cp", &fallback("Hold")).await;
    let request = json!({"current": objects("cp-0", OLD), "desired": objects("cp-0", NEW)});
    bed.call(Hook::CanUpdateMachine, &request).await;
    pass(2).await;
    assert_eq!(reasons(&events(&bed, &of_control_plane).await), ["UpdateHeld"]);
    assert!(
        all[0]
            .1
            .contains("TestMachineTemplate cannot be updated in place: /hello"),
        "{all:?}"
    );
}

//! Promise: a health check names the first unhealthy object and the cause from its pods, and counts the rest.

use std::time::Duration;

use jiff::Timestamp;
use muster_apiserver::{ApiServer, send};
use muster_sync::{
    apply::{Cluster, Jobs},
    health::{
        Health, check,
        evidence::{Need, Target, Watch},
        report::{Report, Unhealthy},
    },
    inventory::ObjectId,
};
use serde_json::{Value, json};

fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId {
        namespace: "web".into(),
        name: name.into(),
        group: String::new(),
        kind: kind.into(),
    }
}

fn report(all: impl IntoIterator<Item = (&'static str, Health, Option<String>)>) -> Report {
    let unhealthy = all
        .into_iter()
        .map(|(name, health, cause)| Unhealthy {
            id: id("Deployment", name),
            health,
            cause,
        })
        .collect();
    Report { unhealthy }
}

#[test]
fn the_first_and_its_cause_then_how_many_more() {
    let slow = || Health::in_progress("LessReady", "Ready: 0/1");
    let of = |count: usize| {
        ["a", "b", "c", "d"].into_iter().take(count).map(move |name| {
            (
                name,
                slow(),
                Some("pod a-1: container app: ImagePullBackOff".to_owned()),
            )
        })
    };
    let first = "Deployment/web/a status: 'InProgress': Ready: 0/1: pod a-1: container app: ImagePullBackOff";
    assert_eq!(report(of(0)).summary(), "");
    assert_eq!(report(of(1)).summary(), first);
    assert_eq!(report(of(4)).summary(), format!("{first}, and 3 more"));
    let long = report([("a", slow(), Some("x".repeat(5_000)))]).summary();
    assert!(long.len() < 400 && long.ends_with('…'), "{long}");
}

#[test]
fn waiting_is_of_no_use_only_where_something_failed_for_good() {
    let is_terminal =
        |health| report([("a", Health::in_progress("A", "b"), None), ("b", health, None)]).is_terminal();
    assert!(!is_terminal(Health::in_progress("A", "b")));
    assert!(!is_terminal(Health::failing("ContainerCrashLooping", "b")));
    assert!(!is_terminal(Health::not_found()));
    assert!(is_terminal(Health::stalled("JobFailed", "b")));
}

/// The reported cause for a pod with this status.
async fn of_pod(status: Value) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web"},
        "spec": {"containers": [{"name": "app", "image": "a"}]},
    });
    let api = ApiServer::builder().seed(1).namespace("web").with([pod]);
    let api = api.in_process().unwrap();
    let path = "/api/v1/namespaces/web/pods/p/status";
    send(&api.client(), "PATCH", path, Some(json!({"status": status})))
        .await
        .unwrap();
    let cluster = Cluster::new(api.client(), Duration::from_secs(10));
    // Long after the pod was created.
    let now: Timestamp = "2200-01-01T00:00:00Z".parse().unwrap();
    let mut watch = Watch::new(
        vec![Target::new(id("Pod", "p"), "v1".into(), Need::Nothing, None)],
        None,
    );
    let report = check::check(&cluster, &mut watch, Duration::ZERO, &Jobs::default(), now).await;
    report.unwrap().summary().replace("Pod/web/p status: ", "")
}

#[tokio::test(start_paused = true)]
async fn a_pod_says_why_it_does_not_run() {
    let container = |state: Value| json!([{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
    let waiting = |reason: &str| container(json!({"waiting": {"reason": reason, "message": "why"}}));
    let pending = "'InProgress': Pod is in the Pending phase";
    for (status, expect) in [
        (
            json!({"phase": "Pending", "containerStatuses": waiting("ImagePullBackOff")}),
            format!("{pending}: container app: ImagePullBackOff (why)"),
        ),
        (
            json!({"phase": "Pending", "containerStatuses": waiting("CreateContainerConfigError")}),
            format!("{pending}: container app: CreateContainerConfigError (why)"),
        ),
        (
            json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")}),
            pending.to_owned(),
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": waiting("ErrImagePull"), "containerStatuses": waiting("PodInitializing")}),
            format!("{pending}: container app: ErrImagePull (why)"),
        ),
        (
            json!({"phase": "Running", "containerStatuses": container(json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}}))}),
            "'InProgress': Pod is running but is not Ready: container app: OOMKilled".to_owned(),
        ),
        (
            json!({"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff")}),
            "'Failed': Containers in CrashLoop state: app: container app: CrashLoopBackOff (why)".to_owned(),
        ),
        (
            json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}),
            "'Failed': Pod could not be scheduled: Unschedulable (0/3 nodes are available)".to_owned(),
        ),
    ] {
        assert_eq!(of_pod(status.clone()).await, expect, "{status}");
    }
}

//! Promise: the Node of a Machine is cordoned or drained before the first updater that requires it, and uncordoned at
//! the end; disruption budgets are respected, and a Node that was cordoned by others stays so.

use muster_api::update_plan::MachineUpdateState;
use serde_json::json;

use crate::support::*;

/// `image` requires a drain, `kubelet` before it requires nothing.
const CONFIG: &str = "updaters:\n- {name: image, order: 2, clientConfig: {url: 'https://image'}, prepareNode: Drain, drainDeadline: 10m}\n\
                      - {name: kubelet, order: 1, clientConfig: {url: 'https://kubelet'}}\n";
const NODE: &str = "/api/v1/nodes/n1";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const BUDGET: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

/// Machine `m1` on Node `n1`, which runs `web` under a budget that allows nothing, and pods that a drain leaves.
async fn drained() -> (Bed, String) {
    let mut bed = Bed::new();
    CONFIG.clone_into(&mut bed.config);
    bed.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .await;
    bed.post("/api/v1/nodes", &json!({"metadata": {"name": "n1"}}))
        .await;
    let daemons = json!({"metadata": {"name": "daemons"}, "spec": {"selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let daemons = bed
        .post("/apis/apps/v1/namespaces/shop/daemonsets", &daemons)
        .await;
    let owner = |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "daemons", "uid": daemons["metadata"]["uid"], "controller": true}]);
    for (name, metadata, phase) in [
        ("web", json!({"labels": {"app": "web"}}), "Running"),
        (
            "daemon",
            json!({"ownerReferences": owner("DaemonSet")}),
            "Running",
        ),
        (
            "mirror",
            json!({"annotations": {"kubernetes.io/config.mirror": "x"}}),
            "Running",
        ),
        (
            "kept",
            json!({"labels": {"cluster.x-k8s.io/drain": "Skip"}}),
            "Running",
        ),
        ("ended", json!({}), "Succeeded"),
    ] {
        let mut pod = json!({"metadata": metadata, "spec": {
            "nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
        pod["metadata"]["name"] = json!(name);
        bed.post(PODS, &pod).await;
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"status": {"phase": phase, "conditions": ready}});
        bed.merge(&format!("{PODS}/{name}/status"), &status).await;
    }
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    bed.post(BUDGET, &json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    allow(&bed, 0).await;
    bed.workload("c1").await;
    let uid = bed.machine("m1", "old").await;
    let of = json!({"spec": {"clusterName": "c1"}, "status": {"nodeRef": {"name": "n1"}}});
    bed.merge(&format!("{MACHINES}/m1"), &of).await;
    (bed, uid)
}

/// What the disruption controller would write.
async fn allow(bed: &Bed, pods: u32) {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": pods, "currentHealthy": 1, "desiredHealthy": 1 - pods, "expectedPods": 1});
    bed.merge(&format!("{BUDGET}/web/status"), &json!({"status": status}))
        .await;
}

/// Whether the Node is cordoned, and for which plan.
async fn cordoned(bed: &Bed) -> (bool, Option<String>) {
    let node = bed.read(NODE).await;
    let by = node["metadata"]["annotations"]["fleet.muster.dev/cordoned-for"].as_str();
    (node["spec"]["unschedulable"] == true, by.map(str::to_owned))
}

async fn pods(bed: &Bed) -> Vec<String> {
    let found = bed.read(PODS).await;
    let pods = found["items"].as_array().unwrap().iter();
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// R35: an updater declares what is done to the Node before and after.
#[tokio::test(start_paused = true)]
async fn drained_before_the_updater_that_asks_for_it_and_uncordoned_at_the_end() {
    let (mut bed, uid) = drained().await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let [plan] = &bed.plans().await[..] else { panic!() };
    let plan = plan.metadata.name.clone().unwrap();
    bed.update("m1", NEW).await;
    pass(10).await;
    assert_eq!((bed.calls("kubelet", "m1"), bed.calls("image", "m1")), (1, 0));
    assert_eq!(cordoned(&bed).await, (true, Some(plan.clone())));
    let response = bed.update("m1", NEW).await;
    let message = response["message"].as_str().unwrap();
    assert!(
        message.starts_with("step 2 of 4, drain of the Node: pods remaining on Node n1: 1: shop/web"),
        "{response}"
    );
    assert!(message.contains("disruption budget"), "{response}");
    assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");

    // A restart during the update.
    bed.start().await;
    bed.update("m1", NEW).await;
    pass(10).await;
    assert_eq!(
        (cordoned(&bed).await, bed.calls("image", "m1")),
        ((true, Some(plan)), 0)
    );
    allow(&bed, 1).await;
    bed.until_done("m1", NEW).await;
    assert_eq!((bed.calls("kubelet", "m1"), bed.calls("image", "m1")), (1, 1));
    assert_eq!(cordoned(&bed).await, (false, None));
    assert_eq!(pods(&bed).await, ["daemon", "ended", "kept", "mirror"]);
    pass(2).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updated);
}

#[tokio::test(start_paused = true)]
async fn cordoned_by_others_it_stays_so() {
    let (mut bed, _) = drained().await;
    allow(&bed, 1).await;
    bed.merge(NODE, &json!({"spec": {"unschedulable": true}})).await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.until_done("m1", NEW).await;
    assert_eq!(cordoned(&bed).await, (true, None));
}

/// Another plan failed there, its Node was uncordoned by hand, which leaves the annotation, and cordoned again for a
/// repair.
#[tokio::test(start_paused = true)]
async fn cordoned_for_another_plan_it_stays_so() {
    let (mut bed, _) = drained().await;
    allow(&bed, 1).await;
    let for_another = json!({"fleet.muster.dev/cordoned-for": "another"});
    bed.merge(
        NODE,
        &json!({"metadata": {"annotations": for_another}, "spec": {"unschedulable": true}}),
    )
    .await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.until_done("m1", NEW).await;
    assert_eq!(cordoned(&bed).await, (true, Some("another".to_owned())));
}

/// An updater never finds pods on a Node that it wants drained.
#[tokio::test(start_paused = true)]
async fn uncordoned_by_hand_it_is_drained_again_before_a_retry() {
    for restarts in [false, true] {
        let (mut bed, uid) = drained().await;
        allow(&bed, 1).await;
        bed.start().await;
        bed.can(OLD, NEW, json!({})).await;
        bed.answers("image", &[json!({"status": "Failure", "message": "disk full"})]);
        bed.update("m1", NEW).await;
        pass(1_900).await;
        assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
        assert_eq!(pods(&bed).await, ["daemon", "ended", "kept", "mirror"]);
        bed.merge(NODE, &json!({"spec": {"unschedulable": null}})).await;
        let spec = json!({"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]});
        bed.post(PODS, &json!({"metadata": {"name": "back"}, "spec": spec}))
            .await;
        if restarts {
            bed.start().await;
        }
        bed.annotate("fleet.muster.dev/retry", json!("m1")).await;
        assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Updating);
        bed.answers("image", &[]);
        bed.until_done("m1", NEW).await;
        assert_eq!(pods(&bed).await, ["daemon", "ended", "kept", "mirror"]);
        assert_eq!(cordoned(&bed).await, (false, None));
    }
}

/// A response after a retry is about the step before it, and completes none.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_not_taken_for_the_end_of_a_drain() {
    let (mut bed, uid) = drained().await;
    bed.config = CONFIG.replace("drainDeadline: 10m", "drainDeadline: 10m, deadline: 10s");
    allow(&bed, 1).await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.updaters.delays.lock().insert("image".to_owned(), 30);
    bed.update("m1", NEW).await;
    while bed.calls("image", "m1") == 0 {
        pass(1).await;
    }
    pass(12).await;
    assert_eq!(bed.entry(&uid).await.state, MachineUpdateState::Failed);
    allow(&bed, 0).await;
    bed.merge(NODE, &json!({"spec": {"unschedulable": null}})).await;
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]});
    let metadata = json!({"name": "back", "labels": {"app": "web"}});
    bed.post(PODS, &json!({"metadata": metadata, "spec": spec})).await;
    bed.merge(
        &format!("{PODS}/back/status"),
        &json!({"status": {"phase": "Running"}}),
    )
    .await;
    bed.annotate("fleet.muster.dev/retry", json!("m1")).await;
    pass(60).await;
    let entry = bed.entry(&uid).await;
    assert_eq!(
        (entry.state, entry.step),
        (MachineUpdateState::Updating, 1),
        "{entry:?}"
    );
    assert_eq!(bed.calls("image", "m1"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_to_complete_is_not_evicted() {
    let (mut bed, _) = drained().await;
    allow(&bed, 1).await;
    bed.merge(
        &format!("{PODS}/kept"),
        &json!({"metadata": {"labels": {"cluster.x-k8s.io/drain": "wait-completed"}}}),
    )
    .await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.update("m1", NEW).await;
    pass(30).await;
    let response = bed.update("m1", NEW).await;
    let message = response["message"].as_str().unwrap();
    assert!(message.contains("shop/kept must complete first"), "{response}");
    assert_eq!((pods(&bed).await.len(), bed.calls("image", "m1")), (4, 0));
    bed.merge(
        &format!("{PODS}/kept/status"),
        &json!({"status": {"phase": "Succeeded"}}),
    )
    .await;
    bed.until_done("m1", NEW).await;
}

/// A Machine that was re-created with the same name has another Node.
#[tokio::test(start_paused = true)]
async fn the_node_of_another_machine_of_its_name_is_left_alone() {
    let (mut bed, _) = drained().await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.update("m1", NEW).await;
    pass(5).await;
    bed.merge(
        NODE,
        &json!({"metadata": {"annotations": null}, "spec": {"unschedulable": null}}),
    )
    .await;
    let machine = format!("{MACHINES}/m1");
    let mut again = bed.read(&machine).await;
    bed.sent("DELETE", &machine, None).await.unwrap();
    again["metadata"] = json!({"name": "m1", "namespace": NAMESPACE});
    bed.post(MACHINES, &again).await;
    allow(&bed, 1).await;
    pass(60).await;
    assert_eq!(cordoned(&bed).await, (false, None));
    assert_eq!(pods(&bed).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_does_not_end_fails_and_no_updater_is_called() {
    let (mut bed, uid) = drained().await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    bed.update("m1", NEW).await;
    pass(605).await;
    let response = bed.update("m1", NEW).await;
    assert_eq!(response["status"], "Failure", "{response}");
    assert!(
        response["message"].as_str().unwrap().contains("shop/web"),
        "{response}"
    );
    let entry = bed.entry(&uid).await;
    assert_eq!((entry.state, entry.step), (MachineUpdateState::Failed, 1));
    assert_eq!(bed.calls("image", "m1"), 0);
    allow(&bed, 1).await;
    pass(60).await;
    assert_eq!(pods(&bed).await.len(), 5, "what failed evicts nothing");
    bed.annotate("fleet.muster.dev/retry", json!("m1")).await;
    bed.until_done("m1", NEW).await;
}

/// Each is a problem with a message, and a later attempt that finds it fixed continues.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_reached_is_no_drained_node() {
    let (mut bed, _) = drained().await;
    allow(&bed, 1).await;
    bed.start().await;
    bed.can(OLD, NEW, json!({})).await;
    let secret = format!("/api/v1/namespaces/{NAMESPACE}/secrets/c1-kubeconfig");
    let machine = format!("{MACHINES}/m1");
    let good = bed.read(&secret).await;
    for (path, broken, healthy, words) in [
        (
            &secret,
            json!({"data": {"value": "bm9uZQ=="}}),
            json!({"data": good["data"]}),
            "the kubeconfig in Secret fleet/c1-kubeconfig is not accepted",
        ),
        (
            &secret,
            json!({"data": null}),
            json!({"data": good["data"]}),
            "Secret fleet/c1-kubeconfig",
        ),
        (
            &machine,
            json!({"status": {"nodeRef": null}}),
            json!({"status": {"nodeRef": {"name": "n1"}}}),
            "has no Node (status.nodeRef)",
        ),
        (
            &machine,
            json!({"status": {"nodeRef": {"name": "n2"}}}),
            json!({"status": {"nodeRef": {"name": "n1"}}}),
            "reading Node n2 of Cluster c1: ",
        ),
    ] {
        bed.merge(path, &broken).await;
        bed.update("m1", NEW).await;
        pass(12).await;
        let response = bed.update("m1", NEW).await;
        assert!(
            response["message"].as_str().unwrap().contains(words),
            "{words}: {response}"
        );
        assert!(response["retryAfterSeconds"].as_i64().unwrap() > 0, "{response}");
        assert_eq!(bed.calls("image", "m1"), 0, "{words}");
        bed.merge(path, &healthy).await;
    }
    bed.until_done("m1", NEW).await;
}

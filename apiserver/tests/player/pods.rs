//! Pods and nodes: scheduler and kubelet.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use muster_apiserver::player::Speeds;
use serde_json::{Value, json};

use crate::bed::{Bed, condition, reason, template};

fn pod(name: &str, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": template(name, image)["spec"]})
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_is_scheduled_runs_and_stops() {
    let bed = Bed::new();
    bed.create::<Pod>(pod("a", "a:1")).await;
    let creating = bed
        .until::<Pod>("a", |p| reason(p, "Ready") == "ContainersNotReady")
        .await;
    assert_eq!(
        creating["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    let ready = bed
        .until::<Pod>("a", |p| condition(p, "Ready")["status"] == "True")
        .await;
    assert_eq!(
        (&ready["status"]["phase"], &ready["spec"]["nodeName"]),
        (&json!("Running"), &json!("node-1"))
    );
    assert!(ready["status"]["podIP"].as_str().unwrap().starts_with("10."));
    let before = bed.elapsed();
    bed.delete::<Pod>("a").await;
    bed.until::<Pod>("a", Value::is_null).await;
    let took = bed.elapsed().saturating_sub(before);
    assert!(
        took >= Duration::from_millis(500) && took < Duration::from_secs(1),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_to_end_ends() {
    let bed = Bed::new();
    let mut object = pod("a", "a:1");
    object["spec"]["restartPolicy"] = "Never".into();
    object["metadata"]["annotations"] = json!({"player.muster-apiserver.dev/finish-after": "5s"});
    bed.create::<Pod>(object).await;
    let over = bed
        .until::<Pod>("a", |p| p["status"]["phase"] == "Succeeded")
        .await;
    assert!(bed.elapsed() >= Duration::from_secs(6));
    assert_eq!(
        over["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        0
    );
    assert_eq!(reason(&over, "Ready"), "PodCompleted");
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_over_nodes_and_wait_for_one_that_fits() {
    let bed = Bed::with(Speeds {
        nodes: 2,
        ..Speeds::default()
    });
    for name in ["a", "b", "c", "d"] {
        bed.create::<Pod>(pod(name, "a:1")).await;
    }
    let placed = |pods: &[Value]| pods.iter().all(|pod| pod["spec"]["nodeName"].is_string());
    let pods = bed.until_all::<Pod>(placed).await;
    let on_first = pods
        .iter()
        .filter(|pod| pod["spec"]["nodeName"] == "node-1")
        .count();
    assert_eq!(on_first, 2);
    let mut picky = pod("picky", "a:1");
    picky["spec"]["nodeSelector"] = json!({"disk": "fast"});
    bed.create::<Pod>(picky).await;
    bed.until::<Pod>("picky", |pod| reason(pod, "PodScheduled") == "Unschedulable")
        .await;
    let nodes: Api<Node> = Api::all(bed.api.client());
    let mut node = nodes.get("node-2").await.unwrap();
    node.metadata
        .labels
        .get_or_insert_default()
        .insert("disk".to_owned(), "fast".to_owned());
    nodes
        .replace("node-2", &PostParams::default(), &node)
        .await
        .unwrap();
    bed.until::<Pod>("picky", |pod| pod["spec"]["nodeName"] == "node-2")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_simulated_node_comes_back() {
    let bed = Bed::new();
    let nodes: Api<Node> = Api::all(bed.api.client());
    bed.create::<Pod>(pod("a", "a:1")).await;
    bed.until::<Pod>("a", |p| condition(p, "Ready")["status"] == "True")
        .await;
    nodes.delete("node-1", &DeleteParams::default()).await.unwrap();
    let is_ready = |node: &Node| {
        serde_json::to_value(node).is_ok_and(|node| condition(&node, "Ready")["status"] == "True")
    };
    for _ in 0..100 {
        if nodes
            .get_opt("node-1")
            .await
            .unwrap()
            .as_ref()
            .is_some_and(is_ready)
        {
            return;
        }
        bed.pass(Duration::from_millis(50)).await;
    }
    panic!("the node did not come back");
}

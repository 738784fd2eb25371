//! DaemonSets: one pod on each node.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use muster_apiserver::player::Speeds;
use serde_json::{Value, json};

use crate::bed::{Bed, image, set_image, template};

fn daemon_set() -> Value {
    json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "agent:1"),
    }})
}

fn is_done(set: &Value, nodes: i32) -> bool {
    let status = &set["status"];
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberReady",
    ];
    status["observedGeneration"] == set["metadata"]["generation"]
        && counts.iter().all(|count| status[*count] == nodes)
}

fn nodes_of(pods: &[Value]) -> BTreeSet<&str> {
    pods.iter()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_node_has_a_pod_and_a_new_one_too() {
    let bed = Bed::with(Speeds {
        nodes: 3,
        ..Speeds::default()
    });
    bed.create::<DaemonSet>(daemon_set()).await;
    bed.until::<DaemonSet>("agent", |set| is_done(set, 3)).await;
    let pods = bed.until_all::<Pod>(|pods| pods.len() == 3).await;
    assert_eq!(nodes_of(&pods), ["node-1", "node-2", "node-3"].into());
    let nodes: Api<Node> = Api::all(bed.api.client());
    let node = serde_json::from_value(json!({"metadata": {"name": "guest"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    bed.until::<DaemonSet>("agent", |set| is_done(set, 4)).await;
    nodes.delete("guest", &DeleteParams::default()).await.unwrap();
    bed.until::<DaemonSet>("agent", |set| is_done(set, 3)).await;
    bed.until_all::<Pod>(|pods| nodes_of(pods).len() == 3 && pods.len() == 3)
        .await;
    bed.delete::<DaemonSet>("agent").await;
    bed.until_all::<Pod>(<[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_takes_one_node_after_the_other() {
    let bed = Bed::with(Speeds {
        nodes: 3,
        ..Speeds::default()
    });
    bed.create::<DaemonSet>(daemon_set()).await;
    bed.until::<DaemonSet>("agent", |set| is_done(set, 3)).await;
    bed.patch::<DaemonSet>("agent", set_image("agent:2")).await;
    bed.until::<DaemonSet>("agent", |set| is_done(set, 3)).await;
    bed.until_all::<Pod>(|pods| pods.len() == 3 && pods.iter().all(|pod| image(pod) == "agent:2"))
        .await;
    let events = bed.api.recorder().events();
    let second = events
        .iter()
        .filter(|e| e.resource.resource == "daemonsets" && e.object()["status"]["observedGeneration"] == 2);
    let fewest = second
        .map(|event| {
            event.object()["status"]["numberAvailable"]
                .as_i64()
                .unwrap_or_default()
        })
        .min();
    assert_eq!(fewest, Some(2));
}

#[tokio::test(start_paused = true)]
async fn on_delete_and_node_selectors_are_respected() {
    let bed = Bed::with(Speeds {
        nodes: 2,
        ..Speeds::default()
    });
    let mut object = daemon_set();
    object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-2"});
    bed.create::<DaemonSet>(object).await;
    bed.until::<DaemonSet>("agent", |set| is_done(set, 1)).await;
    bed.patch::<DaemonSet>("agent", set_image("agent:2")).await;
    bed.until::<DaemonSet>("agent", |set| set["status"]["observedGeneration"] == 2)
        .await;
    bed.pass(std::time::Duration::from_secs(10)).await;
    let pods = bed.until_all::<Pod>(|pods| pods.len() == 1).await;
    assert_eq!((image(&pods[0]), nodes_of(&pods)), ("agent:1", ["node-2"].into()));
}

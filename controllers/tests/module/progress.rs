//! Promise: a cluster whose object renews something step by step does not fail for being slow, and one that waits for a
//! user does not fail for waiting; its progress is in the module's status.

use std::time::Duration;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::bed::*;

const CLUSTERS: [&str; 2] = ["eu-1", "eu-2"];

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.test"},
        "spec": {
            "group": "example.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn widget(size: u8) -> String {
    format!(
        "apiVersion: example.test/v1\nkind: Widget\nmetadata: {{name: w, namespace: default}}\nspec: {{size: {size}}}\n"
    )
}

fn widgets(bed: &Bed, cluster: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.test", "v1", "Widget"));
    Api::namespaced_with(bed.clusters[cluster].client(), "default", &resource)
}

/// Writes the progress of the operator, for the present spec.
async fn report(bed: &Bed, cluster: &str, ready: &str, progress: Value) {
    let api = widgets(bed, cluster);
    let generation = api.get("w").await.unwrap().metadata.generation;
    let status = json!({
        "observedGeneration": generation, "progress": progress,
        "conditions": [{"type": "Ready", "status": ready, "reason": "Rolling", "message": ""}],
    });
    api.patch_status(
        "w",
        &PatchParams::default(),
        &Patch::Merge(json!({"status": status})),
    )
    .await
    .unwrap();
}

async fn size(bed: &Bed, cluster: &str) -> Option<u64> {
    let widget = widgets(bed, cluster).get_opt("w").await.unwrap()?;
    widget.data["spec"]["size"].as_u64()
}

async fn until_size(bed: &Bed, cluster: &str, wanted: u64) {
    bed.until(&format!("{cluster} has size {wanted}"), || async {
        (size(bed, cluster).await == Some(wanted)).then_some(())
    })
    .await;
}

async fn message(bed: &Bed) -> String {
    let module = bed.module("web").await.unwrap();
    condition(&module, "Ready").unwrap()
}

async fn bed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for server in bed.clusters.values() {
        server.add([definition()]).unwrap();
    }
    for (tag, number) in [("one", 1), ("two", 2)] {
        bed.release_files(tag, [("web/w.yaml".to_owned(), widget(number))]);
    }
    bed.create::<muster_api::Module>(module("web", "one", json!({})))
        .await;
    for cluster in CLUSTERS {
        until_size(&bed, cluster, 1).await;
        report(&bed, cluster, "True", Value::Null).await;
    }
    bed.until_ready("web").await;
    bed.patch("web", version("two")).await;
    until_size(&bed, "eu-1", 2).await;
    bed
}

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_of_half_a_minute_and_an_approval_confirm_under_the_default_deadlines() {
    let bed = bed().await;
    for done in 1..=100 {
        pass(Duration::from_secs(30)).await;
        report(&bed, "eu-1", "False", json!({"done": done, "total": 100})).await;
        if done == 40 {
            report(
                &bed,
                "eu-1",
                "False",
                json!({"done": done, "total": 100, "waiting": "approval"}),
            )
            .await;
            pass(Duration::from_hours(1)).await;
            let text = message(&bed).await;
            assert!(
                text.contains("eu-1: applying two: 40 of 100 done, waiting: approval"),
                "{text}"
            );
            assert_eq!(
                size(&bed, "eu-2").await,
                Some(1),
                "the next is not touched before"
            );
        }
    }
    report(&bed, "eu-1", "True", json!({"done": 100, "total": 100})).await;
    until_size(&bed, "eu-2", 2).await;
    report(&bed, "eu-2", "True", Value::Null).await;
    bed.until_ready("web").await;
    assert_eq!(bed.event_notes("RevisionCondemned").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_stuck_ends_the_rollout_at_its_own_deadline() {
    let bed = bed().await;
    for done in 1..=3 {
        pass(Duration::from_mins(4)).await;
        report(&bed, "eu-1", "False", json!({"done": done, "total": 100})).await;
    }
    assert_eq!(bed.event_notes("RevisionCondemned").await, Vec::<String>::new());
    bed.until("it is condemned", || async {
        (bed.event_notes("RevisionCondemned").await.len() == 1).then_some(())
    })
    .await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(size(&bed, "eu-2").await, Some(1));
}

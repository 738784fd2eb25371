//! Promise: a changed object of a binding is rolled out under the limit; a binding without a value affects only its
//! cluster, with a message, and what that cluster has stays.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::bed::*;

async fn facts(bed: &Bed, name: &str, data: Value) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let by = PatchParams::apply("test").force();
    bed.api::<ConfigMap>()
        .patch(name, &by, &Patch::Apply(object))
        .await
        .unwrap();
}

fn bound() -> Value {
    json!({
        "sync": {"package": {"substitute": {"TEXT": "$(TIER)"}}},
        "controlPlaneBindings": [
            {"name": "TIER", "objectFieldRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "$(CLUSTER_NAME)-facts", "fieldPath": "/data/tier"}},
        ],
        "rollout": {"minReadySeconds": 5},
    })
}

async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["web"], "${TEXT}");
    for cluster in CLUSTERS {
        facts(&bed, &format!("{cluster}-facts"), json!({"tier": "gold"})).await;
    }
    facts(&bed, "all", json!({"tier": "gold"})).await;
    bed.deploy("web", "v1", bound()).await;
    assert_eq!(bed.texts("web").await, ["gold", "gold", "gold"]);
    bed
}

#[tokio::test(start_paused = true)]
async fn a_changed_object_is_a_rollout_under_the_limit() {
    let bed = deployed().await;
    // The values of all clusters change at once.
    let shared = json!([{"name": "TIER", "objectFieldRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "all", "fieldPath": "/data/tier"}}]);
    bed.patch("web", json!({"spec": {"controlPlaneBindings": shared}}))
        .await;
    pass(Duration::from_mins(2)).await;
    bed.until_ready("web").await;
    facts(&bed, "all", json!({"tier": "silver"})).await;
    let mut steps = Vec::new();
    while steps.last() != Some(&["silver"; 3].map(str::to_owned).to_vec()) {
        let texts = bed.texts("web").await;
        if steps.last() != Some(&texts) {
            steps.push(texts);
        }
        assert!(steps.len() < 5, "{steps:?}");
        pass(Duration::from_millis(50)).await;
    }
    assert_eq!(
        steps,
        [
            ["gold", "gold", "gold"],
            ["silver", "gold", "gold"],
            ["silver", "silver", "gold"],
            ["silver", "silver", "silver"]
        ]
    );
    bed.until_ready("web").await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_value_is_its_own_clusters_matter() {
    let bed = deployed().await;
    let before = bed.marks("web").await;
    let check = async |data: Value, expected: &str| {
        facts(&bed, "eu-2-facts", data).await;
        let entry = bed
            .until(&format!("eu-2: {expected}"), || async {
                let module = bed.module("web").await?;
                let first = module["status"]["attention"][0].clone();
                let message = first["message"].as_str().unwrap_or_default();
                (first["reason"] == "BindingFailed" && message.contains(expected)).then_some(first)
            })
            .await;
        assert_eq!(entry["cluster"], "eu-2");
        pass(Duration::from_mins(2)).await;
        assert_eq!(bed.marks("web").await, before, "{expected}");
        let module = bed.module("web").await.unwrap();
        assert_eq!(
            module["status"]["attention"].as_array().unwrap().len(),
            1,
            "{module:#}"
        );
    };
    check(
        json!({"other": "x"}),
        "binding TIER: ConfigMap eu-2-facts has no field /data/tier",
    )
    .await;
    check(
        json!({"tier": "x".repeat(4_097)}),
        "the value has 4097 bytes, at most 4096 are allowed",
    )
    .await;
    // The others continue without it.
    facts(&bed, "us-1-facts", json!({"tier": "silver"})).await;
    bed.until("us-1 is silver", || async {
        (bed.texts("web").await == ["gold", "gold", "silver"]).then_some(())
    })
    .await;
    facts(&bed, "eu-2-facts", json!({"tier": "bronze"})).await;
    bed.until("eu-2 is bronze", || async {
        (bed.texts("web").await == ["gold", "bronze", "silver"]).then_some(())
    })
    .await;
    bed.until_ready("web").await;
}

#[tokio::test(start_paused = true)]
async fn bindings_that_cannot_have_a_value_fail_everywhere_and_move_nothing() {
    let bed = deployed().await;
    let before = bed.marks("web").await;
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "fieldPath": "/data/tier"});
    let cases = [
        (
            json!([{"name": "TIER", "value": "$(A)"}, {"name": "A", "value": "$(B)"}, {"name": "B", "value": "$(A)"}]),
            "the bindings form a cycle: A -> B -> A",
        ),
        (
            json!([{"name": "TIER", "value": "$(MISSING)"}]),
            "there is no variable MISSING; known are CLUSTER_LABEL_env, CLUSTER_NAME",
        ),
        (
            json!([{"name": "TIER", "objectFieldRef": object("ConfigMap", "nothing")}]),
            "binding TIER: ConfigMap nothing does not exist",
        ),
    ];
    for (bindings, expected) in cases {
        bed.patch("web", json!({"spec": {"controlPlaneBindings": bindings}}))
            .await;
        bed.until(expected, || async {
            let module = bed.module("web").await?;
            let attention = module["status"]["attention"].as_array()?.clone();
            let all = attention.len() == 3
                && attention.iter().all(|one| {
                    one["reason"] == "BindingFailed" && one["message"].as_str().unwrap().contains(expected)
                });
            all.then_some(())
        })
        .await;
        pass(Duration::from_mins(2)).await;
        assert_eq!(bed.marks("web").await, before, "{expected}");
    }
    let refused = bed
        .api::<muster_api::Module>()
        .patch(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"controlPlaneBindings": [{"name": "TIER", "objectFieldRef": object("Secret", "s")}]}})),
        )
        .await;
    assert!(refused.unwrap_err().to_string().contains("Secret"));
    assert_eq!(bed.marks("web").await, before);
}

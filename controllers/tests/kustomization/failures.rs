//! Bad input has a typed reason and a message that names the problem and its place; nothing that is deployed changes,
//! and everything else continues.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Bed, condition, config, config_yaml, kustomization, message, refused_yaml};

/// Deploys one file; returns the resulting Ready condition, as `<reason>: <message>`.
async fn fails(text: &str, extra: Value) -> String {
    let bed = Bed::new();
    bed.commit(&[("app/a.yaml", text)]);
    bed.deploy(extra).await;
    let failed = |object: &Value| condition(object, "Ready").is_some_and(|ready| ready["status"] == "False");
    let object = bed
        .until(&kustomization("app"), |object| {
            failed(object) && !message(object, "Ready").starts_with("Source")
        })
        .await;
    let ready = condition(&object, "Ready").unwrap();
    format!(
        "{}: {}",
        ready["reason"].as_str().unwrap(),
        ready["message"].as_str().unwrap()
    )
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_said() {
    let mut messages = Vec::new();
    let config = config_yaml("a", "x");
    messages.push(fails(&config, json!({"path": "nowhere"})).await);
    messages.push(fails("apiVersion: v1\nkind: ConfigMap\nkind: Secret\n", json!({})).await);
    messages.push(fails(&refused_yaml("a"), json!({})).await);
    messages.push(fails(&config.replace("default", "nowhere"), json!({})).await);
    messages.push(
        fails(
            "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g}\n",
            json!({}),
        )
        .await,
    );
    messages.push(
        fails(
            &config_yaml("a", "'${MISSING}'"),
            json!({"postBuild": {"substitute": {"OTHER": "x"}}}),
        )
        .await,
    );
    let from = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "lost"}]}});
    messages.push(fails(&config, from).await);
    messages.push(fails(&config, json!({"decryption": {"provider": "sops"}, "images": []})).await);
    messages.push(
        fails(
            &config,
            json!({"kubeConfig": {"secretRef": {"name": "eu-1-kubeconfig"}}}),
        )
        .await,
    );
    insta::assert_snapshot!(messages.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_carried_out_is_stalled_and_not_tried() {
    let bed = Bed::new();
    bed.commit(&[("app/a.yaml", &config_yaml("a", "x"))]);
    bed.deploy(json!({"decryption": {"provider": "sops"}})).await;
    let object = bed.until_ready("app", "False Unsupported").await;
    assert_eq!(condition(&object, "Stalled").unwrap()["status"], "True");
    assert_eq!(
        object["status"]["observedGeneration"],
        object["metadata"]["generation"]
    );
    bed.pass(Duration::from_secs(3_600)).await;
    assert!(bed.read(&config("a")).await.is_none());
    bed.edit(&kustomization("app"), json!({"spec": {"decryption": null}}))
        .await;
    let object = bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert!(condition(&object, "Stalled").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fixed_version_goes_through_without_a_hand() {
    let bed = Bed::new();
    let good = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &good).await;
    bed.commit(&[(
        "app/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}\n",
    )]);
    bed.until_ready("app", "False BuildFailed").await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "one");
    let fixed = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    bed.until_at("app", &fixed).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "two");
}

#[tokio::test(start_paused = true)]
async fn one_bad_kustomization_holds_up_no_other() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("good/a.yaml", &config_yaml("a", "x")),
        ("bad/b.yaml", "- not: an object\n"),
    ]);
    bed.repository("src", json!({})).await;
    bed.kustomization("bad", json!({})).await;
    bed.kustomization("good", json!({})).await;
    bed.until_at("good", &commit).await;
    bed.until_ready("bad", "False BuildFailed").await;
}

//! With `spec.kubeConfig` everything happens in another cluster, through the registry's client, as long as its Secret
//! is valid.

use std::time::Duration;

use muster_apiserver::{
    ApiServer,
    fault::{Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::support::{
    Bed, NS, condition, config, config_yaml, kubeconfig, kustomization, message, read, until, words,
};

const EU_1: &str = "https://eu-1.test";

/// A cluster that accepts `token`.
fn cluster(bed: &Bed, server: &str, token: &str) -> ApiServer {
    let cluster = ApiServer::builder().in_process().unwrap();
    bed.doors.open(server, token, cluster.client_as(token));
    cluster
}

fn into(secret: &str) -> Value {
    json!({"kubeConfig": {"secretRef": {"name": secret}}})
}

#[tokio::test(start_paused = true)]
async fn the_objects_are_in_the_other_cluster() {
    let bed = Bed::new();
    let downstream = cluster(&bed, EU_1, "t");
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    let mut extra = into("eu-1-kubeconfig");
    extra["deletionPolicy"] = "WaitForTermination".into();
    bed.deploy(extra).await;
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "failed to build kube client: NoKubeconfig: Secret fleet/eu-1-kubeconfig with the kubeconfig in key value or value.yaml is \
         missing"
    );
    let revision = format!("main@sha1:{commit}");
    assert_eq!(
        object["status"]["lastAttemptedRevision"], revision,
        "the path was read"
    );
    bed.secret("eu-1-kubeconfig", json!({"value": kubeconfig(EU_1, "t")}))
        .await;
    let started = tokio::time::Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(11),
        "{:?}",
        started.elapsed()
    );
    assert!(bed.read(&config("a")).await.is_none(), "nothing here");
    assert_eq!(
        read(&downstream, &config("a")).await.unwrap()["data"]["key"],
        "one"
    );

    let secret = format!("/api/v1/namespaces/{NS}/secrets/eu-1-kubeconfig");
    bed.delete(&secret).await;
    bed.delete(&kustomization("app")).await;
    bed.pass(Duration::from_secs(600)).await;
    let object = bed.read(&kustomization("app")).await;
    let object = object.expect("an unreachable cluster is no reason to drop its objects");
    assert!(message(&object, "Ready").starts_with("failed to build kube client: NoKubeconfig"));
    bed.secret("eu-1-kubeconfig", json!({"value": kubeconfig(EU_1, "t")}))
        .await;
    bed.until_gone(&kustomization("app")).await;
    until(&downstream, config("a"), |object| object.is_none().then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn the_kubeconfig_is_in_the_key_that_is_named_or_in_one_of_flux() {
    let bed = Bed::new();
    let named = cluster(&bed, "https://named.test", "t");
    let value = cluster(&bed, "https://value.test", "t");
    let yaml = cluster(&bed, "https://yaml.test", "t");
    let config_of = |server: &str| kubeconfig(&format!("https://{server}.test"), "t");
    let all =
        json!({"named": config_of("named"), "value": config_of("value"), "value.yaml": config_of("yaml")});
    bed.secret("all", all).await;
    bed.secret("yaml", json!({"value.yaml": config_of("yaml")})).await;
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.repository("src", json!({})).await;
    for (name, reference, cluster) in [
        ("one", json!({"name": "all", "key": "named"}), &named),
        ("two", json!({"name": "all"}), &value),
        ("three", json!({"name": "yaml"}), &yaml),
    ] {
        assert!(read(cluster, &config("a")).await.is_none());
        bed.kustomization(
            name,
            json!({"path": "app", "kubeConfig": {"secretRef": reference}}),
        )
        .await;
        bed.until_at(name, &commit).await;
        assert!(read(cluster, &config("a")).await.is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_credential_is_taken_at_the_next_round() {
    let bed = Bed::new();
    let downstream = cluster(&bed, EU_1, "old");
    bed.secret("eu-1", json!({"value": kubeconfig(EU_1, "old")}))
        .await;
    let first = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(into("eu-1")).await;
    bed.until_at("app", &first).await;
    bed.doors.open(EU_1, "new", downstream.client_as("new"));
    let refuse = Fault::Status(muster_apiserver::fault::Failure::Unauthorized);
    downstream
        .faults()
        .add(Rule::always(Match::client("old"), refuse));
    let second = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert!(message(&object, "Ready").contains("Unauthorized"), "{object:#}");
    let renewed = json!({"stringData": {"value": kubeconfig(EU_1, "new")}});
    bed.edit(&format!("/api/v1/namespaces/{NS}/secrets/eu-1"), renewed)
        .await;
    let started = tokio::time::Instant::now();
    bed.until_at("app", &second).await;
    assert!(
        started.elapsed() <= Duration::from_secs(11),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_reached_is_said_and_costs_the_others_nothing() {
    let bed = Bed::new();
    let (hangs, refuses, well) = (
        cluster(&bed, "https://hangs.test", "t"),
        cluster(&bed, "https://refuses.test", "t"),
        cluster(&bed, "https://well.test", "t"),
    );
    let day = Duration::from_secs(86_400);
    hangs
        .faults()
        .add(Rule::always(Match::default(), Fault::Delay(day)));
    refuses
        .faults()
        .add(Rule::always(Match::default(), Fault::Refuse));
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.repository("src", json!({})).await;
    for name in ["hangs", "refuses", "well"] {
        bed.secret(
            name,
            json!({"value": kubeconfig(&format!("https://{name}.test"), "t")}),
        )
        .await;
        let mut extra = into(name);
        extra["path"] = "app".into();
        bed.kustomization(name, extra).await;
    }
    bed.secret(
        "exec",
        json!({"value": kubeconfig("https://exec.test", "t").replace("\"token\"", "\"exec\"")}),
    )
    .await;
    let mut extra = into("exec");
    extra["path"] = "app".into();
    bed.kustomization("exec", extra).await;

    let started = tokio::time::Instant::now();
    bed.until_at("well", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert!(read(&well, &config("a")).await.is_some());
    let mut messages = Vec::new();
    for name in ["exec", "hangs", "refuses"] {
        let object = bed.until_ready(name, "False ReconciliationFailed").await;
        messages.push(words(condition(&object, "Ready").unwrap(), ["reason", "message"]));
    }
    insta::assert_snapshot!(messages.join("\n"));
    assert!(
        started.elapsed() <= Duration::from_secs(90),
        "{:?}",
        started.elapsed()
    );

    let next = bed.commit(&[("app/a.yaml", &config_yaml("a", "two"))]);
    let pushed = tokio::time::Instant::now();
    bed.until_at("well", &next).await;
    assert!(
        pushed.elapsed() <= Duration::from_secs(65),
        "{:?}",
        pushed.elapsed()
    );
}

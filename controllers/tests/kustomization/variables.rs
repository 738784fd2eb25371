//! `postBuild`: variables of the spec, of ConfigMaps and of Secrets, with Flux's precedence, read again at each
//! reconcile.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Bed, NS, config, config_yaml, kustomization, message};

fn from(references: &Value) -> Value {
    json!({"postBuild": {"substituteFrom": references}})
}

/// Later ones of `substituteFrom` win over earlier ones, and `substitute` wins over all.
#[tokio::test(start_paused = true)]
async fn the_nearer_one_wins() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "'${A}-${B}-${C}-${D:=none}'"))]);
    bed.variables("one", json!({"A": "one", "B": "one", "C": "one"}))
        .await;
    bed.secret("two", json!({"B": "two", "C": "two"})).await;
    bed.deploy(json!({"postBuild": {"substitute": {"C": "spec"}, "substituteFrom": [
        {"kind": "ConfigMap", "name": "one"}, {"kind": "Secret", "name": "two"},
        {"kind": "ConfigMap", "name": "lost", "optional": true}, {"kind": "Secret", "name": "lost", "optional": true}]}}))
        .await;
    bed.until_at("app", &commit).await;
    assert_eq!(
        bed.read(&config("a")).await.unwrap()["data"]["key"],
        "one-two-spec-none"
    );
    let status = bed.read(&kustomization("app")).await.unwrap()["status"].to_string();
    assert!(
        !status.contains("two"),
        "a value of a Secret is in the status: {status}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_any_variable_the_text_stays_as_it_is() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "'${A}'"))]);
    bed.deploy(from(
        &json!([{"kind": "ConfigMap", "name": "lost", "optional": true}]),
    ))
    .await;
    bed.until_at("app", &commit).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["data"]["key"], "${A}");
}

/// A change of an object with variables triggers nothing: it is read at the next interval, and at once on request.
#[tokio::test(start_paused = true)]
async fn a_change_is_taken_at_the_interval_or_on_request() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "'${A}'"))]);
    bed.variables("vars", json!({"A": "one"})).await;
    bed.deploy(from(&json!([{"kind": "ConfigMap", "name": "vars"}])))
        .await;
    bed.until_at("app", &commit).await;
    let vars = format!("/api/v1/namespaces/{NS}/configmaps/vars");
    let shows = |value: &'static str| bed.until(&config("a"), move |object| object["data"]["key"] == value);

    bed.edit(&vars, json!({"data": {"A": "two"}})).await;
    let changed = Instant::now();
    shows("two").await;
    let took = changed.elapsed();
    assert!(
        took >= Duration::from_secs(500) && took <= Duration::from_secs(640),
        "{took:?}"
    );

    bed.edit(&vars, json!({"data": {"A": "three"}})).await;
    let changed = Instant::now();
    bed.request("app", "now").await;
    shows("three").await;
    assert!(
        changed.elapsed() <= Duration::from_secs(1),
        "{:?}",
        changed.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named_and_taken_when_it_comes() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "'${A}'"))]);
    bed.deploy(from(&json!([{"kind": "Secret", "name": "vars"}])))
        .await;
    let object = bed.until_ready("app", "False BuildFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "substitute from 'Secret/vars': it does not exist; create it, or mark the reference optional"
    );
    bed.secret("vars", json!({"A": "x"})).await;
    let started = Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(64),
        "{:?}",
        started.elapsed()
    );
}

/// An API server that is unreachable for a moment is not the revision's fault.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_now_is_no_failure_of_the_build() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "'${A}'"))]);
    bed.variables("vars", json!({"A": "one"})).await;
    let reading = Match {
        verbs: vec![Verb::Get],
        path: Some("configmaps/vars".into()),
        ..Match::default()
    };
    bed.api
        .faults()
        .add(Rule::times(reading, Fault::Status(Failure::Unavailable), 1));
    bed.deploy(from(&json!([{"kind": "ConfigMap", "name": "vars"}])))
        .await;
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert!(
        message(&object, "Ready").starts_with("reading ConfigMap fleet/vars: "),
        "{object:#}"
    );
    let started = Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(11),
        "{:?}",
        started.elapsed()
    );
}

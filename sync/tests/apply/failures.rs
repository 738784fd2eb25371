//! A failed object never stops the others of its stage, and its error is reported.

use std::time::Duration;

use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use muster_sync::apply::{self, ApplyError, Cluster, PlanError};
use serde_json::json;

use crate::support::{Bed, config_map, namespace, widget, widget_definition};

#[tokio::test(start_paused = true)]
async fn all_others_of_the_stage_are_tried_and_later_stages_are_not() {
    let bed = Bed::new();
    let mut refused = namespace("refused");
    refused["metadata"]["labels"] = json!({"app": "not a value"});
    let error = bed
        .apply(&[config_map("later", &json!({})), refused, namespace("good")])
        .await
        .unwrap_err();
    insta::assert_snapshot!(error.to_string().split(": ").next().unwrap(), @"Namespace/refused apply failed (Invalid)");
    assert!(
        error.to_string().ends_with("; 1 of later stages not tried"),
        "{error}"
    );
    assert!(bed.read("/api/v1/namespaces/good").await.is_some());
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/later")
            .await
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_failing_object_then_counts() {
    let bed = Bed::new();
    bed.applied(&[widget_definition("Namespaced")]).await;
    let error = bed
        .apply(&[
            widget("bad", 0),
            widget("worse", -1),
            widget("good", 1),
            config_map("good", &json!({})),
        ])
        .await
        .unwrap_err();
    insta::assert_snapshot!(error);
    assert!(
        bed.read("/apis/example.org/v1/namespaces/default/widgets/good")
            .await
            .is_some()
    );
    assert!(
        bed.read("/api/v1/namespaces/default/configmaps/good")
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_applied_is_said_in_full() {
    let bed = Bed::new();
    let refused = async |manifest| match bed.apply(&[manifest]).await.unwrap_err() {
        ApplyError::Objects { failures, .. } => format!("{}: {}", failures[0].reason, failures[0]),
        ApplyError::Ledger(error) => panic!("{error}"),
    };
    let unknown = json!({"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let mut homeless = config_map("homeless", &json!({}));
    homeless["metadata"].as_object_mut().unwrap().remove("namespace");
    let mut lost = config_map("lost", &json!({}));
    lost["metadata"]["namespace"] = json!("nowhere");
    let mut labelled = config_map("labelled", &json!({}));
    labelled["metadata"]["labels"] = json!(["a"]);
    let mut messages = Vec::new();
    for manifest in [unknown, homeless, lost, labelled] {
        messages.push(refused(manifest).await);
    }
    insta::assert_snapshot!(messages.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn two_that_become_one_are_refused() {
    let mut bed = Bed::new();
    bed.options.target_namespace = Some("default".into());
    let mut other = config_map("twin", &json!({}));
    other["metadata"]["namespace"] = json!("kube-system");
    let error = bed
        .apply(&[config_map("twin", &json!({})), other])
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"ConfigMap/default/twin occurs twice once spec.targetNamespace is set; rename one of them");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_is_no_fault_of_the_objects() {
    let bed = Bed::new();
    bed.api.faults().add(Rule::always(
        Match::default(),
        Fault::Status(Failure::Unavailable),
    ));
    let fresh = Cluster::new(bed.api.client(), Duration::from_secs(10));
    let planned = apply::plan(&fresh, vec![config_map("a", &json!({}))], bed.options.clone()).await;
    let PlanError::Discovery(error) = planned.unwrap_err();
    assert!(error.is_of_cluster(), "{error}");
}

/// A server's message is truncated, so that the counts after it remain visible.
#[tokio::test(start_paused = true)]
async fn a_long_refusal_is_cut() {
    let bed = Bed::new();
    let mut long = namespace("long");
    long["metadata"]["labels"] = json!({"app": "ä".repeat(10_000)});
    let error = bed
        .apply(&[long, config_map("later", &json!({}))])
        .await
        .unwrap_err();
    let message = error.to_string();
    let (_, words) = message.split_once(" failed (").unwrap();
    assert!(words.len() < 4_300, "{}", words.len());
    assert!(
        words.ends_with(" bytes more); 1 of later stages not tried"),
        "{words}"
    );
}

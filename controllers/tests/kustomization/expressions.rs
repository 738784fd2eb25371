//! Health by expressions: they decide the verdict, and the rules of evidence stay the same.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    evidence::{Cluster, SETTLE, WIDGET, healthy, widget},
    support::{kustomization, message, ready},
};

/// A kind that has a phase, and nothing that kstatus reads.
fn by_phase() -> Value {
    json!({"timeout": "2m", "healthCheckExprs": [{
        "apiVersion": "example.test/v1", "kind": "Widget", "current": "status.phase == 'Running'",
        "inProgress": "status.phase == 'Moving'", "failed": "status.phase == 'Broken' || status.?stopped.orValue(false)",
    }]})
}

fn phase(phase: &str) -> Value {
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": "True", "reason": "Always", "message": ""}]})
}

fn observed(name: &str, generation: u64) -> Value {
    let mut status = phase(name);
    status["observedGeneration"] = generation.into();
    status
}

async fn created(fields: Value) -> (Cluster, crate::evidence::Version) {
    let cluster = Cluster::empty();
    cluster.bed.deploy(fields).await;
    let first = cluster.release(&[("app/w.yaml", &widget(1, ""))], |_| true).await;
    (cluster, first)
}

#[tokio::test(start_paused = true)]
async fn a_phase_that_was_written_since_the_creation_confirms() {
    let (cluster, first) = created(by_phase()).await;
    cluster.answers_at(&first, 1, phase("Moving")).await;
    cluster.answers_at(&first, 12, phase("Running")).await;
    let object = cluster.until_confirmed(&first, 12).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn after_an_update_a_phase_alone_is_no_evidence() {
    let (cluster, first) = created(by_phase()).await;
    cluster.answers_at(&first, 1, phase("Running")).await;
    cluster.until_confirmed(&first, 1).await;
    let second = cluster.second().await;
    let object = cluster.until_confirmed(&second, SETTLE).await;
    let assumed = "True Assumed: 1 object without evidence from its controller within 30s: Widget/default/w (its expression may be based on the previous status)";
    assert_eq!(healthy(&object), assumed);
}

#[tokio::test(start_paused = true)]
async fn the_generation_is_evidence() {
    let (cluster, first) = created(by_phase()).await;
    cluster.answers_at(&first, 1, observed("Running", 1)).await;
    cluster.until_confirmed(&first, 1).await;
    let second = cluster.second().await;
    // About the previous spec, for longer than anything settles.
    cluster.answers_at(&second, 60, observed("Running", 2)).await;
    let object = cluster.until_confirmed(&second, 60).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn in_progress_comes_before_failed_and_failed_ends_at_once() {
    let (cluster, first) = created(by_phase()).await;
    let mut moving = observed("Moving", 1);
    moving["stopped"] = true.into();
    cluster.answers_at(&first, 1, moving).await;
    cluster.bed.pass(Duration::from_secs(40)).await;
    let app = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(ready(&app), "Unknown Progressing", "{}", message(&app, "Ready"));
    cluster.answers(observed("Broken", 1)).await;
    cluster.until_failed(&first).await;
    let app = cluster.bed.read(&kustomization("app")).await.unwrap();
    let expect = "health check failed: failed early due to stalled resources: [Widget/default/w status: 'Failed': failed is true]";
    assert_eq!(message(&app, "Ready"), expect);
}

/// An expression that gives no boolean is waited for, and named; in the end the version is at fault.
#[tokio::test(start_paused = true)]
async fn what_is_no_boolean_is_named() {
    let mut fields = by_phase();
    fields["healthCheckExprs"][0] =
        json!({"apiVersion": "example.test/v1", "kind": "Widget", "current": "status.phase"});
    let (cluster, first) = created(fields).await;
    cluster.answers_at(&first, 1, observed("Running", 1)).await;
    cluster.until_failed(&first).await;
    let app = cluster.bed.read(&kustomization("app")).await.unwrap();
    let expect = "health check failed after 2m: timeout waiting for: [Widget/default/w status: 'InProgress': current \"status.phase\" is of type \
                  string, not bool]";
    assert_eq!(message(&app, "Ready"), expect);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_is_nothing_else() {
    let (cluster, first) = created(by_phase()).await;
    cluster
        .bed
        .edit(WIDGET, json!({"metadata": {"finalizers": ["example.test/held"]}}))
        .await;
    cluster.bed.delete(WIDGET).await;
    cluster.answers_at(&first, 1, observed("Running", 1)).await;
    cluster.bed.pass(Duration::from_secs(40)).await;
    assert!(!cluster.was_confirmed(&first));
}

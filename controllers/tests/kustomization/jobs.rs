//! A Job with `ttlSecondsAfterFinished` that has finished and is gone is done: it runs once.

use std::{collections::BTreeSet, time::Duration};

use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::{Value, json};

use crate::support::{Bed, config, config_yaml, deployment, deployment_yaml, done, message};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/migrate";
const TTL: Duration = Duration::from_secs(4);

fn job_yaml(image: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, namespace: default}}\nspec:\n  ttlSecondsAfterFinished: 4\n  \
         template:\n    spec: {{restartPolicy: Never, containers: [{{name: main, image: '{image}'}}]}}\n"
    )
}

fn finished(condition: &str) -> Value {
    json!({"status": {"startTime": "2026-11-21T12:00:00Z", "succeeded": 1, "conditions": [
        {"type": condition, "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}})
}

/// Completes the existing Job, and deletes it after its TTL.
async fn finish(bed: &Bed, condition: &str) {
    bed.until(JOB, |_| true).await;
    bed.edit(&format!("{JOB}/status"), finished(condition)).await;
    bed.pass(TTL).await;
    bed.delete(JOB).await;
}

/// How many Jobs were ever created.
fn runs(bed: &Bed) -> usize {
    let events = bed.api.recorder().events();
    let jobs = events.iter().map(muster_apiserver::record::EventRecord::object);
    let jobs = jobs.filter(|object| object["kind"] == "Job");
    let uids: BTreeSet<String> = jobs.map(|job| job["metadata"]["uid"].to_string()).collect();
    uids.len()
}

#[tokio::test(start_paused = true)]
async fn a_job_that_completed_and_is_gone_does_not_run_again() {
    let mut bed = Bed::new();
    let commit = bed.commit(&[("app/job.yaml", &job_yaml("tool:1"))]);
    bed.deploy(json!({})).await;
    finish(&bed, "Complete").await;
    bed.until_at("app", &commit).await;
    bed.pass(Duration::from_secs(1_500)).await;
    bed.until_at("app", &commit).await;
    // Another process knows it from the Ready condition.
    bed.start();
    bed.pass(Duration::from_secs(1_500)).await;
    let object = bed.until_at("app", &commit).await;
    assert_eq!(
        object["status"]["inventory"]["entries"][0]["id"],
        "default_migrate_batch_Job"
    );
    assert!(bed.read(JOB).await.is_none());
    assert_eq!(runs(&bed), 1);
    assert_eq!(
        bed.history("app"),
        ["Unknown Progressing", "True ReconciliationSucceeded"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_again_where_it_is_another_one() {
    let bed = Bed::new();
    bed.commit(&[("app/job.yaml", &job_yaml("tool:1"))]);
    bed.deploy(json!({})).await;
    finish(&bed, "Complete").await;
    let same = bed.commit(&[
        ("app/job.yaml", &job_yaml("tool:1")),
        ("app/a.yaml", &config_yaml("a", "x")),
    ]);
    bed.until_at("app", &same).await;
    assert_eq!(runs(&bed), 1);
    let other = bed.commit(&[("app/job.yaml", &job_yaml("tool:2"))]);
    finish(&bed, "Complete").await;
    bed.until_at("app", &other).await;
    assert_eq!(runs(&bed), 2);
    assert!(bed.read(&config("a")).await.is_none());
}

/// Each retry applies everything again, except what is done. The Job may finish between two of them.
#[tokio::test(start_paused = true)]
async fn a_job_runs_once_while_something_else_is_tried_again() {
    let unhealthy = deployment_yaml("d", "nginx");
    let refused = config_yaml("a", "x").replace("data: {key: x}", "data: {'k e y': x}");
    for (path, yaml) in [("app/d.yaml", &unhealthy), ("app/a.yaml", &refused)] {
        let bed = Bed::new();
        bed.commit(&[("app/job.yaml", &job_yaml("tool:1")), (path, yaml)]);
        bed.deploy(json!({"timeout": "1m", "retryInterval": "5m"})).await;
        finish(&bed, "Complete").await;
        bed.pass(Duration::from_secs(3_600)).await;
        assert_eq!(runs(&bed), 1, "{path}");
        let commit = bed.commit(&[
            ("app/job.yaml", &job_yaml("tool:1")),
            (path, &yaml.replace("k e y", "key")),
        ]);
        if yaml.contains("Deployment") {
            bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
        }
        bed.until_at("app", &commit).await;
        assert_eq!(runs(&bed), 1, "{path}");
    }
}

/// Another object takes longer to apply than the Job and its TTL.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_before_everything_is_applied_is_done() {
    let bed = Bed::new();
    let slow = Match {
        path: Some("/configmaps/slow".into()),
        ..Match::client("muster")
    };
    let delay = Fault::Delay(Duration::from_secs(20));
    bed.api.faults().add(Rule::always(slow, delay));
    let commit = bed.commit(&[
        ("app/job.yaml", &job_yaml("tool:1")),
        ("app/slow.yaml", &config_yaml("slow", "x")),
    ]);
    bed.deploy(json!({})).await;
    finish(&bed, "Complete").await;
    assert!(bed.read(&config("slow")).await.is_none());
    bed.until_at("app", &commit).await;
    assert_eq!(runs(&bed), 1);
}

/// The Kustomization that does not manage the Job knows that it is done, too.
#[tokio::test(start_paused = true)]
async fn a_job_that_two_declare_runs_once() {
    let bed = Bed::new();
    bed.commit(&[("app/job.yaml", &job_yaml("tool:1"))]);
    bed.deploy(json!({})).await;
    bed.until(JOB, |_| true).await;
    bed.kustomization("other", json!({"path": "app"})).await;
    bed.until_ready("other", "Unknown Progressing").await;
    finish(&bed, "Complete").await;
    let commit = bed.commit(&[
        ("app/job.yaml", &job_yaml("tool:1")),
        ("app/a.yaml", &config_yaml("a", "x")),
    ]);
    bed.until_at("app", &commit).await;
    bed.until_at("other", &commit).await;
    assert_eq!(runs(&bed), 1);
}

/// It was not observed as complete, or it failed: it runs again.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_before_it_is_done_runs_again() {
    let mut bed = Bed::new();
    let commit = bed.commit(&[("app/job.yaml", &job_yaml("tool:1"))]);
    bed.deploy(json!({})).await;
    bed.until(JOB, |_| true).await;
    bed.crash();
    finish(&bed, "Complete").await;
    bed.start();
    finish(&bed, "Failed").await;
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    assert!(message(&object, "Ready").contains("Job/default/migrate status: 'Failed'"));
    bed.until(JOB, |_| true).await;
    bed.delete(JOB).await;
    finish(&bed, "Complete").await;
    bed.until_at("app", &commit).await;
    assert_eq!(runs(&bed), 4);
}

/// The cluster deletes in the foreground: the Job exists until its pods are gone.
#[tokio::test(start_paused = true)]
async fn a_job_that_completed_and_is_being_deleted_is_done() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/job.yaml", &job_yaml("tool:1")),
        ("app/d.yaml", &deployment_yaml("d", "nginx")),
    ]);
    bed.deploy(json!({})).await;
    bed.until(JOB, |_| true).await;
    let held = json!({"metadata": {"finalizers": ["example.org/pods"]}});
    bed.edit(JOB, held).await;
    bed.edit(&format!("{JOB}/status"), finished("Complete")).await;
    bed.delete(JOB).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &commit).await;
    bed.pass(Duration::from_secs(1_500)).await;
    bed.until_at("app", &commit).await;
    bed.edit(JOB, json!({"metadata": {"finalizers": []}})).await;
    bed.until_gone(JOB).await;
    bed.pass(Duration::from_secs(1_500)).await;
    bed.until_at("app", &commit).await;
    assert_eq!(runs(&bed), 1);
}

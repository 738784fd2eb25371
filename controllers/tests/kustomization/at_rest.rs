//! At rest nothing is written, and a restart of the controllers changes nothing.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config_yaml, deployment, deployment_yaml, done};

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("app/a.yaml", &config_yaml("a", "one")),
        ("app/d.yaml", &deployment_yaml("d", "nginx")),
    ]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &commit).await;
    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    assert_eq!(
        bed.api.recorder().events().len(),
        0,
        "no object got another version"
    );
    let dry_runs = bed
        .api
        .recorder()
        .requests()
        .iter()
        .filter(|request| request.query.contains("dryRun=All"))
        .count();
    assert!(
        (10..=14).contains(&dry_runs),
        "two objects each ten minutes, but {dry_runs} dry runs in an hour"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_is_not_written_again_and_again() {
    let bed = Bed::new();
    bed.commit(&[(
        "app/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n",
    )]);
    bed.deploy(json!({})).await;
    bed.until_ready("app", "False ReconciliationFailed").await;
    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(1_800)).await;
    let statuses: Vec<String> = bed
        .writes()
        .into_iter()
        .filter(|write| write.ends_with("/status"))
        .collect();
    assert_eq!(statuses, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let mut bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.start();
    bed.pass(Duration::from_secs(60)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
}

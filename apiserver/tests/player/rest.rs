//! At rest nothing is written.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;

use crate::bed::{Bed, deployment, reason};

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let bed = Bed::new();
    bed.create::<Deployment>(deployment("good", 3, "web:1")).await;
    bed.create::<Deployment>(deployment("broken", 2, "web:bad")).await;
    bed.deployment_done("good").await;
    bed.pass(Duration::from_secs(601)).await;
    bed.until::<Deployment>("broken", |d| reason(d, "Progressing") == "ProgressDeadlineExceeded").await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(600)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    assert!(!bed.api.recorder().requests().is_empty(), "the watches are still there");
}

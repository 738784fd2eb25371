//! In a steady state nothing is written, and a restarted player changes nothing that is as it should be.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use muster_apiserver::ApiServer;
use muster_apiserver::player::{Speeds, simulate_workloads};
use serde_json::{Value, json};

use crate::bed::{Bed, condition, deployment, reason, template};

/// One object of each kind, healthy and unhealthy.
async fn furnish(bed: &Bed) {
    bed.create::<Deployment>(deployment("good", 3, "web:1")).await;
    bed.create::<Deployment>(deployment("broken", 2, "web:bad")).await;
    let set = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:1"),
        }})
    };
    bed.create::<DaemonSet>(set("daemon")).await;
    let mut stateful = set("state");
    stateful["spec"]["replicas"] = 2.into();
    stateful["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}]);
    bed.create::<StatefulSet>(stateful).await;
    for (name, image) in [("done", "job:1"), ("stuck", "job:bad")] {
        let mut job = json!({"metadata": {"name": name}, "spec": {"template": template(name, image)}});
        job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        bed.create::<Job>(job).await;
    }
    let service = json!({"metadata": {"name": "good"}, "spec": {
        "type": "LoadBalancer", "selector": {"app": "good"}, "ports": [{"port": 80}],
    }});
    bed.create::<Service>(service).await;
    let picky = json!({"metadata": {"name": "picky"}, "spec": {
        "nodeSelector": {"disk": "fast"}, "containers": [{"name": "main", "image": "a:1"}],
    }});
    bed.create::<k8s_openapi::api::core::v1::Pod>(picky).await;
    bed.deployment_done("good").await;
    bed.until::<StatefulSet>("state", |set| set["status"]["availableReplicas"] == 2)
        .await;
    bed.until::<Job>("done", |job| condition(job, "Complete")["status"] == "True")
        .await;
    bed.until::<DaemonSet>("daemon", |set| set["status"]["numberAvailable"] == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let bed = Bed::new();
    furnish(&bed).await;
    bed.pass(Duration::from_secs(601)).await;
    bed.until::<Deployment>("broken", |d| {
        reason(d, "Progressing") == "ProgressDeadlineExceeded"
    })
    .await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_mins(10)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    assert!(
        !bed.api.recorder().requests().is_empty(),
        "the watches are still there"
    );
}

#[tokio::test(start_paused = true)]
async fn a_player_restart_or_a_lost_watch_changes_nothing() {
    let bed = Bed {
        api: ApiServer::builder().seed(7).event_log(true).in_process().unwrap(),
    };
    let start = || {
        tokio::spawn(simulate_workloads(
            bed.api.client_as("workload-player"),
            bed.api.clock(),
            Speeds::default(),
        ))
    };
    let first = start();
    furnish(&bed).await;
    bed.until::<Deployment>("broken", |d| d["status"]["unavailableReplicas"] == 2)
        .await;
    bed.pass(Duration::from_secs(5)).await;
    first.abort();
    bed.api.recorder().clear();
    let _second = start();
    bed.pass(Duration::from_secs(5)).await;
    // The pods with a bad image restart their stages, because a player knows only the times that it has observed.
    let events = bed.api.recorder().events();
    let touched = |event: &&muster_apiserver::record::EventRecord| {
        let owner = &event.object()["metadata"]["ownerReferences"][0]["name"];
        let broken = |name: &Value| {
            name.as_str()
                .is_some_and(|name| name.starts_with("broken") || name == "stuck")
        };
        !broken(owner)
    };
    let touched: Vec<String> = events
        .iter()
        .filter(touched)
        .map(|event| event.object()["metadata"].to_string())
        .collect();
    assert_eq!(touched, Vec::<String>::new());
    bed.api.recorder().clear();
    bed.api.compact();
    bed.api
        .faults()
        .close_watches(muster_apiserver::fault::Match::default());
    bed.pass(Duration::from_secs(30)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
}

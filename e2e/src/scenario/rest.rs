//! Promise: an idle fleet causes no writes, and no watch is reopened before its own timeout.

use std::time::Duration;

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, ROLLED, manifests},
};

/// Until trailing events and statuses are written.
const SETTLED: Duration = Duration::from_mins(1);
/// As long as the longest default interval.
const WATCHED: Duration = Duration::from_mins(10);
/// For twenty clusters, on paused time and on the wire.
const WATCHED_LONG: Duration = Duration::from_mins(30);
/// Three modules over twenty clusters, all at once; on a machine that is also busy otherwise.
const DEPLOYED: Duration = Duration::from_mins(6);

/// muster writes to no API server: on paused time for ten minutes, otherwise for one.
pub async fn nothing_is_written(ground: Ground) {
    let bed = with_clusters(ground).await;
    bed.deploy(&["web"]).await;
    let version = bed.release("base", 1, Quality::Good);
    bed.let_bootstrap().await;
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &version, ROLLED)
        .await;
    rests(&bed, if bed.is_virtual() { WATCHED } else { SETTLED }).await;
}

/// The controller and all agents restart while idle: they find the desired state, and write nothing.
pub async fn nothing_is_written_after_a_restart(ground: Ground) {
    let mut bed = with_clusters(ground).await;
    bed.let_bootstrap().await;
    bed.deploy(&["web"]).await;
    let version = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &version, ROLLED)
        .await;
    bed.pass(SETTLED).await;
    let began = Instant::now();
    bed.crash_controller().await;
    bed.start_controller();
    for cluster in CLUSTERS {
        bed.crash_agent(cluster).await;
        bed.start_agent(cluster);
    }
    bed.pass(SETTLED).await;
    assert_eq!(bed.writes_since(began), Vec::<String>::new());
    assert!(bed.open_watches() > CLUSTERS.len(), "they are there again");
}

/// On real control planes with leases, whose renewals are the only writes.
async fn with_clusters(ground: Ground) -> Bed {
    let lease = ground.is_real().then_some(Duration::from_secs(15));
    let mut bed = Bed::seeded(ground, 1, lease).await;
    bed.prepare(&CLUSTERS).await;
    for cluster in CLUSTERS {
        bed.join(cluster, &[("env", "prod")], &[]).await;
    }
    bed
}

/// Twenty clusters, three modules with bindings to both planes, and leases, whose renewals are the only writes.
pub async fn twenty_clusters(ground: Ground) {
    let mut bed = Bed::seeded(ground, 1, Some(Duration::from_secs(15))).await;
    for number in 1..=20 {
        let name = format!("c-{number:02}");
        bed.join(&name, &[("env", "prod")], &[]).await;
        let facts = |name: &str, fact: &str| json!({"metadata": {"name": name}, "data": {"fact": fact}});
        let upstream = facts(&format!("{name}-facts"), &format!("{name} upstream"));
        bed.fleet().create(kinds::CONFIG_MAP, upstream).await;
        let inside = facts("facts", &format!("{name} inside"));
        bed.inside(&name, SYSTEM_NAMESPACE)
            .create(kinds::CONFIG_MAP, inside)
            .await;
    }
    let upstream = |name: &str| json!([{"name": "FACT", "objectFieldRef": reference(name)}]);
    let modules = [
        (
            kinds::MODULE,
            "web",
            "/controlPlaneBindings",
            upstream("$(CLUSTER_NAME)-facts"),
        ),
        (kinds::MODULE, "db", "/sync/bindings", upstream("facts")),
        (
            kinds::BOOTSTRAP_MODULE,
            "base",
            "/controlPlaneBindings",
            upstream("$(CLUSTER_NAME)-facts"),
        ),
    ];
    for (kind, app, field, bindings) in &modules {
        let version = format!("{app}-v1");
        let text = manifests(app, &version, Quality::Good);
        bed.commit_version(app, &text, &version);
        let mut spec = bed.spec(app, &version);
        spec["sync"]["package"]["substitute"] = json!({"CLUSTER": "$(FACT)"});
        spec["rollout"] = json!({"maxUnreadyClusters": "100%"});
        set(&mut spec, field, bindings.clone());
        bed.fleet()
            .create(*kind, json!({"metadata": {"name": app}, "spec": spec}))
            .await;
    }
    for (kind, app, ..) in modules {
        bed.until_ready_within(kind, app, &format!("{app}-v1"), DEPLOYED)
            .await;
    }
    let inside = bed.inside("c-07", crate::fleet::APPS);
    for (app, expect) in [("web", "upstream"), ("db", "inside"), ("base", "upstream")] {
        let found = inside.get(kinds::CONFIG_MAP, app).await.unwrap();
        assert_eq!(found["data"]["cluster"], format!("c-07 {expect}"));
    }
    let time = if bed.is_virtual() { WATCHED_LONG } else { SETTLED };
    rests(&bed, time).await;
}

/// Nothing is written for this time, and no watch ends before its timeout.
async fn rests(bed: &Bed, time: Duration) {
    bed.pass(SETTLED).await;
    let (began, watches) = (Instant::now(), bed.open_watches());
    bed.pass(time).await;
    assert_eq!(bed.writes_since(began), Vec::<String>::new());
    assert_eq!(bed.short_watches_since(began), Vec::<String>::new());
    assert_eq!(bed.open_watches(), watches, "all watches are still open");
    assert!(watches > bed.clusters().len(), "{watches} watches");
    println!(
        "{} clusters at rest for {time:?}: nothing written, {watches} watches open",
        bed.clusters().len()
    );
}

fn reference(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "fieldPath": "/data/fact"})
}

fn set(spec: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[field] = value;
}

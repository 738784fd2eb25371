//! Promise: a version reaches every selected cluster, one after another, and is never reported before it is there.

use serde_json::json;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, Quality, workload},
};

/// The first version and the next one.
pub async fn one_after_another(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let took = bed.until_ready("web", &version).await;
    println!(
        "a version over {} clusters, one at a time: {took:?}",
        CLUSTERS.len()
    );
    for version in ["web-v1", "web-v2"] {
        assert_eq!(bed.order(&workload("web"), version), CLUSTERS);
    }
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
    assert_eq!(bed.most_changing(&workload("web")), 1);
    assert!(
        bed.premature_claims("web").is_empty(),
        "{:#?}",
        bed.premature_claims("web")
    );
    let summary = &bed.module("web").await["status"]["summary"];
    let counts = json!({"total": 3, "updated": 3, "ready": 3, "updating": 0, "waiting": 0, "failed": 0, "skipped": 0, "held": 0, "withdrawing": 0, "clusters": "3/3"});
    assert_eq!(*summary, counts);
    for cluster in CLUSTERS {
        let config = bed
            .inside(cluster, APPS)
            .get(kinds::CONFIG_MAP, "web")
            .await
            .unwrap();
        assert_eq!(config["data"], json!({"version": "web-v2", "cluster": cluster}));
    }
}

/// With a limit of two, never three clusters change at once, and two do.
pub async fn two_at_a_time(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["a", "b", "c", "d", "e"]).await;
    let version = bed.release("web", 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["rollout"] = json!({"maxUnreadyClusters": 2});
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 2);
    let most = bed.most_changing(&workload("web"));
    // The pods of real control planes become ready within milliseconds: two changing clusters need not be observed at
    // once.
    assert!(most == 2 || bed.is_real() && most == 1, "{most}");
    assert!(bed.premature_claims("web").is_empty());
}

/// A newer version replaces the target during a rollout, and reuses its slots.
pub async fn newest_wins(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", "web-v2").await;
    let version = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(
        bed.order(&workload("web"), "web-v2"),
        ["eu-1"],
        "the version in between went no further"
    );
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
    assert_eq!(bed.most_changing(&workload("web")), 1);
}

/// The observer works: a module that does not wait for health is reported before it is ready.
pub async fn observer_would_notice(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let version = bed.release("web", 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["sync"]["package"]["wait"] = json!(false);
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    bed.until_ready("web", &version).await;
    assert!(!bed.premature_claims("web").is_empty());
    assert_eq!(bed.most_changing(&workload("web")), CLUSTERS.len());
}

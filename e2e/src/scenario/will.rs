//! Promise: user intent is applied: paused starts no new changes, deselected and deleted withdraw, and nothing else is
//! touched.

use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, Quality, ROLLED, condition, status_text, workload},
};

/// Paused during a rollout: clusters that have begun finish, no other begins.
pub async fn paused(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    bed.fleet()
        .patch(
            kinds::MODULE,
            "web",
            json!({"spec": {"rollout": {"paused": true}}}),
        )
        .await;
    let poll = async || {
        let module = bed.module("web").await;
        let rests =
            module["status"]["summary"]["updated"] == 1 && module["status"]["summary"]["updating"] == 0;
        if rests && condition(&module, "Paused").is_some() {
            Ok(module)
        } else {
            Err(status_text(&module))
        }
    };
    let (_, module) = bed.wait_until("eu-1 has finished", ROLLED, poll).await;
    assert_eq!(condition(&module, "Ready").unwrap()["reason"], "Paused");
    bed.pass(ROLLED).await;
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    bed.fleet()
        .patch(
            kinds::MODULE,
            "web",
            json!({"spec": {"rollout": {"paused": false}}}),
        )
        .await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.order(&workload("web"), &version), CLUSTERS);
}

/// A cluster that is no longer selected loses the objects, and gets them back when it is selected again.
pub async fn deselected(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let before = (
        bed.resource_versions("eu-1", "web").await,
        bed.resource_versions("us-1", "web").await,
    );
    bed.label_cluster("eu-2", json!({"env": "dev"})).await;
    let module = until_clusters(&bed, "web", "2/2").await;
    assert_eq!(condition(&module, "Ready").unwrap()["status"], "True");
    until_clusters(&bed, "other", "2/2").await;
    assert!(is_gone(&bed, "eu-2", "web").await && is_gone(&bed, "eu-2", "other").await);
    assert_eq!(
        (
            bed.resource_versions("eu-1", "web").await,
            bed.resource_versions("us-1", "web").await
        ),
        before
    );
    bed.label_cluster("eu-2", json!({"env": "prod"})).await;
    until_clusters(&bed, "web", "3/3").await;
    assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v1"));
}

/// Deleting a module removes its objects from every cluster, and no others.
pub async fn deleted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let mut before = Vec::new();
    for cluster in CLUSTERS {
        before.push(bed.resource_versions(cluster, "other").await);
    }
    bed.fleet().delete(kinds::MODULE, "web").await;
    let poll = async || {
        bed.fleet()
            .get(kinds::MODULE, "web")
            .await
            .map_or(Ok(()), |module| Err(status_text(&module)))
    };
    bed.wait_until("the module is gone", ROLLED, poll).await;
    for (cluster, before) in CLUSTERS.iter().zip(before) {
        assert!(is_gone(&bed, cluster, "web").await, "{cluster}");
        assert_eq!(bed.resource_versions(cluster, "other").await, before);
    }
}

async fn until_clusters(bed: &Bed, app: &str, expect: &str) -> Value {
    let poll = async || {
        let module = bed.module(app).await;
        let rests = module["status"]["summary"]["clusters"] == expect
            && module["status"]["summary"]["withdrawing"] == 0;
        if rests && crate::fleet::is_ready(&module) {
            Ok(module)
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until(&format!("{app} is on {expect}"), ROLLED, poll)
        .await
        .1
}

async fn is_gone(bed: &Bed, cluster: &str, app: &str) -> bool {
    let inside = bed.inside(cluster, APPS);
    inside.get(kinds::DEPLOYMENT, app).await.is_none() && inside.get(kinds::CONFIG_MAP, app).await.is_none()
}

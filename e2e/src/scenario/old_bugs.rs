//! Promise: muster does not have known bugs of other tools: each of these scenarios fails when one of the bugs is
//! reintroduced (`e2e/mutations/`).

use std::time::Duration;

use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, Quality, ROLLED, manifests},
};

/// Longer than the dependents of a deleted object live.
const COLLECTED: Duration = Duration::from_secs(30);

/// What a version no longer contains is removed, cluster by cluster, and all other objects keep their identity.
pub async fn what_leaves_a_version_leaves_the_clusters(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let extra =
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: default}\ndata: {a: b}\n";
    let first = format!("{}{extra}", manifests("web", "web-v1", Quality::Good));
    bed.commit_version("web", &first, "web-v1");
    bed.create_module(kinds::MODULE, "web", "web-v1").await;
    bed.until_ready("web", "web-v1").await;
    let mut uids = Vec::new();
    for cluster in CLUSTERS {
        let inside = bed.inside(cluster, APPS);
        assert!(
            inside.get(kinds::CONFIG_MAP, "extra").await.is_some(),
            "{cluster}"
        );
        uids.push(uid(&inside.get(kinds::DEPLOYMENT, "web").await.unwrap()));
    }
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    for (cluster, before) in CLUSTERS.iter().zip(uids) {
        let inside = bed.inside(cluster, APPS);
        assert_eq!(
            inside.get(kinds::CONFIG_MAP, "extra").await,
            None,
            "{cluster} keeps what left"
        );
        assert_eq!(
            uid(&inside.get(kinds::DEPLOYMENT, "web").await.unwrap()),
            before,
            "{cluster}"
        );
    }
}

/// Deleting a Cluster removes muster's objects for it, whatever modules there are; nothing in the cluster is touched.
pub async fn what_is_ours_goes_with_its_cluster(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let before = bed.resource_versions("eu-2", "web").await;
    bed.fleet().delete(kinds::CLUSTER, "eu-2").await;
    let poll = async || match bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-2").await {
        None => Ok(()),
        Some(left) => Err(left.to_string()),
    };
    bed.wait_until("its ProxyAssemblage is gone", COLLECTED, poll)
        .await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.module("web").await["status"]["summary"]["clusters"], "2/2");
    assert_eq!(bed.resource_versions("eu-2", "web").await, before);
}

/// Modules whose writes conflict retry automatically: no event would trigger them.
pub async fn overtaken_writes_are_retried(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    for path in ["/proxyassemblages", "/modules/"] {
        bed.overtake(path, 2);
    }
    bed.deploy(&["web", "other"]).await;
    // More conflicts than there are events of earlier writes to trigger a retry.
    bed.overtake("/proxyassemblages", 6);
    let version = bed.roll("web", 2, Quality::Good).await;
    let took = bed.until_ready("web", &version).await;
    assert!(took <= ROLLED / 2, "{took:?}");
    for cluster in CLUSTERS {
        let assemblage = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await.unwrap();
        let mut names: Vec<&str> = assemblage["spec"]["syncs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row["name"].as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["other", "web"], "{cluster}");
    }
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
}

fn uid(object: &Value) -> Value {
    json!(object["metadata"]["uid"])
}

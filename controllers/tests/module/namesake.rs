//! Promise: nothing of a deleted Cluster reaches another one that has its name now: neither a decision for it that is
//! written late, nor an assemblage of it that still exists.

use std::time::Duration;

use kube::{ResourceExt, api::DeleteParams};
use muster_api::{BootstrapModule, Module, ProxyAssemblage, RemoteAssemblage};
use muster_apiserver::{
    Verb,
    fault::{Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::bed::*;

const BOTH: [&str; 2] = ["eu-1", "eu-2"];

/// The uid of an earlier Cluster named eu-2. Its owner reference names a version that is not served, so what it owned
/// is not garbage-collected.
const BEFORE: &str = "00000000-0000-0000-0000-00000000dead";

fn of_before(kind: &str, row: &Value) -> Value {
    json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": kind,
        "metadata": {
            "name": "eu-2",
            "labels": {"app.kubernetes.io/managed-by": "muster", "fleet.muster.dev/managed-by": "muster"},
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1alpha1", "kind": "Cluster", "name": "eu-2", "uid": BEFORE},
            ],
        },
        "spec": {"clusterRef": {"name": "eu-2"}, "syncs": [row]},
    })
}

/// The uids of the Clusters that own an assemblage.
async fn owners(bed: &Bed, cluster: &str) -> Option<Vec<String>> {
    let proxy = bed.api::<ProxyAssemblage>().get_opt(cluster).await.unwrap()?;
    Some(
        proxy
            .owner_references()
            .iter()
            .map(|owner| owner.uid.clone())
            .collect(),
    )
}

async fn uid(bed: &Bed, cluster: &str) -> String {
    bed.cluster_objects().get(cluster).await.unwrap().uid().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_for_the_one_is_not_written_for_the_other() {
    for (verb, path) in [
        (Verb::Get, "/proxyassemblages/eu-1"),
        (Verb::Create, "/proxyassemblages"),
    ] {
        let bed = Bed::new(&BOTH).await;
        bed.release("v1", &["web"], "one");
        let late = Match {
            client: Some("controller".to_owned()),
            verbs: vec![verb],
            path: Some(path.to_owned()),
            ..Match::default()
        };
        bed.management
            .faults()
            .add(Rule::times(late, Fault::Delay(Duration::from_secs(5)), 1));
        bed.create::<Module>(module("web", "v1", json!({}))).await;
        bed.until("eu-1 is to be changed", || async {
            (bed.module("web").await?["status"]["summary"]["updating"] == 1).then_some(())
        })
        .await;
        bed.cluster_objects()
            .delete("eu-1", &DeleteParams::default())
            .await
            .unwrap();
        bed.create_cluster("eu-1").await;
        // No new changes start: what is written now was decided before.
        bed.patch("web", json!({"spec": {"rollout": {"paused": true}}}))
            .await;
        pass(Duration::from_mins(2)).await;
        assert_eq!(bed.story("eu-1", "web"), [], "{verb:?}");
        assert_eq!(owners(&bed, "eu-1").await, None, "{verb:?}");
        bed.patch("web", json!({"spec": {"rollout": {"paused": false}}}))
            .await;
        bed.until_ready("web").await;
        assert_eq!(bed.texts("web").await, ["one", "one"]);
        assert_eq!(owners(&bed, "eu-1").await, Some(vec![uid(&bed, "eu-1").await]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_assemblage_of_the_one_is_not_carried_out_for_the_other() {
    let mut bed = Bed::without_controller(&BOTH).await;
    bed.release("v1", &["web", "base"], "one");
    // Rows that would be applied.
    bed.patch_cluster("eu-2", json!({"metadata": {"labels": {"env": "dev"}}}))
        .await;
    bed.start_controller();
    bed.deploy("web", "v1", json!({})).await;
    let mut base = module("base", "v1", json!({}));
    base["kind"] = json!("BootstrapModule");
    bed.create::<BootstrapModule>(base).await;
    let base_row = bed
        .until("base is in eu-1", || async {
            bed.text("eu-1", "base").await?;
            let remote = bed.api::<RemoteAssemblage>().get("eu-1").await.unwrap();
            Some(json!(remote.spec.syncs[0]))
        })
        .await;
    let web_row = bed.row("eu-1", "web").await.unwrap();
    bed.crash_controller();
    bed.create::<ProxyAssemblage>(of_before("ProxyAssemblage", &web_row))
        .await;
    bed.create::<RemoteAssemblage>(of_before("RemoteAssemblage", &base_row))
        .await;
    bed.patch_cluster("eu-2", json!({"metadata": {"labels": {"env": "prod"}}}))
        .await;
    bed.start_controller();
    bed.until("web says why eu-2 is left out", || async {
        let attention = bed.module("web").await?["status"]["attention"].to_string();
        let is_explained =
            attention.contains("belongs to a Cluster eu-2 that is gone") && attention.contains(BEFORE);
        is_explained.then_some(())
    })
    .await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(
        (bed.story("eu-2", "web"), bed.story("eu-2", "base")),
        (vec![], vec![])
    );
    assert_eq!(
        bed.row("eu-2", "web").await.unwrap(),
        web_row,
        "nothing is written there"
    );
    let proxy = bed.api::<ProxyAssemblage>().get("eu-2").await.unwrap();
    let status = json!(proxy.status).to_string();
    assert!(status.contains(BEFORE), "{status}");
    bed.api::<ProxyAssemblage>()
        .delete("eu-2", &DeleteParams::default())
        .await
        .unwrap();
    bed.api::<RemoteAssemblage>()
        .delete("eu-2", &DeleteParams::default())
        .await
        .unwrap();
    bed.until("eu-2 has both", || async {
        (bed.texts("web").await == ["one", "one"] && bed.texts("base").await == ["one", "one"]).then_some(())
    })
    .await;
    assert_eq!(owners(&bed, "eu-2").await, Some(vec![uid(&bed, "eu-2").await]));
}

//! Promise: malicious reports of a cluster affect only that cluster, are cut to size, confirm nothing, and leave room
//! for future tokens; an object of another owner is reported and not written.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use muster_api::{Module, ProxyAssemblage};
use serde_json::{Value, json};

use crate::bed::*;

/// A cluster whose API server accepts any status.
async fn loosened(bed: &Bed, cluster: &str) {
    let kinds: Api<CustomResourceDefinition> = Api::all(bed.clusters[cluster].client());
    let name = "assemblages.fleet.muster.dev";
    let mut kind = serde_json::to_value(kinds.get(name).await.unwrap()).unwrap();
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    kinds
        .replace(
            name,
            &PostParams::default(),
            &serde_json::from_value(kind).unwrap(),
        )
        .await
        .unwrap();
}

fn assemblages(bed: &Bed, cluster: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("fleet.muster.dev", "v1alpha1", "Assemblage");
    Api::namespaced_with(
        bed.clusters[cluster].client(),
        SYSTEM,
        &ApiResource::from_gvk(&kind),
    )
}

/// The cluster reports this about the row `web`, and about the others what it reported before.
async fn say(bed: &Bed, cluster: &str, state: Value) {
    let mut all = assemblages(bed, cluster).get(cluster).await.unwrap().data["status"]["syncs"].clone();
    let states = all.as_array_mut().unwrap();
    states.retain(|state| state["name"] == "other");
    states.push(state);
    assemblages(bed, cluster)
        .patch_status(
            cluster,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"syncs": all}})),
        )
        .await
        .unwrap();
}

async fn seq(bed: &Bed) -> u64 {
    let module = bed.module("web").await.unwrap();
    let memory = module["status"]["rollout"]["memory"].as_str().unwrap();
    serde_json::from_str::<Value>(memory).unwrap()["seq"]
        .as_u64()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_status_that_means_ill() {
    let mut bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web", "other"], tag);
    }
    bed.deploy("other", "one", json!({})).await;
    let patient = json!({"maxUnreadyClusters": 3, "deadlines": {"pickup": "24h", "progress": "24h"}});
    bed.deploy("web", "one", json!({"rollout": patient})).await;
    bed.crash_agent("eu-2");
    loosened(&bed, "eu-2").await;
    bed.patch("web", version("two")).await;
    bed.until("the others have it", || async {
        (bed.module("web").await?["status"]["summary"]["clusters"] == "2/3").then_some(())
    })
    .await;
    let row = bed.row("eu-2", "web").await.unwrap();
    let (digest, token) = (row["digest"].clone(), row["token"].as_u64().unwrap());
    let good = json!({"name": "web", "digest": digest, "token": token, "state": "succeeded"});
    let with = |change: Value| {
        let mut state = good.clone();
        json_patch::merge(&mut state, &change);
        state
    };
    let lies = [
        with(json!({"digest": format!("sha256:{}", "0".repeat(64))})),
        with(json!({"token": token - 1})),
        with(json!({"token": token + 1})),
        with(json!({"token": (1_u64 << 53) - 1})),
        with(json!({"token": 1_u64 << 63})),
        with(json!({"token": -1})),
        with(json!({"token": "many"})),
        with(json!({"state": "levitating"})),
        with(json!({"class": "Weather", "state": "failed"})),
        with(json!({"state": "updating", "message": "m".repeat(1_000_000), "reason": "r".repeat(100_000)})),
        with(json!({"digest": "d".repeat(100_000)})),
        json!({"name": "web"}),
        json!({"name": "n".repeat(10_000), "state": "succeeded"}),
    ];
    for lie in lies {
        let excerpt = lie.to_string().chars().take(200).collect::<String>();
        say(&bed, "eu-2", lie).await;
        // Longer than a proxy waits before it reads again.
        pass(Duration::from_secs(30)).await;
        let module = bed.module("web").await.unwrap();
        assert_eq!(module["status"]["summary"]["clusters"], "2/3", "{excerpt}");
        assert_eq!(
            module["status"]["attention"].as_array().unwrap().len(),
            1,
            "{excerpt}"
        );
        assert!(
            module["status"]["attention"][0]["message"]
                .as_str()
                .unwrap()
                .len()
                <= 512,
            "{excerpt}"
        );
        assert!(is_ready(&bed.module("other").await.unwrap()), "{excerpt}");
        let proxy: ProxyAssemblage = bed.api().get("eu-2").await.unwrap();
        let status = serde_json::to_value(proxy.status.unwrap()).unwrap();
        assert_eq!(
            condition(&json!({"status": status}), "Reachable").unwrap(),
            "True Answering: ",
            "{excerpt}"
        );
        assert!(status.to_string().len() < 10_000, "{excerpt}");
    }
    // A token that leaves no greater one is reported when the next one is assigned.
    let greatest = (1_u64 << 53) - 1;
    say(&bed, "eu-2", with(json!({"token": greatest}))).await;
    bed.until("it has come up here", || async {
        let proxy: ProxyAssemblage = bed.api().get("eu-2").await.unwrap();
        let states = proxy.status?.syncs;
        let is_reported = states.iter().any(|state| state.token == Some(greatest));
        is_reported.then_some(())
    })
    .await;
    bed.patch("web", version("three")).await;
    bed.until("the others have it", || async {
        let texts = bed.texts("web").await;
        (texts[0] == "three" && texts[2] == "three").then_some(())
    })
    .await;
    assert!(seq(&bed).await <= 1 << 52, "{}", seq(&bed).await);
    // There is room for further tokens.
    bed.start_agent("eu-2");
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["three", "three", "three"]);
    assert_eq!(bed.texts("other").await, ["one", "one", "one"]);
}

#[tokio::test(start_paused = true)]
async fn an_assemblage_of_another_that_has_a_clusters_name() {
    let bed = Bed::without_controller(&CLUSTERS).await;
    let theirs = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "metadata": {"name": "eu-2"},
        "spec": {"clusterRef": {"name": "eu-2"}, "syncs": []},
    });
    let before: ProxyAssemblage = bed.create(theirs).await;
    let mut bed = bed;
    bed.start_controller();
    bed.release("v1", &["web"], "one");
    bed.create::<Module>(module("web", "v1", json!({}))).await;
    bed.until("the others have it", || async {
        let module = bed.module("web").await?;
        let first = &module["status"]["attention"][0];
        (first["reason"] == "NameConflict" && bed.texts("web").await == ["one", "", "one"]).then_some(())
    })
    .await;
    pass(Duration::from_mins(2)).await;
    let after: ProxyAssemblage = bed.api().get("eu-2").await.unwrap();
    assert_eq!((after.uid(), after.spec), (before.uid(), before.spec));
}

#[tokio::test(start_paused = true)]
async fn a_name_as_long_as_it_may_be() {
    // Its Secret appends `-kubeconfig`, and a name has 253 characters at most.
    let long = format!("{}.{}", "a".repeat(120), "b".repeat(121));
    let name = "m".repeat(63);
    let bed = Bed::new(&["eu-1", &long]).await;
    bed.release_files("v1", [("web/all.yaml".to_owned(), config_map("web", "one"))]);
    bed.deploy(
        &name,
        "v1",
        json!({"sync": {"package": {"path": "web"}}, "onDelete": "Withdraw"}),
    )
    .await;
    assert_eq!(bed.texts("web").await, ["one", "one"]);
    bed.api::<Module>()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    bed.until_gone(&name).await;
    assert_eq!(bed.texts("web").await, ["", ""]);
    bed.settled().await;
}

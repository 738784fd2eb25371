//! Promise: a module that was removed and returns is rolled out like a new one, also after the management cluster was
//! restored from an older backup, and in a re-created namespace. A cluster that always reports a greater token than its
//! row has does not extend its deadline by that.

use std::time::Duration;

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use muster_api::{Assemblage, Module, ModuleRevision, ProxyAssemblage};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::bed::*;

async fn deployed(spec: Value) -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web", "other"], tag);
    }
    bed.deploy("other", "one", json!({})).await;
    bed.deploy("web", "one", spec).await;
    bed
}

async fn removed(bed: &Bed) {
    bed.api::<Module>()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    bed.until_gone("web").await;
}

/// It is rolled out, no version was marked bad on the way, and every cluster applies its present row.
async fn comes_back(bed: &Bed, text: &str) {
    bed.until(&format!("web is {text} everywhere"), || async {
        let texts = bed.texts("web").await;
        let module = bed.module("web").await?;
        (is_ready(&module) && texts.iter().all(|own| own == text)).then_some(())
    })
    .await;
    let revisions = bed.api::<ModuleRevision>().list(&ListParams::default()).await;
    for revision in revisions.unwrap() {
        let story = serde_json::to_string(&revision.status).unwrap();
        assert!(
            !story.contains("NotPickedUp") && !story.contains("acknowledged in time"),
            "{story}"
        );
    }
    for cluster in CLUSTERS {
        let there: Api<Assemblage> = Api::namespaced(bed.clusters[cluster].client(), SYSTEM);
        let there = there.get(cluster).await.unwrap().spec.syncs;
        let there = there.into_iter().find(|row| row.name == "web").unwrap();
        assert_eq!(
            json!(there.token),
            bed.row(cluster, "web").await.unwrap()["token"],
            "{cluster}"
        );
    }
    assert_eq!(bed.texts("other").await, ["one", "one", "one"]);
    bed.settled().await;
}

/// The tokens of the row of `web`, in order.
fn tokens(bed: &Bed, cluster: &str) -> Vec<u64> {
    let events = bed.management.recorder().events().into_iter();
    let of_cluster = events.filter(|event| {
        event.resource.resource == "proxyassemblages" && crate::bed::name(event.object()) == cluster
    });
    let token = |object: &Value| {
        let row = object["spec"]["syncs"]
            .as_array()?
            .iter()
            .find(|row| row["name"] == "web")?;
        row["token"].as_u64()
    };
    of_cluster.filter_map(|event| token(event.object())).collect()
}

#[tokio::test(start_paused = true)]
async fn removed_and_named_again() {
    for on_delete in ["Withdraw", "Orphan"] {
        let spec = json!({"onDelete": on_delete});
        let bed = deployed(spec.clone()).await;
        bed.patch("web", version("two")).await;
        bed.until_ready("web").await;
        removed(&bed).await;
        bed.settled().await;
        bed.create::<Module>(module("web", "one", spec.clone())).await;
        comes_back(&bed, "one").await;
        // And again, as its tokens continued from there.
        removed(&bed).await;
        bed.create::<Module>(module("web", "three", spec)).await;
        comes_back(&bed, "three").await;
        for cluster in CLUSTERS {
            let tokens = tokens(&bed, cluster);
            assert!(
                tokens.is_sorted(),
                "{cluster}: what is reported is known at once: {tokens:?}"
            );
        }
    }
}

/// The objects of a kind, as in a backup.
async fn saved<K>(bed: &Bed) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    bed.api::<K>().list(&ListParams::default()).await.unwrap().items
}

/// Re-creates the objects as they were.
async fn restored<K>(bed: &Bed, backup: Vec<K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    gone::<K>(bed).await;
    let api = bed.api::<K>();
    for mut object in backup {
        object.meta_mut().resource_version = None;
        object.meta_mut().uid = None;
        let made = api.create(&PostParams::default(), &object).await.unwrap();
        object.meta_mut().resource_version = made.resource_version();
        let name = object.name_any();
        api.replace_status(&name, &PostParams::default(), &object)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_management_cluster_was_restored() {
    // With its memory, and without it, as a restored module has another uid.
    for remembered in [true, false] {
        let mut bed = deployed(json!({})).await;
        bed.settled().await;
        let (modules, proxies) = (saved::<Module>(&bed).await, saved::<ProxyAssemblage>(&bed).await);
        for tag in ["two", "three", "one", "two"] {
            bed.patch("web", version(tag)).await;
            bed.until_ready("web").await;
        }
        bed.crash_controller();
        restored(&bed, proxies).await;
        restored(&bed, modules).await;
        if remembered {
            let uid = bed.api::<Module>().get("web").await.unwrap().uid();
            let own = json!({"status": {"rollout": {"uid": uid}}});
            bed.api::<Module>()
                .patch_status("web", &PatchParams::default(), &Patch::Merge(own))
                .await
                .unwrap();
        }
        bed.start_controller();
        comes_back(&bed, "one").await;
        bed.patch("web", version("three")).await;
        comes_back(&bed, "three").await;
    }
}

/// Deletes all objects of a kind, without running their finalizers.
async fn gone<K>(bed: &Bed)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api = bed.api::<K>();
    for object in saved::<K>(bed).await {
        let name = object.name_any();
        let bare = json!({"metadata": {"finalizers": null}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(bare))
            .await
            .unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_was_made_again() {
    let mut bed = deployed(json!({})).await;
    for tag in ["two", "one", "two"] {
        bed.patch("web", version(tag)).await;
        bed.until_ready("web").await;
    }
    bed.crash_controller();
    gone::<Module>(&bed).await;
    gone::<ModuleRevision>(&bed).await;
    gone::<ProxyAssemblage>(&bed).await;
    for cluster in CLUSTERS {
        let clusters: Api<DynamicObject> = bed.cluster_objects();
        clusters.delete(cluster, &DeleteParams::default()).await.unwrap();
        bed.create_cluster(cluster).await;
    }
    bed.start_controller();
    // No assemblage exists here, and so no report, when the first row is created.
    bed.create::<Module>(module("web", "three", json!({}))).await;
    comes_back(&bed, "three").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_always_reports_a_greater_token_is_still_not_picked_up() {
    let mut bed = deployed(json!({})).await;
    for cluster in CLUSTERS {
        bed.crash_agent(cluster);
    }
    bed.patch("web", version("two")).await;
    let there =
        |cluster: &str| -> Api<Assemblage> { Api::namespaced(bed.clusters[cluster].client(), SYSTEM) };
    let began = bed.clock.now();
    loop {
        let module = bed.module("web").await.unwrap();
        let attention = module["status"]["attention"].to_string();
        let after = bed.clock.now().duration_since(began);
        if attention.contains("NotPickedUp") {
            assert!(after.as_secs() > 290, "{after:?}: not sooner, either");
            break;
        }
        assert!(after.as_secs() < 420, "{after:?}: {attention}");
        for cluster in CLUSTERS {
            let assemblage = there(cluster).get(cluster).await.unwrap();
            let mut states = json!(assemblage.status.unwrap().syncs);
            for state in states.as_array_mut().unwrap() {
                let row = assemblage
                    .spec
                    .syncs
                    .iter()
                    .find(|row| state["name"] == json!(row.name));
                if let Some(row) = row.filter(|row| row.name == "web") {
                    state["token"] = json!(row.token.unwrap() + 7);
                }
            }
            let lie = Patch::Merge(json!({"status": {"syncs": states}}));
            there(cluster)
                .patch_status(cluster, &PatchParams::default(), &lie)
                .await
                .unwrap();
        }
        pass(Duration::from_secs(2)).await;
    }
}

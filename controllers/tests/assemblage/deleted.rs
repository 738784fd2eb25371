//! Promise: an object deleted by hand is re-created; deleting an assemblage orphans what it installed.

use std::time::Duration;

use kube::{ResourceExt, api::DeleteParams};
use muster_api::{
    Assemblage,
    flux::{DeletionPolicy, GitRepository, Kustomization},
    labels::finalizer,
    names,
};
use serde_json::json;

use super::support::*;

async fn installed(cluster: &mut Cluster) -> Kustomization {
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    let kustomization = cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    kustomization
}

#[tokio::test(start_paused = true)]
async fn deleted_flux_objects_come_back() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster).await;
    cluster
        .api::<Kustomization>()
        .delete(&before.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    let after = cluster
        .until_kustomization("eu-1", "web", |object| object.uid() != before.uid())
        .await;
    assert_eq!(after.spec, before.spec);
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating Updating")
        .await;
    cluster
        .report(&after, "True", "ReconciliationSucceeded", "Applied revision")
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;

    let source = names::source(URL, OLD, None);
    let old: GitRepository = cluster.api().get(&source).await.unwrap();
    cluster
        .api::<GitRepository>()
        .delete(&source, &DeleteParams::default())
        .await
        .unwrap();
    let new = until("the source", || async {
        cluster
            .api::<GitRepository>()
            .get_opt(&source)
            .await
            .unwrap()
            .filter(|new| new.uid() != old.uid())
    })
    .await;
    assert_eq!(new.spec, old.spec);
}

#[tokio::test(start_paused = true)]
async fn a_hand_edited_field_is_put_back() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster).await;
    for edit in [
        json!({"spec": {"path": "./elsewhere"}}),
        json!({"spec": {"prune": false, "targetNamespace": "other"}}),
        json!({"spec": {"deletionPolicy": "Delete"}}),
        json!({"spec": {"components": ["./more"]}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}),
        json!({"metadata": {"ownerReferences": null}}),
    ] {
        let edited: Kustomization = cluster.patch(&before.name_any(), edit.clone()).await;
        let repaired = cluster
            .until_kustomization("eu-1", "web", |object| {
                object.spec == before.spec
                    && object.metadata.labels == before.metadata.labels
                    && object.metadata.owner_references == before.metadata.owner_references
            })
            .await;
        assert_ne!(repaired.resource_version(), edited.resource_version(), "{edit}");
        assert_eq!(repaired.uid(), before.uid());
    }
    let source = names::source(URL, OLD, None);
    let _: GitRepository = cluster
        .patch(&source, json!({"spec": {"url": "https://git.test/other"}}))
        .await;
    until("the source", || async {
        cluster
            .api::<GitRepository>()
            .get_opt(&source)
            .await
            .unwrap()
            .filter(|live| live.spec.url == URL)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_others_write_beside_ours_stays() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster).await;
    let _: Kustomization = cluster.patch(&before.name_any(), json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": {"path": "./other"}})).await;
    let repaired = cluster
        .until_kustomization("eu-1", "web", |object| object.spec == before.spec)
        .await;
    assert_eq!(repaired.labels().get("team").map(String::as_str), Some("a"));
    assert_eq!(repaired.annotations().get("note").map(String::as_str), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn deleting_an_assemblage_lets_go_and_a_new_one_adopts() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster).await;
    // Flux's finalizer follows deletionPolicy, which is Orphan.
    let _: Kustomization = cluster
        .patch(
            &before.name_any(),
            json!({"metadata": {"finalizers": [finalizer::FLUX]}}),
        )
        .await;
    cluster
        .api::<Assemblage>()
        .delete("eu-1", &DeleteParams::background())
        .await
        .unwrap();
    let going = cluster
        .until_kustomization("eu-1", "web", |object| {
            object.metadata.deletion_timestamp.is_some()
        })
        .await;
    assert_eq!(going.spec.deletion_policy, Some(DeletionPolicy::Orphan));

    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    pass(Duration::from_secs(5)).await;
    let _: Kustomization = cluster
        .patch(&before.name_any(), json!({"metadata": {"finalizers": null}}))
        .await;
    let again = cluster
        .until_kustomization("eu-1", "web", |object| {
            object.metadata.deletion_timestamp.is_none()
        })
        .await;
    assert_eq!(again.spec, before.spec);
}

#[tokio::test(start_paused = true)]
async fn an_assemblage_made_again_before_the_collector_came_keeps_its_kustomization() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster).await;
    cluster
        .api::<Assemblage>()
        .delete(
            "eu-1",
            &DeleteParams {
                propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
                ..DeleteParams::default()
            },
        )
        .await
        .unwrap();
    until("the owner to be gone", || async {
        cluster
            .kustomization("eu-1", "web")
            .await
            .filter(|object| object.owner_references().is_empty())
    })
    .await;
    let owner = cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    let adopted = cluster
        .until_kustomization("eu-1", "web", |object| {
            object
                .owner_references()
                .iter()
                .any(|reference| Some(&reference.uid) == owner.metadata.uid.as_ref())
        })
        .await;
    assert_eq!(adopted.uid(), before.uid(), "the same Kustomization");
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
}

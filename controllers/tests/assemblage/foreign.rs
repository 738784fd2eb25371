//! Promise: an object that muster does not own is not touched, whatever its name and labels; one that another manager
//! suspended is left alone.

use std::time::Duration;

use kube::{ResourceExt, api::DeleteParams};
use muster_api::{Assemblage, flux::Kustomization, names};
use serde_json::json;

use super::support::*;

fn foreign(name: &str) -> Kustomization {
    serde_json::from_value(json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "muster", "fleet.muster.dev/assemblage": "eu-1"}},
        "spec": {"interval": "1m", "prune": false, "sourceRef": {"kind": "GitRepository", "name": "mine"}},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_of_our_name_or_labels_is_not_touched() {
    let mut cluster = Cluster::downstream();
    let named = cluster
        .create(foreign(&names::kustomization(SYSTEM, "eu-1", "web")))
        .await;
    let labelled = cluster.create(foreign("somebody-elses")).await;
    cluster.run_assemblages();
    cluster
        .create(assemblage("eu-1", &[row("web", OLD, 1), row("other", OLD, 2)]))
        .await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating NameConflict Unit")
        .await;
    assert!(state.message.unwrap().contains("rename or delete it"));
    cluster.carry_out("eu-1", "other", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "other", "2 Succeeded UpToDate")
        .await;
    // Rows that are added and removed do not change that.
    cluster
        .set_rows::<Assemblage>(
            "eu-1",
            &[
                muster_api::assemblage::SyncRow::withdrawal(
                    "web",
                    3,
                    muster_api::assemblage::Withdraw::Prune,
                ),
                row("other", OLD, 2),
            ],
        )
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "3 Withdrawing NameConflict Unit")
        .await;
    pass(Duration::from_mins(10)).await;
    for object in [named, labelled] {
        let now: Kustomization = cluster.api().get(&object.name_any()).await.unwrap();
        assert_eq!(
            now.resource_version(),
            object.resource_version(),
            "{}",
            object.name_any()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_foreign_object_goes_ours_comes() {
    let mut cluster = Cluster::downstream();
    let name = names::kustomization(SYSTEM, "eu-1", "web");
    cluster.create(foreign(&name)).await;
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating NameConflict Unit")
        .await;
    cluster
        .api::<Kustomization>()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
}

#[tokio::test(start_paused = true)]
async fn suspended_by_another_a_row_is_held_until_it_is_resumed() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    let web = cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    let suspended: Kustomization = cluster
        .patch(&web.name_any(), json!({"spec": {"suspend": true}}))
        .await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating Held Unit")
        .await;
    assert!(state.message.unwrap().contains("suspended by kubectl-patch"));

    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Updating Held Unit")
        .await;
    let now = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(
        now.resource_version(),
        suspended.resource_version(),
        "not touched"
    );

    let _: Kustomization = cluster
        .patch(&web.name_any(), json!({"spec": {"suspend": null}}))
        .await;
    cluster.carry_out("eu-1", "web", NEW).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
}

//! Promise: content is removed from a cluster only by a row, and the row reports it only when it is gone.

use std::time::Duration;

use kube::ResourceExt;
use muster_api::{
    Assemblage,
    assemblage::{SyncRow, Withdraw},
    flux::{DeletionPolicy, Kustomization},
    labels::finalizer,
};
use serde_json::json;

use super::support::*;

async fn installed(cluster: &mut Cluster, row: SyncRow) -> Kustomization {
    cluster.run_assemblages();
    let (name, succeeded) = (
        row.name.clone(),
        format!(
            "{} Succeeded UpToDate",
            row.token
                .map_or_else(|| "-".to_owned(), |token| token.to_string())
        ),
    );
    cluster.create(assemblage("eu-1", &[row])).await;
    let kustomization = cluster.carry_out("eu-1", &name, OLD).await;
    let _: Kustomization = cluster
        .patch(
            &kustomization.name_any(),
            json!({"metadata": {"finalizers": [finalizer::FLUX]}}),
        )
        .await;
    cluster.until_state::<Assemblage>("eu-1", &name, &succeeded).await;
    kustomization
}

async fn finish(cluster: &Cluster, kustomization: &Kustomization) {
    let _: Kustomization = cluster
        .patch(
            &kustomization.name_any(),
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_is_withdrawn_by_its_policy_and_echoed_when_it_is_gone() {
    for (how, policy) in [
        (Withdraw::Prune, DeletionPolicy::WaitForTermination),
        (Withdraw::Orphan, DeletionPolicy::Orphan),
    ] {
        let mut cluster = Cluster::downstream();
        let before = installed(&mut cluster, row("web", OLD, 1)).await;
        cluster
            .set_rows::<Assemblage>("eu-1", &[SyncRow::withdrawal("web", 2, how)])
            .await;
        let going = cluster
            .until_kustomization("eu-1", "web", |object| {
                object.metadata.deletion_timestamp.is_some()
            })
            .await;
        assert_eq!(going.spec.deletion_policy, Some(policy));
        cluster
            .until_state::<Assemblage>("eu-1", "web", "2 Withdrawing Withdrawing")
            .await;
        pass(Duration::from_mins(10)).await;
        cluster
            .until_state::<Assemblage>("eu-1", "web", "2 Withdrawing Withdrawing")
            .await;
        finish(&cluster, &before).await;
        cluster
            .until_state::<Assemblage>("eu-1", "web", "2 Withdrawn Excluded")
            .await;
        // The tombstone stays withdrawn; a new row with that name is installed again.
        cluster
            .set_rows::<Assemblage>("eu-1", &[SyncRow::bare("web", 3)])
            .await;
        cluster
            .until_state::<Assemblage>("eu-1", "web", "3 Withdrawn Excluded")
            .await;
        cluster
            .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 4)])
            .await;
        cluster.carry_out("eu-1", "web", OLD).await;
        cluster
            .until_state::<Assemblage>("eu-1", "web", "4 Succeeded UpToDate")
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn content_is_pruned_only_by_a_controller_that_holds_it() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster, row("web", OLD, 1)).await;
    // As the built-in sync leaves an object to be orphaned.
    finish(&cluster, &before).await;
    cluster
        .set_rows::<Assemblage>("eu-1", &[SyncRow::withdrawal("web", 2, Withdraw::Prune)])
        .await;
    cluster
        .until_kustomization("eu-1", "web", |object| {
            object.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination)
        })
        .await;
    pass(Duration::from_mins(10)).await;
    let waiting = cluster.until_kustomization("eu-1", "web", |_| true).await;
    assert_eq!(waiting.metadata.deletion_timestamp, None);
    cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Withdrawing Withdrawing")
        .await;
    let _: Kustomization = cluster
        .patch(
            &before.name_any(),
            json!({"metadata": {"finalizers": [finalizer::FLUX]}}),
        )
        .await;
    cluster
        .until_kustomization("eu-1", "web", |object| {
            object.metadata.deletion_timestamp.is_some()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_without_token_that_disappears_is_withdrawn() {
    let mut cluster = Cluster::downstream();
    let before = installed(
        &mut cluster,
        SyncRow {
            token: None,
            ..row("web", OLD, 1)
        },
    )
    .await;
    cluster.set_rows::<Assemblage>("eu-1", &[]).await;
    let going = cluster
        .until_kustomization("eu-1", "web", |object| {
            object.metadata.deletion_timestamp.is_some()
        })
        .await;
    assert_eq!(
        going.spec.deletion_policy,
        Some(DeletionPolicy::WaitForTermination)
    );
    cluster
        .until_state::<Assemblage>("eu-1", "web", "- Withdrawing Withdrawing")
        .await;
    finish(&cluster, &before).await;
    until("the row to be forgotten", || async {
        let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
        object.states().is_empty().then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_with_a_token_never_just_disappears() {
    let mut cluster = Cluster::downstream();
    let before = installed(&mut cluster, row("web", OLD, 1)).await;
    cluster.set_rows::<Assemblage>("eu-1", &[]).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating Unclaimed")
        .await;
    pass(Duration::from_mins(10)).await;
    let now = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(
        (now.uid(), now.metadata.generation),
        (before.uid(), before.metadata.generation)
    );
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 2)])
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
}

//! Promise: if Flux applies, a success with custom resources counts after it has settled, and the agent reports what
//! its evidence is.

use std::time::Duration;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{Assemblage, assemblage::SyncRow, flux::Kustomization, sync::Assume};
use muster_controllers::reconcile::SyncMode;
use serde_json::json;

use super::support::*;

/// A row that Flux has applied, with an object of this group; at the start of the clock.
async fn carried_out(group: &str, row: &SyncRow) -> Cluster {
    carried_out_with(&format!("{group}_Thing"), row).await
}

/// The same, with this group and kind.
async fn carried_out_with(kind: &str, row: &SyncRow) -> Cluster {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages_by(SyncMode::Flux);
    cluster
        .create(assemblage("eu-1", std::slice::from_ref(row)))
        .await;
    cluster.until_fetched(OLD).await;
    let kustomization = cluster.until_kustomization("eu-1", "web", |_| true).await;
    let entry = json!({"id": format!("web_a_{kind}"), "v": "v1"});
    let inventory = json!({"status": {"inventory": {"entries": [entry]}}});
    cluster
        .api::<Kustomization>()
        .patch_status(
            &kustomization.name_any(),
            &PatchParams::default(),
            &Patch::Merge(inventory),
        )
        .await
        .unwrap();
    cluster
        .report(
            &kustomization,
            "True",
            "ReconciliationSucceeded",
            "Applied revision",
        )
        .await;
    cluster
}

async fn state(cluster: &Cluster) -> String {
    let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
    object
        .status
        .map_or_else(String::new, |status| line(&status.syncs[0]))
}

#[tokio::test(start_paused = true)]
async fn a_success_with_custom_resources_is_held_and_then_counts() {
    let cluster = carried_out("example.test", &row("web", OLD, 1)).await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(state(&cluster).await, "1 Updating Updating");
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    pass(Duration::from_secs(5)).await;
    let writes = cluster.writes();
    pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.writes(), writes);
}

/// Flux's Ready is about the object, and not about what the object rolls out.
#[tokio::test(start_paused = true)]
async fn what_rolls_something_out_itself_is_refused_by_name() {
    let cluster = carried_out_with("fleet.muster.dev_ZoneRollout", &row("web", OLD, 1)).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating SyncUnsupported Infra")
        .await;
    pass(Duration::from_hours(1)).await;
    let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
    let message = object.status.unwrap().syncs.remove(0).message.clone().unwrap();
    assert_eq!(
        message,
        "ZoneRollout/web/a performs a rollout itself, which Flux does not wait for: use the built-in sync (muster agent without --sync flux)"
    );
    assert_eq!(state(&cluster).await, "1 Updating SyncUnsupported Infra");
}

/// Ready changes within that time: as after any failure, it starts again.
#[tokio::test(start_paused = true)]
async fn one_that_fails_meanwhile_never_counts() {
    let cluster = carried_out("example.test", &row("web", OLD, 1)).await;
    pass(Duration::from_secs(20)).await;
    let kustomization = cluster.kustomization("eu-1", "web").await.unwrap();
    cluster
        .report(
            &kustomization,
            "False",
            "HealthCheckFailed",
            "Thing/web/a is broken",
        )
        .await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(state(&cluster).await, "1 Failed HealthCheckFailed Revision");
}

#[tokio::test(start_paused = true)]
async fn kinds_of_kubernetes_are_waited_for_by_nothing() {
    let cluster = carried_out("apps", &row("web", OLD, 1)).await;
    pass(Duration::from_secs(2)).await;
    assert_eq!(state(&cluster).await, "1 Succeeded UpToDate");
    let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
    let agent = object.status.unwrap().agent.unwrap();
    assert_eq!(agent.sync, "flux");
    assert!(
        agent.features.contains("settle") && !agent.features.contains("assume"),
        "{agent:?}"
    );
}

/// Flux has no equivalent: applied without it the row would be something else than requested.
#[tokio::test(start_paused = true)]
async fn what_flux_cannot_do_is_not_given_to_it() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages_by(SyncMode::Flux);
    let mut asks = row("asks", OLD, 1);
    asks.package.get_or_insert_default().assume = Some(Assume::Never);
    cluster
        .create(assemblage("eu-1", &[asks, row("plain", OLD, 1)]))
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "asks", "1 Updating SyncUnsupported Infra")
        .await;
    cluster.carry_out("eu-1", "plain", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "plain", "1 Succeeded UpToDate")
        .await;
    assert!(cluster.kustomization("eu-1", "asks").await.is_none());
}

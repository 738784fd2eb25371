//! Promise: a row that failed and is assigned again with another token is applied again; the earlier report does not
//! count.

use std::time::Duration;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    Assemblage,
    assemblage::SyncRow,
    flux::Kustomization,
    labels::annotation::RECONCILE_REQUESTED_AT,
    sync::{Assume, Package},
};
use serde_json::json;

use super::support::*;

/// A row that failed terminally.
async fn failed() -> (Cluster, Kustomization) {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    let kustomization = cluster.carry_out("eu-1", "web", OLD).await;
    cluster.report(&kustomization, "False", "BuildFailed", "no").await;
    until(&cluster, "1 Failed BuildFailed Revision").await;
    (cluster, kustomization)
}

async fn until(cluster: &Cluster, state: &str) {
    cluster.until_state::<Assemblage>("eu-1", "web", state).await;
}

/// Its controller has handled the request.
async fn handle(cluster: &Cluster, kustomization: &Kustomization, request: &str) {
    let handled = json!({"status": {"lastHandledReconcileAt": request}});
    cluster
        .api::<Kustomization>()
        .patch_status(
            &kustomization.name_any(),
            &PatchParams::default(),
            &Patch::Merge(handled),
        )
        .await
        .unwrap();
}

fn reconcile_request(kustomization: &Kustomization) -> Option<&str> {
    kustomization
        .annotations()
        .get(RECONCILE_REQUESTED_AT)
        .map(String::as_str)
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_awaited_and_then_believed() {
    let (cluster, kustomization) = failed().await;
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 2)])
        .await;
    until(&cluster, "2 Updating Updating").await;
    pass(Duration::from_mins(10)).await;
    until(&cluster, "2 Updating Updating").await;
    let now = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(reconcile_request(&now), Some("muster-2"));
    assert_eq!(now.spec, kustomization.spec);

    handle(&cluster, &now, "muster-2").await;
    until(&cluster, "2 Failed BuildFailed Revision").await;
    let writes = cluster.writes();
    pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.writes(), writes, "asked once");
}

#[tokio::test(start_paused = true)]
async fn over_a_crash_it_is_asked_once() {
    let (mut cluster, _) = failed().await;
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 2)])
        .await;
    until(&cluster, "2 Updating Updating").await;
    cluster.crash();
    let writes = cluster.writes();
    cluster.run_assemblages();
    pass(Duration::from_mins(10)).await;
    assert_eq!(cluster.writes(), writes);
    let now = cluster.kustomization("eu-1", "web").await.unwrap();
    let done = cluster.carry_out("eu-1", "web", OLD).await;
    assert_eq!(done.uid(), now.uid());
    handle(&cluster, &now, "muster-2").await;
    until(&cluster, "2 Succeeded UpToDate").await;
}

/// A row that has not failed is not applied again for a new token: that would be needless work.
#[tokio::test(start_paused = true)]
async fn a_new_token_alone_asks_for_nothing() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    cluster.carry_out("eu-1", "web", OLD).await;
    until(&cluster, "1 Succeeded UpToDate").await;
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 2)])
        .await;
    until(&cluster, "2 Succeeded UpToDate").await;
    assert_eq!(
        reconcile_request(&cluster.kustomization("eu-1", "web").await.unwrap()),
        None
    );
}

/// Annotations are not part of a generation: a report from before their change does not count.
#[tokio::test(start_paused = true)]
async fn a_change_of_annotations_is_asked_for() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    for (name, token) in [("web", Some(1)), ("other", None)] {
        let with = |token: Option<u64>, settle: &str| SyncRow {
            token,
            digest: Some(format!("sha256:{settle}")),
            package: Some(Package {
                settle: Some(settle.parse().unwrap()),
                assume: Some(Assume::Never),
                ..Package::default()
            }),
            ..row(name, OLD, 1)
        };
        cluster.create(assemblage(name, &[with(token, "10s")])).await;
        let before = cluster.carry_out(name, name, OLD).await;
        let succeeded = |token: Option<u64>| {
            format!(
                "{} Succeeded UpToDate",
                token.map_or_else(|| "-".to_owned(), |token| token.to_string())
            )
        };
        cluster
            .until_state::<Assemblage>(name, name, &succeeded(token))
            .await;
        let settings = |object: &Kustomization| {
            let keys = ["fleet.muster.dev/settle", "fleet.muster.dev/assume"];
            keys.map(|key| object.annotations().get(key).cloned().unwrap_or_default())
        };
        assert_eq!(settings(&before), ["10s", "Never"]);
        assert_eq!(reconcile_request(&before), None);

        let next = token.map(|token| token + 1);
        cluster.set_rows::<Assemblage>(name, &[with(next, "1m")]).await;
        pass(Duration::from_mins(10)).await;
        let now = cluster.kustomization(name, name).await.unwrap();
        assert_eq!(settings(&now), ["1m", "Never"]);
        assert_eq!(
            (now.metadata.generation, &now.spec),
            (before.metadata.generation, &before.spec)
        );
        let updating = succeeded(next).replace("Succeeded UpToDate", "Updating Updating");
        cluster.until_state::<Assemblage>(name, name, &updating).await;
        let request = reconcile_request(&now).unwrap().to_owned();
        assert!(token.is_none() || request == "muster-2", "{request}");
        handle(&cluster, &now, &request).await;
        cluster
            .until_state::<Assemblage>(name, name, &succeeded(next))
            .await;
        // Another manager removes it.
        let removed = json!({"metadata": {"annotations": {"fleet.muster.dev/settle": null}}});
        let api = cluster.api::<Kustomization>();
        api.patch(&now.name_any(), &PatchParams::default(), &Patch::Merge(removed))
            .await
            .unwrap();
        pass(Duration::from_mins(1)).await;
        let now = cluster.kustomization(name, name).await.unwrap();
        assert_eq!(settings(&now), ["1m", "Never"]);
    }
}

//! Promise: a changed row changes its Kustomization once, in one write, when its new source has fetched the commit.

use muster_api::{Assemblage, flux::Kustomization, names};
use muster_apiserver::ChangeKind;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn the_source_comes_before_the_change_and_the_change_is_one_write() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    let before = cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;

    let mut next = row("web", NEW, 2);
    next.package =
        Some(serde_json::from_value(serde_json::json!({"path": "./next", "timeout": "1m"})).unwrap());
    cluster.set_rows::<Assemblage>("eu-1", &[next]).await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Updating SourceNotReady Infra")
        .await;
    assert_eq!(
        state.commit.as_deref(),
        Some(OLD),
        "what is installed is still the old commit"
    );
    let unchanged = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(
        unchanged.spec, before.spec,
        "nothing changes before the source is ready"
    );

    let after = cluster.carry_out("eu-1", "web", NEW).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
    assert_eq!(
        after.metadata.generation,
        Some(before.metadata.generation.unwrap() + 1),
        "one write"
    );
    assert_eq!(after.spec.path.as_deref(), Some("./next"));
    assert_eq!(after.metadata.uid, before.metadata.uid);

    let specs: Vec<_> = cluster
        .server
        .recorder()
        .events()
        .into_iter()
        .filter(|event| {
            event.resource.to_string().starts_with("kustomizations") && event.kind() != ChangeKind::Deleted
        })
        .map(|event| event.object()["spec"]["sourceRef"]["name"].clone())
        .collect();
    let (old, new) = (names::source(URL, OLD, None), names::source(URL, NEW, None));
    assert!(
        specs
            .iter()
            .all(|name| *name == old.as_str() || *name == new.as_str())
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_of_the_commit_before_is_none_of_the_new_one() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    // There and back again: the old commit under a new token is only confirmed by a new report.
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    cluster.until_fetched(NEW).await;
    let new = names::source(URL, NEW, None);
    cluster
        .until_kustomization("eu-1", "web", |object| object.spec.source_ref.name == new)
        .await;
    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", OLD, 3)])
        .await;
    let old = names::source(URL, OLD, None);
    let back = cluster
        .until_kustomization("eu-1", "web", |object| object.spec.source_ref.name == old)
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "3 Updating Updating")
        .await;
    cluster
        .report(&back, "True", "ReconciliationSucceeded", "Applied revision")
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "3 Succeeded UpToDate")
        .await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_the_rows_and_pass_when_flux_says_so() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    cluster.create(assemblage("eu-1", &[row("web", OLD, 1)])).await;
    cluster.until_fetched(OLD).await;
    let web: Kustomization = cluster.until_kustomization("eu-1", "web", |_| true).await;
    cluster
        .report(
            &web,
            "False",
            "HealthCheckFailed",
            "timeout waiting for: [Deployment/shop/web status: 'InProgress']",
        )
        .await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Failed HealthCheckFailed Revision")
        .await;
    assert!(!state.terminal);
    cluster
        .report(
            &web,
            "False",
            "HealthCheckFailed",
            "failed early due to stalled resources: [Deployment/shop/web status: 'Failed']",
        )
        .await;
    let failed = until("terminal", || async {
        let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
        object.states().into_iter().find(|state| state.terminal)
    })
    .await;
    assert!(failed.message.unwrap().contains("Deployment/shop/web"));
    cluster
        .report(&web, "True", "ReconciliationSucceeded", "Applied revision")
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
}

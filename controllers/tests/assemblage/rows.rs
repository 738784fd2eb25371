//! Promise: a row becomes exactly one source and one Kustomization, and succeeds only when Flux reports success at this
//! commit and generation.

use std::time::Duration;

use kube::{ResourceExt, api::ListParams};
use muster_api::{
    Assemblage,
    assemblage::SyncRow,
    flux::{DeletionPolicy, GitRepository},
    sync::Source,
};
use muster_controllers::reconcile::SyncMode;
use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_row_is_expanded_and_echoed_when_it_is_ready_and_not_before() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let mut web = row("web", OLD, 1);
    web.package = Some(serde_json::from_value(json!({
        "path": "deploy/$(STAGE)", "substitute": {"REGION": "$(REGION)"}, "targetNamespace": "shop", "timeout": "3m",
    })).unwrap());
    web.values = [
        ("REGION".to_owned(), "eu".to_owned()),
        ("STAGE".to_owned(), "prod".to_owned()),
    ]
    .into();
    let owner = cluster.create(assemblage("eu-1", &[web])).await;

    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating SourceNotReady Infra")
        .await;
    assert!(
        cluster.kustomizations().await.is_empty(),
        "the source comes first"
    );
    let sources = cluster
        .api::<GitRepository>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(sources.len(), 1);
    insta::assert_json_snapshot!("source", sources[0].spec);

    cluster.fetch_sources().await;
    let kustomization = cluster.until_kustomization("eu-1", "web", |_| true).await;
    insta::assert_json_snapshot!("kustomization", kustomization.spec);
    assert_eq!(kustomization.spec.deletion_policy, Some(DeletionPolicy::Orphan));
    assert_eq!(kustomization.owner_references()[0].uid, owner.uid().unwrap());

    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating Updating")
        .await;
    cluster
        .report(
            &kustomization,
            "Unknown",
            "Progressing",
            "Reconciliation in progress",
        )
        .await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating Progressing")
        .await;
    cluster
        .report(
            &kustomization,
            "True",
            "ReconciliationSucceeded",
            "Applied revision",
        )
        .await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    assert_eq!(state.commit.as_deref(), Some(OLD));
    assert_eq!(state.digest, Some(format!("sha256:{OLD}")));

    let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
    let status = object.status.unwrap();
    assert_eq!(status.observed_generation, object.metadata.generation);
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(
        (
            ready.status.as_str(),
            ready.reason.as_str(),
            ready.message.as_str()
        ),
        ("True", "Succeeded", "1 of 1 syncs succeeded")
    );
}

#[tokio::test(start_paused = true)]
async fn one_rows_trouble_is_that_rows() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let mut broken = row("broken", OLD, 2);
    broken.package = Some(serde_json::from_value(json!({"path": "$(NOWHERE)"})).unwrap());
    let mut unpinned = row("unpinned", OLD, 3);
    unpinned.commit = None;
    if let Some(Source::Git(git)) = &mut unpinned.source {
        git.version = serde_json::from_value(json!({"tag": "v1"})).unwrap();
    }
    cluster
        .create(assemblage("eu-1", &[row("web", OLD, 1), broken, unpinned]))
        .await;

    let state = cluster
        .until_state::<Assemblage>("eu-1", "broken", "2 Updating BindingFailed Unit")
        .await;
    assert!(state.message.unwrap().contains("there is no variable NOWHERE"));
    let state = cluster
        .until_state::<Assemblage>("eu-1", "unpinned", "3 Failed InvalidSpec Revision")
        .await;
    assert!(state.terminal);
    cluster.carry_out("eu-1", "web", OLD).await;
    cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    let object: Assemblage = cluster.api().get("eu-1").await.unwrap();
    let ready = object
        .status
        .unwrap()
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", "SyncsFailed")
    );
    assert!(
        ready
            .message
            .starts_with("1 of 3 syncs succeeded; unpinned: InvalidSpec: "),
        "{}",
        ready.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_binding_follows_the_object_that_it_reads() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let mut web = row("web", OLD, 1);
    web.package = Some(serde_json::from_value(json!({"substitute": {"HOST": "$(HOST)"}})).unwrap());
    web.bindings = serde_json::from_value(json!([{"name": "HOST", "objectFieldRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "facts", "fieldPath": "/data/host"}}])).unwrap();
    cluster.create(assemblage("eu-1", &[web])).await;
    let state = cluster
        .until_state::<Assemblage>("eu-1", "web", "1 Updating BindingFailed Unit")
        .await;
    assert_eq!(
        state.message.as_deref(),
        Some("binding HOST: ConfigMap facts does not exist")
    );

    let facts = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "facts"}, "data": {"host": "a.test"}});
    cluster
        .create::<k8s_openapi::api::core::v1::ConfigMap>(serde_json::from_value(facts).unwrap())
        .await;
    cluster.until_fetched(OLD).await;
    let host = |object: &muster_api::flux::Kustomization| {
        object
            .spec
            .post_build
            .clone()
            .map(|build| build.substitute["HOST"].clone())
    };
    cluster
        .until_kustomization("eu-1", "web", |object| host(object).as_deref() == Some("a.test"))
        .await;
    let _: k8s_openapi::api::core::v1::ConfigMap =
        cluster.patch("facts", json!({"data": {"host": "b.test"}})).await;
    cluster
        .until_kustomization("eu-1", "web", |object| host(object).as_deref() == Some("b.test"))
        .await;
}

/// Both the built-in sync and Flux read them there.
#[tokio::test(start_paused = true)]
async fn health_expressions_are_those_of_its_kustomization() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let expressions = json!([
        {"apiVersion": "a.test/v1", "kind": "Widget", "current": "status.phase == '$(A)'", "failed": "false", "inProgress": "false"},
        {"apiVersion": "v1", "kind": "Service", "current": "true"},
    ]);
    let with = |expressions: serde_json::Value| SyncRow {
        package: Some(serde_json::from_value(json!({ "healthExpressions": expressions })).unwrap()),
        ..row("web", OLD, 1)
    };
    cluster
        .create(assemblage("eu-1", &[with(expressions.clone())]))
        .await;
    cluster.carry_out("eu-1", "web", OLD).await;
    let found = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(json!(found.spec.health_check_exprs), expressions);
    cluster.set_rows::<Assemblage>("eu-1", &[with(json!([]))]).await;
    pass(Duration::from_mins(1)).await;
    let found = cluster.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(found.spec.health_check_exprs, []);
    assert_eq!(json!(found.spec).get("healthCheckExprs"), None);
}

fn with_package(package: serde_json::Value) -> SyncRow {
    SyncRow {
        package: Some(serde_json::from_value(package).unwrap()),
        ..row("web", OLD, 1)
    }
}

/// Never implicit: upgrading an agent must not change verdicts.
#[tokio::test(start_paused = true)]
async fn the_table_of_health_is_expanded_only_where_it_is_asked_for() {
    for mode in [SyncMode::Builtin, SyncMode::Flux] {
        let mut cluster = Cluster::downstream();
        cluster.run_assemblages_by(mode);
        cluster
            .create(assemblage("eu-1", &[with_package(json!({}))]))
            .await;
        cluster.until_fetched(OLD).await;
        let found = cluster.until_kustomization("eu-1", "web", |_| true).await;
        assert_eq!(found.spec.health_check_exprs, []);
        cluster
            .set_rows::<Assemblage>("eu-1", &[with_package(json!({ "healthTable": "v1" }))])
            .await;
        let found = cluster
            .until_kustomization("eu-1", "web", |found| !found.spec.health_check_exprs.is_empty())
            .await;
        let kinds: Vec<&str> = found
            .spec
            .health_check_exprs
            .iter()
            .map(|of| of.kind.as_str())
            .collect();
        let table: Vec<&str> = muster_health::table::V1.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, table);
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_of_a_package_take_precedence_over_the_table() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let own = json!([
        {"apiVersion": "flagger.app/v2", "kind": "Canary", "current": "true"},
        {"apiVersion": "example.test/v1", "kind": "Gateway", "current": "false"},
    ]);
    let package = json!({ "healthTable": "v1", "healthExpressions": own });
    cluster.create(assemblage("eu-1", &[with_package(package)])).await;
    cluster.until_fetched(OLD).await;
    let found = cluster.until_kustomization("eu-1", "web", |_| true).await;
    let found = found.spec.health_check_exprs;
    assert_eq!(json!(found[..2]), own);
    assert_eq!(found.len(), muster_health::table::V1.len() + 1);
    let count = |kind: &str| found.iter().filter(|of| of.kind == kind).count();
    assert_eq!(
        (count("Canary"), count("Gateway")),
        (1, 2),
        "another group is another kind"
    );
}

//! Promise: a RemoteAssemblage is expanded here, for the cluster's kubeconfig, and not while the cluster is
//! unreachable.

use std::{collections::BTreeMap, time::Duration};

use muster_api::{RemoteAssemblage, flux::Kustomization};
use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::json;

use super::support::*;

async fn fleet(clusters: &[&'static str]) -> (Cluster, BTreeMap<&'static str, Cluster>) {
    let mut downstream = BTreeMap::new();
    for name in clusters {
        downstream.insert(*name, Cluster::downstream());
    }
    let mut management = Cluster::management();
    enrol(&management, clusters).await;
    management.run_management(&downstream);
    (management, downstream)
}

#[tokio::test(start_paused = true)]
async fn a_row_is_expanded_with_the_clusters_kubeconfig_and_values() {
    let (management, _downstream) = fleet(&["eu-1"]).await;
    let mut web = row("web", OLD, 1);
    web.package = Some(serde_json::from_value(json!({"substitute": {"CLUSTER": "$(CLUSTER_NAME)", "ENV": "$(CLUSTER_LABEL_env)", "TIER": "$(TIER)"}})).unwrap());
    web.control_plane_bindings =
        serde_json::from_value(json!([{"name": "TIER", "value": "$(CLUSTER_LABEL_env)-1"}])).unwrap();
    management
        .create(RemoteAssemblage::new("eu-1", targeted("eu-1", &[web])))
        .await;
    let kustomization: Kustomization = management.carry_out("eu-1", "web", OLD).await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    assert_eq!(
        kustomization.spec.kube_config.unwrap().secret_ref.unwrap().name,
        "eu-1-kubeconfig"
    );
    let expect: BTreeMap<String, String> = [("CLUSTER", "eu-1"), ("ENV", "prod"), ("TIER", "prod-1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(kustomization.spec.post_build.unwrap().substitute, expect);
}

#[tokio::test(start_paused = true)]
async fn bindings_are_read_in_the_other_cluster() {
    let (management, downstream) = fleet(&["eu-1"]).await;
    let mut web = row("web", OLD, 1);
    web.package = Some(serde_json::from_value(json!({"substitute": {"HOST": "$(HOST)"}})).unwrap());
    web.bindings = serde_json::from_value(json!([{"name": "HOST", "objectFieldRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "facts", "fieldPath": "/data/host"}}])).unwrap();
    management
        .create(RemoteAssemblage::new("eu-1", targeted("eu-1", &[web])))
        .await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Updating BindingFailed Unit")
        .await;
    let facts = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "facts"}, "data": {"host": "a.test"}});
    downstream["eu-1"]
        .create::<k8s_openapi::api::core::v1::ConfigMap>(serde_json::from_value(facts).unwrap())
        .await;
    let kustomization = management.carry_out("eu-1", "web", OLD).await;
    assert_eq!(
        kustomization.spec.post_build.unwrap().substitute["HOST"],
        "a.test"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_a_cluster_that_is_away_and_it_is_taken_when_it_is_back() {
    let (management, downstream) = fleet(&["eu-1", "eu-2"]).await;
    for name in ["eu-1", "eu-2"] {
        management
            .create(RemoteAssemblage::new(name, targeted(name, &[row("web", OLD, 1)])))
            .await;
        management.carry_out(name, "web", OLD).await;
        management
            .until_state::<RemoteAssemblage>(name, "web", "1 Succeeded UpToDate")
            .await;
    }
    downstream["eu-1"]
        .server
        .faults()
        .add(Rule::always(Match::default(), Fault::Refuse));
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    pass(Duration::from_mins(1)).await;
    for name in ["eu-1", "eu-2"] {
        management
            .set_rows::<RemoteAssemblage>(name, &[row("web", NEW, 2)])
            .await;
    }
    management.carry_out("eu-2", "web", NEW).await;
    management
        .until_state::<RemoteAssemblage>("eu-2", "web", "2 Succeeded UpToDate")
        .await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "2 Updating Unreachable Infra")
        .await;
    let web = management.kustomization("eu-1", "web").await.unwrap();
    assert_eq!(web.metadata.generation, Some(1), "nothing was written");

    downstream["eu-1"].server.faults().clear();
    management.carry_out("eu-1", "web", NEW).await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "2 Succeeded UpToDate")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_reported_during_an_absence_does_not_count_afterwards() {
    let (management, downstream) = fleet(&["eu-1"]).await;
    management
        .create(RemoteAssemblage::new(
            "eu-1",
            targeted("eu-1", &[row("web", OLD, 1)]),
        ))
        .await;
    management.until_fetched(OLD).await;
    let web = management.until_kustomization("eu-1", "web", |_| true).await;
    downstream["eu-1"]
        .server
        .faults()
        .add(Rule::always(Match::default(), Fault::Refuse));
    pass(Duration::from_mins(2)).await;
    management
        .report(
            &web,
            "False",
            "ReconciliationFailed",
            "Deployment/shop/web dry-run failed: something odd",
        )
        .await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Updating ReconciliationFailed Infra")
        .await;
    downstream["eu-1"].server.faults().clear();
    pass(Duration::from_mins(2)).await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Updating ReconciliationFailed Infra")
        .await;
    management
        .report(&web, "True", "ReconciliationSucceeded", "Applied revision")
        .await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    management
        .report(
            &web,
            "False",
            "ReconciliationFailed",
            "Deployment/shop/web dry-run failed: something odd",
        )
        .await;
    management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Failed ReconciliationFailed Revision")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_refused_by_name_before_anything_is_written() {
    let (management, _downstream) = fleet(&["eu-1"]).await;
    let mut web = row("web", OLD, 1);
    web.package = Some(serde_json::from_value(json!({"plan": {"file": "plan.yaml"}})).unwrap());
    management
        .create(RemoteAssemblage::new("eu-1", targeted("eu-1", &[web])))
        .await;
    let state = management
        .until_state::<RemoteAssemblage>("eu-1", "web", "1 Updating SyncUnsupported Infra")
        .await;
    let why = state.message.as_deref().unwrap();
    assert!(
        why.contains("does not support: plan") && why.contains("make it a Module"),
        "{why}"
    );
    assert_eq!(management.kustomizations().await, []);
}

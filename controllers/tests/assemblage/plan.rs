//! Promise: a row with a plan has its PlanRun before its Kustomization, and a row that cannot have one is refused.

use kube::ResourceExt;
use muster_api::plan::{PlanControl, PlanRun, PlanRunSpec};
use muster_apiserver::record::RequestRecord;
use muster_controllers::reconcile::SyncMode;
use serde_json::{Value, json};

use crate::support::{Cluster, OLD, assemblage, row};

fn with_plan(plan: Value) -> muster_api::assemblage::SyncRow {
    let mut row = row("web", OLD, 1);
    row.package = Some(serde_json::from_value(json!({ "plan": plan })).unwrap());
    row
}

#[tokio::test(start_paused = true)]
async fn the_plan_run_is_written_before_the_kustomization_and_again_where_it_is_lost() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let row = with_plan(json!({"file": "plan.yaml", "keep": "1h"}));
    cluster.create(assemblage("eu-1", &[row])).await;
    cluster.until_fetched(OLD).await;
    let kustomization = cluster.until_kustomization("eu-1", "web", |_| true).await;
    let name = kustomization.name_any();
    let run = cluster.api::<PlanRun>().get(&name).await.unwrap();
    let spec: PlanRunSpec = serde_json::from_value(json!({"file": "plan.yaml", "keep": "1h"})).unwrap();
    assert_eq!(run.spec, spec);
    assert_eq!(
        kustomization.annotations()["fleet.muster.dev/plan"],
        spec.digest()
    );
    let wrote = |request: &RequestRecord, kind: &str| request.is_write() && request.path.contains(kind);
    let requests = cluster.server.recorder().requests();
    let first = |kind: &str| requests.iter().position(|request| wrote(request, kind)).unwrap();
    assert!(first("/planruns/") < first("/kustomizations"));
    // It is deleted by hand.
    cluster
        .api::<PlanRun>()
        .delete(&name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    cluster
        .report(
            &kustomization,
            "False",
            "PlanRunNotReady",
            "PlanRun does not exist",
        )
        .await;
    crate::support::until("the PlanRun", || async {
        cluster
            .api::<PlanRun>()
            .get_opt(&name)
            .await
            .unwrap()
            .filter(|run| run.spec == spec)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn flux_is_given_no_plan() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages_by(SyncMode::Flux);
    cluster
        .create(assemblage("eu-1", &[with_plan(json!({"file": "plan.yaml"}))]))
        .await;
    let state = cluster
        .until_state::<muster_api::Assemblage>("eu-1", "web", "1 Updating SyncUnsupported Infra")
        .await;
    assert!(
        state
            .message
            .as_deref()
            .unwrap()
            .contains("which does not support: plan"),
        "{state:?}"
    );
    assert_eq!(cluster.kustomizations().await, []);
}

/// A control and a retry are not part of the assignment: they reach the PlanRun, and the row stays the same.
#[tokio::test(start_paused = true)]
async fn what_is_done_by_hand_reaches_the_plan_run_and_leaves_the_row_as_it_was() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let row = with_plan(json!({"file": "plan.yaml"}));
    cluster
        .create(assemblage("eu-1", std::slice::from_ref(&row)))
        .await;
    let kustomization = cluster.carry_out("eu-1", "web", OLD).await;
    let succeeded = "1 Succeeded UpToDate";
    cluster
        .until_state::<muster_api::Assemblage>("eu-1", "web", succeeded)
        .await;
    let control = PlanControl::parse("start/backup", "", None).unwrap();
    let mut wanted = row.clone();
    (wanted.attempt, wanted.plan_control) = (Some(7), Some(control.clone()));
    cluster
        .set_rows::<muster_api::Assemblage>("eu-1", &[wanted])
        .await;
    let spec = PlanRunSpec {
        file: "plan.yaml".to_owned(),
        attempt: Some(7),
        control: Some(control.clone()),
        ..PlanRunSpec::default()
    };
    let digest = spec.digest();
    let requested = cluster
        .until_kustomization("eu-1", "web", |object| {
            object.annotations()["fleet.muster.dev/plan"] == digest
        })
        .await;
    assert_eq!(
        requested.annotations()["reconcile.fluxcd.io/requestedAt"],
        format!("muster-1-{}", control.id)
    );
    let name = kustomization.name_any();
    assert_eq!(cluster.api::<PlanRun>().get(&name).await.unwrap().spec, spec);
    crate::support::pass(std::time::Duration::from_mins(1)).await;
    cluster
        .until_state::<muster_api::Assemblage>("eu-1", "web", succeeded)
        .await;
}

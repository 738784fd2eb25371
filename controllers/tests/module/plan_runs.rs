//! Promise: a manual control of a cluster's plan is delivered with its row and affects no other cluster; a retry of a
//! revision runs its plan again only where it failed.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use muster_api::{ModuleRevision, ProxyAssemblage, assemblage::SyncState};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::bed::*;

const PLAN: &str = "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n    deploy:\n      phases:\n      \
                    - {name: schema, steps: [{name: migrate, apply: [migrate.yaml]}]}\n      - {name: app, steps: [{name: rest, apply: ['*']}]}\n";

fn release(bed: &Bed, tag: &str) {
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, namespace: default}}\nspec:\n  template:\n    \
         spec: {{restartPolicy: Never, containers: [{{name: main, image: 'tool:{tag}'}}]}}\n"
    );
    bed.release_files(
        tag,
        [
            ("web/plan.yaml".to_owned(), PLAN.to_owned()),
            ("web/migrate.yaml".to_owned(), job),
            ("web/all.yaml".to_owned(), config_map("web", tag)),
        ],
    );
}

/// Completes the Job of a version in a cluster.
async fn end(bed: &Bed, cluster: &str, tag: &str, how: &str) {
    let jobs: Api<Job> = Api::namespaced(bed.clusters[cluster].client(), "default");
    let image = format!("tool:{tag}");
    let open = |job: &Job| {
        let spec = serde_json::to_value(&job.spec).unwrap();
        let ended = job
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_some());
        !ended && spec["template"]["spec"]["containers"][0]["image"] == image.as_str()
    };
    let name = bed
        .until("a Job", || async {
            let list = jobs.list(&ListParams::default()).await.unwrap();
            list.items.iter().find(|job| open(job)).map(ResourceExt::name_any)
        })
        .await;
    let status = json!({"status": {"startTime": "2026-11-21T12:00:00Z", "conditions": [
        {"type": how, "status": "True", "reason": "Test", "message": "as the test says", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}});
    jobs.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn jobs(bed: &Bed, cluster: &str) -> usize {
    let jobs: Api<Job> = Api::namespaced(bed.clusters[cluster].client(), "default");
    jobs.list(&ListParams::default()).await.unwrap().items.len()
}

async fn state(bed: &Bed, cluster: &str) -> SyncState {
    let proxy = bed.api::<ProxyAssemblage>().get(cluster).await.unwrap();
    let syncs = proxy.status.unwrap().syncs;
    let state = syncs.into_iter().find(|state| state.name == "web").unwrap();
    state.into_inner()
}

/// Clusters with the first version; the second has failed in eu-1.
async fn failed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    release(&bed, "one");
    release(&bed, "two");
    let spec = json!({"sync": {"package": {"plan": {"file": "plan.yaml"}}}});
    bed.create::<muster_api::Module>(module("web", "one", spec)).await;
    for cluster in CLUSTERS {
        end(&bed, cluster, "one", "Complete").await;
    }
    bed.until_ready("web").await;
    bed.patch("web", version("two")).await;
    end(&bed, "eu-1", "two", "Failed").await;
    bed.until_said("web", "Ready", "False Failed").await;
    bed
}

async fn module_status(bed: &Bed) -> Value {
    bed.module("web").await.unwrap()["status"].clone()
}

async fn revision(bed: &Bed) -> ModuleRevision {
    let wanted = module_status(bed).await["revision"].as_str().unwrap().to_owned();
    let all = bed
        .api::<ModuleRevision>()
        .list(&ListParams::default())
        .await
        .unwrap();
    all.items
        .into_iter()
        .find(|one| one.spec.revision == wanted)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_retry_runs_the_plan_again_where_it_failed() {
    let bed = failed().await;
    assert_eq!(bed.row("eu-1", "web").await.unwrap()["attempt"], Value::Null);
    let digits = module_status(&bed).await["revision"].as_str().unwrap()[..12].to_owned();
    bed.annotate("web", "retry", Some(&digits)).await;
    for cluster in CLUSTERS {
        end(&bed, cluster, "two", "Complete").await;
    }
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    let row = bed.row("eu-1", "web").await.unwrap();
    assert_eq!(row["attempt"], row["token"]);
    assert_eq!(
        bed.row("eu-2", "web").await.unwrap()["attempt"],
        Value::Null,
        "nothing failed there"
    );
    // A control that only changes the token of healthy content, such as a pin to its present revision, starts no plan.
    pass(Duration::from_mins(30)).await;
    assert_eq!(jobs(&bed, "eu-1").await, 1);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_skipped_step_is_on_record_in_the_row_and_in_the_revision() {
    let bed = failed().await;
    let (tokens, run) = (
        bed.row("eu-1", "web").await.unwrap()["token"].clone(),
        state(&bed, "eu-1").await.plan_run.unwrap(),
    );
    let control = json!({"for": format!("eu-1@skip/{}/schema/migrate", run.uid), "by": "ann", "reason": "done by hand"});
    bed.annotate("web", "plan-run", Some(&control.to_string())).await;
    bed.until("it is taken", || async {
        let state = state(&bed, "eu-1").await;
        (state.plan.as_deref() == Some("deploy 2/2 Complete, skipped: schema/migrate")).then_some(())
    })
    .await;
    assert_eq!(
        bed.texts("web").await,
        ["two", "one", "one"],
        "the revision stays bad"
    );
    assert_eq!(
        bed.row("eu-1", "web").await.unwrap()["token"],
        tokens,
        "what is assigned stays"
    );
    let words = format!(
        "skip of step schema/migrate in run {} by ann (done by hand)",
        run.uid
    );
    let skipped = bed
        .until("it is on record", || async {
            let status = revision(&bed).await.status?;
            (!status.skipped.is_empty()).then_some(status.skipped)
        })
        .await;
    assert_eq!(skipped, [format!("eu-1: {words}")]);
    let notes = bed.event_notes("ControlApplied").await;
    assert_eq!(notes, [format!("fleet.muster.dev/plan-run: eu-1: {words}")]);
    // It stays recorded when the control is removed.
    bed.annotate("web", "plan-run", None).await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(revision(&bed).await.status.unwrap().skipped.len(), 1);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_effect_says_so() {
    let bed = failed().await;
    let before = jobs(&bed, "eu-1").await;
    for (control, effect, message) in [
        (
            "eu-9@start/backup",
            "WithoutEffect",
            "the cluster has no row of this module with a plan",
        ),
        (
            "eu-2@start/backup",
            "WithoutEffect",
            "start of plan backup: the plan file has these plans that can be started: none",
        ),
        (
            "eu-2@abort/0123",
            "WithoutEffect",
            "abort in run 0123: it is for run 0123, but the current run is",
        ),
    ] {
        bed.annotate("web", "plan-run", Some(control)).await;
        bed.until(control, || async {
            let entry = module_status(&bed).await["controls"][0].clone();
            let message = entry["message"].as_str()?.starts_with(message);
            (entry["effect"] == effect && message).then_some(())
        })
        .await;
    }
    bed.annotate("web", "plan-run", Some("eu-1@skip/schema")).await;
    let message = bed.until_said("web", "Ready", "False InvalidControl").await;
    assert!(
        message.contains("\"eu-1@skip/schema\" is not of the form CLUSTER@start/PLAN"),
        "{message}"
    );
    assert_eq!(jobs(&bed, "eu-1").await, before);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_an_unwritable_row_does_not_block_the_others() {
    let bed = failed().await;
    let matching = Match {
        client: Some("controller".to_owned()),
        verbs: vec![Verb::Patch],
        path: Some("/proxyassemblages/eu-1".to_owned()),
        ..Match::default()
    };
    let refused = Rule::always(matching, Fault::Status(Failure::Forbidden));
    let refused = bed.management.faults().add(refused);
    let both = "eu-1@start/backup,eu-2@start/backup";
    bed.annotate("web", "plan-run", Some(both)).await;
    let carried = |cluster: &'static str| {
        let bed = &bed;
        bed.until(cluster, move || async move {
            let row = bed.row(cluster, "web").await?;
            (row["planControl"]["plan"] == "backup").then_some(())
        })
    };
    carried("eu-2").await;
    pass(Duration::from_mins(5)).await;
    assert_eq!(bed.row("eu-1", "web").await.unwrap()["planControl"], Value::Null);
    bed.management.faults().remove(refused);
    carried("eu-1").await;
    bed.settled().await;
}

//! Promise: renaming a module (deleting it, and creating one with the same content under another name) causes no
//! outage: in each cluster its objects stay until the successor has them.

use std::time::Duration;

use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use muster_api::{BootstrapModule, Module, module::ModuleObject};
use muster_apiserver::{
    Verb,
    fault::{Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::bed::*;

/// A module with the same content as `web`.
fn module_with_web_package(name: &str, tag: &str, spec: Value) -> Value {
    let mut all = json!({"sync": {"package": {"path": "web"}}});
    json_patch::merge(&mut all, &spec);
    module(name, tag, all)
}

async fn deployed(clusters: &[&str], spec: Value) -> Bed {
    let bed = Bed::new(clusters).await;
    bed.release("v1", &["web", "other"], "one");
    bed.deploy("web", "v1", spec).await;
    bed
}

async fn delete(bed: &Bed, name: &str) {
    let modules = bed.api::<Module>();
    modules.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Renames `web` as a single commit does.
async fn rename(bed: &Bed, spec: Value) {
    bed.create::<Module>(module_with_web_package("webapp", "v1", spec))
        .await;
    delete(bed, "web").await;
}

fn uids(marks: Vec<(String, String)>) -> Vec<String> {
    marks.into_iter().map(|(uid, _)| uid).collect()
}

/// The object never disappeared in any of these clusters.
fn never_gone(bed: &Bed, clusters: &[&str]) {
    for cluster in clusters {
        assert_eq!(
            bed.story(cluster, "web"),
            [Some("one".to_owned())],
            "{cluster}: the object stays"
        );
    }
}

/// Reason and message of a cluster of a module.
async fn attention(bed: &Bed, name: &str, cluster: &str) -> Option<(String, String)> {
    let module = bed.module(name).await?;
    let all = module["status"]["attention"].as_array()?.clone();
    let of_cluster = all.iter().find(|it| it["cluster"] == cluster)?;
    let word = |field: &str| of_cluster[field].as_str().unwrap_or_default().to_owned();
    Some((word("reason"), word("message")))
}

async fn until_waiting(bed: &Bed, cluster: &str) {
    let expect = format!(
        "moves to module/webapp, not confirmed here; next: muster why module/webapp --cluster {cluster}"
    );
    bed.until(&format!("web waits in {cluster}"), || async {
        let entry = attention(bed, "web", cluster).await?;
        (entry == ("DependencyBehind".to_owned(), expect.clone())).then_some(())
    })
    .await;
}

async fn a_rename_is_no_outage<K: ModuleObject>(on_delete: Option<&str>) {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["web"], "one");
    let modules: Api<K> = bed.api();
    let of_kind = |name: &str| {
        let mut module = module_with_web_package(name, "v1", json!({"onDelete": on_delete}));
        module["kind"] = json!(K::KIND.as_str());
        serde_json::from_value::<K>(module).unwrap()
    };
    let is_ready = async |name: &str| {
        let module = modules.get_opt(name).await.unwrap();
        let module = module.map(|module| serde_json::to_value(module).unwrap());
        module.filter(is_ready).map(|_| ())
    };
    modules
        .create(&PostParams::default(), &of_kind("web"))
        .await
        .unwrap();
    bed.until("web is ready", || is_ready("web")).await;
    let before = uids(bed.marks("web").await);
    modules
        .create(&PostParams::default(), &of_kind("webapp"))
        .await
        .unwrap();
    modules.delete("web", &DeleteParams::default()).await.unwrap();
    bed.until("web is gone", || async {
        modules.get_opt("web").await.unwrap().is_none().then_some(())
    })
    .await;
    bed.until("webapp is ready", || is_ready("webapp")).await;
    // Longer than the interval at which clusters are compared with git.
    pass(Duration::from_mins(15)).await;
    never_gone(&bed, &CLUSTERS);
    assert_eq!(uids(bed.marks("web").await), before, "{on_delete:?}");
    assert_eq!(bed.event_notes("WithdrawalHeld").await, Vec::<String>::new());
    for cluster in CLUSTERS {
        let labels = bed.config_map(cluster, "web").await.unwrap().metadata.labels;
        let owner = labels.unwrap_or_default();
        let owner = owner.get("kustomize.toolkit.fluxcd.io/name").cloned();
        let own = owner.unwrap_or_default();
        assert!(own.starts_with("webapp-"), "{cluster}: {own}");
    }
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_module_that_is_withdrawn_on_deletion() {
    a_rename_is_no_outage::<Module>(Some("Withdraw")).await;
}

#[tokio::test(start_paused = true)]
async fn a_module_that_is_orphaned_on_deletion() {
    a_rename_is_no_outage::<Module>(Some("Orphan")).await;
}

#[tokio::test(start_paused = true)]
async fn a_module_without_on_delete() {
    a_rename_is_no_outage::<Module>(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_module_that_is_withdrawn_on_deletion() {
    a_rename_is_no_outage::<BootstrapModule>(Some("Withdraw")).await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_module_that_is_orphaned_on_deletion() {
    a_rename_is_no_outage::<BootstrapModule>(Some("Orphan")).await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_module_without_on_delete() {
    a_rename_is_no_outage::<BootstrapModule>(None).await;
}

/// The deleted module holds the objects, and its successor needs other values: they must not wait for each other.
async fn a_rename_with_another_version(on_delete: Option<&str>) {
    let bed = deployed(&CLUSTERS, json!({"onDelete": on_delete})).await;
    bed.release("v2", &["web", "other"], "two");
    let before = uids(bed.marks("web").await);
    bed.create::<Module>(module_with_web_package("webapp", "v2", json!({})))
        .await;
    delete(&bed, "web").await;
    bed.until_gone("web").await;
    bed.until_ready("webapp").await;
    pass(Duration::from_mins(15)).await;
    for cluster in CLUSTERS {
        let story = ["one", "two"].map(|text| Some(text.to_owned()));
        assert_eq!(bed.story(cluster, "web"), story, "{cluster}");
    }
    assert_eq!(uids(bed.marks("web").await), before);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn with_another_version_of_a_module_that_is_withdrawn() {
    a_rename_with_another_version(Some("Withdraw")).await;
}

#[tokio::test(start_paused = true)]
async fn with_another_version_of_a_module_that_is_orphaned() {
    a_rename_with_another_version(Some("Orphan")).await;
}

#[tokio::test(start_paused = true)]
async fn with_another_version_of_a_module_without_on_delete() {
    a_rename_with_another_version(None).await;
}

/// Its agent is down: the successor is assigned there, but not confirmed.
#[tokio::test(start_paused = true)]
async fn a_cluster_waits_for_the_successor_also_over_a_restart() {
    let mut bed = deployed(&CLUSTERS, json!({"onDelete": "Withdraw"})).await;
    bed.crash_agent("eu-2");
    rename(&bed, json!({})).await;
    until_waiting(&bed, "eu-2").await;
    bed.crash_controller();
    bed.start_controller();
    pass(Duration::from_mins(3)).await;
    let row = bed.row("eu-2", "web").await.unwrap();
    assert_eq!(row.get("withdraw"), None, "{row}");
    until_waiting(&bed, "eu-2").await;
    bed.start_agent("eu-2");
    // What was not picked up in time is retried.
    let control = json!({"for": revision(&bed).await}).to_string();
    bed.annotate("webapp", "retry", Some(&control)).await;
    bed.until_ready("webapp").await;
    bed.until_gone("web").await;
    bed.settled().await;
    never_gone(&bed, &CLUSTERS);
}

async fn revision(bed: &Bed) -> String {
    let module = bed.module("webapp").await.unwrap();
    module["status"]["revision"].as_str().unwrap().to_owned()
}

/// What keeps the successor from ever being confirmed.
const PAUSED: &str = "paused";

async fn waiting(clusters: &[&str], spec: Value) -> Bed {
    let bed = deployed(clusters, spec).await;
    let mut webapp = module_with_web_package("webapp", "v1", json!({}));
    webapp["metadata"]["annotations"] = json!({"fleet.muster.dev/paused": "true"});
    bed.create::<Module>(webapp).await;
    delete(&bed, "web").await;
    until_waiting(&bed, clusters[0]).await;
    pass(Duration::from_mins(20)).await;
    never_gone(&bed, clusters);
    bed
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_successor_is_confirmed() {
    let bed = waiting(&CLUSTERS, json!({})).await;
    bed.annotate("webapp", PAUSED, None).await;
    bed.until_gone("web").await;
    bed.until_ready("webapp").await;
    bed.settled().await;
    never_gone(&bed, &CLUSTERS);
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_successor_is_deleted() {
    let bed = waiting(&["eu-1"], json!({"onDelete": "Withdraw"})).await;
    delete(&bed, "webapp").await;
    bed.until_gone("web").await;
    bed.until_gone("webapp").await;
    assert_eq!(bed.texts("web").await, [""]);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_successor_deselects_the_cluster() {
    let bed = waiting(&["eu-1"], json!({"onDelete": "Withdraw"})).await;
    bed.patch(
        "webapp",
        json!({"spec": {"selector": {"matchLabels": {"env": "dev"}}}}),
    )
    .await;
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, [""]);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_successor_has_other_content() {
    let bed = waiting(&["eu-1"], json!({"onDelete": "Withdraw"})).await;
    let other = json!({"spec": {"sync": {"package": {"path": "other"}}}});
    bed.patch("webapp", other).await;
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, [""]);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_cluster_is_given_up() {
    let bed = waiting(&CLUSTERS, json!({"onDelete": "Withdraw"})).await;
    let message = bed.until_said("web", "Ready", "False Terminating").await;
    assert!(
        message.starts_with(
            "being deleted: 3 clusters still to be withdrawn, first eu-1: moves to module/webapp"
        ),
        "{message}"
    );
    bed.annotate("web", "abandon", Some("eu-1,eu-2,us-1")).await;
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    never_gone(&bed, &CLUSTERS);
}

/// The brake and its acknowledgement count only clusters that lose something.
#[tokio::test(start_paused = true)]
async fn the_brake_counts_the_other_clusters() {
    let bed = deployed(&CLUSTERS, json!({})).await;
    bed.patch_cluster("us-1", json!({"metadata": {"labels": {"keep": "yes"}}}))
        .await;
    rename(&bed, json!({"selector": {"matchLabels": {"keep": "yes"}}})).await;
    let message = bed.until_said("web", "Ready", "False WithdrawalHeld").await;
    assert!(
        message.contains("being deleted: 2 clusters would be withdrawn at once"),
        "{message}"
    );
    bed.until_ready("webapp").await;
    bed.until("web has left us-1", || async {
        let row = bed.row("us-1", "web").await;
        row.is_none_or(|row| row.get("withdraw").is_some()).then_some(())
    })
    .await;
    pass(Duration::from_mins(15)).await;
    never_gone(&bed, &CLUSTERS);
    let message = bed.until_said("web", "Ready", "False WithdrawalHeld").await;
    let (_, acknowledgement) = message.rsplit_once('=').unwrap();
    bed.annotate("web", "acknowledge-withdrawal", Some(acknowledgement))
        .await;
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, ["", "", "one"]);
    never_gone(&bed, &["us-1"]);
    bed.settled().await;
}

/// The deletion is observed before the successor is: modules are listed again before anything is withdrawn.
#[tokio::test(start_paused = true)]
async fn a_successor_that_no_watch_shows_yet_is_waited_for() {
    let mut bed = deployed(&["eu-1"], json!({"onDelete": "Withdraw"})).await;
    bed.crash_controller();
    let deciding = bed.decide("second", Duration::ZERO);
    pass(Duration::from_mins(1)).await;
    let reads = |verbs: &[Verb], path: &str| Match {
        client: Some("second-dependencies".to_owned()),
        verbs: verbs.to_vec(),
        path: Some(path.to_owned()),
        ..Match::default()
    };
    let faults = bed.management.faults();
    let blind = faults.add(Rule::always(
        reads(&[Verb::Watch, Verb::List], "/modules"),
        Fault::Refuse,
    ));
    faults.close_watches(reads(&[], "modules"));
    pass(Duration::from_secs(1)).await;
    rename(&bed, json!({})).await;
    let stays = async || {
        let row = bed.row("eu-1", "web").await.unwrap();
        assert_eq!(row.get("withdraw"), None, "{row}");
    };
    pass(Duration::from_mins(2)).await;
    stays().await;
    bed.management.faults().remove(blind);
    pass(Duration::from_mins(2)).await;
    stays().await;
    let webapp = bed.row("eu-1", "webapp").await;
    assert!(webapp.is_some(), "the successor is assigned");
    drop(deciding);
}

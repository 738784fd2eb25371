//! Promise: at most the allowed number of Clusters change at once, each is confirmed before the next starts, and a
//! Cluster that hangs stops the rest.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::bed::Bed;

const NAMES: [&str; 6] = ["c-1", "c-2", "c-3", "c-4", "c-5", "c-6"];

fn resource_version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// The maximum number of Clusters at a time that should have a version and do not have it yet, from the API server's
/// records.
fn most_at_once(bed: &Bed, version: &str) -> usize {
    let mut changing = BTreeSet::new();
    let mut most = 0;
    for event in bed.changes("clusters") {
        let object = event.object();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let targeted = object["spec"]["topology"]["version"] == version;
        let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let is_done = |part: &Value| part["upToDateReplicas"] == part["desiredReplicas"];
        let done =
            observed && is_done(&object["status"]["controlPlane"]) && is_done(&object["status"]["workers"]);
        if targeted && !done {
            changing.insert(name);
        } else {
            changing.remove(&name);
        }
        most = most.max(changing.len());
    }
    most
}

#[tokio::test(start_paused = true)]
async fn two_at_a_time_and_all_of_them() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    bed.upgrade("next", "v1.34.2", json!({"rollout": {"maxUnreadyClusters": 2}}))
        .await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.topologies().await, ["v1.34.2"; 6]);
    assert_eq!(most_at_once(&bed, "v1.34.2"), 2);
    let status = bed.upgrades().get("next").await.unwrap().status.unwrap();
    let summary = status.summary.unwrap();
    assert_eq!((summary.total, summary.updated), (6, 6));
    assert_eq!(status.reasons.len(), 1);
    assert_eq!(status.reasons[0].reason, "UpToDate");

    // The metrics count it like a module.
    let counted = bed.scrape();
    for line in [
        r#"muster_module_info{kind="ClusterUpgrade",name="next",version="v1.34.2"} 1.0"#,
        r#"muster_module_clusters{kind="ClusterUpgrade",name="next",state="updated"} 6.0"#,
        r#"muster_module_clusters{kind="ClusterUpgrade",name="next",state="failed"} 0.0"#,
        r#"muster_condition{kind="ClusterUpgrade",name="next",type="Ready",status="True",reason="Succeeded"} 1.0"#,
    ] {
        assert!(counted.lines().any(|found| found == line), "{line}\n{counted}");
    }

    // We own one field, and nothing else.
    let clusters = bed.objects(&muster_api::cluster::Version::V1Beta2.api_resource());
    let cluster = clusters.get("c-3").await.unwrap();
    let ours: Vec<_> = cluster
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .filter(|entry| entry.manager.as_deref() == Some("muster-upgrades"))
        .map(|entry| (entry.operation.unwrap(), entry.fields_v1.unwrap().0))
        .collect();
    assert_eq!(
        ours,
        [(
            "Apply".to_owned(),
            json!({"f:spec": {"f:topology": {".": {}, "f:version": {}}}})
        )]
    );

    // The next version starts from there, and one that is older than the present one is finished without a write.
    bed.patch_upgrade("next", json!({"spec": {"target": {"kubernetes": "v1.35.0"}}}))
        .await;
    bed.until("all at v1.35.0", || async {
        (bed.topologies().await == ["v1.35.0"; 6]).then_some(())
    })
    .await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(most_at_once(&bed, "v1.35.0"), 2);
    bed.patch_upgrade("next", json!({"spec": {"target": {"kubernetes": "v1.34.9"}}}))
        .await;
    let message = bed.until_why("next", "c-1", "AlreadyNewer").await;
    assert_eq!(message, "it has v1.35.0");
    assert_eq!(bed.topologies().await, ["v1.35.0"; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_hangs_stops_the_others_and_is_named() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    bed.stuck.lock().insert("c-2".to_owned());
    bed.upgrade("next", "v1.34.2", json!({"rollout": {"maxUnreadyClusters": 1}}))
        .await;
    bed.until_why("next", "c-2", "NotPickedUp").await;
    bed.until_why("next", "c-3", "Halted").await;
    assert_eq!(
        bed.topologies().await,
        ["v1.34.2", "v1.34.2", "v1.33.4", "v1.33.4", "v1.33.4", "v1.33.4"]
    );

    // Cluster API continues, and the rollout is retried.
    bed.stuck.lock().clear();
    let revision = bed
        .upgrades()
        .get("next")
        .await
        .unwrap()
        .status
        .unwrap()
        .revision
        .unwrap();
    bed.patch_upgrade(
        "next",
        json!({"metadata": {"annotations": {"fleet.muster.dev/retry": &revision[..8]}}}),
    )
    .await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.topologies().await, ["v1.34.2"; 6]);
}

#[tokio::test(start_paused = true)]
async fn the_progress_deadline_restarts_with_each_machine() {
    // Six machines, one every 5 s: none of them takes 20 s, all of them take longer.
    let bed = Bed::new(&NAMES[..1], "v1.33.4").await;
    bed.upgrade(
        "next",
        "v1.34.2",
        json!({"rollout": {"deadlines": {"progress": "20s"}}}),
    )
    .await;
    bed.until_state("next", "Succeeded").await;

    // Half of them are up to date, and then nothing happens any more.
    bed.patch_upgrade("next", json!({"spec": {"target": {"kubernetes": "v1.35.0"}}}))
        .await;
    bed.until("half of them", || async {
        let (_, message) = bed.why("next", "c-1").await?;
        message.contains("waits for the workers").then_some(())
    })
    .await;
    bed.stuck.lock().insert("c-1".to_owned());
    bed.until_why("next", "c-1", "Overdue").await;
}

#[tokio::test(start_paused = true)]
async fn stages_wait_for_an_approval() {
    let bed = Bed::new(&["dev-1", "p-1"], "v1.33.4").await;
    let stages =
        json!([{"name": "dev", "selector": {"matchLabels": {"env": "dev"}}, "approval": "Required"}]);
    bed.upgrade("next", "v1.34.2", json!({"rollout": {"stages": stages}}))
        .await;
    let message = bed.until_why("next", "p-1", "WaitingApproval").await;
    assert!(
        message.contains("kubectl annotate --namespace fleet --field-manager=muster-cli clusterupgrade/next"),
        "{message}"
    );
    assert_eq!(bed.topologies().await, ["v1.34.2", "v1.33.4"]);
    let revision = bed
        .upgrades()
        .get("next")
        .await
        .unwrap()
        .status
        .unwrap()
        .revision
        .unwrap();
    let approve = format!("dev@{}", &revision[..8]);
    bed.patch_upgrade(
        "next",
        json!({"metadata": {"annotations": {"fleet.muster.dev/approve": approve}}}),
    )
    .await;
    bed.until_state("next", "Succeeded").await;
}

/// A version that was applied stays, and no other Cluster gets it.
#[tokio::test(start_paused = true)]
async fn aborted_it_goes_no_further_and_takes_nothing_back() {
    let bed = Bed::new(&["c-1", "c-2"], "v1.33.4").await;
    bed.stuck.lock().insert("c-1".to_owned());
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until("c-1 is given the version", || async {
        (bed.topology("c-1").await == "v1.34.2").then_some(())
    })
    .await;
    let status = bed.upgrades().get("next").await.unwrap().status.unwrap();
    let revision = status.revision.unwrap();
    let abort = json!({"metadata": {"annotations": {"fleet.muster.dev/abort": &revision[..8]}}});
    bed.patch_upgrade("next", abort).await;
    bed.until_why("next", "c-2", "Aborted").await;
    bed.stuck.lock().clear();
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert_eq!(bed.topologies().await, ["v1.34.2", "v1.33.4"]);
}

/// The control plane first, then the workers, each at its own version; the one field of each.
#[tokio::test(start_paused = true)]
async fn without_a_topology_the_workers_follow_the_control_plane() {
    let mut bed = Bed::without_controller(&["c-1"], "v1.33.4").await;
    bed.without_topology("c-1", "v1.33.4").await;
    bed.start();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.parts("c-1").await, ["v1.34.2", "v1.34.2"]);
    let mut order: Vec<(String, String)> = Vec::new();
    for (resource, pointer) in [
        ("kubeadmcontrolplanes", "/spec/version"),
        ("machinedeployments", "/spec/template/spec/version"),
    ] {
        for event in bed.changes(resource) {
            let version = event
                .object()
                .pointer(pointer)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned();
            let object = event.object();
            let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let done = observed && object["status"]["upToDateReplicas"] == 3;
            order.push((
                format!(
                    "{:08} {resource} {version} {done}",
                    resource_version(event.object())
                ),
                version,
            ));
        }
    }
    order.sort();
    let at = |what: &str| order.iter().position(|(entry, _)| entry.contains(what)).unwrap();
    assert!(
        at("kubeadmcontrolplanes v1.34.2 true") < at("machinedeployments v1.34.2"),
        "{order:#?}"
    );
}

/// A hold that is set between the control plane and the workers keeps the workers as they are, until it is released.
#[tokio::test(start_paused = true)]
async fn a_hold_in_the_middle_of_a_change_is_kept() {
    let mut bed = Bed::without_controller(&["c-1"], "v1.33.4").await;
    bed.without_topology("c-1", "v1.33.4").await;
    bed.start();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until("the control plane has the version", || async {
        (bed.parts("c-1").await == ["v1.34.2", "v1.33.4"]).then_some(())
    })
    .await;
    let clusters = muster_api::cluster::Version::V1Beta2.api_resource();
    let hold = |hold: Value| json!({"metadata": {"annotations": {"fleet.muster.dev/hold": hold}}});
    bed.patch(
        &clusters,
        "c-1",
        hold(json!(r#"{"by":"ann","reason":"an inspection"}"#)),
    )
    .await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(bed.parts("c-1").await, ["v1.34.2", "v1.33.4"]);
    bed.patch(&clusters, "c-1", hold(Value::Null)).await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.parts("c-1").await, ["v1.34.2", "v1.34.2"]);
}

/// A crash between the memory and the field loses nothing and writes nothing twice.
#[tokio::test(start_paused = true)]
async fn the_controller_may_crash_at_any_time() {
    let mut bed = Bed::without_controller(&NAMES, "v1.33.4").await;
    bed.settle().await;
    bed.upgrade("next", "v1.34.2", json!({"rollout": {"maxUnreadyClusters": 2}}))
        .await;
    for round in 0..40_u64 {
        bed.start();
        tokio::time::sleep(Duration::from_millis(700 + round * 131)).await;
        bed.crash();
    }
    bed.start();
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.topologies().await, ["v1.34.2"; 6]);
    assert_eq!(most_at_once(&bed, "v1.34.2"), 2);
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let bed = Bed::new(&NAMES[..2], "v1.34.2").await;
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until_state("next", "Succeeded").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = bed.changes("clusterupgrades").len();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(bed.changes("clusterupgrades").len(), before);
}

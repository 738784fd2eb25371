//! Ready=True of a StatefulSet of a rollout group: its own pods are at the new revision, and its ZoneRollout reports
//! that the zone is done.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    evidence::healthy,
    support::{Bed, kustomization, message, ready},
};

const SET: &str = "/apis/apps/v1/namespaces/default/statefulsets/db-a";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLLOUTS: &str = "/apis/fleet.muster.dev/v1alpha1/namespaces/default/zonerollouts";
const REPLICAS: u8 = 2;

fn set_yaml(image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db-a, namespace: default, labels: {{rollout-group: db}}}}\nspec:\n  \
         replicas: {REPLICAS}\n  serviceName: db\n  updateStrategy: {{type: OnDelete}}\n  selector: {{matchLabels: {{app: db}}}}\n  \
         template:\n    metadata: {{labels: {{app: db}}}}\n    spec: {{containers: [{{name: main, image: '{image}'}}]}}\n"
    )
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "zonerollouts.fleet.muster.dev"},
        "spec": {
            "group": "fleet.muster.dev", "scope": "Namespaced", "names": {"plural": "zonerollouts", "kind": "ZoneRollout"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// A cluster in which the test acts as the StatefulSet controller and as `muster zones`.
struct Cluster {
    bed: Bed,
    uid: String,
}

impl Cluster {
    /// Version 1 of the set is applied, its pods are Ready.
    async fn new(with_rollout: bool) -> Self {
        let bed = Bed::new();
        if with_rollout {
            bed.api.add([definition()]).unwrap();
        }
        bed.commit(&[("app/db.yaml", &set_yaml("v1"))]);
        bed.deploy(json!({"timeout": "2m"})).await;
        let set = bed.until(SET, |_| true).await;
        let uid = set["metadata"]["uid"].as_str().unwrap().to_owned();
        let cluster = Self { bed, uid };
        cluster.observe("r1", 1).await;
        for ordinal in 0..REPLICAS {
            cluster.replace(ordinal, "r1").await;
        }
        cluster
    }

    /// The StatefulSet controller observed the set. Its counts include pods of any revision: with OnDelete none is
    /// replaced.
    async fn observe(&self, revision: &str, generation: u8) {
        let status = json!({
            "observedGeneration": generation, "replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS,
            "currentRevision": "r1", "updateRevision": revision,
        });
        let path = format!("{SET}/status");
        self.bed.edit(&path, json!({ "status": status })).await;
    }

    /// A pod is deleted and re-created at this revision, Ready.
    async fn replace(&self, ordinal: u8, revision: &str) {
        let name = format!("db-a-{ordinal}");
        let path = format!("{PODS}/{name}");
        if self.bed.read(&path).await.is_some() {
            self.bed.delete(&format!("{path}?gracePeriodSeconds=0")).await;
        }
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db-a", "uid": self.uid, "controller": true});
        let pod = json!({
            "metadata": {
                "name": name, "labels": {"app": "db", "controller-revision-hash": revision}, "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        });
        self.bed.create(PODS, pod).await;
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let path = format!("{path}/status");
        self.bed
            .edit(&path, json!({"status": {"conditions": conditions}}))
            .await;
    }

    /// The entry of the set in the ZoneRollout of its group, with these additional status fields.
    async fn set_zone_rollout_status(&self, revision: &str, done: bool, more: Value) {
        let name = muster_api::names::zone_rollout_name("db");
        let path = format!("{ROLLOUTS}/{name}");
        if self.bed.read(&path).await.is_none() {
            let rollout = json!({
                "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout", "metadata": {"name": name}, "spec": {"group": "db"},
            });
            self.bed.create(ROLLOUTS, rollout).await;
        }
        let set = json!({"uid": self.uid, "updateRevision": revision, "done": done});
        let mut status = json!({"observedGeneration": 1, "sets": {"db-a": set}});
        status
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let path = format!("{path}/status");
        self.bed.edit(&path, json!({ "status": status })).await;
    }

    /// Version 2 is applied and observed; returns its commit.
    async fn second(&self) -> String {
        let commit = self.bed.commit(&[("app/db.yaml", &set_yaml("v2"))]);
        self.bed.fetch(&commit).await;
        self.bed
            .until(SET, |set| set["metadata"]["generation"] == 2)
            .await;
        self.observe("r2", 2).await;
        commit
    }

    /// Version 1 is confirmed by the ZoneRollout.
    async fn confirm_first(&self) {
        self.set_zone_rollout_status("r1", true, json!({})).await;
        self.bed.until_ready("app", "True ReconciliationSucceeded").await;
    }

    async fn ready(&self) -> String {
        ready(&self.bed.read(&kustomization("app")).await.unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_confirmed_by_its_pods_and_its_zone_rollout() {
    let cluster = Cluster::new(true).await;
    cluster.confirm_first().await;
    let second = cluster.second().await;
    cluster.bed.pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.ready().await, "Unknown Progressing", "no pod is at r2");
    cluster.replace(0, "r2").await;
    cluster.replace(1, "r2").await;
    cluster.bed.pass(Duration::from_secs(60)).await;
    assert_eq!(
        cluster.ready().await,
        "Unknown Progressing",
        "its zone is not done"
    );
    cluster.set_zone_rollout_status("r2", true, json!({})).await;
    let object = cluster.bed.until_at("app", &second).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn without_a_zone_rollout_its_pods_are_assumed_once_they_settled() {
    let cluster = Cluster::new(false).await;
    cluster
        .bed
        .until_ready("app", "True ReconciliationSucceeded")
        .await;
    let second = cluster.second().await;
    cluster.replace(0, "r2").await;
    cluster.replace(1, "r2").await;
    cluster.bed.pass(Duration::from_secs(28)).await;
    assert_eq!(cluster.ready().await, "Unknown Progressing");
    let object = cluster.bed.until_at("app", &second).await;
    assert_eq!(
        healthy(&object),
        "True Assumed: 1 object without evidence from its controller within 30s: StatefulSet/default/db-a (its rollout group has no ZoneRollout)"
    );
}

#[tokio::test(start_paused = true)]
async fn its_zone_rollout_gives_up_for_it() {
    let cluster = Cluster::new(true).await;
    let stalled = json!({"conditions": [
        {"type": "Stalled", "status": "True", "reason": "Condemned", "message": "no pod of db-a became Ready within 10m"}]});
    // About the previous revision.
    cluster.confirm_first().await;
    cluster
        .set_zone_rollout_status("r1", false, stalled.clone())
        .await;
    cluster.second().await;
    cluster.bed.pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.ready().await, "Unknown Progressing");
    cluster.set_zone_rollout_status("r2", false, stalled).await;
    let object = cluster.bed.until_ready("app", "False HealthCheckFailed").await;
    let name = muster_api::names::zone_rollout_name("db");
    let expect = format!("ZoneRollout {name}: no pod of db-a became Ready within 10m");
    assert!(message(&object, "Ready").contains(&expect), "{object:#}");
}

/// Its timeout is two minutes: each pod has this time, and the soak does not count.
#[tokio::test(start_paused = true)]
async fn a_slow_roll_is_not_condemned() {
    let cluster = Cluster::new(true).await;
    cluster.confirm_first().await;
    let second = cluster.second().await;
    for ordinal in 0..REPLICAS {
        cluster.bed.pass(Duration::from_secs(100)).await;
        cluster.replace(ordinal, "r2").await;
    }
    let soak = json!({"progress": {"done": 2, "total": 4, "waiting": "soak"}});
    cluster.set_zone_rollout_status("r2", false, soak).await;
    cluster.bed.pass(Duration::from_secs(1_800)).await;
    cluster
        .set_zone_rollout_status(
            "r2",
            true,
            json!({"progress": {"done": 2, "total": 2, "waiting": null}}),
        )
        .await;
    cluster.bed.until_at("app", &second).await;
    let history = cluster.bed.history("app");
    let failed = history.iter().any(|entry| entry.starts_with("False Health"));
    assert!(!failed, "{history:?}");
}

/// Like kstatus: with OnDelete nothing is waited for if no group shows that the pods are deleted by a controller.
#[tokio::test(start_paused = true)]
async fn a_set_of_no_group_is_as_it_was() {
    let bed = Bed::new();
    let yaml = set_yaml("v1").replace("rollout-group: db", "other: db");
    let commit = bed.commit(&[("app/db.yaml", &yaml)]);
    bed.deploy(json!({"timeout": "2m"})).await;
    bed.until_at("app", &commit).await;
}

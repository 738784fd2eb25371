//! Promise: a Cluster that cannot be changed, or would hang, is named with its reason, and not touched; the others
//! continue.

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use muster_api::cluster::Version;
use serde_json::{Value, json};

use crate::bed::{Bed, NS, classes};

const NAMES: [&str; 3] = ["c-1", "c-2", "c-3"];

/// All but the first get the version, and the first has this reason; returns its message.
async fn only_the_first_waits(bed: &Bed, reason: &str) -> String {
    let message = bed.until_why("next", "c-1", reason).await;
    bed.until("the others have it", || async {
        let all = bed.topologies().await;
        (all[1..].iter().all(|version| version == "v1.34.2")).then_some(())
    })
    .await;
    bed.until_why("next", "c-3", "UpToDate").await;
    assert_eq!(bed.topology("c-1").await, "v1.33.4");
    message
}

async fn create(bed: &Bed, cluster: &str, resource: &kube::core::ApiResource, object: Value) {
    let api: Api<kube::core::DynamicObject> =
        Api::namespaced_with(bed.clusters[cluster].client(), NS, resource);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_did_not_ask_is_left_alone() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let clusters = Version::V1Beta2.api_resource();
    bed.patch(
        &clusters,
        "c-1",
        json!({"metadata": {"annotations": {"fleet.muster.dev/upgrades": null}}}),
    )
    .await;
    bed.upgrade("next", "v1.34.2", json!({})).await;
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.topologies().await, ["v1.33.4", "v1.34.2", "v1.34.2"]);
    assert_eq!(bed.why("next", "c-1").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_another_manager_applies_is_not_taken() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let clusters = Version::V1Beta2.api_resource();
    let applied = json!({
        "apiVersion": clusters.api_version, "kind": "Cluster", "metadata": {"name": "c-1"},
        "spec": {"topology": {"version": "v1.33.4"}},
    });
    bed.objects(&clusters)
        .patch(
            "c-1",
            &PatchParams::apply("kustomize-controller").force(),
            &Patch::Apply(applied),
        )
        .await
        .unwrap();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = only_the_first_waits(&bed, "ManagedElsewhere").await;
    assert!(
        message
            .starts_with("spec.topology.version of Cluster c-1 is applied by kustomize-controller; next: "),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_minor_version_at_a_time_unless_the_class_plans_the_steps() {
    let bed = Bed::new(&NAMES[..1], "v1.32.1").await;
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = bed.until_why("next", "c-1", "VersionSkew").await;
    assert_eq!(
        message,
        "it is at v1.32.1, and v1.34.2 is more than one minor version away; next: upgrade it to v1.33 first"
    );
    assert_eq!(bed.topologies().await, ["v1.32.1"]);
    bed.make(
        &classes(),
        "class",
        json!({"spec": {"kubernetesVersions": ["v1.32.1", "v1.33.4", "v1.34.2"]}}),
    )
    .await;
    // Nothing of the Cluster changed: what it waits for is read again nevertheless.
    bed.until_state("next", "Succeeded").await;
    assert_eq!(bed.topologies().await, ["v1.34.2"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_upgrades_the_older_one_has_the_cluster() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    bed.upgrade(
        "first",
        "v1.33.9",
        json!({"selector": {"matchLabels": {"first": "yes"}}, "rollout": {"paused": true}}),
    )
    .await;
    let clusters = Version::V1Beta2.api_resource();
    bed.patch(
        &clusters,
        "c-1",
        json!({"metadata": {"labels": {"first": "yes"}}}),
    )
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = only_the_first_waits(&bed, "Conflict").await;
    assert!(message.contains("ClusterUpgrade first selects it"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_allows_nothing_is_waited_for() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let budgets = kube::core::ApiResource {
        group: "policy".to_owned(),
        version: "v1".to_owned(),
        api_version: "policy/v1".to_owned(),
        kind: "PodDisruptionBudget".to_owned(),
        plural: "poddisruptionbudgets".to_owned(),
    };
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db"}, "spec": {"minAvailable": 1}});
    create(&bed, "c-1", &budgets, budget).await;
    let api: Api<kube::core::DynamicObject> =
        Api::namespaced_with(bed.clusters["c-1"].client(), NS, &budgets);
    let status = |allowed: u32| json!({"status": {"disruptionsAllowed": allowed, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}});
    api.patch_status("db", &PatchParams::default(), &Patch::Merge(status(0)))
        .await
        .unwrap();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = only_the_first_waits(&bed, "DisruptionsBlocked").await;
    assert!(message.contains("fleet/db"), "{message}");
    api.patch_status("db", &PatchParams::default(), &Patch::Merge(status(1)))
        .await
        .unwrap();
    bed.until_state("next", "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_cannot_answer_is_waited_for() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let webhooks = kube::core::ApiResource {
        group: "admissionregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "admissionregistration.k8s.io/v1".to_owned(),
        kind: "ValidatingWebhookConfiguration".to_owned(),
        plural: "validatingwebhookconfigurations".to_owned(),
    };
    let webhook = json!({
        "apiVersion": webhooks.api_version, "kind": webhooks.kind, "metadata": {"name": "policy"},
        "webhooks": [{
            "name": "policy.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "policy", "namespace": "policy-system"}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}],
        }],
    });
    let api: Api<kube::core::DynamicObject> = Api::all_with(bed.clusters["c-1"].client(), &webhooks);
    api.create(&PostParams::default(), &serde_json::from_value(webhook).unwrap())
        .await
        .unwrap();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = only_the_first_waits(&bed, "WebhookUnavailable").await;
    assert!(
        message.contains("policy.example.com (Service policy-system/policy)"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_cluster_keeps_what_it_has() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let clusters = Version::V1Beta2.api_resource();
    let hold = r#"{"by":"ann","reason":"a migration"}"#;
    bed.patch(
        &clusters,
        "c-1",
        json!({"metadata": {"annotations": {"fleet.muster.dev/hold": hold}}}),
    )
    .await;
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = only_the_first_waits(&bed, "Held").await;
    assert!(message.contains("ann"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_freeze_stops_what_has_not_begun() {
    let bed = Bed::new(&NAMES, "v1.33.4").await;
    let window = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "RolloutWindow", "metadata": {"name": "freeze"},
        "spec": {"selector": {}, "deny": [{}], "message": "inventory"},
    });
    let windows: Api<muster_api::RolloutWindow> = Api::namespaced(bed.management.client(), NS);
    windows
        .create(&PostParams::default(), &serde_json::from_value(window).unwrap())
        .await
        .unwrap();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    let message = bed.until_why("next", "c-1", "WindowClosed").await;
    assert!(message.contains("freeze"), "{message}");
    assert_eq!(bed.topologies().await, ["v1.33.4"; 3]);
    windows
        .delete("freeze", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    bed.until_state("next", "Succeeded").await;
}

/// While Cluster API has not reported on a Cluster yet, or changes it for another reason, there is no basis for a
/// change: it takes its turn afterwards, and no slot before.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_settled_waits() {
    let mut bed = Bed::without_controller(&NAMES, "v1.33.4").await;
    bed.stuck.lock().extend(NAMES.map(str::to_owned));
    bed.start();
    bed.upgrade("next", "v1.34.2", json!({})).await;
    tokio::time::sleep(std::time::Duration::from_mins(3)).await;
    assert_eq!(bed.topologies().await, ["v1.33.4"; 3]);
    bed.until_why("next", "c-1", "RollingOut").await;
    // The others are settled, and take their turns.
    bed.stuck.lock().retain(|name| name == "c-1");
    only_the_first_waits(&bed, "RollingOut").await;
    bed.stuck.lock().clear();
    bed.until_state("next", "Succeeded").await;
}

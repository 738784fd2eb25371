//! Promise: unannounced events are reported by name, lose nothing, and are recovered from automatically: restarted
//! servers, expired or replaced certificates, webhooks, manual changes of Flux's objects, older CRDs.

use std::time::Duration;

use axum::{Json, Router, routing::post};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::SignedDuration;
use muster_api::labels::SYSTEM_NAMESPACE;
use muster_real::Certificate;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, Quality, manifests, workload},
    git_server::{Door, WebServer},
};

/// Five failures in a row, a probe in between, and the start of a server, on a machine that is also busy otherwise.
const SOON: Duration = Duration::from_mins(2);
/// Enough time for two writers in conflict to write many times.
const STILL: Duration = Duration::from_secs(20);

/// The API servers of the changing cluster and of the management cluster are restarted during a rollout.
pub async fn servers_restart(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    bed.restart_server(Some("eu-1")).await;
    bed.restart_server(None).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, SOON).await;
    for cluster in CLUSTERS {
        assert_eq!(bed.version_in(cluster, "web").await.as_deref(), Some(&*version));
    }
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
}

/// Clocks of API servers are an hour ahead and an hour behind: nothing depends on them.
pub async fn clocks_are_wrong(ground: Ground) {
    let mut bed = Bed::new(ground).await;
    for (name, hours) in [("ahead", 1), ("behind", -1), ("right", 0)] {
        bed.join_with_clock(name, SignedDuration::from_hours(hours)).await;
    }
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Bad).await;
    bed.until_reason("web", "Failed", SOON).await;
    assert_eq!(bed.order(&workload("web"), &version), ["ahead"]);
    let version = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(
        bed.order(&workload("web"), &version),
        ["ahead", "behind", "right"]
    );
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
}

/// A cluster's certificate expires, then is replaced by one of another authority: the cluster is unreachable for a
/// reason that says so, and is updated as soon as the authority is trusted.
pub async fn certificates(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;

    bed.show_certificate("eu-1", Certificate::Expired).await;
    bed.until_named("web", "eu-1", "Unreachable", &["expired"], SOON)
        .await;
    bed.show_certificate("eu-1", Certificate::Good).await;
    bed.until_not_named("web", "eu-1", SOON).await;

    let trusting = bed.show_certificate("eu-1", Certificate::Foreign).await;
    bed.until_named("web", "eu-1", "Unreachable", &["certificate"], SOON)
        .await;
    bed.give_kubeconfig("eu-1", &trusting).await;
    bed.until_not_named("web", "eu-1", SOON).await;

    bed.show_certificate("eu-1", Certificate::Good).await;
    bed.give_kubeconfig("eu-1", &bed.kubeconfig("eu-1")).await;
    bed.until_not_named("web", "eu-1", SOON).await;
    assert_eq!(bed.marks("web").await, before);
    // The cluster's own controllers have to reconnect as well; this is not a fault of the version.
    let patient = manifests("web", "web-v2", Quality::Good)
        .replace("progressDeadlineSeconds: 3", "progressDeadlineSeconds: 600");
    bed.commit_version("web", &patient, "web-v2");
    bed.target("web", "web-v2").await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v2", SOON).await;
}

/// A webhook of a cluster is down, then denies, then mutates: muster waits, reports, and does not fight it.
pub async fn webhooks(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.deploy(&["web"]).await;
    let server = WebServer::start(
        Router::new()
            .route("/deny", post(deny))
            .route("/change", post(change)),
        Door::Tls,
    )
    .await;
    let authority = STANDARD.encode(server.ca_pem());

    let down = webhook("Validating", "https://127.0.0.1:9/", &authority);
    bed.administer("eu-1", &down).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    // The source is waited for first.
    let is_waiting = |state: &Value| state["class"] == "Infra" && message_contains(state, "webhook");
    let state = until_state(&bed, is_waiting).await;
    assert_eq!(state["state"], "updating", "{state}");

    let denying = webhook("Validating", &format!("{}/deny", server.origin()), &authority);
    bed.administer("eu-1", &denying).await;
    let state = until_state(&bed, |state| state["class"] == "Revision").await;
    assert!(message_contains(&state, "not on Sundays"), "{state}");
    let nothing = json!({"webhooks": []});
    let hooks = bed.inside("eu-1", "");
    hooks
        .patch(kinds::VALIDATING_WEBHOOK, "surprise", nothing.clone())
        .await;
    bed.until_ready_within(kinds::MODULE, "web", &version, SOON).await;

    let changing = webhook("Mutating", &format!("{}/change", server.origin()), &authority);
    bed.administer("eu-1", &changing).await;
    let version = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, SOON).await;
    let config = || async {
        bed.inside("eu-1", APPS)
            .get(kinds::CONFIG_MAP, "web")
            .await
            .unwrap()
    };
    let changed = config().await;
    assert_eq!(changed["metadata"]["annotations"]["changed"], "by a webhook");
    ask_all(&bed, "eu-1").await;
    bed.pass(STILL).await;
    let (now, version) = (config().await, "resourceVersion");
    assert_eq!(
        now["metadata"][version], changed["metadata"][version],
        "there are no conflicting writes"
    );
}

/// A Kustomization that a user suspended is on hold, reported as such, until it is resumed.
pub async fn suspended_by_hand(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.deploy(&["web"]).await;
    let system = bed.inside("eu-1", SYSTEM_NAMESPACE);
    let name = crate::bed::name_of(&system.list(kinds::KUSTOMIZATION).await[0]).to_owned();
    let suspend = |suspended| json!({"spec": {"suspend": suspended}});
    system.patch(kinds::KUSTOMIZATION, &name, suspend(true)).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let state = until_state(&bed, |state| state["reason"] == "Held").await;
    assert!(message_contains(&state, "kubectl-edit"), "{state}");
    bed.pass(STILL).await;
    assert_eq!(bed.version_in("eu-1", "web").await.as_deref(), Some("web-v1"));
    system.patch(kinds::KUSTOMIZATION, &name, suspend(false)).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, SOON).await;
}

/// Flux's kind disappears from a cluster, then returns in an older version, without a field that muster sets: this is
/// reported, and not written repeatedly.
pub async fn definitions_of_flux(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    let definitions = bed.inside("eu-1", "");
    let name = "kustomizations.kustomize.toolkit.fluxcd.io";
    let whole = definitions.get(kinds::DEFINITION, name).await.unwrap();
    definitions.delete(kinds::DEFINITION, name).await;
    let check = async || {
        definitions
            .get(kinds::DEFINITION, name)
            .await
            .map_or(Ok(()), |left| Err(left["status"].to_string()))
    };
    bed.wait_until("the kind is gone", SOON, check).await;
    let state = until_state(&bed, |state| state["state"] != "succeeded").await;
    println!("without the kind: {state}");

    let mut older = json!({"metadata": {"name": name}, "spec": whole["spec"]});
    for version in older["spec"]["versions"].as_array_mut().unwrap() {
        let spec = version
            .pointer_mut("/schema/openAPIV3Schema/properties/spec")
            .unwrap();
        // muster's own CRD has every field of Flux's.
        spec.as_object_mut()
            .unwrap()
            .remove("x-kubernetes-preserve-unknown-fields");
        spec["properties"]
            .as_object_mut()
            .unwrap()
            .remove("deletionPolicy");
    }
    definitions.create(kinds::DEFINITION, older).await;
    let state = until_state(&bed, |state| message_contains(state, "deletionPolicy")).await;
    println!("with an older kind: {state}");
    let began = Instant::now();
    bed.pass(STILL).await;
    let writes: Vec<String> = bed.writes_since(began);
    let writes: Vec<&String> = writes
        .iter()
        .filter(|write| write.contains("kustomizations"))
        .collect();
    assert!(writes.len() <= 3, "{writes:#?}");

    definitions
        .apply(
            kinds::DEFINITION,
            json!({"metadata": {"name": name}, "spec": whole["spec"]}),
        )
        .await;
    bed.until_ready_within(kinds::MODULE, "web", "web-v1", SOON).await;
    assert_eq!(bed.marks("web").await, before);
}

/// Waits until eu-1 reports something about its only row.
async fn until_state(bed: &Bed, holds: impl Fn(&Value) -> bool) -> Value {
    let check = async || {
        let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-1").await.unwrap();
        let state = proxy["status"]["syncs"][0].clone();
        if holds(&state) {
            Ok(state)
        } else {
            Err(proxy["status"].to_string())
        }
    };
    bed.wait_until("the row says so", SOON, check).await.1
}

fn message_contains(state: &Value, word: &str) -> bool {
    state["message"]
        .as_str()
        .is_some_and(|message| message.contains(word))
}

/// `flux reconcile` of all Kustomizations of a cluster.
async fn ask_all(bed: &Bed, cluster: &str) {
    let system = bed.inside(cluster, SYSTEM_NAMESPACE);
    let now = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
    for kustomization in system.list(kinds::KUSTOMIZATION).await {
        system
            .patch(
                kinds::KUSTOMIZATION,
                crate::bed::name_of(&kustomization),
                now.clone(),
            )
            .await;
    }
}

/// A webhook about ConfigMaps of applications.
fn webhook(kind: &str, url: &str, authority: &str) -> String {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "surprise"},
        "webhooks": [{
            "name": "surprise.example.com", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 2,
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": authority},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": APPS}},
        }],
    })
    .to_string()
}

async fn deny(Json(review): Json<Value>) -> Json<Value> {
    answer(
        &review,
        json!({"allowed": false, "status": {"code": 403, "message": "not on Sundays"}}),
    )
}

async fn change(Json(review): Json<Value>) -> Json<Value> {
    let annotations = &review["request"]["object"]["metadata"]["annotations"];
    let mut patch = Vec::new();
    if annotations.is_null() {
        patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    patch.push(json!({"op": "add", "path": "/metadata/annotations/changed", "value": "by a webhook"}));
    let patch = STANDARD.encode(json!(patch).to_string());
    answer(
        &review,
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}),
    )
}

fn answer(review: &Value, mut response: Value) -> Json<Value> {
    response["uid"] = review["request"]["uid"].clone();
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

//! Fields that are not meant for the server do no harm, and have the same result as with kubectl and Flux.

use std::sync::Arc;

use muster_sync::apply::ApplyOutcome;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Bed, config_map, hooked, pass, secret, widget, widget_definition};

const SECRET: &str = "/api/v1/namespaces/default/secrets/s";

#[tokio::test(start_paused = true)]
async fn left_overs_of_an_export_do_no_harm() {
    let bed = Bed::new();
    let mut exported = config_map("a", &json!({"k": "v"}));
    exported["metadata"]["resourceVersion"] = json!("1");
    exported["metadata"]["uid"] = json!("5a5a");
    exported["metadata"]["creationTimestamp"] = json!(null);
    exported["metadata"]["managedFields"] = json!([]);
    exported["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    exported["status"] = json!({"phase": "Whatever"});
    bed.applied(&[exported.clone()]).await;
    let live = bed.read("/api/v1/namespaces/default/configmaps/a").await.unwrap();
    assert_eq!(live["metadata"].get("annotations"), None);
    assert_eq!(
        bed.applied(&[exported]).await["ConfigMap/default/a"],
        ApplyOutcome::Unchanged
    );
}

/// As in Flux, and unlike a field of the spec: a status is written by a controller.
#[tokio::test(start_paused = true)]
async fn a_status_is_never_applied() {
    let bed = Bed::new();
    let mut definition = widget_definition("Namespaced");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut exported = widget("w", 1);
    exported["status"] = json!({"ready": true});
    bed.applied(&[definition, exported]).await;
    let live = bed
        .read("/apis/example.org/v1/namespaces/default/widgets/w")
        .await
        .unwrap();
    assert_eq!(live.get("status"), None);
}

/// A key that is removed from `stringData` is removed from the Secret: kubectl does that with its annotation,
/// server-side apply would not.
#[tokio::test(start_paused = true)]
async fn string_data_is_data() {
    let bed = Bed::new();
    let mut both = secret("s", &json!({"a": "text", "b": "wins"}));
    both["data"] = json!({"b": "bG9zZXM=", "c": "c3RheXM="});
    bed.applied(&[both]).await;
    let data = async || bed.read(SECRET).await.unwrap()["data"].clone();
    assert_eq!(
        data().await,
        json!({"a": "dGV4dA==", "b": "d2lucw==", "c": "c3RheXM="})
    );
    bed.applied(&[secret("s", &json!({"a": "text"}))]).await;
    assert_eq!(data().await, json!({"a": "dGV4dA=="}));
}

/// A real server tracks the owners of `stringData` and of `data` separately, so `stringData` is never sent.
#[tokio::test(start_paused = true)]
async fn string_data_is_not_sent() {
    let bed = Bed::new();
    let sent = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&sent);
    let client = hooked(bed.api.client(), move |request, client| {
        let kept = Arc::clone(&kept);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            kept.lock().push_str(&String::from_utf8_lossy(&body));
            pass(http::Request::from_parts(head, body.into()), client).await
        }
    });
    let bed = bed.through(client);
    bed.applied(&[secret("s", &json!({"a": "text"}))]).await;
    assert!(
        sent.lock().contains(r#""data":{"a":"dGV4dA=="}"#),
        "{}",
        sent.lock()
    );
    assert!(!sent.lock().contains("stringData"), "{}", sent.lock());
}

#[tokio::test(start_paused = true)]
async fn string_data_that_is_no_text_is_refused_by_the_server() {
    let bed = Bed::new();
    for bad in [json!({"port": 80}), json!(["text"]), json!("text")] {
        let error = bed.apply(&[secret("s", &bad)]).await.unwrap_err();
        assert!(
            error.to_string().starts_with("Secret/default/s apply failed ("),
            "{error}"
        );
    }
    assert_eq!(bed.read(SECRET).await, None);
}

fn converting(bundle: &str) -> Value {
    let mut definition = widget_definition("Namespaced");
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": bundle, "service": {"name": "webhook", "namespace": "default"}},
    }});
    definition
}

/// cert-manager's CRDs come with a placeholder that its injector fills in.
#[tokio::test(start_paused = true)]
async fn a_placeholder_for_a_ca_bundle_is_not_sent() {
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org";
    let certificate = rcgen::generate_simple_self_signed(["webhook".to_owned()])
        .unwrap()
        .cert
        .pem();
    let encode = |text: &str| base64_of(text);
    let real = encode(&certificate);
    let broken = encode("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n");
    for (bundle, expect) in [
        ("", None),
        ("Cg==", None),
        ("not base64", None),
        (broken.as_str(), None),
        (real.as_str(), Some(real.as_str())),
    ] {
        let bed = Bed::new();
        bed.applied(&[converting(bundle)]).await;
        let live = bed.read(PATH).await.unwrap();
        let sent = live.pointer("/spec/conversion/webhook/clientConfig/caBundle");
        assert_eq!(sent.and_then(Value::as_str), expect, "{bundle}");
        let injected = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": real}}}}});
        bed.edit_as("cainjector", PATH, injected).await;
        let outcomes = bed.applied(&[converting(bundle)]).await;
        let definition = outcomes["CustomResourceDefinition/widgets.example.org"];
        assert_eq!(definition, ApplyOutcome::Unchanged, "{bundle}");
    }
}

/// Admission webhooks have the same placeholders.
#[tokio::test(start_paused = true)]
async fn a_placeholder_in_a_webhook_is_not_sent() {
    const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/policy";
    let certificate = rcgen::generate_simple_self_signed(["webhook".to_owned()])
        .unwrap()
        .cert
        .pem();
    let real = base64_of(&certificate);
    let webhook = |bundle: &str| {
        json!({
            "name": "policy.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": bundle, "service": {"name": "webhook", "namespace": "default"}},
        })
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "policy"}, "webhooks": [webhook("Cg==")],
    });
    let bed = Bed::new();
    bed.applied(std::slice::from_ref(&configuration)).await;
    let injected = json!({"webhooks": [webhook(&real)]});
    bed.edit_as("cainjector", PATH, injected).await;
    bed.api.recorder().clear();
    let outcomes = bed.applied(&[configuration]).await;
    assert_eq!(
        outcomes["ValidatingWebhookConfiguration/policy"],
        ApplyOutcome::Unchanged
    );
    assert_eq!(bed.writes(), Vec::<String>::new());
    let live = bed.read(PATH).await.unwrap();
    assert_eq!(live["webhooks"][0]["clientConfig"]["caBundle"], real);
}

/// The rules of an aggregated role are written by the aggregation controller, whatever a manifest contains.
#[tokio::test(start_paused = true)]
async fn the_rules_of_an_aggregated_role_stay_as_they_are_filled_in() {
    const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/monitoring";
    let filled = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "monitoring"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"aggregate": "yes"}}]},
            "rules": rules,
        })
    };
    for declared in [
        json!([]),
        json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]),
    ] {
        let bed = Bed::new();
        bed.applied(&[role(declared.clone())]).await;
        let aggregated = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "monitoring"},
            "rules": filled,
        });
        bed.apply_as("clusterrole-aggregation-controller", PATH, &aggregated)
            .await;
        let before = bed.read(PATH).await.unwrap();
        bed.api.recorder().clear();
        let outcomes = bed.applied(&[role(declared.clone())]).await;
        assert_eq!(
            outcomes["ClusterRole/monitoring"],
            ApplyOutcome::Unchanged,
            "{declared}"
        );
        assert_eq!(bed.writes(), Vec::<String>::new(), "{declared}");
        assert_eq!(bed.read(PATH).await.unwrap(), before, "{declared}");
        assert_eq!(before["rules"], filled);
    }
}

/// A role without aggregation has the rules of its manifest.
#[tokio::test(start_paused = true)]
async fn the_rules_of_a_plain_role_are_put_back() {
    const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "aggregationRule": null, "rules": rules,
    });
    let bed = Bed::new();
    bed.applied(std::slice::from_ref(&role)).await;
    bed.edit_as("somebody", PATH, json!({"rules": []})).await;
    assert_eq!(
        bed.applied(&[role]).await["ClusterRole/reader"],
        ApplyOutcome::Configured
    );
    assert_eq!(bed.read(PATH).await.unwrap()["rules"], rules);
}

fn base64_of(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

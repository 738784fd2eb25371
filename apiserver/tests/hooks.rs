//! Webhooks without a socket: a resolver for Services, on paused time.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use muster_apiserver::{ApiServer, Endpoint, HookService};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;

fn configuration(policy: &str) -> ValidatingWebhookConfiguration {
    let configuration = json!({"metadata": {"name": "guard"}, "webhooks": [{
        "name": "guard.test.example", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": policy,
        "clientConfig": {"service": {"namespace": "system", "name": "guard", "path": "/guard"}}, "timeoutSeconds": 7,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    }]});
    serde_json::from_value(configuration).unwrap()
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// A webhook that records the paths of its requests, and denies the name `bad`; `slow` gets no response.
fn guard(paths: Arc<Mutex<Vec<String>>>) -> HookService {
    BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<Bytes>| {
        paths.lock().push(request.uri().to_string());
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let (uid, name) = (
            review["request"]["uid"].clone(),
            review["request"]["name"].clone(),
        );
        async move {
            if name == "slow" {
                std::future::pending::<()>().await;
            }
            let response = json!({"uid": uid, "allowed": name != "bad"});
            let review =
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
            Ok(http::Response::new(Bytes::from(review.to_string())))
        }
    }))
}

async fn configured(policy: &str) -> ApiServer {
    let api = ApiServer::in_process().unwrap();
    let all: Api<ValidatingWebhookConfiguration> = Api::all(api.client());
    all.create(&PostParams::default(), &configuration(policy))
        .await
        .unwrap();
    api
}

async fn refusal(api: &ApiServer, name: &str) -> Option<String> {
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let made = maps.create(&PostParams::default(), &map(name)).await;
    made.err().map(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_service_can_answer_in_process_on_paused_time() {
    let api = configured("Fail").await;
    let paths = Arc::new(Mutex::new(Vec::new()));
    let service = guard(paths.clone());
    api.resolve_services(move |port| {
        let is_it = (port.namespace.as_str(), port.name.as_str(), port.port) == ("system", "guard", 443);
        is_it.then(|| Endpoint::InProcess(service.clone()))
    });
    assert_eq!(refusal(&api, "good").await, None);
    let refused = refusal(&api, "bad").await.unwrap();
    assert!(
        refused.contains("\"guard.test.example\" denied the request"),
        "{refused}"
    );
    let url = "https://guard.system.svc:443/guard?timeout=7s";
    assert_eq!(*paths.lock(), [url, url]);
    let start = Instant::now();
    let refused = refusal(&api, "slow").await.unwrap();
    assert!(refused.contains("context deadline exceeded"), "{refused}");
    assert_eq!(start.elapsed().as_secs(), Duration::from_secs(7).as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_nothing_resolves_counts_by_the_failure_policy() {
    let open = configured("Ignore").await;
    assert_eq!(refusal(&open, "good").await, None);
    let closed = configured("Fail").await;
    let refused = refusal(&closed, "good").await.unwrap();
    assert!(refused.contains("service \"guard\" not found"), "{refused}");
    // The configuration can always be deleted.
    let all: Api<ValidatingWebhookConfiguration> = Api::all(closed.client());
    all.delete("guard", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(&closed, "good").await, None);
}

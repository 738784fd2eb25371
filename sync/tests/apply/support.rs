//! A cluster, and helpers to apply plans in it.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use muster_apiserver::{ApiServer, send};
use muster_sync::{
    apply::{
        self, Applied, ApplyError, ApplyOutcome, Cluster, Ledger, LedgerError, Options, Owner, Plan, Pruned,
    },
    inventory::Inventory,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;

/// The deadline of each call.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// An API server, and the ids recorded before objects were created in it.
pub(crate) struct Bed {
    pub api: ApiServer,
    pub cluster: Cluster,
    pub options: Options,
    pub ledger: Memory,
}

/// A ledger that records, or fails.
#[derive(Default)]
pub(crate) struct Memory {
    pub recorded: Mutex<Inventory>,
    pub refuses: Mutex<bool>,
}

#[async_trait]
impl Ledger for Memory {
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError> {
        if *self.refuses.lock() {
            return Err(LedgerError("no".into()));
        }
        let mut recorded = self.recorded.lock();
        *recorded = recorded.clone().merged(planned);
        Ok(())
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        let api = ApiServer::builder().event_log(true).seed(1).in_process().unwrap();
        Self {
            cluster: Cluster::new(api.client(), DEADLINE),
            api,
            options: Options {
                owner: Owner {
                    name: "app".into(),
                    namespace: "flux".into(),
                },
                target_namespace: None,
                force: false,
                timeout: Duration::from_secs(60),
            },
            ledger: Memory::default(),
        }
    }

    /// The same server, with another client.
    pub(crate) fn through(mut self, client: Client) -> Self {
        self.cluster = Cluster::new(client, DEADLINE);
        self
    }

    pub(crate) async fn plan(&self, manifests: &[Value]) -> Plan {
        apply::plan(&self.cluster, manifests.to_vec(), self.options.clone())
            .await
            .unwrap()
    }

    pub(crate) async fn apply(&self, manifests: &[Value]) -> Result<Applied, ApplyError> {
        let plan = self.plan(manifests).await;
        apply::run(&self.cluster, &plan, &self.ledger, &apply::Alone).await
    }

    /// Applies manifests that must succeed; returns the outcomes by object.
    pub(crate) async fn applied(&self, manifests: &[Value]) -> BTreeMap<String, ApplyOutcome> {
        let applied = self
            .apply(manifests)
            .await
            .unwrap_or_else(|error| panic!("refused: {error}"));
        applied
            .outcomes
            .into_iter()
            .map(|(id, outcome)| (id.to_string(), outcome))
            .collect()
    }

    /// Prunes the recorded objects that are not in the manifests.
    pub(crate) async fn prune(&self, manifests: &[Value]) -> Pruned {
        let wanted = self.plan(manifests).await.inventory();
        let unwanted = self.ledger.recorded.lock().pruned_by(&wanted);
        apply::prune(&self.cluster, &self.options.owner, &unwanted, &apply::Alone).await
    }

    /// Reads a path; `None` if it does not exist.
    pub(crate) async fn read(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until a path is gone: the server works on it in the background.
    pub(crate) async fn until_gone(&self, path: &str) {
        for _ in 0..1_000 {
            if self.read(path).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} is still there");
    }

    /// Sends a merge patch as kubectl does.
    pub(crate) async fn edit(&self, path: &str, patch: Value) {
        self.edit_as("kubectl-edit", path, patch).await;
    }

    /// Sends a merge patch as `manager`.
    pub(crate) async fn edit_as(&self, manager: &str, path: &str, patch: Value) {
        self.send("PATCH", &format!("{path}?fieldManager={manager}"), Some(patch))
            .await
            .unwrap();
    }

    /// Creates an object as `manager`.
    pub(crate) async fn create_as(&self, manager: &str, path: &str, object: &Value) {
        self.send(
            "POST",
            &format!("{path}?fieldManager={manager}"),
            Some(object.clone()),
        )
        .await
        .unwrap();
    }

    /// Applies an object as `manager`, with force; returns the result.
    pub(crate) async fn apply_as(&self, manager: &str, path: &str, object: &Value) -> Value {
        let request = http::Request::patch(format!("{path}?fieldManager={manager}&force=true"))
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(object.to_string().into_bytes());
        let client = self.api.client_as("somebody");
        client.request(request.unwrap()).await.unwrap()
    }

    /// The managers of an object with their operations, such as `kubectl-edit Update`.
    pub(crate) async fn managers(&self, path: &str) -> Vec<String> {
        let object = self.read(path).await.unwrap();
        let entries = object["metadata"]["managedFields"].as_array().cloned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = entries.unwrap_or_default();
        let named = entries
            .iter()
            .map(|entry| format!("{} {}", text(&entry["manager"]), text(&entry["operation"])));
        named.collect()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        send(&self.api.client_as("somebody"), method, path, body).await
    }

    /// The write requests of applying, as `<method> <path>`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.api.recorder().writes_of(|client| client != "somebody")
    }
}

/// The response of a hook.
pub(crate) type Answer = Result<http::Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// A client that passes each request to `hook`, which may send it, wait, write on its own, or never return.
pub(crate) fn hooked<F>(client: Client, hook: impl Fn(Request<Body>, Client) -> F + Send + 'static) -> Client
where
    F: Future<Output = Answer> + Send + 'static,
{
    let service = tower::service_fn(move |request| hook(request, client.clone()));
    Client::new(service, "default")
}

/// Sends a request unchanged.
pub(crate) async fn pass(request: Request<Body>, client: Client) -> Answer {
    let answer = client.send(request).await?;
    Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

/// A response whose JSON is changed in transit.
pub(crate) async fn altered(
    answer: http::Response<UnsyncBoxBody<Bytes, BoxError>>,
    alter: impl FnOnce(&mut Value),
) -> Answer {
    let (head, body) = answer.into_parts();
    let mut object: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    alter(&mut object);
    let body = http_body_util::Full::from(object.to_string());
    Ok(http::Response::from_parts(
        head,
        body.map_err(|never| match never {}).boxed_unsync(),
    ))
}

pub(crate) fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data})
}

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(crate) fn deployment(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

pub(crate) fn widget_definition(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": scope,
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
                }}},
            }],
        },
    })
}

pub(crate) fn widget(name: &str, size: i64) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size},
    })
}

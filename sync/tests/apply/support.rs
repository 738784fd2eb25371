//! A cluster, and plans carried out in it.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use muster_apiserver::ApiServer;
use muster_sync::{
    apply::{self, Applied, ApplyError, Cluster, Ledger, LedgerError, Options, Outcome, Owner, Plan, Pruned},
    inventory::Inventory,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// An API server, and what was recorded before objects were created in it.
pub struct Bed {
    pub api: ApiServer,
    pub cluster: Cluster,
    pub options: Options,
    pub ledger: Memory,
}

/// A ledger that remembers, or refuses.
#[derive(Default)]
pub struct Memory {
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
    pub fn new() -> Self {
        let api = ApiServer::builder().event_log(true).seed(1).in_process().unwrap();
        Self {
            cluster: Cluster::new(api.client(), Duration::from_secs(10)),
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

    pub async fn plan(&self, manifests: &[Value]) -> Plan {
        apply::plan(&self.cluster, manifests.to_vec(), self.options.clone())
            .await
            .unwrap()
    }

    pub async fn apply(&self, manifests: &[Value]) -> Result<Applied, ApplyError> {
        let plan = self.plan(manifests).await;
        apply::run(&self.cluster, &plan, &self.ledger).await
    }

    /// Applies what must be accepted; returns the outcomes by object.
    pub async fn applied(&self, manifests: &[Value]) -> BTreeMap<String, Outcome> {
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

    /// Prunes what is on record and not among the manifests.
    pub async fn prune(&self, manifests: &[Value]) -> Pruned {
        let wanted = self.plan(manifests).await.inventory();
        let unwanted = self.ledger.recorded.lock().pruned_by(&wanted);
        apply::prune(&self.cluster, &self.options.owner, &unwanted).await
    }

    /// Reads what a path serves; `None` if it is not there.
    pub async fn read(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until nothing is served at a path: the server works on it behind our back.
    pub async fn until_gone(&self, path: &str) {
        for _ in 0..1_000 {
            if self.read(path).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} is still there");
    }

    /// Merges a patch as somebody with kubectl.
    pub async fn edit(&self, path: &str, patch: Value) {
        self.send("PATCH", &format!("{path}?fieldManager=kubectl-edit"), Some(patch))
            .await
            .unwrap();
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.api
            .client_as("somebody")
            .request(request.body(body).unwrap())
            .await
    }

    /// The requests of applying that were writes, as `<method> <path>`.
    pub fn writes(&self) -> Vec<String> {
        let requests = self.api.recorder().requests();
        let ours = requests
            .iter()
            .filter(|request| request.is_write() && request.client != "somebody");
        ours.map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }
}

pub fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn deployment(name: &str, image: &str) -> Value {
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

pub fn widget_definition(scope: &str) -> Value {
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

pub fn widget(name: &str, size: i64) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size},
    })
}

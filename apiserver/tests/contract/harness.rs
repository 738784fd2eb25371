//! The server under test, requests to it, and helpers that wait for its controllers.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use muster_apiserver::player::Speeds;
use muster_apiserver::{ApiServer, Builder};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Timeout for the server's controllers. A real garbage collector discovers new kinds every 30 s.
const PATIENCE: Duration = Duration::from_mins(1);

/// One case: its server and its own namespace.
pub(crate) struct Cx {
    client: Client,
    /// Keeps an embedded server alive.
    _api: Option<ApiServer>,
    /// Unique among all cases; lower-case letters and digits.
    pub id: String,
    /// The namespace of the case.
    pub ns: String,
}

/// A case with widgets.
pub(crate) async fn widgets() -> (Cx, Kind) {
    let cx = Cx::new().await;
    let widgets = cx.widgets().await;
    (cx, widgets)
}

impl Cx {
    pub(crate) async fn new() -> Self {
        Self::on(ApiServer::builder()).await
    }

    /// A case that needs the controllers of workloads, a scheduler and nodes: simulated ones, or those of a real
    /// control plane with kwok.
    pub(crate) async fn with_workloads() -> Self {
        let speeds = Speeds {
            ready_after: Duration::from_millis(50),
            stop_after: Duration::from_millis(50),
            ..Speeds::default()
        };
        Self::on(ApiServer::builder().workloads(speeds)).await
    }

    async fn on(builder: Builder) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (api, client) = if let Ok(path) = std::env::var("MUSTER_CONTRACT_KUBECONFIG") {
            (None, real_client(&path).await)
        } else {
            let api = builder.in_process().unwrap();
            let client = api.client();
            (Some(api), client)
        };
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .subsec_nanos();
        let id = format!(
            "c{:x}x{nanos:x}x{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let cx = Self {
            client,
            _api: api,
            ns: id.clone(),
            id,
        };
        cx.post("/api/v1/namespaces", &json!({"metadata": {"name": cx.ns}}))
            .await
            .is(201);
        cx
    }

    /// The collection of this namespace for a core kind: `configmaps`.
    pub(crate) fn core(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.ns)
    }

    pub(crate) fn cm(&self) -> String {
        self.core("configmaps")
    }

    pub(crate) fn deployments(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments", self.ns)
    }

    pub(crate) fn stateful_sets(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/statefulsets", self.ns)
    }

    pub(crate) fn budgets(&self) -> String {
        format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", self.ns)
    }

    /// The object at `path`, once `holds` is true.
    pub(crate) async fn until_it(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let object = self.get(path).await.body;
            if holds(&object) {
                return object;
            }
            assert!(Instant::now() < deadline, "timed out: {what}: {object:#}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A new ConfigMap with data `k: v`.
    pub(crate) async fn new_cm(&self, name: &str) -> Value {
        self.post(
            &self.cm(),
            &json!({"metadata": {"name": name}, "data": {"k": "v"}}),
        )
        .await
        .is(201)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send(Method::GET, path, &[("accept", accept)], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(
            Method::POST,
            path,
            &[("content-type", "application/json")],
            Some(body.to_string()),
        )
        .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(
            Method::PUT,
            path,
            &[("content-type", "application/json")],
            Some(body.to_string()),
        )
        .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], None).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Reply {
        self.send(
            Method::DELETE,
            path,
            &[("content-type", "application/json")],
            Some(options.to_string()),
        )
        .await
    }

    pub(crate) async fn patch(&self, kind: &str, path: &str, body: &Value) -> Reply {
        self.send(
            Method::PATCH,
            path,
            &[("content-type", kind)],
            Some(body.to_string()),
        )
        .await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Reply {
        self.patch(MERGE, path, body).await
    }

    /// Server-side apply of `body` to `path` (which may have a query) by `manager`.
    pub(crate) async fn apply(&self, manager: &str, path: &str, body: &Value) -> Reply {
        let separator = if path.contains('?') { '&' } else { '?' };
        self.patch(APPLY, &format!("{path}{separator}fieldManager={manager}"), body)
            .await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Reply {
        send(&self.client, method, path, headers, body).await
    }

    /// A watch of `path` (`watch=1` is added to its query).
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let separator = if path.contains('?') { '&' } else { '?' };
        let request = Request::get(format!("{path}{separator}watch=1"))
            .body(Body::empty())
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        Watch {
            code: response.status().as_u16(),
            body: response.into_body(),
            buffer: Vec::new(),
        }
    }

    /// A CRD `widgets` in its own group, established, with a status subresource.
    pub(crate) async fn widgets(&self) -> Kind {
        self.crd("widgets", &widget_schema(), &json!({})).await
    }

    /// A CRD in its own group with this schema, established; `more` is merged into its only version.
    pub(crate) async fn crd(&self, plural: &str, schema: &Value, more: &Value) -> Kind {
        let kind = Kind::of(self, plural);
        let crd = kind.definition(schema, more);
        self.post(CRDS, &crd).await.is(201);
        self.until("the CRD is served", || async {
            self.get(&kind.path).await.code == 200
        })
        .await;
        kind
    }

    /// Waits until `check` is true.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, check: impl Fn() -> F) {
        let deadline = Instant::now() + PATIENCE;
        while !check().await {
            assert!(Instant::now() < deadline, "timed out after {PATIENCE:?}: {what}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the server's clock shows another second than when `object` was created: later writes get another
    /// time.
    pub(crate) async fn until_another_second(&self, object: &Value) {
        let made = &object["metadata"]["creationTimestamp"];
        let path = format!("{}?dryRun=All", self.cm());
        let probe = json!({"metadata": {"generateName": "clock-"}});
        self.until("the second is over", || async {
            self.post(&path, &probe).await.is(201)["metadata"]["creationTimestamp"] != *made
        })
        .await;
    }

    /// Waits until a real control plane has created the initial content of the namespace.
    pub(crate) async fn until_namespace_is_complete(&self) {
        if self._api.is_none() {
            let path = format!("{}/kube-root-ca.crt", self.cm());
            self.until("the namespace is complete", || async {
                self.get(&path).await.code == 200
            })
            .await;
        }
    }

    /// Waits until `path` is gone.
    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(&format!("{path} is gone"), || async {
            self.get(path).await.code == 404
        })
        .await;
    }
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<String>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Body::from(body.unwrap_or_default().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Reply {
        code: parts.status.as_u16(),
        headers: parts.headers,
        body,
        text,
    }
}

/// A custom kind of a case, and requests about its object `a`.
pub(crate) struct Kind {
    client: Client,
    pub group: String,
    pub plural: String,
    pub api_version: String,
    /// Path of the collection in the namespace of the case.
    pub path: String,
}

impl Kind {
    pub(crate) fn of(cx: &Cx, plural: &str) -> Self {
        let group = format!("{}.example", cx.id);
        let path = format!("/apis/{group}/v1/namespaces/{}/{plural}", cx.ns);
        Self {
            client: cx.client.clone(),
            api_version: format!("{group}/v1"),
            plural: plural.to_owned(),
            group,
            path,
        }
    }

    pub(crate) fn definition(&self, schema: &Value, more: &Value) -> Value {
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        });
        for (key, value) in more.as_object().unwrap() {
            version[key] = value.clone();
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"plural": self.plural, "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
                "versions": [version],
            },
        })
    }

    pub(crate) fn crd_path(&self) -> String {
        format!("{CRDS}/{}.{}", self.plural, self.group)
    }

    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Reply {
        let (headers, body) = ([("content-type", kind)], body.to_string());
        send(&self.client, method, path, &headers, Some(body)).await
    }

    /// Creates a widget with this spec.
    pub(crate) async fn post(&self, name: &str, spec: &Value) -> Reply {
        let body = self.object(name, spec);
        self.send(Method::POST, &self.path, "application/json", &body)
            .await
    }

    /// Server-side apply of widget `a` with this spec by `manager`.
    pub(crate) async fn apply(&self, manager: &str, spec: &Value) -> Reply {
        let path = format!("{}?fieldManager={manager}", self.at("a"));
        let body = self.object("a", spec);
        self.send(Method::PATCH, &path, APPLY, &body).await
    }

    /// A merge patch of widget `a`.
    pub(crate) async fn merge(&self, patch: &Value) -> Reply {
        self.send(Method::PATCH, &self.at("a"), MERGE, patch).await
    }

    /// Widget `a`.
    pub(crate) async fn get(&self) -> Reply {
        send(&self.client, Method::GET, &self.at("a"), &[], None).await
    }

    /// Deletes widget `a`.
    pub(crate) async fn delete(&self) -> Reply {
        send(&self.client, Method::DELETE, &self.at("a"), &[], None).await
    }

    /// A watch of all widgets from the version of `object` on.
    pub(crate) async fn watch_from(&self, cx: &Cx, object: &Value) -> Watch {
        cx.watch(&format!("{}?resourceVersion={}", self.path, rv(object)))
            .await
    }

    /// A widget with this spec.
    pub(crate) fn object(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": self.api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec})
    }
}

/// A schema with integers, patterns, rules, and one list or map of every type.
pub(crate) fn widget_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "num": {"type": "integer"},
                    "text": {"type": "string", "pattern": "^[a-z]+$"},
                    "flag": {"type": "boolean"},
                    "items": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"},
                        }},
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "order": {"type": "array", "items": {"type": "string"}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                },
                "x-kubernetes-validations": [
                    {"rule": "!has(self.num) || self.num <= 10", "message": "num must be at most 10"},
                    {"rule": "!has(oldSelf.text) || has(self.text) && self.text == oldSelf.text",
                     "message": "text is immutable", "reason": "FieldValueForbidden", "fieldPath": ".text"},
                ],
            },
            "status": {"type": "object", "properties": {"note": {"type": "string"}}},
        },
    })
}

/// A response.
pub(crate) struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    /// Null if the body is not JSON.
    pub body: Value,
    pub text: String,
}

impl Reply {
    /// The body, if the response has this code.
    #[track_caller]
    pub(crate) fn is(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.body
    }

    /// Checks a Status: code, reason, and a part of the message.
    #[track_caller]
    pub(crate) fn refuses(&self, code: u16, reason: &str, message: &str) -> &Self {
        assert_eq!((self.code, self.reason()), (code, reason), "{}", self.text);
        assert!(
            self.message().contains(message),
            "{:?} is not in {:?}",
            message,
            self.message()
        );
        self
    }

    /// Checks the causes of a Status, each as `REASON FIELD: MESSAGE`, in any order.
    #[track_caller]
    pub(crate) fn causes(&self, expect: &[&str]) {
        let mut expect = expect.to_vec();
        expect.sort_unstable();
        assert_eq!(self.all_causes(), expect);
    }

    /// The causes of a Status, each as `REASON FIELD: MESSAGE`, sorted.
    pub(crate) fn all_causes(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let mut causes: Vec<String> = causes
            .map(|cause| {
                let [reason, field, message] =
                    ["reason", "field", "message"].map(|key| cause[key].as_str().unwrap_or_default());
                format!("{reason} {field}: {message}")
            })
            .collect();
        causes.sort();
        causes
    }

    pub(crate) fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.headers
            .get_all("warning")
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    }
}

/// An open watch.
pub(crate) struct Watch {
    pub code: u16,
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = timeout(PATIENCE, self.body.frame())
                .await
                .expect("the watch is silent")?
                .unwrap();
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// The next event as `TYPE NAME`.
    pub(crate) async fn line(&mut self) -> String {
        match self.next().await {
            None => "END".to_owned(),
            Some(event) => format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap_or("-")
            ),
        }
    }

    /// The next `N` events as `TYPE NAME`.
    pub(crate) async fn lines<const N: usize>(&mut self) -> [String; N] {
        let mut lines = Vec::new();
        for _ in 0..N {
            lines.push(self.line().await);
        }
        lines.try_into().unwrap()
    }
}

pub(crate) fn rv(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap()
}

/// Names of the items of a list.
pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// `MANAGER OPERATION SUBRESOURCE FIELDS` of every managedFields entry, in order.
pub(crate) fn owners(object: &Value) -> Vec<String> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            let fields = sorted(&entry["fieldsV1"]);
            format!(
                "{} {} {} {fields}",
                text(entry, "manager"),
                text(entry, "operation"),
                text(entry, "subresource")
            )
        })
        .collect()
}

/// JSON with ordered keys.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", json!(key), sorted(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

async fn real_client(path: &str) -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    config.read_timeout = None;
    // The cases check every response themselves.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

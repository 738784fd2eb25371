//! Laws of the API server's patch handling: every patch gets a response; a rejected patch changes nothing; an accepted
//! one is stored as returned; and the identity of an object never changes.

use std::cell::RefCell;

use arbitrary::{Result, Unstructured};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::{json, patch};

/// Media types of patches, including one that does not exist.
const PATCHES: [&str; 5] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/x-patch",
];

/// The laws, for an object and a patch that are derived from the bytes.
pub fn check(bytes: &[u8]) {
    thread_local!(static BED: RefCell<Bed> = RefCell::new(Bed::new()));
    // Too few bytes for a patch: nothing to check.
    let _ = BED.with_borrow_mut(|bed| bed.check(&mut Unstructured::new(bytes)));
}

/// A server, and the number of objects created so far.
struct Bed {
    runtime: Runtime,
    api: ApiServer,
    made: usize,
}

/// The response of the server.
type Answer = (StatusCode, Value);

impl Bed {
    #[expect(clippy::expect_used, reason = "without a server there is nothing to judge")]
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let builder = ApiServer::builder().seed(1).history(8).log_limit(0);
        let builder = builder.with([definition()]);
        let api = runtime
            .block_on(async { builder.in_process() })
            .expect("a server");
        Self {
            runtime,
            api,
            made: 0,
        }
    }

    fn check(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        self.made += 1;
        let name = format!("o{}", self.made);
        let (directory, object) = KINDS[u.int_in_range(0..=KINDS.len() - 1)?];
        let mut object = object();
        object["metadata"] = json!({"name": name});
        let path = format!("{directory}/{name}");
        let (status, before) = self.call("POST", directory, "application/json", &object);
        assert!(status == StatusCode::CREATED, "{before}");
        let media_type = *u.choose(&PATCHES)?;
        let change = patch_of(u, media_type, &before)?;
        let query = *u.choose(&["", "?dryRun=All", "?fieldValidation=Strict", "/status"])?;
        let query = if media_type == PATCHES[3] {
            "?fieldManager=f&force=true"
        } else {
            query
        };
        let answer = self.call("PATCH", &format!("{path}{query}"), media_type, &change);
        let (_, after) = self.call("GET", &path, "", &Value::Null);
        assert_answer(&before, &change, &answer, &after, query == "?dryRun=All");
        self.remove(&path);
        Ok(())
    }

    /// Deletes an object, whatever finalizers it has by now.
    fn remove(&self, path: &str) {
        self.call(
            "PATCH",
            path,
            PATCHES[1],
            &json!({"metadata": {"finalizers": null}}),
        );
        self.call(
            "DELETE",
            path,
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        );
        let (status, left) = self.call("GET", path, "", &Value::Null);
        assert!(status == StatusCode::NOT_FOUND, "{left} is not gone");
    }

    #[expect(
        clippy::expect_used,
        reason = "a request of ours that cannot be made is a mistake here"
    )]
    fn call(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type);
        let request = request
            .body(Full::new(std::io::Cursor::new(body)))
            .expect("a request");
        self.runtime.block_on(async {
            let response = self.api.service().oneshot(request).await.expect("an answer");
            let status = response.status();
            let body = response
                .into_body()
                .collect()
                .await
                .expect("the whole answer")
                .to_bytes();
            // Lets the server's background tasks run: CRDs, garbage collection.
            tokio::task::yield_now().await;
            // A path that is not served returns a text page.
            let text = || Value::from(String::from_utf8_lossy(&body));
            (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
        })
    }
}

fn patch_of(u: &mut Unstructured<'_>, media_type: &str, object: &Value) -> Result<Value> {
    if u.ratio(1, 16)? {
        return json::value(u, true);
    }
    if media_type == PATCHES[0] {
        return Ok(json!(patch::operations(u, object)?));
    }
    let mut patch = json::object(u, media_type == PATCHES[2])?;
    if media_type == PATCHES[3] {
        for field in ["apiVersion", "kind"] {
            patch[field] = object[field].clone();
        }
        if !patch["metadata"].is_object() {
            patch["metadata"] = json!({});
        }
        patch["metadata"]["name"] = object["metadata"]["name"].clone();
    }
    Ok(patch)
}

fn assert_answer(before: &Value, patch: &Value, (status, body): &Answer, after: &Value, is_dry: bool) {
    // The real server, too, reports a body of a wrong type as an internal error; nothing else may be one.
    let wrong_type = body["message"]
        .as_str()
        .is_some_and(|message| message.starts_with("failed to create typed patch object"));
    assert!(
        !status.is_server_error() || wrong_type,
        "{patch} on {before}: {status} {body}"
    );
    if status.is_success() {
        for field in ["uid", "name", "namespace", "creationTimestamp"] {
            assert!(
                body["metadata"][field] == before["metadata"][field],
                "{patch} on {before} changes {field}: {body}"
            );
        }
        assert!(
            body["apiVersion"] == before["apiVersion"] && body["kind"] == before["kind"],
            "{body}"
        );
        assert!(
            is_dry || body == after,
            "{patch} on {before}: {body} is stored as {after}"
        );
    } else {
        assert!(
            body["kind"] == "Status" && body["code"] == status.as_u16(),
            "{patch}: {status} {body}"
        );
    }
    let unchanged = is_dry || !status.is_success();
    assert!(
        !unchanged || before == after,
        "{patch} is refused with {status}, and {before} is {after}"
    );
    let same_version = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"];
    assert!(same_version == (before == after), "{patch} on {before}: {after}");
}

/// The path of objects of a kind, and an initial object.
type Kind = (&'static str, fn() -> Value);

/// Built-in kinds with and without lists, and one custom kind.
const KINDS: [Kind; 3] = [
    ("/apis/apps/v1/namespaces/default/deployments", deployment),
    ("/apis/example.org/v1/namespaces/default/widgets", widget),
    ("/api/v1/namespaces/default/configmaps", config_map),
];

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [
                        {"name": "a", "image": "a", "ports": [{"containerPort": 80}], "env": [{"name": "a", "value": "b"}]},
                        {"name": "b", "image": "b"},
                    ],
                    "volumes": [{"name": "a", "emptyDir": {}}],
                },
            },
        },
    })
}

fn widget() -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "spec": {"name": "a", "replicas": 1, "ports": [{"name": "a", "value": 1}]}})
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})
}

/// A kind with a list by keys, a set, a default, unknown fields, and validation rules.
fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": "self.replicas <= 3 || self.name != 'a'"}, {"rule": "self.replicas >= oldSelf.replicas - 2"}],
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 10},
                    "replicas": {"type": "integer", "default": 1},
                    "key": {"x-kubernetes-int-or-string": true},
                    "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "ports": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "integer", "nullable": true}}},
                    },
                    "data": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

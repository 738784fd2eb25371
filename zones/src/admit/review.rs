//! AdmissionReview, version 1: parsing the request, and writing the answer.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The API group of AdmissionReview.
const GROUP: &str = "admission.k8s.io/";
/// Supported versions: both have the same fields.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The request from the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The uid of the review; empty if the API server set none.
    pub uid: String,
    /// Resource of the request, such as `statefulsets`.
    pub resource: String,
    /// Subresource, such as `scale`; empty for the resource itself.
    pub sub_resource: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
    /// The operation: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The object after the request.
    pub object: Option<Value>,
    /// The object before the request.
    pub old_object: Option<Value>,
}

/// A review: its API version, and the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// `admission.k8s.io/v1`; the answer has the same version.
    pub api_version: String,
    /// The request.
    pub request: Request,
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Message for the user of a denied request; may also be set if the request is allowed.
    pub message: Option<String>,
    /// HTTP status code of a denial; `None`: the API server's default, 403.
    pub code: Option<u16>,
    /// Warnings that kubectl prints.
    pub warnings: Vec<String>,
}

impl Response {
    /// Allowed, without a message.
    pub fn allow() -> Self {
        Self {
            allowed: true,
            ..Self::default()
        }
    }

    /// Allowed, with a warning.
    pub fn warn(warning: String) -> Self {
        Self {
            warnings: vec![warning],
            ..Self::allow()
        }
    }

    /// Denied, with the reason.
    pub fn deny(message: String) -> Self {
        Self {
            message: Some(message),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct RawReview {
    request: Option<RawRequest>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRequest {
    uid: Option<String>,
    resource: Option<RawResource>,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: Option<String>,
    dry_run: Option<bool>,
    object: Option<Value>,
    old_object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResource {
    resource: Option<String>,
}

impl Review {
    /// Parses a body. An error says why the body is not a review that can be answered.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err(missing("Kind", ""));
        }
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let body = String::from_utf8_lossy(body);
        if kind.is_empty() {
            return Err(missing("Kind", &body));
        }
        if api_version.is_empty() {
            return Err(missing("apiVersion", &body));
        }
        let version = api_version
            .strip_prefix(GROUP)
            .filter(|version| VERSIONS.contains(version));
        if version.is_none() || kind != "AdmissionReview" {
            return Err(format!(
                "no kind {kind:?} is registered for version {api_version:?}"
            ));
        }
        let raw = RawReview::deserialize(&value).map_err(|error| error.to_string())?;
        let request = raw.request.ok_or("the review has no request")?;
        Ok(Self {
            api_version: api_version.to_owned(),
            request: request.row(),
        })
    }

    /// The answer in the form that the API server reads.
    pub fn answer(&self, response: &Response) -> Value {
        let mut answer = json!({"uid": self.request.uid, "allowed": response.allowed});
        let mut status = Map::new();
        if let Some(message) = &response.message {
            status.insert("message".to_owned(), json!(message));
        }
        if let Some(code) = response.code {
            status.insert("code".to_owned(), json!(code));
        }
        if !status.is_empty() {
            answer["status"] = Value::Object(status);
        }
        if !response.warnings.is_empty() {
            answer["warnings"] = json!(response.warnings);
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": answer})
    }
}

impl RawRequest {
    fn row(self) -> Request {
        Request {
            uid: self.uid.unwrap_or_default(),
            resource: self
                .resource
                .and_then(|resource| resource.resource)
                .unwrap_or_default(),
            sub_resource: self.sub_resource.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            operation: self.operation.unwrap_or_default(),
            dry_run: self.dry_run.unwrap_or_default(),
            object: self.object.filter(|object| !object.is_null()),
            old_object: self.old_object.filter(|object| !object.is_null()),
        }
    }
}

/// The error text for an object without a kind or a version.
pub(super) fn missing(what: &str, body: &str) -> String {
    format!("Object '{what}' is missing in '{body}'")
}

//! Kubernetes `Status` bodies: errors with exactly the texts of the real server.

use serde_json::{Value, json};

use crate::schema::Cause;

/// An error response: an HTTP code and its body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code}: {message}", message = self.message())]
pub(crate) struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The response body.
    pub body: ErrorBody,
}

/// The body of an error response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ErrorBody {
    /// A `Status` object.
    Status(Box<Value>),
    /// Plain text, as for unknown paths.
    Text(&'static str),
}

/// A resource as written in messages: `configmaps` or `widgets.t.example`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
}

impl GroupResource {
    /// The resource `resource` of `group`.
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// The subject of an error, for `details`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// API group.
    pub group: &'a str,
    /// Resource (or kind, for `Invalid`).
    pub kind: &'a str,
    /// Object name.
    pub name: &'a str,
}

impl<'a> About<'a> {
    /// The object `name` of a resource.
    pub(crate) fn of(resource: &'a GroupResource, name: &'a str) -> Self {
        Self {
            group: &resource.group,
            kind: &resource.resource,
            name,
        }
    }

    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    fn details(&self, causes: &[Cause]) -> Value {
        let mut details = serde_json::Map::new();
        if !self.name.is_empty() {
            details.insert("name".into(), self.name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".into(), self.group.into());
        }
        if !self.kind.is_empty() {
            details.insert("kind".into(), self.kind.into());
        }
        if !causes.is_empty() {
            details.insert("causes".into(), causes.iter().map(cause).collect());
        }
        Value::Object(details)
    }
}

fn cause(cause: &Cause) -> Value {
    json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
}

/// A `Status` object with status Failure.
pub(crate) fn failure(code: u16, reason: &str, message: &str, details: Value) -> Value {
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code,
    });
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    if details.is_object() {
        body["details"] = details;
    }
    body
}

/// A `Status` object with status Success for a deleted object.
pub(crate) fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Value {
    let mut details = About::of(resource, name).details(&[]);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

impl ApiError {
    /// An error with a code, a reason (may be empty), a message and details (may be null).
    pub(crate) fn new(code: u16, reason: &str, message: &str, details: Value) -> Self {
        Self::of(code, failure(code, reason, message, details))
    }

    /// An error with this body.
    pub(crate) fn of(code: u16, status: Value) -> Self {
        Self {
            code,
            body: ErrorBody::Status(Box::new(status)),
        }
    }

    /// The message of the body.
    pub(crate) fn message(&self) -> &str {
        match &self.body {
            ErrorBody::Status(status) => status["message"].as_str().unwrap_or_default(),
            ErrorBody::Text(text) => text,
        }
    }

    /// The path is unknown: plain text, not a Status.
    pub(crate) fn no_such_path() -> Self {
        Self {
            code: 404,
            body: ErrorBody::Text("404 page not found\n"),
        }
    }

    /// The resource does not exist in a built-in group.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
            json!({}),
        )
    }

    /// The object does not exist.
    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        Self::new(404, "NotFound", &message, About::of(resource, name).details(&[]))
    }

    /// The same error with a prefix before the message.
    #[must_use]
    pub(crate) fn with_prefix(mut self, prefix: &str) -> Self {
        if let ErrorBody::Status(status) = &mut self.body {
            status["message"] = format!("{prefix}{}", status["message"].as_str().unwrap_or_default()).into();
        }
        self
    }

    /// The object already exists.
    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::new(
            409,
            "AlreadyExists",
            &message,
            About::of(resource, name).details(&[]),
        )
    }

    /// A precondition is not met.
    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", &message, About::of(resource, name).details(&[]))
    }

    /// The resourceVersion in the request is not the current one.
    pub(crate) fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Other managers own fields that an apply wants to change.
    pub(crate) fn apply_conflict(message: &str, causes: &[Cause]) -> Self {
        let about = About {
            group: "",
            kind: "",
            name: "",
        };
        Self::new(409, "Conflict", message, about.details(causes))
    }

    /// The object is invalid; `about.kind` is a kind here.
    pub(crate) fn invalid(about: About<'_>, causes: &[Cause]) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for cause in causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let summary = match lines.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{}\" is invalid: {summary}", about.qualified(), about.name);
        Self::new(422, "Invalid", &message, about.details(causes))
    }

    /// A well-formed request that is rejected as a whole (422 without causes).
    pub(crate) fn unprocessable(about: About<'_>) -> Self {
        let text = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", text, about.details(&[]))
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message, Value::Null)
    }

    /// Forbidden for this object.
    pub(crate) fn forbidden(resource: &GroupResource, name: &str, why: &str, causes: &[Cause]) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(
            403,
            "Forbidden",
            &message,
            About::of(resource, name).details(causes),
        )
    }

    /// No valid credentials.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", Value::Null)
    }

    /// The verb is not supported for this path.
    pub(crate) fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", text, json!({}))
    }

    /// No acceptable representation.
    pub(crate) fn not_acceptable(offered: &[&str]) -> Self {
        let text = format!(
            "only the following media types are accepted: {}",
            offered.join(", ")
        );
        Self::new(406, "NotAcceptable", &text, Value::Null)
    }

    /// The body's media type is not supported.
    pub(crate) fn unsupported_media_type(offered: &[&str]) -> Self {
        let text = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            offered.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", &text, Value::Null)
    }

    /// The body is larger than the limit.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::entity_too_large(&format!("Request entity too large: limit is {limit}"))
    }

    /// The body requests more than the server does at once.
    pub(crate) fn entity_too_large(message: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", message, Value::Null)
    }

    /// An internal error without a reason (as the real server returns for apply bodies of a wrong type).
    pub(crate) fn internal(message: &str) -> Self {
        Self::new(500, "", message, Value::Null)
    }

    /// An internal error with a reason, such as a webhook that does not respond.
    pub(crate) fn internal_error(message: &str) -> Self {
        let details = json!({"causes": [{"message": message}]});
        let message = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", &message, details)
    }

    /// The requested resource version is no longer available.
    pub(crate) fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message, Value::Null)
    }

    /// A watch that starts before the available history.
    pub(crate) fn too_old(wanted: u64, oldest: u64) -> Self {
        Self::expired(&format!("too old resource version: {wanted} ({oldest})"))
    }

    /// A resource version that does not exist yet.
    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        Self::new(504, "Timeout", &message, details)
    }
}

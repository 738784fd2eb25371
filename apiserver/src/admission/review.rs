//! AdmissionReview: the request to a webhook, and its valid responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attributes::{Attributes, View};
use crate::status::ApiError;
use crate::webhooks::Hook;

/// The API group of reviews.
const GROUP: &str = "admission.k8s.io";

/// The AdmissionReview version for a webhook: the first in its list that this server supports.
pub(super) fn review_version(hook: &Hook) -> Result<&str, String> {
    let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
    let version = hook.admission_review_versions.iter().find(known);
    version.map(String::as_str).ok_or_else(|| {
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            .to_owned()
    })
}

/// `request` of an AdmissionReview, without the objects.
pub(super) fn request(of: &Attributes<'_>, view: &View, uid: &str) -> Value {
    let resource = |version: &str| {
        let resource = of.resource;
        json!({"group": resource.group, "version": version, "resource": resource.plural})
    };
    let mut request = json!({
        "uid": uid, "kind": view.kind.json(), "resource": resource(&view.version),
        "requestKind": of.kind.json(), "requestResource": resource(&of.resource.version),
        "operation": of.operation.as_str(), "userInfo": of.user_info(), "dryRun": of.dry_run, "options": of.options,
    });
    for (field, text) in [
        ("name", of.name.as_str()),
        ("namespace", &of.namespace),
        ("subResource", of.subresource),
        ("requestSubResource", of.subresource),
    ] {
        if !text.is_empty() {
            request[field] = text.into();
        }
    }
    request
}

/// A complete AdmissionReview.
pub(super) fn question(mut request: Value, objects: (Option<Value>, Option<Value>), version: &str) -> Value {
    request["object"] = objects.0.unwrap_or_default(); // null, where there is none
    request["oldObject"] = objects.1.unwrap_or_default(); // null, where there is none
    json!({"kind": "AdmissionReview", "apiVersion": format!("{GROUP}/{version}"), "request": request})
}

/// Response of a webhook.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Answer {
    uid: String,
    pub allowed: bool,
    #[serde(rename = "status")]
    pub result: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    pub warnings: Vec<String>,
}

/// Parses the response to the request `uid`; the error tells why it is invalid.
pub(super) fn answer(text: &[u8], uid: &str, version: &str, is_mutating: bool) -> Result<Answer, String> {
    let review: Value = serde_json::from_slice(text).map_err(|error| {
        format!("failed to call webhook: couldn't get version/kind; json parse error: {error}")
    })?;
    let wrong = |what: String| Err(format!("received invalid webhook response: {what}"));
    if review["response"].is_null() {
        return wrong("webhook response was absent".to_owned());
    }
    let answer = Answer::deserialize(&review["response"])
        .map_err(|error| format!("failed to call webhook: json: cannot unmarshal the response: {error}"))?;
    if version != "v1" {
        return Ok(answer);
    }
    if answer.uid != uid {
        return wrong(format!("expected response.uid={uid:?}, got {:?}", answer.uid));
    }
    let text = |field: &str| review[field].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if kind != "AdmissionReview" || api_version != format!("{GROUP}/v1") {
        return wrong(format!(
            "expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        ));
    }
    let patch = answer.patch.as_deref().unwrap_or_default();
    match (is_mutating, patch.is_empty(), answer.patch_type.as_deref()) {
        (true, false, None) => wrong("webhook returned response.patch but not response.patchType".to_owned()),
        (true, true, Some(_)) => {
            wrong("webhook returned response.patchType but not response.patch".to_owned())
        }
        (true, false, Some("")) => wrong("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, false, _) => wrong("validating webhook may not return response.patch".to_owned()),
        (false, true, Some(_)) => wrong("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(answer),
    }
}

impl Answer {
    /// The operations of the JSON patch; `None` if there are none.
    pub(super) fn patch(&self) -> Result<Option<Value>, String> {
        let Some(patch) = self.patch.as_deref().filter(|patch| !patch.is_empty()) else {
            return Ok(None);
        };
        if let Some(other) = self.patch_type.as_deref().filter(|kind| *kind != "JSONPatch") {
            return Err(format!("unsupported patch type {other:?}"));
        }
        let undecodable = |error: String| format!("received undecodable patch in webhook response: {error}");
        let bytes = STANDARD
            .decode(patch)
            .map_err(|error| undecodable(error.to_string()))?;
        let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
        let is_empty = patch.as_array().is_some_and(Vec::is_empty);
        Ok((!is_empty).then_some(patch))
    }
}

/// The error for a denial by a webhook.
pub(super) fn denial(hook: &str, result: Option<Value>) -> ApiError {
    let mut status = result.filter(Value::is_object).unwrap_or_else(|| json!({})); // absent
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| *code >= 400).unwrap_or(400);
    let denied = format!("admission webhook {hook:?} denied the request");
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    let message = match (text("message"), text("reason")) {
        (Some(why), _) | (None, Some(why)) => format!("{denied}: {why}"),
        (None, None) => format!("{denied} without explanation"),
    };
    if text("status").is_none_or(|status| status == "Success") {
        status["status"] = "Failure".into();
    }
    status["kind"] = "Status".into();
    status["apiVersion"] = "v1".into();
    status["metadata"] = json!({});
    status["message"] = message.into();
    status["code"] = code.into();
    ApiError::of(code, status)
}

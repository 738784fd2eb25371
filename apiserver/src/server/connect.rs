//! `exec`, `attach` and `portforward` of pods: calls the webhooks, then fails, since there is no kubelet.

use serde_json::{Value, json};

use super::{Call, admit};
use crate::admission::{Operation, TypeName};
use crate::http::Verb;
use crate::status::ApiError;

/// Whether a subresource of pods is a connection to their containers.
pub(super) fn is_connection(subresource: &str) -> bool {
    kind(subresource).is_some()
}

/// Kind of the options in the query.
fn kind(subresource: &str) -> Option<&'static str> {
    match subresource {
        "attach" => Some("PodAttachOptions"),
        "exec" => Some("PodExecOptions"),
        "portforward" => Some("PodPortForwardOptions"),
        _ => None,
    }
}

/// The error for the connection.
pub(super) async fn refuse(call: &Call<'_>, verb: Verb) -> ApiError {
    if !matches!(verb, Verb::Get | Verb::Create) {
        return ApiError::method_not_allowed();
    }
    let kind = kind(&call.target.subresource).unwrap_or_default(); // it is a connection
    if let Err(refusal) = admitted(call, kind).await {
        return refusal;
    }
    let pod = match call.live() {
        Ok(pod) => pod.value(),
        Err(error) => return error,
    };
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        let name = &call.target.name;
        return ApiError::bad_request(&format!("pod {name} does not have a host assigned"));
    }
    ApiError::bad_request("Upgrade request required")
}

async fn admitted(call: &Call<'_>, kind: &str) -> Result<(), ApiError> {
    let Some(hooks) = call.core.webhooks.hooks(&call.core.store) else {
        return Ok(());
    };
    let mut attributes = admit::attributes(call, Operation::Connect, false, None);
    attributes.kind = TypeName {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    let mut attributes = attributes.about(&call.target.name, Some(options(call, kind)), None);
    hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
    hooks.validate(call.core, &attributes, &call.warnings).await
}

/// The options as an object.
fn options(call: &Call<'_>, kind: &str) -> Value {
    let query = call.query;
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    if kind == "PodPortForwardOptions" {
        let ports = query.all("ports").iter().flat_map(|ports| ports.split(','));
        let ports: Vec<i64> = ports.filter_map(|port| port.parse().ok()).collect(); // not a number: no port
        if !ports.is_empty() {
            options["ports"] = json!(ports);
        }
        return options;
    }
    for stream in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(stream).unwrap_or(false) {
            options[stream] = true.into();
        }
    }
    if !query.get("container").is_empty() {
        options["container"] = query.get("container").into();
    }
    if kind == "PodExecOptions" && !query.all("command").is_empty() {
        options["command"] = json!(query.all("command"));
    }
    options
}

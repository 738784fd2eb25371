//! Tables of calls to updaters.

use muster_machines::{ClientConfig, Level, Polled, can_answer, handlers, in_order, polled, url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("hook-client-call.json", "muster_machines::can_answer", call).without(&["responseCached"]),
    product(
        "hook-client-discovery.json",
        "muster_machines::handlers",
        discovery,
    ),
    product("hook-client-url.json", "muster_machines::url", location),
    product(
        "hook-update-machine-transport.json",
        "muster_machines::polled",
        transport,
    ),
    product("safer-handler-order.json", "muster_machines::in_order", order),
];

/// The hook that the client tables use.
const KNOWN: &[(&str, &str)] = &[("test.runtime.cluster.x-k8s.io/v1alpha1", "FakeHook")];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CallInput {
    #[serde(rename = "failurePolicy")]
    _failure_policy: Option<String>,
    server: bool,
    response_status: Option<String>,
    registered: bool,
    hook_matches_handler: bool,
}

fn call(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: CallInput = input.parse()?;
    let (group_version, hook) = KNOWN[0];
    let handler = json!({"name": "handler", "requestHook": {"apiVersion": group_version, "hook": hook}});
    let listed: Vec<Value> = given.registered.then_some(handler).into_iter().collect();
    let known = handlers(&json!({"handlers": listed}), KNOWN)?;
    let requested = if given.hook_matches_handler {
        hook
    } else {
        "AnotherHook"
    };
    let body = json!({"status": given.response_status.unwrap_or_default()}).to_string();
    let received = if given.server {
        Ok((200, body.as_bytes()))
    } else {
        Err("connection refused")
    };
    let is_known = known.iter().any(|handler| handler.hook == requested);
    let failed = !is_known || can_answer(Level::Machine, received).is_err();
    Ok(json!({"error": failed}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscoveryInput {
    response: Value,
}

fn discovery(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: DiscoveryInput = input.parse()?;
    Ok(json!({"valid": handlers(&given.response, KNOWN).is_ok()}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LocationInput {
    client_config: ClientConfig,
    group: String,
    version: String,
    hook: String,
    handler: Option<String>,
}

fn location(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: LocationInput = input.parse()?;
    let group_version = format!("{}/{}", given.group, given.version);
    let uri = url(
        &given.client_config,
        &group_version,
        &given.hook,
        given.handler.as_deref(),
    );
    Ok(match uri {
        Ok(uri) => json!({
            "scheme": uri.scheme_str(),
            "host": uri.authority().map(ToString::to_string),
            "path": uri.path(),
        }),
        Err(_) => json!({"error": true}),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransportInput {
    #[serde(default)]
    body: String,
    #[serde(default)]
    status: u16,
    #[serde(rename = "location")]
    _location: Option<String>,
    server: Option<String>,
}

/// Regardless of the handler's failure policy.
fn transport(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: TransportInput = input.parse()?;
    let received = match &given.server {
        Some(problem) => Err(problem.as_str()),
        None => Ok((given.status, given.body.as_bytes())),
    };
    let outcome = match polled(received) {
        Polled::Done { .. } => json!({"outcome": "completed", "retryAfterSeconds": 0}),
        Polled::InProgress { after, .. } => json!({"outcome": "inProgress", "retryAfterSeconds": after}),
        Polled::Failed { .. } => json!({"outcome": "failed"}),
    };
    Ok(json!({"Fail": outcome, "Ignore": outcome}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderInput {
    handlers: Vec<String>,
}

fn order(input: &Input<'_>) -> anyhow::Result<Value> {
    let mut given: OrderInput = input.parse()?;
    in_order(&mut given.handlers, |handler| (0, handler));
    Ok(json!({"order": given.handlers}))
}

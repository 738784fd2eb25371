//! The scale subresource: the number of replicas of any kind, through one API.

use serde_json::{Value, json};

use super::options::{Options, Tracking, options};
use super::{Call, admit, change, decode, patch, respond};
use crate::admission::{Operation, TypeName};
use crate::core::{Live, RACES};
use crate::http::Body;
use crate::http::Verb;
use crate::meta;
use crate::resources::{Scale, versions};
use crate::schema::Changed;
use crate::status::ApiError;
use crate::store::Object;
use crate::webhooks::Hooks;

pub(super) async fn serve_scale(call: &Call<'_>, verb: Verb) -> Result<http::Response<Body>, ApiError> {
    let scale = call
        .resource
        .scale
        .as_ref()
        .ok_or_else(ApiError::no_such_resource)?;
    let object = match verb {
        Verb::Get => call.live()?,
        Verb::Update | Verb::Patch => change(call, scale, verb).await?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    respond::formatted(call, 200, &scale_object(&object.value(), scale))
}

async fn change(call: &Call<'_>, scale: &Scale, verb: Verb) -> Result<Object, ApiError> {
    let options = options(call)?;
    let body = decode::decode_object("application/json", &call.body)?.value;
    for _ in 0..RACES {
        let live = Live::read(&call.core.store, call.live()?);
        let before = scale_object(&live.value, scale);
        let wanted = if verb == Verb::Update {
            body.clone()
        } else {
            let kind = merge_kind(decode::essence(&call.content_type));
            patch::patched(&call.resource, kind, &before, &body)?
        };
        let new = match call.core.webhooks.hooks(&call.core.store) {
            Some(hooks) => admitted(call, scale, &options, &hooks, &live, wanted).await?,
            None => scaled(call, scale, &options, &live, &wanted)?,
        };
        if let Some(object) = change::commit(call, &options, &live, new, None) {
            return Ok(object);
        }
    }
    Err(ApiError::modified(&call.group_resource(), &call.target.name))
}

/// The stored object with the replicas of `wanted`, a Scale.
fn scaled(
    call: &Call<'_>,
    scale: &Scale,
    options: &Options,
    live: &Live,
    wanted: &Value,
) -> Result<Value, ApiError> {
    let version = meta::resource_version(wanted);
    if !version.is_empty() && version != meta::resource_version(&live.value) {
        return Err(ApiError::modified(&call.group_resource(), &call.target.name));
    }
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default(); // absent counts as 0 in this type
    let mut new = versions::presented(&call.resource, Value::clone(&live.value));
    if let Some(slot) = slot_mut(&mut new, &scale.spec) {
        *slot = replicas.into();
    }
    // The subresource writes the main object; ownership is tracked under the subresource's name.
    change::prepared(call, options, live, new, Tracking::Update, &Changed::Whole)
}

/// The change after the webhooks, which get a Scale.
async fn admitted(
    call: &Call<'_>,
    scale: &Scale,
    options: &Options,
    hooks: &Hooks,
    live: &Live,
    wanted: Value,
) -> Result<Value, ApiError> {
    let mut attributes = admit::attributes(call, Operation::Update, options.dry_run, None);
    attributes.kind = TypeName {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
    };
    let before = scale_object(&live.value, scale);
    let mut attributes = attributes.about(&call.target.name, Some(wanted), Some(before));
    hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
    let wanted = attributes.object.take().unwrap_or_default(); // the caller passed it
    let new = scaled(call, scale, options, live, &wanted)?;
    attributes.object = Some(scale_object(&new, scale));
    hooks.validate(call.core, &attributes, &call.warnings).await?;
    Ok(new)
}

fn merge_kind(kind: &str) -> &str {
    if kind == "application/json-patch+json" {
        kind
    } else {
        "application/merge-patch+json"
    }
}

fn scale_object(value: &Value, scale: &Scale) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(text) = value["metadata"].get(field) {
            metadata[field] = text.clone();
        }
    }
    let mut shown = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(value, &scale.spec)}, "status": {"replicas": number(value, &scale.status)},
    });
    if let Some(selector) = scale
        .selector
        .as_ref()
        .and_then(|path| selector_text(at(value, path)))
    {
        shown["status"]["selector"] = selector.into();
    }
    shown
}

fn number(value: &Value, path: &str) -> i64 {
    at(value, path).as_i64().unwrap_or_default() // not set yet: none
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.')
        .split('.')
        .fold(value, |value, part| &value[part])
}

fn slot_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut slot = value;
    for part in path.trim_start_matches('.').split('.') {
        if slot.is_null() {
            *slot = json!({});
        }
        slot = slot.as_object_mut()?.entry(part).or_insert(Value::Null);
    }
    Some(slot)
}

/// A selector as text, from text, a LabelSelector, or a plain map.
fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let pairs: Vec<String> = labels
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    Some(pairs.join(","))
}

//! Sends a write through the admission webhooks.

use serde_json::{Value, json};

use super::Call;
use super::options::{Options, Tracking};
use super::query::FieldValidation;
use super::shape::shape;
use crate::admission::{Attributes, Operation, Remake, TypeName};
use crate::kinds::defaults;
use crate::lifecycle::metadata;
use crate::schema::Changed;
use crate::status::ApiError;

/// The request for webhooks, without objects. `remake` decodes an object that a webhook has changed; without it the
/// object is used unchanged.
pub(super) fn attributes<'a>(
    call: &'a Call<'_>,
    operation: Operation,
    dry_run: bool,
    remake: Option<Remake<'a>>,
) -> Attributes<'a> {
    let target = call.target;
    let namespace = if call.resource.is("", "Namespace") {
        &target.name
    } else {
        &target.namespace
    };
    Attributes {
        operation,
        resource: &call.resource,
        kind: TypeName::of(&call.resource),
        subresource: &target.subresource,
        namespace: namespace.clone(),
        name: target.name.clone(),
        object: None,
        old: None,
        options: options(call, operation),
        dry_run,
        user: &call.caller.client,
        remake,
    }
}

/// `CreateOptions` or `UpdateOptions` from the query. Deletions have their own.
fn options(call: &Call<'_>, operation: Operation) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete | Operation::Connect => return Value::Null,
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for field in ["fieldManager", "fieldValidation"] {
        let value = call.query.get(field);
        if !value.is_empty() {
            options[field] = value.into();
        }
    }
    if !call.query.get("dryRun").is_empty() {
        options["dryRun"] = json!([call.query.get("dryRun")]);
    }
    options
}

/// Decodes an object of the resource like a request body, ignoring unknown fields.
pub(super) fn remade(
    call: &Call<'_>,
    options: &Options,
    tracking: Tracking,
    mut object: Value,
) -> Result<Value, ApiError> {
    metadata::clean(&mut object)?;
    let lenient = Options {
        validation: FieldValidation::Ignore,
        ..options.clone()
    };
    shape(
        &call.resource,
        &lenient,
        &mut object,
        &Changed::Whole,
        &[],
        tracking,
    )?;
    defaults::fill(&call.resource, &mut object);
    Ok(object)
}

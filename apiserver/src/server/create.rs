//! Creation.

use serde_json::Value;

use super::decode::{self, Decoded};
use super::identity::identify;
use super::options::{Options, Tracking, options, update_options};
use super::shape::{normalize_applied, problems, refuse_invalid, refuse_too_deep, shape};
use super::{Call, admit, respond};
use crate::admission::Operation;
use crate::apply::track_update;
use crate::http::Body;
use crate::kinds::defaults;
use crate::lifecycle::metadata;
use crate::meta;
use crate::resources::{names, versions};
use crate::schema::{Cause, Changed};
use crate::status::{ApiError, GroupResource};
use crate::store::{Object, ObjectKey, Stored, Write};
use crate::webhooks::Hooks;

/// Result of a write: the code and the warnings.
pub(super) struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
}

pub(super) async fn create(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    if !call.target.subresource.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let options = options(call)?;
    let decoded = decode::decode_object(&call.content_type, &call.body)?;
    let (object, answer) = create_object(call, &options, decoded, Tracking::Update).await?;
    Ok(respond::with_warnings(
        respond::respond_object(call, answer.code, &object)?,
        &answer.warnings,
    ))
}

/// Creates an object. An apply of an absent object also uses it, with its managers already tracked.
pub(super) async fn create_object(
    call: &Call<'_>,
    options: &Options,
    decoded: Decoded,
    mut tracking: Tracking,
) -> Result<(Object, Answer), ApiError> {
    let Decoded {
        value: mut object,
        duplicates,
    } = decoded;
    let resource = &*call.resource;
    identify(call, &mut object)?;
    let name = match (meta::name(&object), meta::metadata_text(&object, "generateName")) {
        ("", base) if !base.is_empty() => metadata::generated_name(base, &call.core.name_suffix()),
        (name, _) => name.to_owned(),
    };
    admit_creation(call, &name)?;
    if !meta::resource_version(&object).is_empty() {
        if tracking == Tracking::Update {
            return Err(ApiError::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        meta::set_metadata(&mut object, "resourceVersion", Value::Null);
    }
    let mut warnings = shape(
        resource,
        options,
        &mut object,
        &Changed::Whole,
        &duplicates,
        tracking,
    )?;
    warnings.extend(resource.custom().and_then(|custom| custom.deprecation.clone()));
    let hooks = call.core.webhooks.hooks(&call.core.store);
    if let Some(hooks) = &hooks {
        object = mutated_creation(call, options, hooks, object, tracking).await?;
        if tracking == Tracking::Update {
            tracking = Tracking::Done;
        }
    }
    meta::set_metadata(&mut object, "name", name.clone().into());
    metadata::set_initial_metadata(&mut object, resource, call.core.uid(), &options.now);
    if resource.status
        && !resource.is("", "Node")
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    defaults::fill(resource, &mut object);
    defaults::set_initial_fields(resource, &mut object, call.core);
    let mut causes = names::check(resource, &object);
    causes.extend(problems(resource, &object, None, &Changed::Whole, false));
    refuse_invalid(resource, &object, &causes)?;
    if tracking == Tracking::Applied {
        normalize_applied(resource, None, &mut object);
    }
    if tracking == Tracking::Update {
        track_update(
            None,
            &mut object,
            resource.type_ref(),
            &update_options(call, options, &resource.api_version(), &Changed::Whole),
        );
    }
    if let Some(hooks) = &hooks {
        let attributes = admit::attributes(call, Operation::Create, options.dry_run, None);
        let attributes = attributes.about(&name, Some(object.clone()), None);
        hooks.validate(call.core, &attributes, &call.warnings).await?;
    }
    versions::to_stored(resource, &mut object);
    refuse_too_deep(&object)?;
    let answer = Answer { code: 201, warnings };
    let key = ObjectKey::new(meta::namespace(&object), &name);
    if let Some(there) = call.core.store.get(&resource.storage, &key) {
        let error = ApiError::already_exists(&call.group_resource(), &name);
        return Err(if there.is_terminating() {
            error.with_prefix("object is being deleted: ")
        } else {
            error
        });
    }
    if options.dry_run {
        return Ok((Stored::unsaved(&object), answer));
    }
    let object = call
        .core
        .store
        .commit(&resource.storage, &key, None, &Write::Put(object))
        .map_err(|_| ApiError::already_exists(&call.group_resource(), &name))?;
    Ok((object, answer))
}

/// The new object after the mutating webhooks; its managers are tracked before.
async fn mutated_creation(
    call: &Call<'_>,
    options: &Options,
    hooks: &Hooks,
    mut object: Value,
    tracking: Tracking,
) -> Result<Value, ApiError> {
    let resource = &*call.resource;
    defaults::fill(resource, &mut object);
    if tracking == Tracking::Update {
        let api_version = resource.api_version();
        let how = update_options(call, options, &api_version, &Changed::Whole);
        track_update(None, &mut object, resource.type_ref(), &how);
    }
    let remake = |object| admit::remade(call, options, tracking, object);
    let attributes = admit::attributes(call, Operation::Create, options.dry_run, Some(&remake));
    let name = meta::name(&object).to_owned();
    let mut attributes = attributes.about(&name, Some(object), None);
    hooks.mutate(call.core, &mut attributes, &call.warnings).await?;
    let mut object = attributes.object.take().unwrap_or_default(); // the caller passed it
    identify(call, &mut object)?;
    Ok(object)
}

/// Whether the object can be created: its namespace and its definition must not be terminating.
fn admit_creation(call: &Call<'_>, name: &str) -> Result<(), ApiError> {
    let resource = &call.resource;
    if resource.namespaced {
        let namespace = &call.target.namespace;
        if namespace.is_empty() {
            return Err(ApiError::bad_request(
                "an empty namespace may not be set during creation",
            ));
        }
        let namespaces = GroupResource::new("", "namespaces");
        let Some(found) = call.core.store.get(&namespaces, &ObjectKey::new("", namespace)) else {
            return Err(ApiError::not_found(&namespaces, namespace));
        };
        if found.is_terminating() {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let message = format!("namespace {namespace} is being terminated");
            let cause = Cause::new("NamespaceTerminating", "metadata.namespace", message);
            return Err(ApiError::forbidden(&call.group_resource(), name, &why, &[cause]));
        }
    }
    if resource.custom().is_some_and(|custom| custom.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&call.group_resource(), name, why, &[]));
    }
    Ok(())
}

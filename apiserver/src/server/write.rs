//! Create, update and patch: the way of an object from the request into the store.
//!
//! decode ─► identity (name, namespace, kind) ─► shape (prune, default) ─► [mutating webhooks] ─► carry over what the client may not
//! set ─► validate ─► track managers ─► [validating webhooks] ─► commit (or, for a dry run, not)
//!
//! Where a webhook may change the object, managers are tracked before it does: what a webhook changes belongs to no manager.

use serde_json::{Value, json};

use super::decode::{self, Decoded};
use super::intake::Body;
use super::query::FieldValidation;
use super::shape::{problems, refuse_invalid, settle, shape};
use super::{Call, admit, apply_patch, change, respond};
use crate::admission::{Hooks, Operation};
use crate::apply::{UpdateOptions, track_update};
use crate::lifecycle::metadata;
use crate::meta;
use crate::patch::{self, PatchError};
use crate::resources::{Resource, Typing, defaults, names};
use crate::schema::Cause;
use crate::status::{About, ApiError, GroupResource};
use crate::store::{Object, ObjectKey, Stored, Write};

/// How a write is to be done.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    pub now: String,
}

/// Who keeps track of the managers of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    /// Whoever writes owns what changes.
    Update,
    /// An apply has done it already.
    Applied,
    /// It was done before webhooks changed the object.
    Done,
}

type Response = Result<http::Response<Body>, ApiError>;

/// What a write answers: the code, and whether it is warned about.
pub(super) struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
}

pub(super) fn options(call: &Call<'_>) -> Result<Options, ApiError> {
    let named = call.query.get("fieldManager");
    let agent = call.caller.agent.split('/').next().unwrap_or_default();
    let manager = match (named, agent) {
        ("", "") => "unknown",
        ("", agent) => agent,
        (named, _) => named,
    };
    Ok(Options {
        dry_run: call.query.dry_run()?,
        validation: call.query.field_validation()?,
        manager: manager.to_owned(),
        now: call.core.clock.stamp(),
    })
}

pub(super) async fn create(call: &Call<'_>) -> Response {
    if !call.target.subresource.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let options = options(call)?;
    let decoded = decode::object(&call.content_type, &call.body)?;
    let (object, answer) = create_object(call, &options, decoded, Tracking::Update).await?;
    Ok(respond::with_warnings(
        respond::object(call, answer.code, &object)?,
        &answer.warnings,
    ))
}

/// Makes a new object. An apply of an absent object comes here too, its managers tracked already.
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
    let name = match (meta::name(&object), meta::text(&object, "generateName")) {
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
        meta::set(&mut object, "resourceVersion", Value::Null);
    }
    let mut warnings = shape(resource, options, &mut object, &duplicates, tracking)?;
    warnings.extend(resource.custom().and_then(|custom| custom.deprecation.clone()));
    let hooks = call.core.admission.hooks(&call.core.store);
    if let Some(hooks) = &hooks {
        object = mutated_creation(call, options, hooks, object, tracking).await?;
        if tracking == Tracking::Update {
            tracking = Tracking::Done;
        }
    }
    meta::set(&mut object, "name", name.clone().into());
    metadata::begin(&mut object, resource, call.core.uid(), &options.now);
    if resource.status
        && !resource.is("", "Node")
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    defaults::fill(resource, &mut object);
    defaults::begin(resource, &mut object, call.core);
    let mut causes = names::check(resource, &object);
    causes.extend(problems(resource, &object, None, false));
    refuse_invalid(resource, &object, &causes)?;
    if tracking == Tracking::Applied {
        settle(resource, None, &mut object);
    }
    if tracking == Tracking::Update {
        track_update(
            None,
            &mut object,
            resource.type_ref(),
            &update_options(call, options, &resource.api_version()),
        );
    }
    if let Some(hooks) = &hooks {
        let asked = admit::attributes(call, Operation::Create, options.dry_run, None);
        let asked = asked.about(&name, Some(object.clone()), None);
        hooks.validate(call.core, &asked, &call.warnings).await?;
    }
    respond::to_stored(resource, &mut object);
    refuse_too_deep(&object)?;
    let answer = Answer { code: 201, warnings };
    let key = ObjectKey::new(meta::namespace(&object), &name);
    if let Some(there) = call.core.store.get(&resource.storage, &key) {
        let error = ApiError::already_exists(&call.named(), &name);
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
        .map_err(|_| ApiError::already_exists(&call.named(), &name))?;
    Ok((object, answer))
}

/// What the mutating webhooks make of a new object; its managers are tracked before.
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
        let how = update_options(call, options, &api_version);
        track_update(None, &mut object, resource.type_ref(), &how);
    }
    let remake = |object| admit::remade(call, options, tracking, object);
    let asked = admit::attributes(call, Operation::Create, options.dry_run, Some(&remake));
    let name = meta::name(&object).to_owned();
    let mut asked = asked.about(&name, Some(object), None);
    hooks.mutate(call.core, &mut asked, &call.warnings).await?;
    let mut object = asked.object.take().unwrap_or_default(); // it was given
    identify(call, &mut object)?;
    Ok(object)
}

pub(super) fn update_options<'a>(
    call: &'a Call<'_>,
    options: &'a Options,
    api_version: &'a str,
) -> UpdateOptions<'a> {
    let subresource = call.target.subresource.as_str();
    UpdateOptions {
        manager: &options.manager,
        subresource: (!subresource.is_empty()).then_some(subresource),
        has_status: call.resource.status,
        api_version,
        now: &options.now,
    }
}

/// Checks that the object is what the path says, and completes it.
pub(super) fn identify(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if !object.is_object() {
        return Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: the body is not an object",
        ));
    }
    // A body for a built-in kind may leave out its kind, as typed clients do.
    let may_be_absent = matches!(resource.typing, Typing::Builtin(_));
    if kind.is_empty() && !may_be_absent {
        return Err(ApiError::bad_request(&format!(
            "Object 'Kind' is missing in '{object}'"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(&format!(
            "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered for this path",
            resource.version, resource.kind
        )));
    }
    if !api_version.is_empty() && api_version != resource.api_version() {
        return Err(ApiError::bad_request(&format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    metadata::clean(object)?;
    let namespace = meta::namespace(object);
    if resource.namespaced && !namespace.is_empty() && namespace != call.target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let name = meta::name(object);
    if !call.target.name.is_empty() && !name.is_empty() && name != call.target.name {
        return Err(ApiError::bad_request(&format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    object["kind"] = resource.kind.clone().into();
    object["apiVersion"] = resource.api_version().into();
    let namespace = if resource.namespaced {
        call.target.namespace.as_str().into()
    } else {
        Value::Null
    };
    meta::set(object, "namespace", namespace);
    if !call.target.name.is_empty() {
        meta::set(object, "name", call.target.name.clone().into());
    }
    Ok(())
}

/// Whether a new object may come to be here: its namespace and its definition are there to stay.
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
            return Err(ApiError::forbidden(&call.named(), name, &why, &[cause]));
        }
    }
    if resource.custom().is_some_and(|custom| custom.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&call.named(), name, why, &[]));
    }
    Ok(())
}

/// Kinds that an update makes if they are not there.
fn creates_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("", "Endpoints" | "Event" | "LimitRange" | "Service")
            | ("coordination.k8s.io", "Lease")
            | ("rbac.authorization.k8s.io", _)
            | ("node.k8s.io", "RuntimeClass")
    )
}

pub(super) async fn update(call: &Call<'_>) -> Response {
    let options = options(call)?;
    let decoded = decode::object(&call.content_type, &call.body)?;
    let key = call.key();
    if creates_on_update(&call.resource) && call.core.store.get(&call.resource.storage, &key).is_none() {
        let (object, answer) = create_object(call, &options, decoded, Tracking::Update).await?;
        return Ok(respond::with_warnings(
            respond::object(call, answer.code, &object)?,
            &answer.warnings,
        ));
    }
    let mut body = decoded.value;
    identify(call, &mut body)?;
    let mut warnings = Vec::new();
    let object = change::change(call, &options, Tracking::Update, |live| {
        let version = meta::resource_version(&body);
        if version.is_empty() && call.resource.custom().is_some() {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            refuse_invalid(&call.resource, &body, &[cause])?;
        }
        let uid = meta::uid(&body);
        if !uid.is_empty() && uid != meta::uid(&live.value) {
            let current = meta::uid(&live.value);
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {current}");
            return Err(ApiError::conflict(&call.named(), &key.name, &why));
        }
        let mut new = body.clone();
        warnings = shape(
            &call.resource,
            &options,
            &mut new,
            &decoded.duplicates,
            Tracking::Update,
        )?;
        Ok(new)
    });
    let object = object.await?;
    Ok(respond::with_warnings(
        respond::object(call, 200, &object)?,
        &warnings,
    ))
}

pub(super) async fn patch(call: &Call<'_>) -> Response {
    let kind = decode::essence(&call.content_type);
    let mut options = options(call)?;
    match kind {
        "application/apply-patch+yaml" => return apply_patch::apply(call, &mut options).await,
        "application/json-patch+json" | "application/merge-patch+json" => {}
        "application/strategic-merge-patch+json" if call.resource.custom().is_none() => {}
        _ => return Err(ApiError::unsupported_media_type(&patch_types(&call.resource))),
    }
    if call.query.flag("force").is_some() {
        let text = "may not be specified for non-apply patch";
        return Err(super::query::options_error(Cause::forbidden("force", text)));
    }
    let decoded = decode::json(&call.body)?;
    let mut warnings = Vec::new();
    let object = change::change(call, &options, Tracking::Update, |live| {
        let shown = respond::shown(&call.resource, &live.value);
        let mut new = patched(&call.resource, kind, &shown, &decoded.value)?;
        identify(call, &mut new)?;
        warnings = shape(
            &call.resource,
            &options,
            &mut new,
            &decoded.duplicates,
            Tracking::Update,
        )?;
        Ok(new)
    });
    let object = object.await?;
    Ok(respond::with_warnings(
        respond::object(call, 200, &object)?,
        &warnings,
    ))
}

fn patch_types(resource: &Resource) -> Vec<&'static str> {
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
    if resource.custom().is_none() {
        types.push("application/strategic-merge-patch+json");
    }
    types.push("application/apply-patch+yaml");
    types
}

pub(super) fn patched(
    resource: &Resource,
    kind: &str,
    shown: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    let result = match (kind, &resource.typing) {
        ("application/json-patch+json", _) => patch::json(shown, patch),
        ("application/strategic-merge-patch+json", Typing::Builtin(Some(name))) => {
            patch::strategic(shown, patch, name)
        }
        _ => patch::merge(shown, patch),
    };
    result.map_err(|error| match error {
        PatchError::Malformed(message) => ApiError::bad_request(&message),
        error @ PatchError::TooMany(_) => ApiError::entity_too_large(&error.to_string()),
        PatchError::Rejected => ApiError::unprocessable(About {
            group: "",
            kind: "",
            name: "",
        }),
    })
}

/// Refuses what could not be read again: the managers of fields that are nested deeply are nested deeper still.
pub(super) fn refuse_too_deep(object: &Value) -> Result<(), ApiError> {
    let depth = meta::depth(object);
    if depth > meta::MAX_DEPTH {
        return Err(ApiError::bad_request(&format!(
            "the object, with its managed fields, is nested {depth} levels deep: the maximum is {}",
            meta::MAX_DEPTH
        )));
    }
    Ok(())
}

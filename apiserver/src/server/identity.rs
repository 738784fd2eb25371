//! Checks that an object matches the path.

use serde_json::Value;

use super::Call;
use crate::lifecycle::metadata;
use crate::meta;
use crate::resources::Typing;
use crate::status::ApiError;

/// Checks that the object matches the path, and completes it.
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
    meta::set_metadata(object, "namespace", namespace);
    if !call.target.name.is_empty() {
        meta::set_metadata(object, "name", call.target.name.clone().into());
    }
    Ok(())
}

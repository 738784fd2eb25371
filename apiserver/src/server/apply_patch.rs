//! Server-side apply.

use super::decode::{self, Decoded};
use super::intake::Body;
use super::write::{self, Options, Tracking};
use super::{Call, Step, respond, shape};
use crate::apply::{ApplyError, ApplyOptions, apply as merge};
use crate::lifecycle::metadata;
use crate::meta;
use crate::schema::Cause;
use crate::status::ApiError;

pub(super) fn apply(call: &Call<'_>, options: &mut Options) -> Result<http::Response<Body>, ApiError> {
    options.manager = required_manager(call)?;
    let decoded = decode::yaml(&call.body)?;
    let api_version = call.resource.api_version();
    let subresource = call.target.subresource.as_str();
    let how = ApplyOptions {
        manager: &options.manager,
        force: call.query.flag("force").unwrap_or(false),
        subresource: (!subresource.is_empty()).then_some(subresource),
        has_status: call.resource.status,
        api_version: &api_version,
        now: &options.now,
    };
    let mut warnings = Vec::new();
    let mut code = 200;
    let applied = &decoded.value;
    let outcome = call.core.replace(&call.resource.storage, &call.key(), |live| {
        let Some(live) = live else {
            let made = create(call, options, &how, applied);
            if made.is_err() && call.live().is_ok() {
                return Ok(Step::Again); // somebody else made it meanwhile: apply to that
            }
            let (object, answer) = made?;
            (code, warnings) = (answer.code, answer.warnings);
            return Ok(Step::Keep(object, ()));
        };
        let shown = respond::presented(&call.resource, live.value.clone());
        let version = meta::resource_version(applied);
        if !version.is_empty() && version != meta::resource_version(&shown) {
            return Err(ApiError::modified(&call.named(), &call.target.name));
        }
        let mut new = merge(Some(&shown), applied, call.resource.type_ref(), &how).map_err(refused)?;
        metadata::clean(&mut new)?;
        warnings = shape::shape(
            &call.resource,
            options,
            &mut new,
            &decoded.duplicates,
            Tracking::Applied,
        )?;
        write::finish(call, options, live, new, Tracking::Applied)
    });
    let (object, ()) = outcome?;
    Ok(respond::with_warnings(
        respond::object(call, code, &object)?,
        &warnings,
    ))
}

fn required_manager(call: &Call<'_>) -> Result<String, ApiError> {
    let manager = call.query.get("fieldManager");
    if manager.is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(super::query::options_error(cause));
    }
    Ok(manager.to_owned())
}

/// Applies to an object that is not there.
fn create(
    call: &Call<'_>,
    options: &Options,
    how: &ApplyOptions<'_>,
    applied: &serde_json::Value,
) -> Result<(crate::store::Object, write::Answer), ApiError> {
    if !call.target.subresource.is_empty() {
        return Err(call.not_found());
    }
    let uid = meta::uid(applied);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(&call.named(), &call.target.name, &why));
    }
    let value = merge(None, applied, call.resource.type_ref(), how).map_err(refused)?;
    write::create_object(
        call,
        options,
        Decoded {
            value,
            duplicates: Vec::new(),
        },
        Tracking::Applied,
    )
}

fn refused(error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflict { message, causes } => ApiError::apply_conflict(&message, &causes),
        ApplyError::Typed(message) => ApiError::internal(&message),
        ApplyError::BadRequest(message) => ApiError::bad_request(&message),
    }
}

//! Server-side apply.

use serde_json::Value;

use super::create;
use super::decode::{self, Decoded};
use super::options::{Options, Tracking};
use super::{Call, change, respond, shape};
use crate::apply::{ApplyError, ApplyOptions, apply as merge};
use crate::core::{Live, RACES};
use crate::http::Body;
use crate::lifecycle::metadata;
use crate::meta;
use crate::resources::versions;
use crate::schema::{Cause, Changed};
use crate::status::ApiError;
use crate::store::Object;

pub(super) async fn serve_apply(
    call: &Call<'_>,
    options: &mut Options,
) -> Result<http::Response<Body>, ApiError> {
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
    for _ in 0..RACES {
        if call.live().is_err() {
            match create(call, options, &how, &decoded.value).await {
                // Another client created it in the meantime: apply to that.
                Err(_) if call.live().is_ok() => {}
                made => {
                    let (object, answer) = made?;
                    return answered(call, answer.code, &object, &answer.warnings);
                }
            }
        }
        let merged = |live: &Live| {
            let (new, warned) = merged(call, options, &how, live, &decoded)?;
            warnings = warned;
            Ok((new, Changed::Whole))
        };
        match change::change(call, options, Tracking::Applied, merged).await {
            Err(error) if error.code == 404 && call.live().is_err() => {} // deleted in the meantime: create it
            changed => return answered(call, 200, &changed?, &warnings),
        }
    }
    Err(ApiError::modified(&call.group_resource(), &call.target.name))
}

fn answered(
    call: &Call<'_>,
    code: u16,
    object: &Object,
    warnings: &[String],
) -> Result<http::Response<Body>, ApiError> {
    Ok(respond::with_warnings(
        respond::respond_object(call, code, object)?,
        warnings,
    ))
}

/// Result of an apply to the current object, with warnings.
fn merged(
    call: &Call<'_>,
    options: &Options,
    how: &ApplyOptions<'_>,
    live: &Live,
    decoded: &Decoded,
) -> Result<(Value, Vec<String>), ApiError> {
    let shown = versions::presented(&call.resource, Value::clone(&live.value));
    let applied = &decoded.value;
    let version = meta::resource_version(applied);
    if !version.is_empty() && version != meta::resource_version(&shown) {
        return Err(ApiError::modified(&call.group_resource(), &call.target.name));
    }
    let mut new = merge(Some(&shown), applied, call.resource.type_ref(), how).map_err(refused)?;
    metadata::clean(&mut new)?;
    let warnings = shape::shape(
        &call.resource,
        options,
        &mut new,
        &Changed::Whole,
        &decoded.duplicates,
        Tracking::Applied,
    )?;
    Ok((new, warnings))
}

fn required_manager(call: &Call<'_>) -> Result<String, ApiError> {
    let manager = call.query.get("fieldManager");
    if manager.is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(super::query::options_error(cause));
    }
    Ok(manager.to_owned())
}

/// Applies to an object that does not exist.
async fn create(
    call: &Call<'_>,
    options: &Options,
    how: &ApplyOptions<'_>,
    applied: &Value,
) -> Result<(Object, create::Answer), ApiError> {
    if !call.target.subresource.is_empty() {
        return Err(call.not_found());
    }
    let uid = meta::uid(applied);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(
            &call.group_resource(),
            &call.target.name,
            &why,
        ));
    }
    let value = merge(None, applied, call.resource.type_ref(), how).map_err(refused)?;
    create::create_object(
        call,
        options,
        Decoded {
            value,
            duplicates: Vec::new(),
        },
        Tracking::Applied,
    )
    .await
}

fn refused(error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflict { message, causes } => ApiError::apply_conflict(&message, &causes),
        ApplyError::Typed(message) => ApiError::internal(&message),
        ApplyError::BadRequest(message) => ApiError::bad_request(&message),
    }
}

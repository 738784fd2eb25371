//! Updates (PUT).

use serde_json::json;

use super::create::create_object;
use super::identity::identify;
use super::options::{Tracking, options};
use super::shape::{refuse_invalid, shape};
use super::{Call, change, decode, respond};
use crate::http::Body;
use crate::meta;
use crate::resources::Resource;
use crate::schema::{Cause, Changed};
use crate::status::ApiError;

/// Kinds that an update creates if absent.
fn creates_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("", "Endpoints" | "Event" | "LimitRange" | "Service")
            | ("coordination.k8s.io", "Lease")
            | ("rbac.authorization.k8s.io", _)
            | ("node.k8s.io", "RuntimeClass")
    )
}

pub(super) async fn serve_update(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    let options = options(call)?;
    let decoded = decode::decode_object(&call.content_type, &call.body)?;
    let key = call.key();
    if creates_on_update(&call.resource) && call.core.store.get(&call.resource.storage, &key).is_none() {
        let (object, answer) = create_object(call, &options, decoded, Tracking::Update).await?;
        return Ok(respond::with_warnings(
            respond::respond_object(call, answer.code, &object)?,
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
            return Err(ApiError::conflict(&call.group_resource(), &key.name, &why));
        }
        let mut new = body.clone();
        warnings = shape(
            &call.resource,
            &options,
            &mut new,
            &Changed::Whole,
            &decoded.duplicates,
            Tracking::Update,
        )?;
        Ok((new, Changed::Whole))
    });
    let object = object.await?;
    Ok(respond::with_warnings(
        respond::respond_object(call, 200, &object)?,
        &warnings,
    ))
}

//! Patches other than server-side apply.

use serde_json::Value;

use super::identity::identify;
use super::options::{Tracking, options};
use super::shape::shape;
use super::{Call, apply_patch, change, decode, respond};
use crate::core::Live;
use crate::http::Body;
use crate::patch::{self, PatchError};
use crate::resources::{Resource, Typing, versions};
use crate::schema::{Cause, Changed};
use crate::status::{About, ApiError};

pub(super) async fn patch(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    let kind = decode::essence(&call.content_type);
    let mut options = options(call)?;
    match kind {
        "application/apply-patch+yaml" => return apply_patch::serve_apply(call, &mut options).await,
        "application/json-patch+json" | "application/merge-patch+json" => {}
        "application/strategic-merge-patch+json" if call.resource.custom().is_none() => {}
        _ => return Err(ApiError::unsupported_media_type(&patch_types(&call.resource))),
    }
    if call.query.flag("force").is_some() {
        let text = "may not be specified for non-apply patch";
        return Err(super::query::options_error(Cause::forbidden("force", text)));
    }
    let decoded = decode::decode_json(&call.body)?;
    let mut warnings = Vec::new();
    let object = change::change(call, &options, Tracking::Update, |live| {
        let shown = versions::presented_ref(&call.resource, &live.value);
        let mut new = patched(&call.resource, kind, &shown, &decoded.value)?;
        let changed = changed_parts(&call.resource, kind, live, &decoded.value);
        identify(call, &mut new)?;
        warnings = shape(
            &call.resource,
            &options,
            &mut new,
            &changed,
            &decoded.duplicates,
            Tracking::Update,
        )?;
        Ok((new, changed))
    });
    let object = object.await?;
    Ok(respond::with_warnings(
        respond::respond_object(call, 200, &object)?,
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

/// The parts that a patch may change, if the others need no check.
fn changed_parts(resource: &Resource, kind: &str, live: &Live, patch: &Value) -> Changed {
    match kind {
        _ if !live.is_settled(resource) => Changed::Whole,
        "application/json-patch+json" => patch::changed_by_json(patch),
        _ => Changed::by_merge_patch(patch),
    }
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
        _ => patch::merge_patch(shown, patch),
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

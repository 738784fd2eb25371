//! Responses: the code, the requested representation, the text.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde::Serialize;
use serde_json::{Value, json};

use super::Call;
use super::accept::{Format, View};
use crate::http::{Body, full};
use crate::resources::versions::presented;
use crate::resources::{Resource, Typing};
use crate::status::{ApiError, ErrorBody};
use crate::store::{Object, Page, Stored};
use crate::table;

/// A JSON response.
pub(super) fn respond_json(code: u16, value: &impl Serialize) -> Response<Body> {
    respond_typed(
        code,
        "application/json",
        serde_json::to_vec(value).unwrap_or_default(),
    ) // values of ours always serialise
}

/// A JSON response with its own media type.
pub(super) fn respond_document((content_type, value): (&'static str, Value)) -> Response<Body> {
    respond_typed(200, content_type, value.to_string())
}

/// A JSON response, or the plain 404 of unknown paths if there is none.
pub(super) fn found(value: Option<Value>) -> Response<Body> {
    value.map_or_else(
        || error(&ApiError::no_such_path()),
        |value| respond_json(200, &value),
    )
}

/// A plain text response.
pub(super) fn respond_text(code: u16, text: &'static str) -> Response<Body> {
    respond_typed(code, "text/plain; charset=utf-8", text)
}

/// An error response.
pub(super) fn error(error: &ApiError) -> Response<Body> {
    match &error.body {
        ErrorBody::Text(message) => respond_text(error.code, message),
        ErrorBody::Status(status) => {
            let mut response = respond_json(error.code, status);
            if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

/// A response with a media type.
pub(super) fn respond_typed(
    code: u16,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Adds `Warning` headers.
pub(super) fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// One object in the requested representation.
pub(super) fn respond_object(
    call: &Call<'_>,
    code: u16,
    object: &Object,
) -> Result<Response<Body>, ApiError> {
    let resource = &call.resource;
    let value = match call.accept.view {
        View::Whole if call.accept.format == Format::Json && is_stored_so(resource, object) => {
            return Ok(respond_typed(code, "application/json", object.json().clone()));
        }
        View::Whole => presented(resource, object.value()),
        View::Metadata => table::partial(&object.metadata()),
        View::Table => {
            let value = presented(resource, object.value());
            let version = object.revision.to_string();
            table::render(
                resource,
                &[&value],
                &json!({"resourceVersion": version}),
                include(call),
                call.core.clock.now(),
            )
        }
    };
    formatted(call, code, &value)
}

/// A value without other representations, in the requested format.
pub(super) fn formatted(call: &Call<'_>, code: u16, value: &Value) -> Result<Response<Body>, ApiError> {
    match call.accept.format {
        Format::Json => Ok(respond_json(code, value)),
        Format::Yaml => {
            let text =
                serde_yaml::to_string(value).map_err(|error| ApiError::internal(&error.to_string()))?;
            Ok(respond_typed(code, "application/yaml", text))
        }
    }
}

/// What to include in table rows, from `includeObject`.
pub(super) fn include(call: &Call<'_>) -> table::Include {
    match call.query.get("includeObject") {
        "None" => table::Include::None,
        "Object" => table::Include::Object,
        _ => table::Include::Metadata,
    }
}

/// A list in the requested representation.
pub(super) fn respond_list(
    call: &Call<'_>,
    page: &Page,
    metadata: &Value,
) -> Result<Response<Body>, ApiError> {
    let resource = &call.resource;
    let value = match call.accept.view {
        View::Whole if call.accept.format == Format::Json => {
            return Ok(respond_typed(
                200,
                "application/json",
                whole_list(resource, page, metadata)?,
            ));
        }
        View::Whole => json!({
            "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata,
            "items": page.items.iter().map(|object| presented(resource, object.value())).collect::<Vec<_>>(),
        }),
        View::Metadata => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "items": page.items.iter().map(|object| table::partial(&object.metadata())).collect::<Vec<_>>(),
        }),
        View::Table => {
            let values: Vec<Value> = page
                .items
                .iter()
                .map(|object| presented(resource, object.value()))
                .collect();
            let values: Vec<&Value> = values.iter().collect();
            table::render(resource, &values, metadata, include(call), call.core.clock.now())
        }
    };
    formatted(call, 200, &value)
}

/// The text of a list, concatenated from the texts of the objects.
fn whole_list(resource: &Resource, page: &Page, metadata: &Value) -> Result<Vec<u8>, ApiError> {
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        resource.list_kind,
        resource.api_version()
    );
    let mut text = head.into_bytes();
    for (index, object) in page.items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        // Items of built-in lists do not repeat their kind.
        let is_typed = resource.custom().is_some();
        if !is_stored_so(resource, object) {
            let mut value = presented(resource, object.value());
            if let (false, Some(fields)) = (is_typed, value.as_object_mut()) {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            serde_json::to_writer(&mut text, &value)
                .map_err(|error| ApiError::internal(&error.to_string()))?;
        } else if is_typed {
            text.extend_from_slice(object.json());
        } else {
            text.push(b'{');
            text.extend_from_slice(object.untyped_fields());
        }
    }
    text.extend_from_slice(b"]}\n");
    Ok(text)
}

/// Whether an object is stored in the form of this resource. Custom objects keep the version in which they were last
/// written, regardless of the current definition.
pub(super) fn is_stored_so(resource: &Resource, stored: &Stored) -> bool {
    match resource.typing {
        Typing::Custom(_) => stored.has_api_version(&resource.api_version()),
        Typing::Builtin(_) => resource.storage_api_version == resource.api_version(),
    }
}

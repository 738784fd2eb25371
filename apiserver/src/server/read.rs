//! Get and list.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Call, respond};
use crate::http::Body;
use crate::schema::{Cause, reason};
use crate::select::Selector;
use crate::status::{About, ApiError};
use crate::store::{ObjectKey, PageQuery, Stored};

/// How long a read waits for a resource version that does not exist yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Content of a `continue` token.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    start: String,
}

pub(super) async fn get(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    if let Some(wanted) = version(call.query.get("resourceVersion"))? {
        reached(call, wanted).await?;
    }
    respond::respond_object(call, 200, &call.live()?)
}

pub(super) async fn serve_list(call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
    let selector = request_selector(call)?;
    let namespace = (!call.target.namespace.is_empty()).then_some(call.target.namespace.as_str());
    let limit = call.query.number("limit")?.filter(|limit| *limit > 0);
    let mut query = PageQuery {
        namespace,
        limit: limit.and_then(|l| usize::try_from(l).ok()),
        ..PageQuery::default()
    }; // a limit that does not fit means no limit
    let matches = |object: &Stored| selector.matches(object);
    if !selector.is_everything() {
        query.filter = Some(&matches);
    }
    let token = call.query.get("continue");
    if token.is_empty() {
        query.at = at(call).await?;
    } else {
        let token = parse_token(token)?;
        let (namespace, name) = token.start.split_once('/').unwrap_or_default();
        query.after = Some(ObjectKey::new(namespace, name));
        query.at = Some(token.rv);
    }
    let page = call
        .core
        .store
        .page(&call.resource.storage, &query)
        .map_err(|_| expired(token))?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(last) = &page.more_after {
        let start = format!("{}/{}", last.namespace, last.name);
        let next = Continue {
            v: "meta.k8s.io/v1".to_owned(),
            rv: page.revision,
            start,
        };
        metadata["continue"] = URL_SAFE_NO_PAD.encode(json!(next).to_string()).into();
        if selector.is_everything() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    respond::respond_list(call, &page, &metadata)
}

/// The selectors of a request.
pub(super) fn request_selector(call: &Call<'_>) -> Result<Selector, ApiError> {
    let mut selector = Selector::parse(
        &call.resource,
        call.query.get("labelSelector"),
        call.query.get("fieldSelector"),
    )?;
    if !call.target.name.is_empty() {
        // A watch on the path of one object.
        selector.require_name(&call.target.name);
    }
    Ok(selector)
}

fn expired(token: &str) -> ApiError {
    if token.is_empty() {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    }
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
    )
}

fn parse_token(token: &str) -> Result<Continue, ApiError> {
    let decoded = URL_SAFE_NO_PAD.decode(token).ok(); // every invalid token gets the same error
    decoded
        .and_then(|bytes| serde_json::from_slice(&bytes).ok()) // as above
        .ok_or_else(|| ApiError::bad_request("continue key is not valid: this server did not create it"))
}

/// The revision at which a list is read; `None` for the current one.
async fn at(call: &Call<'_>) -> Result<Option<u64>, ApiError> {
    let wanted = version(call.query.get("resourceVersion"))?;
    match (call.query.get("resourceVersionMatch"), wanted) {
        ("", None) => Ok(None),
        ("" | "NotOlderThan", Some(wanted)) => {
            reached(call, wanted).await?;
            Ok(None)
        }
        ("Exact", Some(wanted)) if wanted > 0 => {
            reached(call, wanted).await?;
            Ok(Some(wanted))
        }
        ("Exact", Some(_)) => Err(bad_match(
            "Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
        )),
        ("Exact" | "NotOlderThan", None) => Err(bad_match(
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        )),
        (other, _) => Err(bad_match(&format!(
            "Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\""
        ))),
    }
}

fn bad_match(message: &str) -> ApiError {
    let about = About {
        group: "meta.k8s.io",
        kind: "ListOptions",
        name: "",
    };
    let reason = if message.starts_with("Forbidden") {
        reason::FORBIDDEN
    } else {
        reason::NOT_SUPPORTED
    };
    ApiError::invalid(about, &[Cause::new(reason, "resourceVersionMatch", message)])
}

fn version(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| {
        ApiError::bad_request(&format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"))
    })?;
    Ok(Some(number))
}

/// Waits briefly for a future revision.
async fn reached(call: &Call<'_>, wanted: u64) -> Result<(), ApiError> {
    let store = &call.core.store;
    let Some(mut wake) = store.subscribe(&call.resource.storage) else {
        return Err(ApiError::no_such_path());
    };
    let wait = async {
        while store.revision() < wanted {
            if wake.changed().await.is_err() {
                return;
            }
        }
    };
    let timed_out = tokio::time::timeout(FUTURE_WAIT, wait).await.is_err();
    if timed_out && store.revision() < wanted {
        return Err(ApiError::too_large_version(wanted, store.revision()));
    }
    Ok(())
}

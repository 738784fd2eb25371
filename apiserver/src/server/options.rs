//! Options of a write.

use super::Call;
use super::query::FieldValidation;
use crate::apply::UpdateOptions;
use crate::schema::Changed;
use crate::status::ApiError;

/// Options of a write.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    pub now: String,
}

/// How field managers are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    /// The writer owns what it changes.
    Update,
    /// Already done by an apply.
    Applied,
    /// Already done before webhooks changed the object.
    Done,
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

pub(super) fn update_options<'a>(
    call: &'a Call<'_>,
    options: &'a Options,
    api_version: &'a str,
    changed: &'a Changed,
) -> UpdateOptions<'a> {
    let subresource = call.target.subresource.as_str();
    UpdateOptions {
        manager: &options.manager,
        subresource: (!subresource.is_empty()).then_some(subresource),
        has_status: call.resource.status,
        api_version,
        now: &options.now,
        changed,
    }
}

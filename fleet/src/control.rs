//! Controls: annotations that git does not own, by which users control muster. The user and the time are written with
//! them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use muster_api::{control::Control, labels::manager};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::Clock;
use serde_json::{Value, json};

use crate::ObjectAddress;

/// Whether a write is a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// Writes the change.
    #[default]
    None,
    /// Prints what would be written, without a request.
    Client,
    /// Submits a server-side dry run to the API server.
    Server,
}

impl DryRun {
    /// The suffix of the message about a dry run.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// What is written with a control that stays until it is removed.
#[derive(Clone, Debug, Default)]
pub struct Term {
    /// The reason; shown in the module's status and events.
    pub reason: Option<String>,
    /// When it expires, within a year.
    pub until: Option<Timestamp>,
    /// It expires after this time; takes precedence over `until`.
    pub time: Option<Duration>,
}

impl Term {
    /// The control with this value, for `what`.
    pub async fn control(&self, client: &Client, what: &str) -> anyhow::Result<Control> {
        let now = now();
        let after = self.time.map(|time| now.checked_add(time)).transpose();
        let control = Control {
            what: what.to_owned(),
            by: Some(me(client).await),
            reason: self.reason.clone(),
            at: Some(now),
            until: after.context("--for is too long")?.or(self.until),
        };
        if control.is_over(now) {
            bail!("--until is in the past: give a future time, or --for 2h");
        }
        Ok(control.meant(now)?)
    }
}

/// What to do for a control.
#[derive(Debug, PartialEq)]
pub enum ControlWrite {
    /// The annotation already has this control.
    Stands(Control),
    /// This control must be written.
    Write(Control),
}

/// What to write, given the current annotation. The same control without a new reason or end changes nothing; one that
/// has expired, cannot be parsed, or is not `the_same`, is replaced.
pub fn control_write(
    before: Option<&str>,
    wanted: Control,
    now: Timestamp,
    the_same: impl Fn(&Control) -> bool,
) -> ControlWrite {
    // A value that cannot be parsed is in force as well: the new control fixes it.
    let existing = before
        .and_then(|text| Control::parse(text).ok())
        .filter(|control| control.holds(now) && the_same(control))
        .filter(|control| {
            wanted.until.is_none() && (wanted.reason.is_none() || wanted.reason == control.reason)
        });
    existing.map_or(ControlWrite::Write(wanted), ControlWrite::Stands)
}

/// Writes an annotation; null removes it.
pub async fn annotate(
    address: &ObjectAddress,
    key: &str,
    value: &Value,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    write(
        address,
        json!({"metadata": {"annotations": {key: value}}}),
        dry_run,
    )
    .await
}

/// The same for a value that depends on the one that was read: refused if the object was changed in between.
pub async fn replace(
    address: &ObjectAddress,
    read: &DynamicObject,
    key: &str,
    value: &Value,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    let metadata = json!({"annotations": {key: value}, "resourceVersion": read.resource_version()});
    write(address, json!({"metadata": metadata}), dry_run).await
}

/// Patches these fields of an object, and no others.
pub async fn write(address: &ObjectAddress, body: Value, dry_run: DryRun) -> anyhow::Result<()> {
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let parameters = PatchParams {
        field_manager: Some(manager::CLI.to_owned()),
        dry_run: dry_run == DryRun::Server,
        ..PatchParams::default()
    };
    let patched = address
        .api
        .patch(&address.name, &parameters, &Patch::Merge(body))
        .await;
    patched
        .map(drop)
        .with_context(|| format!("patching {}", address.name))
}

/// The user's name, as the API server knows it, or else from `$USER`.
pub async fn me(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    // An API server older than 1.28, or one that does not answer, must not stop the command.
    let known = review.ok().and_then(|review| review.status?.user_info?.username);
    known
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()))
}

/// The part of a revision's hash that is written: enough to identify it among the revisions of its module.
pub fn digits(revision: &str) -> &str {
    revision.get(..16).unwrap_or(revision)
}

/// The current time in whole seconds, for readability.
pub fn now() -> Timestamp {
    let now = Clock::system().now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The result of a write, as kubectl prints it.
pub fn done(address: &ObjectAddress, verb: &str, dry_run: DryRun) -> String {
    format!("{}/{} {verb}{}", address.resource, address.name, dry_run.suffix())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn wanted(reason: Option<&str>, until: Option<&str>) -> Control {
        Control {
            what: "true".to_owned(),
            by: Some("ann".to_owned()),
            reason: reason.map(str::to_owned),
            at: Some(NOW.parse().unwrap()),
            until: until.map(|until| until.parse().unwrap()),
        }
    }

    fn check(before: Option<&str>, wanted: Control, writes: bool) {
        let result = control_write(before, wanted.clone(), NOW.parse().unwrap(), |control| {
            control.what != "other"
        });
        assert_eq!(
            result == ControlWrite::Write(wanted),
            writes,
            "{before:?}: {result:?}"
        );
    }

    #[test]
    fn a_control_is_written_once() {
        check(None, wanted(None, None), true);
        check(Some("true"), wanted(None, None), false);
        check(Some("other"), wanted(None, None), true);
        check(Some("{\"by\": \"bob\"}"), wanted(None, None), false);
        check(
            Some("{\"reason\": \"freeze\"}"),
            wanted(Some("freeze"), None),
            false,
        );
        check(Some("{\"reason\": \"freeze\"}"), wanted(Some("fire"), None), true);
        check(Some("true"), wanted(None, Some("2026-01-02T05:04:05Z")), true);
    }

    #[test]
    fn what_has_ended_or_cannot_be_read_is_replaced() {
        check(
            Some("{\"until\": \"2026-01-02T03:04:04Z\"}"),
            wanted(None, None),
            true,
        );
        check(Some("false"), wanted(None, None), true);
        check(Some("{no json"), wanted(None, None), true);
    }
}

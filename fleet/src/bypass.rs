//! Bypasses of a RolloutWindow: open it for one module until a given time, recorded in the window.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use muster_api::{
    RolloutWindow,
    labels::manager,
    module::Dependency,
    path,
    rolloutwindow::{MAX_BYPASSES, WindowBypass},
    schema::{MAX_MESSAGE, MAX_NAME},
};
use muster_controllers::runtime::Api;
use muster_windows::{Module, Window};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    ObjectAddress, Reporter,
    control::{self, DryRun},
    name::ModuleName,
    near,
};

/// How often a write is tried that conflicts with another one.
const TRIES: usize = 5;
/// The longest bypass: a year. For a longer time, change the window.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// The bypass to add.
#[derive(Clone, Debug)]
pub struct Bypass {
    /// Name of the RolloutWindow.
    pub window: String,
    /// The module that may be rolled out.
    pub module: ModuleName,
    /// The reason; it stays on record in the window.
    pub reason: String,
    /// When it ends, within a year.
    pub until: Option<Timestamp>,
    /// How long it lasts; takes precedence over `until`.
    pub time: Option<Duration>,
    /// Whether the write is a dry run.
    pub dry_run: DryRun,
}

/// Why a bypass cannot be added.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum BypassError {
    /// No window has this name.
    #[error(
        "there is no rolloutwindow/{name} in namespace {namespace}{near}; next: kubectl get rolloutwindows --namespace {namespace}"
    )]
    NoWindow {
        /// The name that was given.
        name: String,
        /// The namespace of the lookup.
        namespace: String,
        /// Text that suggests similar names; may be empty.
        near: String,
    },
    /// The end is in the past.
    #[error("--until is in the past: give a future time, or --for 2h")]
    Over,
    /// The end is more than a year away.
    #[error("a bypass lasts a year at most: change the window instead")]
    TooLong,
    /// The reason is empty or too long.
    #[error("--reason must have 1 to {MAX_MESSAGE} bytes")]
    Reason,
    /// The window has the maximum number of bypasses, and all are in force.
    #[error("the window has {MAX_BYPASSES} bypasses in force already: remove one from its spec.bypasses")]
    Full,
    /// Other writers kept changing the window.
    #[error("the window was modified concurrently {TRIES} times in a row: try again")]
    Contended,
}

/// Adds the bypass to its window.
pub async fn add(
    client: &Client,
    namespace: &str,
    bypass: &Bypass,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let Bypass {
        window: name, module, ..
    } = bypass;
    let now = control::now();
    let wanted = WindowBypass {
        by: Some(control::me(client).await.chars().take(MAX_NAME).collect()),
        ..window_bypass(bypass, now)?
    };
    path::check(name).with_context(|| format!("{name:?} cannot be the name of a RolloutWindow"))?;
    let windows: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        namespace,
        &ApiResource::erase::<RolloutWindow>(&()),
    );
    let object = ObjectAddress::of(client, namespace, module).get().await?;
    let window = write(&windows, namespace, bypass, &wanted, now).await?;
    reporter.line(&format!(
        "rolloutwindow.{}/{name} is bypassed for {module} until {}: {}{}",
        muster_api::kind::GROUP,
        bypass.end(now)?,
        wanted.reason,
        bypass.dry_run.suffix()
    ))?;
    if !selects(&window, &object, module) {
        reporter.warn(&format!(
            "warning: the window does not select {module}: the bypass changes nothing"
        ));
    }
    reporter.line(&format!(
        "To see what is still closed: muster why {module} -n {namespace}"
    ))
}

impl Bypass {
    fn end(&self, now: Timestamp) -> Result<Timestamp, BypassError> {
        let latest = now.checked_add(LONGEST).map_err(|_beyond| BypassError::TooLong)?;
        let end = match (self.time, self.until) {
            (Some(time), _) => now.checked_add(time).map_err(|_beyond| BypassError::TooLong)?,
            (None, until) => until.unwrap_or(now),
        };
        match end {
            end if end <= now => Err(BypassError::Over),
            end if end > latest => Err(BypassError::TooLong),
            end => Ok(end),
        }
    }
}

/// The bypass, without the user's name.
fn window_bypass(bypass: &Bypass, now: Timestamp) -> Result<WindowBypass, BypassError> {
    let reason = bypass.reason.trim();
    if reason.is_empty() || reason.len() > MAX_MESSAGE {
        return Err(BypassError::Reason);
    }
    Ok(WindowBypass {
        module: Dependency {
            kind: bypass.module.kind_of_modules(),
            name: bypass.module.name.clone(),
        },
        reason: reason.to_owned(),
        until: Some(Time(bypass.end(now)?)),
        by: None,
    })
}

/// Adds the bypass to the current window, and reads it again after a conflict. Returns the window.
async fn write(
    windows: &Api<DynamicObject>,
    namespace: &str,
    bypass: &Bypass,
    wanted: &WindowBypass,
    now: Timestamp,
) -> anyhow::Result<DynamicObject> {
    let Bypass { window, dry_run, .. } = bypass;
    let parameters = PatchParams {
        field_manager: Some(manager::CLI.to_owned()),
        dry_run: *dry_run == DryRun::Server,
        ..PatchParams::default()
    };
    for _try in 0..TRIES {
        let read = windows.get_opt(window).await;
        let Some(read) = read.with_context(|| format!("reading rolloutwindow/{window}"))? else {
            return Err(missing(windows, namespace, window).await.into());
        };
        let bypasses = with(read.data.pointer("/spec/bypasses"), wanted, now)?;
        if *dry_run == DryRun::Client {
            return Ok(read);
        }
        let patch = json!({
            "metadata": {"resourceVersion": read.resource_version()},
            "spec": {"bypasses": bypasses},
        });
        match windows.patch(window, &parameters, &Patch::Merge(patch)).await {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => return Err(error).with_context(|| format!("patching rolloutwindow/{window}")),
        }
    }
    Err(BypassError::Contended.into())
}

/// The bypasses of the window plus this one. Expired ones stay on record as long as there is room.
fn with(before: Option<&Value>, wanted: &WindowBypass, now: Timestamp) -> Result<Vec<Value>, BypassError> {
    let mut all: Vec<Value> = before.and_then(Value::as_array).cloned().unwrap_or_default();
    if all.len() >= MAX_BYPASSES {
        all.retain(|bypass| !is_over(bypass, now));
    }
    if all.len() >= MAX_BYPASSES {
        return Err(BypassError::Full);
    }
    all.push(json!(wanted));
    Ok(all)
}

/// A bypass that cannot be parsed counts as not expired.
fn is_over(bypass: &Value, now: Timestamp) -> bool {
    let until = bypass.get("until").and_then(Value::as_str);
    let until: Option<Timestamp> = until.and_then(|until| until.parse().ok());
    until.is_some_and(|until| until <= now)
}

fn selects(window: &DynamicObject, object: &DynamicObject, module: &ModuleName) -> bool {
    let object = Module {
        kind: module.kind_of_modules(),
        name: &module.name,
        labels: object.labels(),
    };
    // Values from an API server always serialize to JSON.
    let window = serde_json::to_value(window).unwrap_or_default();
    Window::read(&window).selects_module(&object)
}

async fn missing(windows: &Api<DynamicObject>, namespace: &str, name: &str) -> BypassError {
    // Without the right to list them, none are offered.
    let there = windows.list_metadata(&ListParams::default()).await;
    let names: Vec<String> = there
        .into_iter()
        .flatten()
        .map(|object| object.name_any())
        .collect();
    BypassError::NoWindow {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        near: near::offer(name, names.iter().map(String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-12-01T08:00:00Z";
    const HOUR: Duration = Duration::from_hours(1);

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn bypass(time: Option<Duration>, until: Option<&str>) -> Bypass {
        Bypass {
            window: "freeze".to_owned(),
            module: "module/web".parse().unwrap(),
            reason: "CVE".to_owned(),
            until: until.map(|until| until.parse().unwrap()),
            time,
            dry_run: DryRun::None,
        }
    }

    #[test]
    fn a_bypass_ends() {
        let check = |time: Option<Duration>, until: Option<&str>, expect: Result<&str, BypassError>| {
            let ends = window_bypass(&bypass(time, until), now()).map(|bypass| bypass.until.unwrap().0);
            assert_eq!(ends, expect.map(|end| end.parse().unwrap()), "{time:?} {until:?}");
        };
        check(Some(HOUR), None, Ok("2026-12-01T09:00:00Z"));
        check(None, Some("2026-12-02T08:00:00Z"), Ok("2026-12-02T08:00:00Z"));
        check(Some(Duration::ZERO), None, Err(BypassError::Over));
        check(None, Some(NOW), Err(BypassError::Over));
        check(Some(HOUR * 9000), None, Err(BypassError::TooLong));
    }

    #[test]
    fn a_bypass_has_a_reason() {
        for reason in ["", " ", &"x".repeat(MAX_MESSAGE + 1)] {
            let bypass = Bypass {
                reason: reason.to_owned(),
                ..bypass(Some(HOUR), None)
            };
            assert_eq!(window_bypass(&bypass, now()), Err(BypassError::Reason));
        }
    }

    #[test]
    fn bypasses_that_are_over_make_room_and_others_do_not() {
        let wanted = window_bypass(&bypass(Some(HOUR), None), now()).unwrap();
        let added = |before: Option<&Value>| with(before, &wanted, now()).map(|all| all.len());
        let full = |until: &str| json!(vec![json!({"until": until}); MAX_BYPASSES]);
        assert_eq!(added(None), Ok(1));
        assert_eq!(added(Some(&json!([{"until": NOW}]))), Ok(2));
        assert_eq!(added(Some(&full(NOW))), Ok(1));
        assert_eq!(added(Some(&full("2026-12-01T08:00:01Z"))), Err(BypassError::Full));
        assert_eq!(added(Some(&full("some day"))), Err(BypassError::Full));
    }
}

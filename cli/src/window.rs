//! `muster window bypass`: lets one module through a RolloutWindow until an instant, on record in the window.

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
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
use muster_fleet::{
    Address,
    connect::{self, Target},
    control::{self, DryRun},
    name::{ModuleName, over_clusters},
    near,
};
use muster_windows::{Module, Window};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    exit::DONE,
    flags::{DryRunFlag, duration},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster window bypass freeze-december --module podinfo --reason 'CVE-2026-1234' --for 1h";
pub(crate) const BYPASS_EXAMPLES: &str = "\
Examples:
  muster window bypass freeze-december --module podinfo --reason 'CVE-2026-1234' --for 1h
  muster window bypass freeze-december --module bootstrapmodule/base --reason '…' --until 2026-12-28T08:00:00Z
  kubectl get rolloutwindows                                     which windows there are";

/// How often a write is tried again that another one came before.
const TRIES: usize = 5;
/// The longest bypass: a year. What shall be open for longer is a change of the window.
const LONGEST: Duration = Duration::from_hours(366 * 24);

#[derive(Args, Debug)]
pub(crate) struct WindowFlags {
    #[command(subcommand)]
    pub verb: WindowVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WindowVerb {
    /// Open a RolloutWindow for one module until an instant
    ///
    /// Adds an entry to spec.bypasses of the window, with your name and reason. Takes the right to patch the window; the right to change
    /// modules is not enough. Other windows stay closed.
    ///
    /// Exit codes: 0 written, 2 could not be done.
    #[command(before_help = BYPASS_EXAMPLES)]
    Bypass(BypassFlags),
}

#[derive(Args, Debug)]
pub(crate) struct BypassFlags {
    /// The RolloutWindow
    pub window: String,
    /// The module: NAME, module/NAME or bootstrapmodule/NAME
    #[arg(long, short, value_parser = over_clusters)]
    pub module: ModuleName,
    /// Why: it stays on record in the window
    #[arg(long)]
    pub reason: String,
    /// When the bypass ends, such as 2026-12-28T08:00:00Z; within a year
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "time",
        required_unless_present = "time"
    )]
    pub until: Option<Timestamp>,
    /// The bypass ends after this time, such as 30m or 2h
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub time: Option<Duration>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Why a bypass cannot be added.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum BypassError {
    /// No window has the name.
    #[error(
        "there is no rolloutwindow/{name} in namespace {namespace}{near}; next: kubectl get rolloutwindows --namespace {namespace}"
    )]
    NoWindow {
        /// The name.
        name: String,
        /// Where it was looked for.
        namespace: String,
        /// The names that it may stand for, in words.
        near: String,
    },
    /// It would be over before it began.
    #[error("--until is over already: write a time to come, or --for 2h")]
    Over,
    /// It would last too long.
    #[error("a bypass lasts a year at most: change the window instead")]
    TooLong,
    /// A reason without words, or with too many.
    #[error("--reason must have 1 to {MAX_MESSAGE} bytes")]
    Reason,
    /// The window has as many bypasses as it may have, and all are in force.
    #[error("the window has {MAX_BYPASSES} bypasses in force already: remove one from its spec.bypasses")]
    Full,
    /// Others kept writing the window.
    #[error("the window was modified concurrently {TRIES} times in a row: try again")]
    Contended,
}

/// Runs a verb about windows.
pub(crate) async fn run(cluster: &Target, flags: &WindowFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    match &flags.verb {
        WindowVerb::Bypass(flags) => bypass(&client, &namespace, flags).await,
    }
}

async fn bypass(client: &Client, namespace: &str, flags: &BypassFlags) -> anyhow::Result<u8> {
    let now = control::now();
    let wanted = WindowBypass {
        by: Some(control::me(client).await.chars().take(MAX_NAME).collect()),
        ..wanted(flags, now)?
    };
    path::check(&flags.window)
        .with_context(|| format!("{:?} cannot be the name of a RolloutWindow", flags.window))?;
    let windows: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        namespace,
        &ApiResource::erase::<RolloutWindow>(&()),
    );
    let module = Address::of(client, namespace, &flags.module).get().await?;
    let window = write(&windows, namespace, flags, &wanted, now).await?;
    say!(
        "rolloutwindow.{}/{} is bypassed for {} until {}: {}{}",
        muster_api::kind::GROUP,
        flags.window,
        flags.module,
        flags.end(now)?,
        wanted.reason,
        flags.dry_run.by.words()
    );
    if !selects(&window, &module, &flags.module) {
        complain!(
            "warning: the window does not select {}: the bypass changes nothing",
            flags.module
        );
    }
    say!(
        "To see what is still closed: muster why {} -n {namespace}",
        flags.module
    );
    Ok(DONE)
}

impl BypassFlags {
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
fn wanted(flags: &BypassFlags, now: Timestamp) -> Result<WindowBypass, BypassError> {
    let reason = flags.reason.trim();
    if reason.is_empty() || reason.len() > MAX_MESSAGE {
        return Err(BypassError::Reason);
    }
    Ok(WindowBypass {
        module: Dependency {
            kind: flags.module.kind_of_modules(),
            name: flags.module.name.clone(),
        },
        reason: reason.to_owned(),
        until: Some(Time(flags.end(now)?)),
        by: None,
    })
}

/// Adds the bypass to the window as it was read, and reads again where another write came first. Returns the window.
async fn write(
    windows: &Api<DynamicObject>,
    namespace: &str,
    flags: &BypassFlags,
    wanted: &WindowBypass,
    now: Timestamp,
) -> anyhow::Result<DynamicObject> {
    let BypassFlags { window, dry_run, .. } = flags;
    let parameters = PatchParams {
        field_manager: Some(manager::CLI.to_owned()),
        dry_run: dry_run.by == DryRun::Server,
        ..PatchParams::default()
    };
    for _try in 0..TRIES {
        let read = windows.get_opt(window).await;
        let Some(read) = read.with_context(|| format!("reading rolloutwindow/{window}"))? else {
            return Err(missing(windows, namespace, window).await.into());
        };
        let bypasses = with(read.data.pointer("/spec/bypasses"), wanted, now)?;
        if dry_run.by == DryRun::Client {
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

/// The bypasses with this one. Those that are over stay on record as long as there is room.
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

/// One that cannot be read is not known to be over.
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
    // What came from an API server goes back into JSON.
    let window = serde_json::to_value(window).unwrap_or_default();
    Window::read(&window).selects_module(&object)
}

async fn missing(windows: &Api<DynamicObject>, namespace: &str, name: &str) -> BypassError {
    // A user who may not list them is offered none.
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
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Verb};

    const NOW: &str = "2026-12-01T08:00:00Z";

    fn parse(words: &[&str]) -> Result<BypassFlags, String> {
        let words = ["muster", "window", "bypass", "freeze"].iter().chain(words);
        match Arguments::try_parse_from(words)
            .map_err(|error| error.to_string())?
            .verb
        {
            Verb::Window(WindowFlags {
                verb: WindowVerb::Bypass(flags),
            }) => Ok(flags),
            other => panic!("{other:?}"),
        }
    }

    fn end(words: &[&str]) -> Result<String, String> {
        let words = [&["--module", "web", "--reason", "CVE"], words].concat();
        let bypass = wanted(&parse(&words)?, NOW.parse().unwrap());
        let bypass = bypass.map_err(|error| error.to_string())?;
        Ok(bypass.until.unwrap().0.to_string())
    }

    #[test]
    fn a_bypass_ends() {
        assert_eq!(end(&["--for", "1h"]), Ok("2026-12-01T09:00:00Z".to_owned()));
        assert_eq!(
            end(&["--until", "2026-12-02T08:00:00Z"]),
            Ok("2026-12-02T08:00:00Z".to_owned())
        );
        for (words, expect) in [
            (&[][..], "required"),
            (&["--for", "soon"], "invalid value 'soon'"),
            (&["--for", "0s"], "over already"),
            (&["--until", "2026-12-01T08:00:00Z"], "over already"),
            (&["--for", "9000h"], "a year at most"),
            (
                &["--for", "1h", "--until", "2026-12-02T08:00:00Z"],
                "cannot be used with",
            ),
        ] {
            let said = end(words).unwrap_err();
            assert!(said.contains(expect), "{words:?}: {said}");
        }
    }

    #[test]
    fn a_bypass_has_a_reason() {
        for reason in ["", " ", &"x".repeat(MAX_MESSAGE + 1)] {
            let flags = parse(&["--module", "web", "--for", "1h", "--reason", reason]).unwrap();
            assert_eq!(wanted(&flags, NOW.parse().unwrap()), Err(BypassError::Reason));
        }
    }

    #[test]
    fn bypasses_that_are_over_make_room_and_others_do_not() {
        let flags = parse(&["--module", "web", "--for", "1h", "--reason", "CVE"]).unwrap();
        let now: Timestamp = NOW.parse().unwrap();
        let wanted = wanted(&flags, now).unwrap();
        let added = |before: Option<&Value>| with(before, &wanted, now).map(|all| all.len());
        let full = |until: &str| json!(vec![json!({"until": until}); MAX_BYPASSES]);
        assert_eq!(added(None), Ok(1));
        assert_eq!(added(Some(&json!([{"until": NOW}]))), Ok(2));
        assert_eq!(added(Some(&full(NOW))), Ok(1));
        assert_eq!(added(Some(&full("2026-12-01T08:00:01Z"))), Err(BypassError::Full));
        assert_eq!(added(Some(&full("some day"))), Err(BypassError::Full));
    }
}

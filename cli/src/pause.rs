//! `muster rollout pause` and `resume`: a person's will, as an annotation that git does not own.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use kube::{Client, ResourceExt, core::DynamicObject};
use muster_api::{control::Control, labels::annotation::PAUSED};
use muster_dashboard::{ModuleView, Shape, fold_names};
use serde_json::{Value, json};

use crate::{
    DONE, FAILED,
    args::{ModuleName, duration},
    control,
    fleet::{self, Address},
};

pub const PAUSE_EXAMPLES: &str = "\
Examples:
  muster rollout pause module/podinfo --reason 'release freeze'
  muster rollout pause module/podinfo --for 2h        it goes on by itself after two hours";

pub const RESUME_EXAMPLES: &str = "\
Examples:
  muster rollout resume module/podinfo";

#[derive(Args, Debug)]
pub struct PauseFlags {
    /// module/NAME or bootstrapmodule/NAME
    pub module: ModuleName,
    /// Why: it is shown in the module's status and events
    #[arg(long)]
    pub reason: Option<String>,
    /// After this time it goes on by itself, such as 30m or 2h
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub time: Option<Duration>,
    /// Ask the API server whether it would be done, and do not do it
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
pub struct ResumeFlags {
    /// module/NAME or bootstrapmodule/NAME
    pub module: ModuleName,
    /// Ask the API server whether it would be done, and do not do it
    #[arg(long)]
    pub dry_run: bool,
}

/// What a pause writes.
#[derive(Debug, PartialEq)]
enum Wish {
    /// It is so already.
    Stands(Control),
    /// This is to be written.
    Write(Control),
}

/// Pauses a module: no further cluster begins.
pub async fn pause(client: &Client, namespace: &str, flags: &PauseFlags) -> anyhow::Result<u8> {
    let PauseFlags {
        module,
        reason,
        time,
        dry_run,
    } = flags;
    let address = Address::of(client, namespace, module);
    let object = address.get().await?;
    let now = control::now();
    let until = time.map(|time| now.checked_add(time)).transpose();
    let wanted = Control {
        what: "true".to_owned(),
        by: Some(control::me(client).await),
        reason: reason.clone(),
        at: Some(now),
        until: until.context("--for is too long")?,
    };
    let before = object.annotations().get(PAUSED).map(String::as_str);
    let verb = match wish(before, wanted, now) {
        Wish::Stands(control) => format!("is paused already{}", control.told()),
        Wish::Write(control) => {
            control::annotate(&address, PAUSED, &json!(control.to_text()), *dry_run).await?;
            format!("paused{}", control.told())
        }
    };
    let view = fleet::read(client, namespace).await?;
    let view = view.module(module.kind, &module.name);
    control::tell(module, &verb, *dry_run);
    if let Some(view) = view {
        anstream::println!("{}", goes_on(view));
    }
    if set_in_spec(&object) {
        anstream::println!("spec.rollout.paused is true besides ({}).", owner(&object));
    }
    anstream::println!("To go on: muster rollout resume {module}");
    Ok(DONE)
}

/// Takes a pause away.
pub async fn resume(client: &Client, namespace: &str, flags: &ResumeFlags) -> anyhow::Result<u8> {
    let ResumeFlags { module, dry_run } = flags;
    let address = Address::of(client, namespace, module);
    let object = address.get().await?;
    let is_annotated = object.annotations().contains_key(PAUSED);
    if is_annotated {
        control::annotate(&address, PAUSED, &Value::Null, *dry_run).await?;
    }
    let verb = match (is_annotated, set_in_spec(&object)) {
        (true, true) => "is not paused by a person any more",
        (true, false) => "resumed",
        (false, true) => "is not paused by a person",
        (false, false) => "is not paused",
    };
    control::tell(module, verb, *dry_run);
    if set_in_spec(&object) {
        anstream::println!(
            "It stays paused: spec.rollout.paused is true ({}), and that is changed where it is written: in git, as a rule.",
            owner(&object)
        );
        return Ok(FAILED);
    }
    Ok(DONE)
}

/// What is to be written, given the annotation as it is. A second pause without new words changes nothing; one that has ended, or that
/// nobody can read, is replaced.
fn wish(before: Option<&str>, wanted: Control, now: Timestamp) -> Wish {
    // What cannot be read stops the module as well: the new control mends it.
    let stands = before
        .and_then(|text| Control::parse(text).ok())
        .filter(|control| control.holds(now))
        .filter(|control| {
            wanted.until.is_none() && (wanted.reason.is_none() || wanted.reason == control.reason)
        });
    stands.map_or(Wish::Write(wanted), Wish::Stands)
}

fn set_in_spec(object: &DynamicObject) -> bool {
    object
        .data
        .pointer("/spec/rollout/paused")
        .and_then(Value::as_bool)
        == Some(true)
}

/// Who wrote `spec.rollout.paused`, in words.
fn owner(object: &DynamicObject) -> String {
    let owners = object.managed_fields().iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:rollout/f:paused").is_some())
    });
    let names: Vec<&str> = owners.filter_map(|entry| entry.manager.as_deref()).collect();
    match &names[..] {
        [] => "by an unknown manager".to_owned(),
        names => format!("by {}", names.join(", ")),
    }
}

/// What a pause means for the clusters as they stand.
fn goes_on(view: &ModuleView) -> String {
    let names = |shape: Shape| {
        let cells = view.cells.iter().filter(|cell| cell.shape == shape);
        fold_names(cells.map(|cell| cell.cluster.as_str()))
    };
    let (changing, waiting) = (names(Shape::Updating), names(Shape::Waiting));
    let changing = match &changing[..] {
        [] => "nothing is changing now".to_owned(),
        [one] => format!("{one} is changing and may finish"),
        several => format!("{} are changing and may finish", several.join(", ")),
    };
    let waiting = match &waiting[..] {
        [] => String::new(),
        [one] => format!(" {one} waits."),
        several => format!(" {} wait.", several.join(", ")),
    };
    format!("No further cluster begins; {changing}.{waiting}")
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
        let wish = wish(before, wanted.clone(), NOW.parse().unwrap());
        assert_eq!(wish == Wish::Write(wanted), writes, "{before:?}: {wish:?}");
    }

    #[test]
    fn a_pause_is_written_once() {
        check(None, wanted(None, None), true);
        check(Some("true"), wanted(None, None), false);
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

    #[test]
    fn who_paused_by_the_spec_is_named() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module",
            "metadata": {"name": "web", "managedFields": [
                {"manager": "muster-controller", "operation": "Update", "fieldsV1": {"f:status": {}}},
                {"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": {"f:spec": {"f:rollout": {"f:paused": {}}}}},
            ]},
            "spec": {"rollout": {"paused": true}},
        }))
        .unwrap();
        assert!(set_in_spec(&object));
        assert_eq!(owner(&object), "by kustomize-controller");
    }
}

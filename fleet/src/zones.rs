//! Controls of a ZoneRollout: pause, resume and retry are fields of its spec.

use std::pin::pin;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, future};
use kube::{
    Client, ResourceExt as _,
    core::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::ZoneRollout;
use muster_controllers::runtime::Api;
use serde_json::{Value, json};

use crate::{
    ObjectAddress, Reporter,
    control::{self, DryRun, Term},
    stage_control::ControlOptions,
};

/// The least number of digits of a revision argument, as for a module.
const DIGITS: usize = 8;

/// Reads a ZoneRollout, by its name or by its group.
pub async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<ZoneRollout> {
    typed(
        &ObjectAddress::of_zones(client, namespace, name)
            .await?
            .get()
            .await?,
    )
}

/// Calls `show` with the ZoneRollout at each change, until `show` fails. A missing one is an error.
pub async fn watch_zones(
    client: &Client,
    namespace: &str,
    name: &str,
    mut show: impl FnMut(&ZoneRollout) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of_zones(client, namespace, name).await?;
    address.get().await?;
    let api: Api<ZoneRollout> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", address.name));
    // A watch that fails restarts; its last output stays.
    let changes = watcher(api.for_watching()?, config)
        .default_backoff()
        .applied_objects()
        .filter_map(|change| future::ready(change.ok()));
    let mut changes = pin!(changes);
    while let Some(rollout) = changes.next().await {
        show(&rollout)?;
    }
    Ok(())
}

/// Pauses a group: no further pod is replaced.
pub async fn pause_zone(
    client: &Client,
    (namespace, name): (&str, &str),
    term: &Term,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    if term.reason.is_some() || term.until.is_some() || term.time.is_some() {
        bail!("spec.paused of a ZoneRollout has no reason and no end: omit --reason, --until and --for");
    }
    let address = ObjectAddress::of_zones(client, namespace, name).await?;
    let verb = set_paused(&address, true, dry_run).await?;
    reporter.line(&control::done(&address, verb, dry_run))?;
    reporter.line(&format!(
        "To resume: muster rollout resume zonerollout/{}",
        address.name
    ))
}

/// Removes the pause.
pub async fn resume_zone(
    client: &Client,
    (namespace, name): (&str, &str),
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of_zones(client, namespace, name).await?;
    let verb = set_paused(&address, false, dry_run).await?;
    reporter.line(&control::done(&address, verb, dry_run))
}

/// Retries a revision that was marked bad; false if it would have no effect.
pub async fn retry_zone(
    client: &Client,
    (namespace, name): (&str, &str),
    requested: Option<&str>,
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    if word.reason.is_some() {
        bail!("spec.retry of a ZoneRollout has no reason: omit --reason");
    }
    let address = ObjectAddress::of_zones(client, namespace, name).await?;
    let object = address.get().await?;
    let rollout: ZoneRollout = typed(&object)?;
    let status = rollout.status.unwrap_or_default();
    let revision = status.revision.as_deref();
    let revision = revision.context("the status has no revision yet: try again in a moment")?;
    let is_meant = |given: &str| given.len() >= DIGITS.min(revision.len()) && revision.starts_with(given);
    let refused = match requested {
        Some(given) if !is_meant(given) => Some(format!("the current revision is {revision}")),
        _ if !status.sets.values().any(|set| set.condemned) => {
            Some(format!("revision {revision} is not marked bad"))
        }
        _ => None,
    };
    if let Some(refused) = refused {
        reporter.warn(&format!("error: {refused}: nothing was written"));
        return Ok(false);
    }
    control::write(
        &address,
        json!({"spec": {"retry": next_retry(rollout.spec.retry.as_deref(), revision)}}),
        word.dry_run,
    )
    .await?;
    let verb = format!("revision {revision} is retried");
    reporter.line(&control::done(&address, &verb, word.dry_run))?;
    Ok(true)
}

/// The value that requests another retry of a revision: different each time.
fn next_retry(before: Option<&str>, revision: &str) -> String {
    match before.and_then(|before| before.strip_prefix(revision)) {
        None => revision.to_owned(),
        Some(more) => {
            let times: u32 = more.trim_start_matches('.').parse().unwrap_or(1);
            format!("{revision}.{}", times.saturating_add(1))
        }
    }
}

/// Sets `spec.paused` if it differs; returns the message.
async fn set_paused(address: &ObjectAddress, paused: bool, dry_run: DryRun) -> anyhow::Result<&'static str> {
    let object = address.get().await?;
    let is_paused = object.data.pointer("/spec/paused") == Some(&Value::Bool(true));
    Ok(match (is_paused, paused) {
        (true, true) => "is already paused",
        (false, false) => "is not paused",
        (_, paused) => {
            control::write(address, json!({"spec": {"paused": paused}}), dry_run).await?;
            if paused { "paused" } else { "resumed" }
        }
    })
}

fn typed(object: &DynamicObject) -> anyhow::Result<ZoneRollout> {
    let value = serde_json::to_value(object)?;
    serde_json::from_value(value).with_context(|| format!("reading ZoneRollout {}", object.name_any()))
}

//! What verbs for modules do about a ZoneRollout: `muster why`, `muster rollout pause`, `resume` and `retry`.

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, future};
use kube::{
    Client, ResourceExt,
    core::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::ZoneRollout;
use muster_controllers::runtime::Api;
use muster_dashboard::why_zones;
use muster_fleet::{
    Address,
    control::{self, DryRun},
};
use serde_json::{Value, json};

use crate::{
    exit::{DONE, FAILED},
    explain,
    flags::{TermFlags, WhyFlags, WordFlags},
    output,
};

/// A revision that is named has at least so many digits, as one of a module has.
const DIGITS: usize = 8;

/// Explains a group of zones; once, or at each change.
pub(crate) async fn why(
    client: &Client,
    namespace: &str,
    name: &str,
    flags: &WhyFlags,
) -> anyhow::Result<u8> {
    if flags.cluster.is_some() || flags.node.is_some() {
        bail!("--cluster is for modules, and --node for NodeModules; of another cluster: --context");
    }
    let address = Address::of_zones(client, namespace, name).await?;
    let rollout: ZoneRollout = typed(&address.get().await?)?;
    if !flags.watch {
        return explain::print(&why_zones(&rollout), flags.output);
    }
    let api: Api<ZoneRollout> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", address.name));
    let mut live = output::Live::default();
    // A watch that fails begins anew; what it showed stays.
    let changes = watcher(api.for_watching()?, config)
        .default_backoff()
        .applied_objects();
    changes
        .filter_map(|change| future::ready(change.ok()))
        .for_each(|rollout| {
            live.show_blocks(&explain::blocks(&why_zones(&rollout), output::width()));
            future::ready(())
        })
        .await;
    Ok(DONE)
}

/// Pauses a group: no further pod is replaced.
pub(crate) async fn pause(
    client: &Client,
    namespace: &str,
    name: &str,
    term: &TermFlags,
) -> anyhow::Result<u8> {
    if term.reason.is_some() || term.until.is_some() || term.time.is_some() {
        bail!("spec.paused of a ZoneRollout has no reason and no end: leave --reason, --until and --for out");
    }
    let address = Address::of_zones(client, namespace, name).await?;
    let verb = set_paused(&address, true, term.dry_run.by).await?;
    say!("{}", control::done(&address, verb, term.dry_run.by));
    say!("To resume: muster rollout resume zonerollout/{}", address.name);
    Ok(DONE)
}

/// Takes the pause away.
pub(crate) async fn resume(
    client: &Client,
    namespace: &str,
    name: &str,
    dry_run: DryRun,
) -> anyhow::Result<u8> {
    let address = Address::of_zones(client, namespace, name).await?;
    let verb = set_paused(&address, false, dry_run).await?;
    say!("{}", control::done(&address, verb, dry_run));
    Ok(DONE)
}

/// Tries a condemned revision again.
pub(crate) async fn retry(
    client: &Client,
    namespace: &str,
    name: &str,
    asked: Option<&str>,
    word: &WordFlags,
) -> anyhow::Result<u8> {
    if word.reason.is_some() {
        bail!("spec.retry of a ZoneRollout has no reason: leave --reason out");
    }
    let address = Address::of_zones(client, namespace, name).await?;
    let object = address.get().await?;
    let rollout: ZoneRollout = typed(&object)?;
    let status = rollout.status.unwrap_or_default();
    let revision = status.revision.as_deref();
    let revision = revision.context("the status has no revision yet: try again in a moment")?;
    let is_meant = |said: &str| said.len() >= DIGITS.min(revision.len()) && revision.starts_with(said);
    let refused = match asked {
        Some(said) if !is_meant(said) => {
            Some(format!("revision {revision} is the one that is asked for now"))
        }
        _ if !status.sets.values().any(|set| set.condemned) => {
            Some(format!("revision {revision} is not condemned"))
        }
        _ => None,
    };
    if let Some(refused) = refused {
        complain!("error: {refused}: nothing was written");
        return Ok(FAILED);
    }
    control::write(
        &address,
        json!({"spec": {"retry": next_retry(rollout.spec.retry.as_deref(), revision)}}),
        word.dry_run.by,
    )
    .await?;
    say!(
        "{}",
        control::done(
            &address,
            &format!("revision {revision} is tried again"),
            word.dry_run.by
        )
    );
    Ok(DONE)
}

/// What asks for a revision once more: another text each time.
fn next_retry(before: Option<&str>, revision: &str) -> String {
    match before.and_then(|before| before.strip_prefix(revision)) {
        None => revision.to_owned(),
        Some(more) => {
            let times: u32 = more.trim_start_matches('.').parse().unwrap_or(1);
            format!("{revision}.{}", times.saturating_add(1))
        }
    }
}

/// Writes `spec.paused` if it says otherwise; what is told.
async fn set_paused(address: &Address, paused: bool, dry_run: DryRun) -> anyhow::Result<&'static str> {
    let object = address.get().await?;
    let is_paused = object.data.pointer("/spec/paused") == Some(&Value::Bool(true));
    Ok(match (is_paused, paused) {
        (true, true) => "is paused already",
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

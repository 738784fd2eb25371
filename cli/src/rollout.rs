//! `muster rollout`: follow a rollout until it is done or has failed; what people say is in `pause` and `once`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures::StreamExt as _;
use kube::Client;
use muster_api::reasons::Reason;
use muster_dashboard::{ModuleView, Shape};

use crate::{
    DONE, FAILED,
    args::{ClusterFlags, RolloutFlags, RolloutVerb, StatusFlags},
    connect, fleet, history, once, pause, undo,
};

/// Runs a verb of `muster rollout`.
pub async fn run(cluster: &ClusterFlags, flags: &RolloutFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    match &flags.verb {
        RolloutVerb::Status(flags) => status(&client, &namespace, flags).await,
        RolloutVerb::Pause(flags) => pause::pause(&client, &namespace, flags).await,
        RolloutVerb::Resume(flags) => pause::resume(&client, &namespace, flags).await,
        RolloutVerb::Approve(flags) => once::approve(&client, &namespace, flags, false).await,
        RolloutVerb::Promote(flags) => once::approve(&client, &namespace, flags, true).await,
        RolloutVerb::Abort(flags) => once::abort(&client, &namespace, flags).await,
        RolloutVerb::Retry(flags) => once::retry(&client, &namespace, flags).await,
        RolloutVerb::History(flags) => history::history(&client, &namespace, flags).await,
        RolloutVerb::Undo(flags) => undo::undo(&client, &namespace, flags).await,
    }
}

async fn status(client: &Client, namespace: &str, flags: &StatusFlags) -> anyhow::Result<u8> {
    let following = follow(client, namespace, flags);
    let Some(timeout) = flags.timeout else {
        return following.await;
    };
    if let Ok(ended) = tokio::time::timeout(timeout, following).await {
        return ended;
    }
    say!(
        "{} is not done after {}s; the rollout goes on in the cluster",
        flags.module,
        timeout.as_secs()
    );
    Ok(FAILED)
}

/// One line for each cluster whose word changes, until the module is ready or stalled.
async fn follow(client: &Client, namespace: &str, flags: &StatusFlags) -> anyhow::Result<u8> {
    // What a gate reads changes while all clusters wait for the same.
    let (mut told, mut asked, mut read) = (BTreeMap::new(), None, None);
    let mut changes = fleet::changes(client, namespace);
    while let Some(()) = changes.next().await {
        let fleet = fleet::read(client, namespace).await?;
        let StatusFlags {
            module,
            no_watch,
            tag,
            timeout: _,
        } = flags;
        let view = fleet
            .module(module.kind, &module.name)
            .with_context(|| fleet::missing(&fleet, module, namespace))?;
        if let Some(tag) = tag.as_ref().filter(|tag| **tag != view.version) {
            if *no_watch {
                say!("{module} asks for {}, not for {tag}", view.version);
                return Ok(FAILED);
            }
            if asked.as_ref() != Some(&view.version) {
                say!(
                    "{module} asks for {}: waiting for a commit that names {tag}",
                    view.version
                );
                asked = Some(view.version.clone());
            }
            continue;
        }
        // Before the controller has seen the new spec, the words are about the old one.
        if tag.is_none() || view.observed {
            tell(view, &mut told);
        }
        if view.reason == Reason::WaitingGate.as_str() && read.as_ref() != Some(&view.message) {
            say!("{module} {}: {}", view.reason, view.message);
            read = Some(view.message.clone());
        }
        match ended(view) {
            Some(code) => {
                say!("{module} {}: {}", view.reason, view.message);
                return Ok(code);
            }
            None if *no_watch => {
                say!("{module} {}: {}", view.reason, view.message);
                return Ok(FAILED);
            }
            None => {}
        }
    }
    Ok(FAILED)
}

fn tell(view: &ModuleView, told: &mut BTreeMap<String, String>) {
    for cell in view.cells.iter().filter(|cell| cell.shape != Shape::NotSelected) {
        if told.get(&cell.cluster) != Some(&cell.reason) {
            let version = cell.version.as_deref().unwrap_or("nothing");
            let message = if cell.message.is_empty() {
                String::new()
            } else {
                format!(": {}", cell.message)
            };
            say!(
                "{} {} {} ({version}){message}",
                cell.shape.glyph(),
                cell.cluster,
                cell.reason
            );
            told.insert(cell.cluster.clone(), cell.reason.clone());
        }
    }
}

/// The exit code, once nothing moves by itself any more.
fn ended(view: &ModuleView) -> Option<u8> {
    if !view.observed {
        return None;
    }
    match (view.ready.as_str(), view.stalled) {
        ("True", _) => Some(DONE),
        (_, true) => Some(FAILED),
        (_, false) => None,
    }
}

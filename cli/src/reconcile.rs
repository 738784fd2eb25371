//! `muster reconcile`: look now, not at the next interval.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::TryStreamExt as _;
use kube::{core::DynamicObject, runtime::watcher};
use muster_api::labels::annotation::RECONCILE_REQUESTED_AT;
use muster_controllers::runtime::Clock;
use muster_fleet::{
    Address,
    connect::{self, Target},
    control::{self, DryRun},
    name::{ModuleName, over_clusters},
};
use serde_json::json;

use crate::{
    exit::{DONE, FAILED},
    flags::duration,
};

#[derive(Args, Debug)]
pub(crate) struct ReconcileFlags {
    /// module/NAME or bootstrapmodule/NAME
    #[arg(value_parser = over_clusters)]
    pub module: ModuleName,
    /// Give up after this time; exit code 1
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster reconcile module/podinfo
  muster reconcile bootstrapmodule/base --timeout 2m";

/// Asks for a reconcile by Flux's annotation, and waits until it was handled.
pub(crate) async fn run(cluster: &Target, flags: &ReconcileFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let ReconcileFlags { module, timeout } = flags;
    let address = Address::of(&client, &namespace, module);
    address.get().await?;
    let asked = Clock::system().now().to_string();
    control::annotate(&address, RECONCILE_REQUESTED_AT, &json!(asked), DryRun::None).await?;
    match tokio::time::timeout(*timeout, handled(&address, &asked)).await {
        Ok(said) => {
            say!("{module} reconciled: {}", said?);
            Ok(DONE)
        }
        Err(_elapsed) => {
            say!(
                "{module} was not reconciled within {}s: does muster controller run?",
                timeout.as_secs()
            );
            Ok(FAILED)
        }
    }
}

/// What Ready says once the request is echoed.
async fn handled(address: &Address, asked: &str) -> anyhow::Result<String> {
    let mut objects = std::pin::pin!(watcher::watch_object(
        address.api.clone().for_watching()?,
        &address.name
    ));
    while let Some(object) = objects.try_next().await? {
        let object = object.with_context(|| format!("{} is gone", address.name))?;
        if object
            .data
            .pointer("/status/lastHandledReconcileAt")
            .and_then(|value| value.as_str())
            == Some(asked)
        {
            return Ok(ready(&object));
        }
    }
    anyhow::bail!("the watch on {} ended", address.name)
}

fn ready(object: &DynamicObject) -> String {
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(|value| value.as_array());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let text = |field: &str| {
        ready
            .and_then(|ready| ready[field].as_str())
            .unwrap_or("unknown")
            .to_owned()
    };
    format!("{}: {}", text("reason"), text("message"))
}

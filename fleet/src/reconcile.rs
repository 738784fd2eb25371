//! Requests a reconcile of a module now, not at the next interval.

use std::pin::pin;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use kube::{Client, core::DynamicObject, runtime::watcher};
use muster_api::labels::annotation::RECONCILE_REQUESTED_AT;
use muster_controllers::runtime::Clock;
use serde_json::json;

use crate::{
    ObjectAddress,
    control::{self, DryRun},
    name::ModuleName,
};

/// A request that was written.
pub struct Request {
    address: ObjectAddress,
    at: String,
}

/// Requests a reconcile by Flux's annotation.
pub async fn request(client: &Client, namespace: &str, module: &ModuleName) -> anyhow::Result<Request> {
    let address = ObjectAddress::of(client, namespace, module);
    address.get().await?;
    let at = Clock::system().now().to_string();
    control::annotate(&address, RECONCILE_REQUESTED_AT, &json!(at), DryRun::None).await?;
    Ok(Request { address, at })
}

impl Request {
    /// Waits until the request is handled; returns the message of the Ready condition.
    pub async fn handled(&self) -> anyhow::Result<String> {
        handled(&self.address, &self.at).await
    }
}

/// The message of the Ready condition once the status reports the request.
async fn handled(address: &ObjectAddress, requested_at: &str) -> anyhow::Result<String> {
    let mut objects = pin!(watcher::watch_object(
        address.api.clone().for_watching()?,
        &address.name
    ));
    while let Some(object) = objects.try_next().await? {
        let object = object.with_context(|| format!("{} is gone", address.name))?;
        if object
            .data
            .pointer("/status/lastHandledReconcileAt")
            .and_then(|value| value.as_str())
            == Some(requested_at)
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

//! `caBundle` of webhook configurations: configurations with the two labels get the certificate authorities of the
//! admission server, now and whenever these change.

use std::{collections::BTreeMap, fmt::Debug};

use futures::StreamExt;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
};
use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use muster_zones::authority::{INJECT_LABEL, NAMESPACE_LABEL, injected};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::runtime::{Api, Shutdown, call::error_chain, watch::watch_api};

/// A kind of webhook configuration: mutating or validating.
pub trait Configuration:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// The webhooks of this configuration.
    fn webhooks(&self) -> Vec<Webhook<'_>>;
}

/// The fields of a webhook that muster reads.
#[derive(Clone, Copy, Debug)]
pub struct Webhook<'a> {
    /// The webhook's name.
    pub name: &'a str,
    /// How the API server reaches the webhook.
    pub client: &'a WebhookClientConfig,
    /// What the API server does when the webhook does not answer.
    pub failure_policy: &'a str,
}

/// The API server's default `failurePolicy`.
const FAIL: &str = "Fail";

macro_rules! configuration {
    ($kind:ty) => {
        impl Configuration for $kind {
            fn webhooks(&self) -> Vec<Webhook<'_>> {
                let webhooks = self.webhooks.iter().flatten();
                let row = webhooks.map(|webhook| Webhook {
                    name: &webhook.name,
                    client: &webhook.client_config,
                    failure_policy: webhook.failure_policy.as_deref().unwrap_or(FAIL),
                });
                row.collect()
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration);
configuration!(ValidatingWebhookConfiguration);

/// The JSON patch that sets these authorities (PEM) as the `caBundle` of each webhook of a configuration; `None` if
/// there is nothing to write: the configuration does not ask for them in this namespace, or has them already.
pub fn bundle_patch<K: Configuration>(
    configuration: &K,
    namespace: &str,
    authorities: &str,
) -> Option<Vec<Value>> {
    if authorities.is_empty() {
        return None;
    }
    let bundles: Vec<Vec<u8>> = configuration
        .webhooks()
        .into_iter()
        .map(|webhook| webhook.client.ca_bundle.clone().unwrap_or_default().0)
        .collect();
    let wanted = injected(
        configuration.labels(),
        namespace,
        authorities.as_bytes(),
        &bundles,
    )?;
    let lacking = wanted
        .into_iter()
        .zip(bundles)
        .enumerate()
        .filter(|(_, (wanted, present))| wanted != present);
    let writes = lacking.map(|(index, (wanted, _))| {
        let path = format!("/webhooks/{index}/clientConfig/caBundle");
        json!({"op": "add", "path": path, "value": ByteString(wanted)})
    });
    // The indices are valid for the version that was read.
    let version =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version()});
    Some(std::iter::once(version).chain(writes).collect())
}

/// Keeps the bundles of one kind of configuration up to date until shutdown. After each change, `note` receives all
/// configurations that ask for them.
pub async fn keep_ca_bundles<K: Configuration>(
    client: Client,
    namespace: String,
    mut authorities: watch::Receiver<String>,
    mut note: impl FnMut(&BTreeMap<String, K>) + Send,
    shutdown: Shutdown,
) {
    let api: Api<K> = Api::all(client.clone());
    let by_label =
        watcher::Config::default().labels(&format!("{INJECT_LABEL}=true,{NAMESPACE_LABEL}={namespace}"));
    let mut known: BTreeMap<String, K> = BTreeMap::new();
    let mut changes = Box::pin(watch_api(api.clone(), by_label, K::kind(&()).into_owned()));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = changes.next() => {
                match event {
                    watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                        let current = authorities.borrow().clone();
                        write(&api, &object, &namespace, &current).await;
                        known.insert(object.name_any(), object);
                    }
                    watcher::Event::Delete(object) => drop(known.remove(&object.name_any())),
                    watcher::Event::Init => known.clear(),
                    watcher::Event::InitDone => {}
                }
                note(&known);
            }
            Ok(()) = authorities.changed() => {
                let authorities = authorities.borrow_and_update().clone();
                for object in known.values() {
                    write(&api, object, &namespace, &authorities).await;
                }
            }
        }
    }
}

/// A refused write is retried on the next event: a newer version, or a restarted watch.
async fn write<K: Configuration>(api: &Api<K>, object: &K, namespace: &str, authorities: &str) {
    let Some(patch) = bundle_patch(object, namespace, authorities) else {
        return;
    };
    let name = object.name_any();
    let kind = K::kind(&());
    let patch = match serde_json::from_value(Value::Array(patch)) {
        Ok(patch) => Patch::<()>::Json(patch),
        Err(error) => return warn!(%error, "an invalid patch"),
    };
    match api.patch(&name, &PatchParams::default(), &patch).await {
        Ok(_) => info!(%kind, name, "caBundle was written"),
        Err(error) => warn!(%kind, name, error = error_chain(&error), "caBundle could not be written"),
    }
}

//! `caBundle` of webhook configurations: those that ask for it by two labels get the authorities of the door, now and whenever they change.

use std::fmt::Debug;

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
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::runtime::{Api, Shutdown, call::explain, watch::watch_api};

/// The label that asks for it: `true`.
pub const INJECT: &str = "grafana.com/inject-rollout-operator-ca";
/// The label with the namespace of the door.
pub const NAMESPACE: &str = "grafana.com/namespace";

/// A kind of webhook configuration.
pub trait Configuration:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// How each of its webhooks is reached.
    fn clients(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| &webhook.client_config).collect()
    }
}

/// The JSON patch that gives each webhook of a configuration these authorities, PEM; `None` if nothing is to be written: it does not ask for
/// it in this namespace, or has them.
pub fn patch<K: Configuration>(configuration: &K, namespace: &str, authorities: &str) -> Option<Vec<Value>> {
    let labels = configuration.labels();
    let asks = labels.get(INJECT).is_some_and(|asks| asks == "true")
        && labels.get(NAMESPACE).is_some_and(|asks| asks == namespace);
    if !asks || authorities.is_empty() {
        return None;
    }
    let bundle = ByteString(authorities.as_bytes().to_vec());
    let lacking: Vec<Value> = configuration
        .clients()
        .into_iter()
        .enumerate()
        .filter(|(_, client)| client.ca_bundle.as_ref() != Some(&bundle))
        .map(|(index, _)| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": bundle})
        })
        .collect();
    // Indices are of the version that was read.
    let version =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version()});
    (!lacking.is_empty()).then(|| [vec![version], lacking].concat())
}

/// Keeps the bundles of a kind of configurations, until shutdown.
pub async fn keep<K: Configuration>(
    client: Client,
    namespace: String,
    mut authorities: watch::Receiver<String>,
    shutdown: Shutdown,
) {
    let api: Api<K> = Api::all(client.clone());
    let by_label = watcher::Config::default().labels(&format!("{INJECT}=true,{NAMESPACE}={namespace}"));
    let mut known: std::collections::BTreeMap<String, K> = std::collections::BTreeMap::new();
    let mut changes = Box::pin(watch_api(api.clone(), by_label, K::kind(&()).into_owned()));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = changes.next() => match event {
                watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                    let current = authorities.borrow().clone();
                    write(&api, &object, &namespace, &current).await;
                    known.insert(object.name_any(), object);
                }
                watcher::Event::Delete(object) => drop(known.remove(&object.name_any())),
                watcher::Event::Init => known.clear(),
                watcher::Event::InitDone => {}
            },
            Ok(()) = authorities.changed() => {
                let authorities = authorities.borrow_and_update().clone();
                for object in known.values() {
                    write(&api, object, &namespace, &authorities).await;
                }
            }
        }
    }
}

/// A refused write is answered by the next event: of a version that is known, or of a watch that starts over.
async fn write<K: Configuration>(api: &Api<K>, object: &K, namespace: &str, authorities: &str) {
    let Some(patch) = patch(object, namespace, authorities) else {
        return;
    };
    let name = object.name_any();
    let kind = K::kind(&());
    let patch = match serde_json::from_value(Value::Array(patch)) {
        Ok(patch) => Patch::<()>::Json(patch),
        Err(error) => return warn!(%error, "a patch is none"),
    };
    match api.patch(&name, &PatchParams::default(), &patch).await {
        Ok(_) => info!(%kind, name, "caBundle was written"),
        Err(error) => warn!(%kind, name, error = explain(&error), "caBundle could not be written"),
    }
}

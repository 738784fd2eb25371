//! `caBundle` of webhook configurations: those that ask for it by two labels get the authorities of the door, now and whenever they change.

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

use crate::runtime::{Api, Shutdown, call::explain, watch::watch_api};

/// A kind of webhook configuration.
pub trait Configuration:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Its webhooks.
    fn webhooks(&self) -> Vec<Webhook<'_>>;
}

/// What matters of a webhook.
#[derive(Clone, Copy, Debug)]
pub struct Webhook<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it is reached.
    pub client: &'a WebhookClientConfig,
    /// What the API server does where it is not answered.
    pub failure_policy: &'a str,
}

/// What the API server does where nothing is said.
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

/// The JSON patch that gives each webhook of a configuration these authorities, PEM; `None` if nothing is to be written: it does not ask for
/// it in this namespace, or has them.
pub fn patch<K: Configuration>(configuration: &K, namespace: &str, authorities: &str) -> Option<Vec<Value>> {
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
    // Indices are of the version that was read.
    let version =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version()});
    Some(std::iter::once(version).chain(writes).collect())
}

/// Keeps the bundles of a kind of configurations, until shutdown. `note` gets all that ask for them after each change.
pub async fn keep<K: Configuration>(
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

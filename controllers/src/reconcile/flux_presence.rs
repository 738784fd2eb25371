//! Detects whether Flux runs in this cluster: then Flux reconciles the Flux kinds, and muster leaves them alone.
//!
//! Two controllers of one object would fight over its status and its objects. Where Flux runs, it takes precedence;
//! muster only reports that, in an event about Flux's Deployment and in the log, because Flux owns the status.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ObjectReference};
use kube::{ResourceExt, runtime::watcher};
use muster_api::labels::label;
use tracing::warn;

use super::Context;
use crate::runtime::{Api, Event, Guard, Index, Key, watch};

/// Name of the Deployment that shows that Flux runs.
const SIGN: &str = "kustomize-controller";

/// How long startup waits for the first list.
const PATIENCE: Duration = Duration::from_secs(10);

/// Value of the label `app.kubernetes.io/part-of` on Flux's Deployments.
const FLUX: &str = "flux";

/// Watches Flux's Deployments.
pub(crate) struct Presence {
    deployments: Arc<Index<Deployment, ()>>,
}

impl Presence {
    pub(crate) fn new() -> Arc<Self> {
        let row = |deployment: &Deployment| (deployment.name_any() == SIGN).then_some(());
        Arc::new(Self {
            deployments: Arc::new(Index::new(row, |key, ()| vec![key.clone()])),
        })
    }

    /// Waits for the first list, but not for long: muster must also work where it cannot read Deployments.
    pub(crate) async fn known(self: Arc<Self>) {
        // After the timeout Flux counts as absent; if it is observed later, that still counts.
        let _ = tokio::time::timeout(PATIENCE, self.deployments.synced()).await;
    }

    /// Whether Flux runs in this cluster.
    pub(crate) fn is_there(&self) -> bool {
        !self.deployments.all_targets().is_empty()
    }

    /// Watches the Deployments; yields an item for each change.
    pub(crate) fn changes(self: &Arc<Self>, context: &Context) -> impl Stream<Item = ()> + Send + use<> {
        let api: Api<Guard<Deployment>> = Api::all(context.client.clone());
        let config = watcher::Config::default().labels(&format!("{}={FLUX}", label::APP_PART_OF));
        let events = watch::watch_api(api, config, "Deployment".to_owned());
        let (presence, context) = (Arc::clone(self), context.clone());
        watch::watch_rows(events, Arc::clone(&self.deployments)).then(move |key| {
            let (presence, context) = (Arc::clone(&presence), context.clone());
            async move {
                if presence.is_there() {
                    say(&key, &context).await;
                }
            }
        })
    }
}

async fn say(key: &Key, context: &Context) {
    let note = format!(
        "FluxPresent: Flux ({key}) runs in this cluster and reconciles GitRepositories and Kustomizations; the built-in sync \
         does not. Start muster with --sync=flux, or remove Flux"
    );
    warn!(deployment = %key, "{note}");
    let regarding = ObjectReference {
        api_version: Some("apps/v1".to_owned()),
        kind: Some("Deployment".to_owned()),
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        ..ObjectReference::default()
    };
    let event = Event::warning("FluxPresent", "Sync", note);
    context.events.publish_about(regarding, event).await;
}

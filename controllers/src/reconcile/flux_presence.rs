//! Whether Flux runs in this cluster: then it carries the Flux kinds out, and muster keeps its hands off them.
//!
//! Two controllers of one object would fight over its status and its objects. Flux, once there, is the one; muster only says
//! so, in an event about Flux's Deployment and in the log, because the status is Flux's to write.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ObjectReference};
use kube::{ResourceExt, runtime::watcher};
use muster_api::labels::label;
use tracing::warn;

use super::Context;
use crate::runtime::{Api, Event, Guard, Index, Key, watch};

/// The Deployment that is the sign of Flux.
const SIGN: &str = "kustomize-controller";

/// How long a start waits for the first look.
const PATIENCE: Duration = Duration::from_secs(10);

/// What its label says.
const FLUX: &str = "flux";

/// Where Flux's Deployments are.
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

    /// Waits until it is known, but not for long: a cluster where Deployments cannot be read is still to be served.
    pub(crate) async fn known(self: Arc<Self>) {
        // Not knowing in time is as good as seeing nothing; a later sighting still counts.
        let _ = tokio::time::timeout(PATIENCE, self.deployments.synced()).await;
    }

    /// Whether Flux is there.
    pub(crate) fn is_there(&self) -> bool {
        !self.deployments.all_targets().is_empty()
    }

    /// Watches, and gives a sign at each change.
    pub(crate) fn changes(self: &Arc<Self>, context: &Context) -> impl Stream<Item = ()> + Send + use<> {
        let api: Api<Guard<Deployment>> = Api::all(context.client.clone());
        let config = watcher::Config::default().labels(&format!("{}={FLUX}", label::APP_PART_OF));
        let events = watch::watch_api(api, config, "Deployment".to_owned());
        let (presence, context) = (Arc::clone(self), context.clone());
        watch::rows(events, Arc::clone(&self.deployments)).then(move |key| {
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
        "FluxPresent: Flux ({key}) runs in this cluster and carries out GitRepositories and Kustomizations; the built-in sync \
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

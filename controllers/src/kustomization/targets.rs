//! The clusters that Kustomizations are applied to: this one, and those of `spec.kubeConfig`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use kube::ResourceExt;
use muster_api::flux::Kustomization;
use muster_sync::apply::Cluster;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::settings::{self, RemoteTarget};
use crate::{
    registry::{RemoteClients, RemoteError},
    runtime::{Context, call::CALL_DEADLINE},
};

/// Clusters whose discovery is kept. What is dropped beyond that is read again.
const REMEMBERED_MAX: usize = 20_000;

/// Kustomizations of one cluster of `spec.kubeConfig` in the works at once: more than its calls at once, so that one reads what it applies
/// while others wait for answers.
const TURNS: usize = 16;
/// Those of this cluster.
const LOCAL_TURNS: usize = 1_024;

/// A cluster by the Secret of its kubeconfig.
type Id = (String, RemoteTarget);

/// Ways into clusters. What was learnt of one is kept while its credentials change.
pub(super) struct Targets {
    local: Cluster,
    clients: Arc<dyn RemoteClients>,
    remotes: Mutex<BTreeMap<Id, Cluster>>,
    local_turns: Arc<Semaphore>,
    /// Of clusters of which something is in the works.
    turns: Mutex<BTreeMap<Id, Weak<Semaphore>>>,
}

impl Targets {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            local: Cluster::new(context.client.clone(), CALL_DEADLINE),
            clients: Arc::clone(&context.remote),
            remotes: Mutex::default(),
            local_turns: Arc::new(Semaphore::new(LOCAL_TURNS)),
            turns: Mutex::default(),
        }
    }

    /// Waits until it is the turn of a Kustomization among those of its cluster.
    pub(super) async fn turn(&self, object: &Kustomization) -> Option<OwnedSemaphorePermit> {
        let turns = match settings::remote(&object.spec) {
            None => Arc::clone(&self.local_turns),
            Some(remote) => self.turns_of((object.namespace().unwrap_or_default(), remote)),
        };
        // The semaphore is never closed, so there always comes a permit.
        turns.acquire_owned().await.ok()
    }

    fn turns_of(&self, id: Id) -> Arc<Semaphore> {
        let mut all = self.turns.lock();
        if let Some(turns) = all.get(&id).and_then(Weak::upgrade) {
            return turns;
        }
        all.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(TURNS));
        all.insert(id, Arc::downgrade(&turns));
        turns
    }

    /// The cluster of a Kustomization in `namespace`.
    pub(super) async fn cluster(
        &self,
        namespace: &str,
        remote: Option<&RemoteTarget>,
    ) -> Result<Cluster, RemoteError> {
        let Some(remote) = remote else {
            return Ok(self.local.clone());
        };
        let client = self
            .clients
            .client(namespace, &remote.secret, remote.key.as_deref())
            .await?;
        let mut remotes = self.remotes.lock();
        if remotes.len() >= REMEMBERED_MAX {
            remotes.clear();
        }
        let key = (namespace.to_owned(), remote.clone());
        let known = remotes
            .entry(key)
            .or_insert_with(|| Cluster::new(client.clone(), CALL_DEADLINE));
        Ok(known.through(client))
    }
}

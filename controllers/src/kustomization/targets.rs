//! The clusters that Kustomizations are applied to: this one, and those of `spec.kubeConfig`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use kube::ResourceExt;
use muster_api::flux::Kustomization;
use muster_sync::apply::Cluster;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, RwLock, Semaphore};

use super::settings::{self, RemoteTarget};
use crate::{
    reconcile::Context,
    registry::{RemoteClients, RemoteError},
    runtime::call::CALL_DEADLINE,
};

/// Clusters whose discovery is cached. Beyond that it is dropped, and read again when needed.
const REMEMBERED_MAX: usize = 20_000;

/// Concurrent Kustomizations of one cluster of `spec.kubeConfig`: more than its concurrent calls, so that one reads
/// what it applies while others wait for responses.
const TURNS: usize = 16;
/// Concurrent Kustomizations of this cluster.
const LOCAL_TURNS: usize = 1_024;

/// A cluster by the Secret of its kubeconfig.
type Id = (String, RemoteTarget);

/// Which cluster a Kustomization is applied to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// The cluster of this process.
    Local,
    /// The uid of its `kube-system`.
    Uid(String),
    /// The Secret of its kubeconfig: its credential has no permission to read the uid.
    Secret(String, RemoteTarget),
}

/// The clients of clusters. What was learned about a cluster is kept when its credentials change.
pub(super) struct Targets {
    local: Cluster,
    clients: Arc<dyn RemoteClients>,
    remotes: Mutex<BTreeMap<Id, Cluster>>,
    local_turns: Arc<Semaphore>,
    /// For clusters with work in progress.
    turns: Mutex<BTreeMap<Id, Weak<Semaphore>>>,
    /// For clusters in which ids are recorded, or objects deleted.
    locks: Mutex<BTreeMap<Identity, Weak<RwLock<()>>>>,
    /// The cluster that a Secret led to at the last check.
    identities: Mutex<BTreeMap<Id, Identity>>,
    /// The uid of this cluster's `kube-system`, read once.
    home: OnceCell<String>,
}

impl Targets {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            local: Cluster::new(context.client.clone(), CALL_DEADLINE),
            clients: Arc::clone(&context.remote),
            remotes: Mutex::default(),
            local_turns: Arc::new(Semaphore::new(LOCAL_TURNS)),
            turns: Mutex::default(),
            locks: Mutex::default(),
            identities: Mutex::default(),
            home: OnceCell::new(),
        }
    }

    /// The lock of a cluster. Code that records ids in inventories shares it; code that deletes objects, or hands them
    /// over, holds it exclusively.
    pub(super) fn lock(&self, identity: &Identity) -> Arc<RwLock<()>> {
        let mut all = self.locks.lock();
        if let Some(lock) = all.get(identity).and_then(Weak::upgrade) {
            return lock;
        }
        all.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(RwLock::new(()));
        all.insert(identity.clone(), Arc::downgrade(&lock));
        lock
    }

    /// The uid of this cluster's `kube-system`; the error is a message if it cannot be read.
    pub(super) async fn home(&self) -> Result<&str, String> {
        let read = || async {
            let uid = self.local.identity().await.map_err(|error| error.to_string())?;
            uid.ok_or_else(|| "permission denied, or it does not exist".to_owned())
        };
        let home = self.home.get_or_try_init(read).await;
        home.map(String::as_str)
            .map_err(|why| format!("cannot read the uid of Namespace kube-system in this cluster: {why}"))
    }

    /// Which cluster a Kustomization in `namespace` is applied to; the error is a message if that is unknown now.
    pub(super) async fn identity(
        &self,
        namespace: &str,
        remote: Option<&RemoteTarget>,
    ) -> Result<Identity, String> {
        let Some(remote) = remote else {
            return Ok(Identity::Local);
        };
        let known = self
            .clients
            .identity(namespace, &remote.secret, remote.key.as_deref());
        let uid = if known.is_some() {
            known
        } else {
            let cluster = self.cluster(namespace, Some(remote)).await;
            let cluster = cluster.map_err(|error| format!("failed to build kube client: {error}"))?;
            let uid = cluster.identity().await;
            uid.map_err(|error| format!("cannot read Namespace kube-system of the target cluster: {error}"))?
        };
        let identity = match uid {
            Some(uid) if uid == self.home().await? => Identity::Local,
            Some(uid) => Identity::Uid(uid),
            None => Identity::Secret(namespace.to_owned(), remote.clone()),
        };
        let mut identities = self.identities.lock();
        if identities.len() >= REMEMBERED_MAX {
            identities.clear();
        }
        identities.insert((namespace.to_owned(), remote.clone()), identity.clone());
        Ok(identity)
    }

    /// Whether two kubeconfigs belong to two Clusters, which are never the same cluster; known even if a cluster does
    /// not respond.
    pub(super) fn are_two_clusters(&self, one: (&str, &RemoteTarget), other: (&str, &RemoteTarget)) -> bool {
        let cluster = |(namespace, remote): (&str, &RemoteTarget)| {
            self.clients
                .cluster(namespace, &remote.secret, remote.key.as_deref())
        };
        match (cluster(one), cluster(other)) {
            (Some(one), Some(other)) => one != other,
            (Some(_) | None, _) => false,
        }
    }

    /// The last known identity, without a call if it is known.
    pub(super) async fn known_identity(
        &self,
        namespace: &str,
        remote: Option<&RemoteTarget>,
    ) -> Result<Identity, String> {
        let known = remote.and_then(|remote| {
            let identities = self.identities.lock();
            identities.get(&(namespace.to_owned(), remote.clone())).cloned()
        });
        match known {
            Some(identity) => Ok(identity),
            None => self.identity(namespace, remote).await,
        }
    }

    /// Waits until it is the turn of a Kustomization among those of its cluster.
    pub(super) async fn turn(&self, object: &Kustomization) -> Option<OwnedSemaphorePermit> {
        let turns = match settings::remote(&object.spec) {
            None => Arc::clone(&self.local_turns),
            Some(remote) => self.turns_of((object.namespace().unwrap_or_default(), remote)),
        };
        // The semaphore is never closed, so a permit always arrives.
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

//! The clusters that Kustomizations are applied to: this one, and those of `spec.kubeConfig`.

use std::{collections::BTreeMap, sync::Arc};

use muster_sync::apply::Cluster;
use parking_lot::Mutex;

use super::settings::RemoteTarget;
use crate::{
    registry::{RemoteClients, RemoteError},
    runtime::{Context, call::CALL_DEADLINE},
};

/// Clusters whose discovery is kept. What is dropped beyond that is read again.
const REMEMBERED_MAX: usize = 20_000;

/// Ways into clusters. What was learnt of one is kept while its credentials change.
pub(super) struct Targets {
    local: Cluster,
    clients: Arc<dyn RemoteClients>,
    remotes: Mutex<BTreeMap<(String, RemoteTarget), Cluster>>,
}

impl Targets {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            local: Cluster::new(context.client.clone(), CALL_DEADLINE),
            clients: Arc::clone(&context.remote),
            remotes: Mutex::default(),
        }
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

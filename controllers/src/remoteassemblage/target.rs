//! The target of a RemoteAssemblage: the kubeconfig of its cluster, whether it may be worked on, and the values of its
//! rows.

use std::time::Duration;

use kube::{Client, Resource};
use muster_api::{
    RemoteAssemblage,
    assemblage::SyncRow,
    cluster::NotReady,
    flux::{KubeConfigReference, SecretKeyReference},
    labels::SYSTEM_NAMESPACE,
    names,
};

use super::Remotes;
use crate::{
    bindings::{Objects, given},
    expand::{
        Setting,
        desired::{Values, unbound},
        values::{RowValues, bind, carried, requeue_after},
        view::{Away, RowError},
    },
    registry::owner,
    runtime::call::error_chain,
};

/// How often bindings of another cluster are read again: no watch reports their changes here.
const BINDINGS_AGAIN: Duration = Duration::from_mins(1);

impl Remotes {
    /// The settings of this assemblage.
    pub(super) async fn setting(&self, remote: &RemoteAssemblage) -> Setting {
        let away = self.away(remote);
        let has_bindings = carried(&remote.spec.syncs).any(|row| !row.bindings.is_empty());
        let mut values = RowValues::new();
        let there = if has_bindings {
            Some(self.client(remote).await)
        } else {
            None
        };
        for row in carried(&remote.spec.syncs) {
            values.insert(row.name.clone(), self.values(remote, row, there.as_ref()).await);
        }
        Setting {
            kube_config: secret(remote).map(|name| KubeConfigReference {
                secret_ref: Some(SecretKeyReference { name, key: None }),
                ..KubeConfigReference::default()
            }),
            suspend: self.leads_elsewhere(remote),
            away,
            again: has_bindings
                .then_some(BINDINGS_AGAIN)
                .or_else(|| requeue_after(&values)),
            values,
        }
    }

    fn away(&self, remote: &RemoteAssemblage) -> Option<Away> {
        let Some(cluster) = &remote.spec.cluster_ref else {
            // For a Secret that belongs to no Cluster, the controller that applies the Kustomization reports problems.
            let nowhere = remote.spec.kubeconfig_ref.is_none();
            return nowhere.then(|| away(NotReady::Deleting, "set spec.clusterRef or spec.kubeconfigRef"));
        };
        let Some(row) = self.context.registry.get(&cluster.name) else {
            return Some(away(
                NotReady::Deleting,
                &format!("Cluster {} does not exist", cluster.name),
            ));
        };
        if let Some(message) = row.disowns(owner(remote.meta())) {
            return Some(away(NotReady::Deleting, &message));
        }
        let state = row.bootstrap_state();
        state.reason().map(|reason| away(reason, state.message()))
    }

    fn leads_elsewhere(&self, remote: &RemoteAssemblage) -> bool {
        let cluster = remote.spec.cluster_ref.as_ref();
        cluster
            .and_then(|cluster| self.context.registry.get(&cluster.name))
            .is_some_and(|row| row.leads_elsewhere)
    }

    async fn values(
        &self,
        remote: &RemoteAssemblage,
        row: &SyncRow,
        there: Option<&Result<Client, RowError>>,
    ) -> Result<Values, RowError> {
        let mut known = self.given(remote);
        known.extend(row.values.clone());
        let known = bind(&self.objects, &row.control_plane_bindings, known).await?;
        let Some(client) = there.filter(|_| !row.bindings.is_empty()) else {
            return Ok(known);
        };
        let client = client.as_ref().map_err(Clone::clone)?;
        let objects = Objects::new(client.clone(), SYSTEM_NAMESPACE, self.kinds.clone());
        bind(&objects, &row.bindings, known).await
    }

    /// Its cluster's name and labels, as variables.
    fn given(&self, remote: &RemoteAssemblage) -> Values {
        let Some(cluster) = &remote.spec.cluster_ref else {
            return Values::new();
        };
        let labels = self
            .context
            .registry
            .get(&cluster.name)
            .map(|row| row.labels.clone())
            .unwrap_or_default();
        given(&cluster.name, &labels)
    }

    async fn client(&self, remote: &RemoteAssemblage) -> Result<Client, RowError> {
        match (&remote.spec.cluster_ref, secret(remote)) {
            (Some(cluster), _) => self
                .context
                .registry
                .client(&cluster.name)
                .map_err(|error| unbound(&error_chain(&error))),
            (None, Some(name)) => {
                let client = self
                    .context
                    .remote
                    .client(&self.context.namespace, &name, None)
                    .await;
                client.map_err(|error| unbound(&error_chain(&error)))
            }
            (None, None) => Err(unbound("the assemblage names no cluster")),
        }
    }
}

/// The Secret with the kubeconfig.
fn secret(remote: &RemoteAssemblage) -> Option<String> {
    let cluster = remote
        .spec
        .cluster_ref
        .as_ref()
        .map(|reference| names::kubeconfig_secret(&reference.name));
    cluster.or_else(|| {
        remote
            .spec
            .kubeconfig_ref
            .as_ref()
            .map(|reference| reference.name.clone())
    })
}

fn away(reason: NotReady, message: &str) -> Away {
    Away {
        reason: reason.as_str().to_owned(),
        message: message.to_owned(),
    }
}

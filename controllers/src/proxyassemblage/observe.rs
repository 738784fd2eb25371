//! Reads whether the cluster can be worked on, and the mirror there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, ResourceExt, api::ListParams};
use muster_api::{Assemblage, ProxyAssemblage, cluster::NotReady, labels::SYSTEM_NAMESPACE};

use super::{Mirroring, ProxyError};
use crate::runtime::Api;
use crate::{
    expand::view::Away,
    registry::{RemoteError, owner},
    runtime::{CallError, Key, call, call::error_chain, call_within},
};

/// The deadline of a call to a cluster: the time after which the registry considers it silent, and half as much again.
pub(super) const DOWNSTREAM_DEADLINE: Duration = Duration::from_secs(15);

/// Whether the cluster can be worked on.
pub(super) enum Reach {
    /// Yes, with this client.
    Ready(Client),
    /// Not now.
    Away(Away),
}

impl Mirroring {
    /// Whether the cluster of a proxy can be worked on. No call is made for a Cluster: its registry knows.
    pub(super) async fn reach(&self, proxy: &ProxyAssemblage) -> Reach {
        match (&proxy.spec.cluster_ref, &proxy.spec.kubeconfig_ref) {
            (Some(cluster), _) => self.reach_cluster(proxy, &cluster.name),
            (None, Some(secret)) => match self
                .context
                .remote
                .client(&self.context.namespace, &secret.name, None)
                .await
            {
                Ok(client) => Reach::Ready(client),
                Err(RemoteError::NotReady { reason, message }) => Reach::Away(away(reason, message)),
                Err(error @ RemoteError::Call(_)) => {
                    Reach::Away(away(NotReady::NoKubeconfig, error_chain(&error)))
                }
            },
            (None, None) => Reach::Away(away(
                NotReady::Deleting,
                "set spec.clusterRef or spec.kubeconfigRef".to_owned(),
            )),
        }
    }

    fn reach_cluster(&self, proxy: &ProxyAssemblage, cluster: &str) -> Reach {
        let registry = &self.context.registry;
        if let Some(row) = registry.get(cluster) {
            if let Some(message) = row.disowns(owner(proxy.meta())) {
                return Reach::Away(away(NotReady::Deleting, message));
            }
            if let Some(reason) = row.state.reason() {
                return Reach::Away(away(reason, row.state.message().to_owned()));
            }
        }
        match registry.client(cluster) {
            Ok(client) => Reach::Ready(client),
            Err(error) => Reach::Away(away(error.reason, error.message)),
        }
    }

    /// The mirror as its watch shows it; without a watch, it is read, and then watched.
    pub(super) async fn poll(
        &self,
        proxy: &ProxyAssemblage,
        client: &Client,
    ) -> Result<Option<Assemblage>, CallError> {
        let key = Key::of(proxy);
        if let Some(live) = self.sessions.latest(&key) {
            return Ok(Some(live));
        }
        let api: Api<Assemblage> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let one = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let list = call_within(
            DOWNSTREAM_DEADLINE,
            format!("reading Assemblage {SYSTEM_NAMESPACE}/{}", key.name),
            api.list(&one),
        )
        .await?;
        let live = list
            .items
            .into_iter()
            .find(|object| object.name_any() == key.name);
        if let Some(version) = list.metadata.resource_version {
            let watched = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
            self.sessions.watch(&key, watched, version, live.as_ref());
        }
        Ok(live)
    }

    /// Nothing is removed based on rows that may be outdated: a watch may have delivered an old version.
    pub(super) async fn confirm(&self, proxy: &ProxyAssemblage) -> Result<(), ProxyError> {
        let key = Key::of(proxy);
        let api: Api<ProxyAssemblage> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let now = call(format!("reading ProxyAssemblage {key}"), api.get(&key.name))
            .await
            .map_err(ProxyError::Here)?;
        if now.uid() == proxy.uid() && now.metadata.generation == proxy.metadata.generation {
            return Ok(());
        }
        Err(ProxyError::Outdated(key))
    }

    /// `<uid of this cluster's kube-system>/<namespace>/<name>`.
    pub(super) async fn origin(&self, proxy: &ProxyAssemblage) -> Result<String, ProxyError> {
        let read = || async {
            let api: Api<Namespace> = Api::all(self.context.client.clone());
            let namespace = call("reading Namespace kube-system", api.get("kube-system")).await?;
            Ok(namespace.uid().unwrap_or_default())
        };
        let uid = self
            .identity
            .get_or_try_init(read)
            .await
            .map_err(ProxyError::Here)?;
        Ok(format!("{uid}/{}", Key::of(proxy)))
    }
}

fn away(reason: NotReady, message: String) -> Away {
    Away {
        reason: reason.as_str().to_owned(),
        message,
    }
}

//! The interface by which Kustomizations with `spec.kubeConfig` get their client.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use muster_api::{
    cluster::{NotReady, cluster_of_secret},
    labels::KUBECONFIG_KEY,
};
use thiserror::Error;

use super::{
    ClusterRow, NotConnected, Registry,
    connection::{ConnectError, Connection},
    kubeconfig::Access,
    watching,
};
use crate::runtime::{CallError, call::error_chain};

/// The maximum number of connections for kubeconfigs that do not belong to a Cluster. Beyond it, all are dropped and
/// created again on demand, so that memory stays bounded.
const OTHERS_MAX: usize = 1_000;

/// The keys in which Flux looks for a kubeconfig if none is named.
const KUBECONFIG_KEYS: [&str; 2] = [KUBECONFIG_KEY, "value.yaml"];

/// Provides clients for kubeconfigs in Secrets.
#[async_trait]
pub trait RemoteClients: Send + Sync {
    /// A client for the kubeconfig in key `key` of a Secret; without a key, `value`, else `value.yaml`. Like any other
    /// calls, its calls need a deadline.
    async fn client(&self, namespace: &str, secret: &str, key: Option<&str>) -> Result<Client, RemoteError>;

    /// The uid of `kube-system` in the cluster of that client, if it is known without a call.
    fn identity(&self, _namespace: &str, _secret: &str, _key: Option<&str>) -> Option<String> {
        None
    }

    /// The Cluster whose kubeconfig the Secret holds. Two Clusters never lead to the same cluster: the second is
    /// rejected.
    fn cluster(&self, _namespace: &str, _secret: &str, _key: Option<&str>) -> Option<String> {
        None
    }
}

/// Why there is no client now.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// The cluster is not ready (states a to f), see `message`.
    #[error("{reason}: {message}")]
    NotReady {
        /// The reason code.
        reason: NotReady,
        /// The message: what, where, since when, what to do.
        message: String,
    },
    /// The Secret could not be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

#[async_trait]
impl RemoteClients for Registry {
    async fn client(&self, namespace: &str, secret: &str, key: Option<&str>) -> Result<Client, RemoteError> {
        match self.cluster_of(namespace, secret, key) {
            Some(row) => Ok(Self::client(self, &row.name)?),
            None => self.other_client(namespace, secret, key).await,
        }
    }

    fn identity(&self, namespace: &str, secret: &str, key: Option<&str>) -> Option<String> {
        self.cluster_of(namespace, secret, key)?.identity.clone()
    }

    fn cluster(&self, namespace: &str, secret: &str, key: Option<&str>) -> Option<String> {
        Some(self.cluster_of(namespace, secret, key)?.name.clone())
    }
}

impl From<NotConnected> for RemoteError {
    fn from(NotConnected { reason, message }: NotConnected) -> Self {
        Self::NotReady { reason, message }
    }
}

impl Registry {
    /// The Cluster whose kubeconfig is in a Secret, if there is one.
    fn cluster_of(&self, namespace: &str, secret: &str, key: Option<&str>) -> Option<Arc<ClusterRow>> {
        let usual = key.is_none_or(|key| key == KUBECONFIG_KEY);
        let cluster = cluster_of_secret(secret).filter(|_| namespace == self.setup.namespace && usual)?;
        self.get(cluster)
    }

    /// A client for a Secret that does not belong to a Cluster: the Secret is read each time, so that a changed
    /// credential is used; the connection is kept.
    async fn other_client(
        &self,
        namespace: &str,
        secret: &str,
        key: Option<&str>,
    ) -> Result<Client, RemoteError> {
        let keys: &[&str] = match &key {
            Some(key) => std::slice::from_ref(key),
            None => &KUBECONFIG_KEYS,
        };
        let found = watching::read_secret(
            self.setup.client.clone(),
            namespace,
            secret,
            keys,
            &self.setup.proxy_hosts,
        )
        .await?;
        let access = match found {
            Some(Ok(access)) => access,
            Some(Err(why)) => return Err(rejected(namespace, secret, &why)),
            None => {
                return Err(RemoteError::NotReady {
                    reason: NotReady::NoKubeconfig,
                    message: format!(
                        "Secret {namespace}/{secret} with the kubeconfig in key {} is missing",
                        keys.join(" or ")
                    ),
                });
            }
        };
        let connection =
            self.other_connection((namespace.to_owned(), secret.to_owned(), keys.join("/")), access);
        let connection = connection.map_err(|error| {
            if let ConnectError::Panicked(panicked) = &error {
                self.note_panic(
                    &format!("making a client for Secret {namespace}/{secret}"),
                    panicked,
                );
            }
            rejected(namespace, secret, &error_chain(&error))
        })?;
        Ok(connection.client())
    }

    fn other_connection(
        &self,
        id: (String, String, String),
        access: Access,
    ) -> Result<Arc<Connection>, ConnectError> {
        let known = self.others.read().get(&id).cloned();
        match known {
            Some(connection) if connection.same_access(&access) => Ok(connection),
            Some(connection) if connection.same_server(&access) => {
                connection.swap(&self.setup.connect, access)?;
                Ok(connection)
            }
            Some(_) | None => {
                let connection = Arc::new(Connection::ungated(&self.setup.connect, access)?);
                let mut others = self.others.write();
                if others.len() >= OTHERS_MAX {
                    others.clear();
                }
                others.insert(id, Arc::clone(&connection));
                Ok(connection)
            }
        }
    }
}

fn rejected(namespace: &str, secret: &str, why: &str) -> RemoteError {
    RemoteError::NotReady {
        reason: NotReady::KubeconfigRejected,
        message: format!("the kubeconfig in Secret {namespace}/{secret} is not accepted: {why}"),
    }
}

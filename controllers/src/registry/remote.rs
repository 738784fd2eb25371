//! The seam through which Kustomizations with `spec.kubeConfig` get their client.

use async_trait::async_trait;
use kube::Client;
use muster_api::cluster::NotReady;
use thiserror::Error;

use crate::runtime::CallError;

/// Gives clients for kubeconfigs that lie in Secrets.
#[async_trait]
pub trait RemoteClients: Send + Sync {
    /// A client for the kubeconfig in key `key` of a Secret; without a key, `value`. Its calls need a deadline each, as any other.
    async fn client(&self, namespace: &str, secret: &str, key: Option<&str>) -> Result<Client, RemoteError>;
}

/// No client now.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// The cluster is in one of the states a to f, see `message`.
    #[error("{reason}: {message}")]
    NotReady {
        /// The reason.
        reason: NotReady,
        /// What, where, since when, what to do.
        message: String,
    },
    /// The Secret could not be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

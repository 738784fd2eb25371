//! Connects to the clusters of a fleet as the controller does: by the kubeconfig in the Secret of each.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use muster_api::{labels::KUBECONFIG_KEY, names::kubeconfig_secret};
use muster_controllers::registry::{connect_over_network, kubeconfig};
use muster_controllers::runtime::Api;

/// A client of a cluster.
pub async fn cluster_client(client: &Client, namespace: &str, cluster: &str) -> anyhow::Result<Client> {
    let name = kubeconfig_secret(cluster);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets
        .get_opt(&name)
        .await
        .with_context(|| format!("reading Secret {namespace}/{name}"))?
        .with_context(|| format!("Secret {namespace}/{name} does not exist"))?;
    let text = secret
        .data
        .unwrap_or_default()
        .remove(KUBECONFIG_KEY)
        .unwrap_or_default();
    let access = kubeconfig::parse_kubeconfig(&text.0).context("its kubeconfig is not accepted")?;
    connect_over_network(&access).context("its kubeconfig cannot be used")
}

//! The kubeconfig Secret of a Cluster.

use kube::Client;
use muster_apiserver::send;
use serde_json::json;

#[path = "kubeconfig.rs"]
mod kubeconfig;

/// Creates the Secret with the kubeconfig of a Cluster, which leads to `server`.
pub(crate) async fn create_kubeconfig(client: &Client, namespace: &str, cluster: &str, server: &str) {
    let secret = json!({
        "metadata": {"name": format!("{cluster}-kubeconfig")}, "type": "cluster.x-k8s.io/secret",
        "stringData": {"value": kubeconfig::kubeconfig(server, "t")},
    });
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    send(client, "POST", &path, Some(secret)).await.unwrap();
}

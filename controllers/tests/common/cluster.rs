//! An enrolled Cluster of Cluster API.

use kube::Client;
use muster_apiserver::send;
use serde_json::json;

/// Creates a Cluster that is enrolled, labelled `env: prod`.
pub(crate) async fn create_cluster(client: &Client, namespace: &str, name: &str) {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
        "metadata": {"name": name, "labels": {"env": "prod"}, "annotations": {"fleet.muster.dev/enrolled": ""}},
    });
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters");
    send(client, "POST", &path, Some(cluster)).await.unwrap();
}

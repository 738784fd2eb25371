//! A kubeconfig that the controllers accept.

use serde_json::json;

/// A kubeconfig in the form of a Secret's value.
pub(crate) fn kubeconfig(server: &str, token: &str) -> String {
    json!({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "u", "user": {"token": token}}],
    })
    .to_string()
}

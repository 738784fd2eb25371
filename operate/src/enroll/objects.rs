//! The objects of an enrollment: the same that `examples/enrol` applies. Pure.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use muster_api::{
    cluster::Version,
    labels::{KUBECONFIG_KEY, MUSTER, annotation, label},
    names,
};
use muster_sync::yaml::{self, YamlError};
use serde_json::{Value, json};

use super::address::ServerAddress;
pub(crate) use crate::install::ACCOUNT;

const ACCOUNT_OBJECTS: &str = include_str!("../../../examples/enrol/enrol-account.yaml");
const BOOTSTRAP_OBJECTS: &str = include_str!("../../../examples/enrol/enrol-bootstrap.yaml");

/// The objects for the new cluster, in this order; with `bootstrap` also the right to apply anything.
pub(crate) fn account(bootstrap: bool) -> Result<Vec<Value>, YamlError> {
    let files = [
        ("enrol-account.yaml", ACCOUNT_OBJECTS),
        ("enrol-bootstrap.yaml", BOOTSTRAP_OBJECTS),
    ];
    let wanted = files.iter().take(if bootstrap { 2 } else { 1 });
    let mut objects = Vec::new();
    for (file, text) in wanted {
        for document in yaml::documents(file, text.as_bytes())? {
            objects.push(document.value()?);
        }
    }
    Ok(objects)
}

/// The access of the management cluster.
#[derive(Clone)]
pub(crate) struct Access {
    /// Address of the API server.
    pub address: ServerAddress,
    /// Certificate authority: PEM in base64.
    pub authority: String,
    /// Server name of the certificate, if it is not the host of the address.
    pub tls_name: Option<String>,
    /// Token of the account. A secret: it is never printed.
    pub token: String,
}

/// The kubeconfig for the management cluster: byte for byte what `enrol.sh` writes.
pub(crate) fn kubeconfig(name: &str, access: &Access) -> String {
    let Access {
        address,
        authority,
        tls_name,
        token,
    } = access;
    let tls_name = tls_name
        .as_ref()
        .map(|name| format!("\n      tls-server-name: {name}"))
        .unwrap_or_default();
    format!(
        "apiVersion: v1
kind: Config
current-context: muster
contexts: [{{name: muster, context: {{cluster: {name}, user: muster}}}}]
clusters:
  - name: {name}
    cluster:
      server: {server}
      certificate-authority-data: {authority}{tls_name}
users: [{{name: muster, user: {{token: {token}}}}}]
",
        server = address.server
    )
}

/// The Secret with that kubeconfig.
pub(crate) fn secret(namespace: &str, name: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": names::kubeconfig_secret(name), "namespace": namespace,
            "labels": {label::KUBECONFIG: "", label::CAPI_CLUSTER_NAME: name},
        },
        "data": {KUBECONFIG_KEY: STANDARD.encode(kubeconfig)},
    })
}

/// The Cluster, with the labels that modules select by.
pub(crate) fn cluster(
    version: Version,
    namespace: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
    address: &ServerAddress,
) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": namespace,
        "annotations": {annotation::ENROLLED: "true", annotation::CAPI_MANAGED_BY: MUSTER},
    });
    if !labels.is_empty() {
        metadata["labels"] = json!(labels);
    }
    json!({
        "apiVersion": version.api_resource().api_version, "kind": "Cluster",
        "metadata": metadata,
        "spec": {"controlPlaneEndpoint": {"host": address.host, "port": address.port}},
    })
}

#[cfg(test)]
mod tests {
    use muster_controllers::registry::kubeconfig as allowed;

    use super::*;
    use crate::install::{self, Sync};
    use muster_fleet::apply::ObjectRef;

    fn access(tls_name: Option<&str>) -> Access {
        Access {
            address: ServerAddress::parse("https://api.example.com:6443").unwrap(),
            authority: STANDARD.encode("PEM"),
            tls_name: tls_name.map(str::to_owned),
            token: "canary".to_owned(),
        }
    }

    #[test]
    fn the_controller_accepts_the_kubeconfig() {
        for name in [None, Some("kubernetes")] {
            let read = allowed::parse_kubeconfig(kubeconfig("eu-1", &access(name)).as_bytes()).unwrap();
            assert_eq!(read.server, "https://api.example.com:6443");
            assert_eq!(read.tls_server_name.as_deref(), name);
            assert_eq!(read.token.unwrap().expose(), "canary");
        }
    }

    #[test]
    fn the_account_may_do_little_unless_it_has_to_bootstrap() {
        let names = |bootstrap| -> Vec<String> {
            let objects = account(bootstrap).unwrap();
            objects
                .iter()
                .map(|object| ObjectRef::of(object).to_string())
                .collect()
        };
        let all = names(true);
        assert!(!names(false).iter().any(|name| name.ends_with("-bootstrap")));
        assert_eq!(all.len(), names(false).len() + 1);
        assert_eq!(all.first().map(String::as_str), Some("Namespace muster-system"));
    }

    #[test]
    fn the_namespace_is_the_one_that_an_installation_has() {
        let account = account(false).unwrap();
        let install = install::downstream("muster:0", Sync::Builtin);
        assert_eq!(account[0], install.objects[0]);
    }
}

//! The watches of the registry: Clusters at the served version, and Secrets with kubeconfigs.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::APIGroup};
use kube::{Client, ResourceExt, core::DynamicObject, runtime::watcher};
use muster_api::{
    cluster::{self, Facts, Version, cluster_of_secret},
    labels::{CAPI_SECRET_TYPE, KUBECONFIG_KEY, label},
    names,
};

use super::{entry::KubeconfigLookup, kubeconfig, probe};
use crate::hosts::Hosts;
use crate::runtime::{Api, CallError, Guard, Index, Key, call, watch};

/// Clusters by key.
pub(super) type ClusterIndex = Index<DynamicObject, Facts>;
/// Kubeconfigs by the key of their Cluster's Secret. An entry's value may be missing or rejected.
pub(super) type SecretIndex = Index<Secret, KubeconfigLookup>;

/// An index of Clusters of one version.
pub(super) fn cluster_index(version: Version) -> ClusterIndex {
    Index::new(
        move |object: &DynamicObject| Some(Facts::read(version, object)),
        |key, _| vec![key.clone()],
    )
}

/// An index of Secrets whose name is that of a Cluster's kubeconfig.
pub(super) fn secret_index(proxies: Hosts) -> SecretIndex {
    Index::new(
        move |secret: &Secret| {
            cluster_of_secret(&secret.name_any()).map(|_| found(secret, KUBECONFIG_KEY, &proxies))
        },
        |key, _| vec![key.clone()],
    )
}

/// The names of Clusters that changed.
pub(super) fn clusters(
    client: Client,
    namespace: &str,
    version: Version,
    index: Arc<ClusterIndex>,
) -> impl Stream<Item = String> + Send + use<> {
    let api: Api<Guard<DynamicObject>> = Api::namespaced_with(client, namespace, &version.api_resource());
    let events = watch::watch_api(api, watcher::Config::default(), "Cluster".to_owned());
    watch::watch_rows(events, index).map(|key| key.name)
}

/// The names of Clusters whose kubeconfig changed: Secrets of Cluster API's type.
pub(super) fn typed_secrets(
    client: Client,
    namespace: &str,
    index: Arc<SecretIndex>,
) -> impl Stream<Item = String> + Send + use<> {
    secrets(
        client,
        namespace,
        watcher::Config::default().fields(&format!("type={CAPI_SECRET_TYPE}")),
        index,
    )
}

/// The names of Clusters whose kubeconfig changed: Secrets with muster's label.
pub(super) fn labelled_secrets(
    client: Client,
    namespace: &str,
    index: Arc<SecretIndex>,
) -> impl Stream<Item = String> + Send + use<> {
    secrets(
        client,
        namespace,
        watcher::Config::default().labels(label::KUBECONFIG),
        index,
    )
}

fn secrets(
    client: Client,
    namespace: &str,
    config: watcher::Config,
    index: Arc<SecretIndex>,
) -> impl Stream<Item = String> + Send + use<> {
    let events = watch::watch::<Secret>(client, namespace, config);
    watch::watch_rows(events, index)
        .filter_map(|key| std::future::ready(cluster_of_secret(&key.name).map(str::to_owned)))
}

/// Reads one Secret. `None`: it does not exist.
pub(super) async fn read_secret(
    client: Client,
    namespace: &str,
    name: &str,
    keys: &[&str],
    proxies: &Hosts,
) -> Result<KubeconfigLookup, CallError> {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let secret = call(
        format!("reading Secret {namespace}/{name}"),
        secrets.get_opt(name),
    )
    .await?;
    Ok(secret.and_then(|secret| keys.iter().find_map(|key| found(&secret, key, proxies))))
}

/// The kubeconfig in a Secret under a key.
fn found(secret: &Secret, key: &str, proxies: &Hosts) -> KubeconfigLookup {
    if secret.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let value = secret.data.as_ref()?.get(key)?;
    let access = kubeconfig::parse_kubeconfig(&value.0).and_then(|access| access.admit(proxies));
    Some(access.map_err(|error| error.to_string()))
}

/// The best version of Cluster that the API server serves; `None`: Cluster API is not installed.
pub(super) async fn discover(client: &Client) -> Result<Option<Version>, CallError> {
    let request = async {
        client
            .request::<APIGroup>(probe::get(&format!("/apis/{}", cluster::GROUP))?)
            .await
    };
    match call(format!("discovering the versions of {}", cluster::GROUP), request).await {
        Ok(group) => Ok(Version::best(
            group.versions.iter().map(|version| version.version.as_str()),
        )),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The uid of the Cluster with this name.
pub(super) async fn read_uid(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<Option<String>, CallError> {
    let Some(version) = discover(client).await? else {
        return Ok(None);
    };
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &version.api_resource());
    let what = format!("reading Cluster {namespace}/{cluster}");
    let found = call(what, clusters.get_metadata_opt(cluster)).await?;
    Ok(found.and_then(|found| found.metadata.uid))
}

/// The key of a Cluster's Secret in an index.
pub(super) fn secret_key(namespace: &str, name: &str) -> Key {
    Key::new(namespace, names::kubeconfig_secret(name))
}

//! The management cluster: a real kube-apiserver on its etcd, or muster's own; muster's kinds, and clusters that are
//! ready.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
};

use anyhow::Context;
use futures::{
    StreamExt, TryStreamExt, future,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt, conditions::is_crd_established, wait::await_condition, watcher},
};
use muster_api::{cluster::Version, crds};
use muster_apiserver::ApiServer;
use muster_real::Plan;
use serde::de::DeserializeOwned;
use serde_json::json;
use tempfile::TempDir;

use crate::meter::Writes;

/// Concurrent requests while a fleet is created.
const AT_ONCE: usize = 8;
/// Requests that are recorded, to be counted: none may be dropped.
const REQUESTS: usize = 1_000_000;

/// A dedicated management cluster. Its processes end when it is dropped.
pub(crate) struct Fleet {
    plane: Plane,
    directory: TempDir,
}

enum Plane {
    /// A kube-apiserver on its etcd.
    Real(muster_real::Fleet),
    /// muster's own API server, in this process, behind HTTPS.
    Embedded(ApiServer),
}

impl Fleet {
    /// Starts a kube-apiserver with muster's CRDs installed.
    pub(crate) async fn real() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let place = directory.path().join("fleet");
        let planes = tokio::task::spawn_blocking(move || {
            let mut planes = muster_real::Fleet::start(&place, Plan::default())?;
            planes.add(&["management".to_owned()])?;
            anyhow::Ok(planes)
        })
        .await??;
        Self::with_kinds(Plane::Real(planes), directory).await
    }

    /// Starts muster's own API server, for more clusters than a kube-apiserver on a small machine can take.
    pub(crate) async fn embedded() -> anyhow::Result<Self> {
        let server = ApiServer::builder().log_limit(REQUESTS).start().await?;
        Self::with_kinds(Plane::Embedded(server), tempfile::tempdir()?).await
    }

    async fn with_kinds(plane: Plane, directory: TempDir) -> anyhow::Result<Self> {
        let fleet = Self { plane, directory };
        let client = client(&fleet.kubeconfig()?).await?;
        for kind in crds::management().into_iter().chain([crds::cluster_api()]) {
            define(&client, &kind).await?;
        }
        Ok(fleet)
    }

    /// The client configuration.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        match &self.plane {
            Plane::Real(planes) => Ok(planes.plane("management")?.kubeconfig()),
            Plane::Embedded(server) => {
                let path = self.directory.path().join("management.kubeconfig");
                let text = server.kubeconfig().context("the server does not listen")?;
                std::fs::write(&path, text)?;
                Ok(path)
            }
        }
    }

    /// Writes by controllers so far.
    pub(crate) async fn writes(&self, client: &Client) -> anyhow::Result<Writes> {
        match &self.plane {
            Plane::Real(_) => Writes::counted(client).await,
            Plane::Embedded(server) => Writes::recorded(server.recorder()),
        }
    }
}

/// A client of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Waits until a kind is served.
pub(crate) async fn define(client: &Client, kind: &CustomResourceDefinition) -> anyhow::Result<()> {
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    kinds.create(&PostParams::default(), kind).await?;
    await_condition(kinds, &kind.name_any(), is_crd_established())
        .await
        .with_context(|| format!("{} is not served", kind.name_any()))?;
    Ok(())
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(())
}

/// Streams the objects of a kind in a namespace, as a watch delivers them. A broken watch restarts automatically, with
/// a list.
pub(crate) fn watch_objects<K>(client: Client, namespace: &str) -> BoxStream<'static, K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let whole = |event: watcher::Result<K>| {
        let object = event.inspect_err(|error| eprintln!("a watch broke: {error}"));
        future::ready(object.ok())
    };
    watcher(Api::namespaced(client, namespace), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(whole)
        .boxed()
}

/// The name of a cluster, from its number.
pub(crate) fn cluster(number: usize) -> String {
    format!("c-{number:05}")
}

/// Creates ready clusters, with kubeconfigs, for these numbers.
pub(crate) async fn join(
    client: &Client,
    namespace: &str,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<()> {
    stream::iter(numbers)
        .map(|number| one(client, namespace, cluster(number)))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// The UIDs of the Clusters, by name.
pub(crate) async fn uids(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &Version::V1Beta2.api_resource());
    let list = clusters.list_metadata(&ListParams::default()).await?;
    let uids = list.items.into_iter();
    Ok(uids
        .map(|cluster| (cluster.name_any(), cluster.uid().unwrap_or_default()))
        .collect())
}

async fn one(client: &Client, namespace: &str, name: String) -> anyhow::Result<()> {
    let kubeconfig = json!({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{name}.test"), "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    });
    let secret = Secret {
        metadata: serde_json::from_value(json!({"name": format!("{name}-kubeconfig")}))?,
        data: Some(
            [(
                "value".to_owned(),
                ByteString(kubeconfig.to_string().into_bytes()),
            )]
            .into(),
        ),
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.create(&PostParams::default(), &secret).await?;
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &Version::V1Beta2.api_resource());
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
        "metadata": {"name": name, "labels": {"env": "prod"}, "annotations": {"fleet.muster.dev/enrolled": ""}},
    });
    let parameters = PatchParams::apply("bench");
    clusters.patch(&name, &parameters, &Patch::Apply(object)).await?;
    Ok(())
}

//! Reading the fleet for views.

use anyhow::Context as _;
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client,
    api::ListParams,
    core::{DynamicObject, NamespaceResourceScope},
    runtime::{WatchStreamExt, watcher},
};
use muster_api::{
    BootstrapModule, Module, ProxyAssemblage, RemoteAssemblage,
    cluster::{self, Version},
};
use muster_dashboard::{Fleet, Objects};
use serde::de::DeserializeOwned;

/// Reads everything that a view needs.
pub async fn read(client: &Client, namespace: &str) -> anyhow::Result<Fleet> {
    let (modules, bootstrap_modules, proxies, remotes, clusters) = tokio::try_join!(
        all::<Module>(client, namespace),
        all::<BootstrapModule>(client, namespace),
        all::<ProxyAssemblage>(client, namespace),
        all::<RemoteAssemblage>(client, namespace),
        clusters(client, namespace),
    )?;
    Ok(Fleet::of(&Objects {
        modules,
        bootstrap_modules,
        proxies,
        remotes,
        clusters,
    }))
}

async fn all<K>(client: &Client, namespace: &str) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let what = || {
        format!(
            "listing {} (are the definitions applied? muster crds --management)",
            K::plural(&())
        )
    };
    Ok(api.list(&ListParams::default()).await.with_context(what)?.items)
}

async fn clusters(client: &Client, namespace: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let Some(version) = served(client).await? else {
        return Ok(Vec::new());
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &version.api_resource());
    Ok(api
        .list(&ListParams::default())
        .await
        .context("listing clusters")?
        .items)
}

/// The version of Cluster that is served; none without Cluster API.
pub async fn served(client: &Client) -> anyhow::Result<Option<Version>> {
    let groups = client
        .list_api_groups()
        .await
        .context("asking the API server for its groups")?;
    let group = groups
        .groups
        .into_iter()
        .find(|group| group.name == cluster::GROUP);
    Ok(group.and_then(|group| Version::best(group.versions.iter().map(|version| version.version.as_str()))))
}

/// Something in the fleet changed; begins with one item at once.
pub fn changes(client: &Client, namespace: &str) -> impl Stream<Item = ()> + Unpin + use<> {
    let changes = stream::select_all([
        touched::<Module>(client, namespace),
        touched::<BootstrapModule>(client, namespace),
        touched::<ProxyAssemblage>(client, namespace),
        touched::<RemoteAssemblage>(client, namespace),
    ]);
    stream::once(std::future::ready(())).chain(changes)
}

fn touched<K>(client: &Client, namespace: &str) -> stream::BoxStream<'static, ()>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    // What cannot be watched now is tried again; a view is never wrong for that, only late.
    events
        .filter_map(|event| std::future::ready(event.ok()))
        .filter(|event| {
            std::future::ready(!matches!(
                event,
                watcher::Event::Init | watcher::Event::InitApply(_)
            ))
        })
        .map(|_| ())
        .boxed()
}

/// A module of either kind, as far as the command needs it.
pub struct Address {
    /// Kind and name as resource of the API.
    pub api: Api<DynamicObject>,
    /// Its name.
    pub name: String,
}

impl Address {
    /// Where a module is found.
    pub fn of(client: &Client, namespace: &str, module: &crate::args::ModuleName) -> Self {
        let resource = match module.kind {
            muster_api::module::ModuleKind::Module => kube::core::ApiResource::erase::<Module>(&()),
            muster_api::module::ModuleKind::BootstrapModule => {
                kube::core::ApiResource::erase::<BootstrapModule>(&())
            }
        };
        Self {
            api: Api::namespaced_with(client.clone(), namespace, &resource),
            name: module.name.clone(),
        }
    }

    /// Reads it.
    pub async fn get(&self) -> anyhow::Result<DynamicObject> {
        let found = self
            .api
            .get_opt(&self.name)
            .await
            .with_context(|| format!("reading {}", self.name))?;
        found.with_context(|| {
            format!(
                "there is no module {} in this namespace (muster get modules)",
                self.name
            )
        })
    }
}

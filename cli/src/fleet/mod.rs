//! Reading the fleet for views: once, or as it changes.

mod happened;
mod held;
mod live;
mod show;
mod there;

pub use happened::happened;
pub use live::{Extent, follow};
pub use show::watch;
pub use there::there;

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, bail};
use kube::{
    Client, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject, NamespaceResourceScope},
};
use muster_api::{
    BootstrapModule, Module, ProxyAssemblage, RemoteAssemblage,
    cluster::{self, Version},
    module::ModuleKind,
};
use muster_controllers::runtime::Api;
use muster_dashboard::{Fleet, Objects};
use serde::de::DeserializeOwned;

use crate::{args::ModuleName, near};

/// Reads the view of the fleet.
pub async fn read(client: &Client, namespace: &str) -> anyhow::Result<Fleet> {
    Ok(Fleet::of(&objects(client, namespace).await?))
}

/// Reads everything that a view of the fleet needs.
pub async fn objects(client: &Client, namespace: &str) -> anyhow::Result<Objects> {
    let (modules, bootstrap_modules, proxies, remotes, clusters) = tokio::try_join!(
        all::<Module>(client, namespace),
        all::<BootstrapModule>(client, namespace),
        all::<ProxyAssemblage>(client, namespace),
        all::<RemoteAssemblage>(client, namespace),
        async { clusters(client, namespace, served(client).await?).await },
    )?;
    Ok(Objects {
        modules: shared(modules),
        bootstrap_modules: shared(bootstrap_modules),
        proxies: shared(proxies),
        remotes: shared(remotes),
        clusters: shared(clusters),
        ..Objects::default()
    })
}

/// What to say if there is no module of this name: which names are near.
pub fn missing(fleet: &Fleet, module: &ModuleName, namespace: &str) -> String {
    let names = fleet.modules.iter().map(|view| view.name.as_str());
    format!(
        "{}{}",
        module.missing(namespace),
        near::offer(&module.name, names)
    )
}

fn shared<K>(objects: Vec<K>) -> Vec<Arc<K>> {
    objects.into_iter().map(Arc::new).collect()
}

/// All objects of a kind.
pub async fn all<K>(client: &Client, namespace: &str) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let what = || format!("listing {}", K::plural(&()));
    Ok(api.list(&ListParams::default()).await.with_context(what)?.items)
}

/// The Clusters, of a version that is served; none without one.
pub async fn clusters(
    client: &Client,
    namespace: &str,
    version: Option<Version>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let Some(version) = version else {
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

/// The namespaces that have modules: each has a fleet of its own.
pub async fn namespaces(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for kind in [ModuleKind::Module, ModuleKind::BootstrapModule] {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
        let list = api.list_metadata(&ListParams::default()).await;
        let found = list.with_context(|| format!("listing objects of kind {kind} in all namespaces"))?;
        all.extend(found.items.into_iter().filter_map(|item| item.metadata.namespace));
    }
    Ok(all)
}

/// Every module of either kind, as it was read.
pub async fn modules(client: &Client, namespace: &str) -> anyhow::Result<Vec<(ModuleKind, DynamicObject)>> {
    let mut all = Vec::new();
    for kind in [ModuleKind::Module, ModuleKind::BootstrapModule] {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(kind));
        let list = api.list(&ListParams::default()).await;
        let items = list
            .with_context(|| format!("listing objects of kind {kind}"))?
            .items;
        all.extend(items.into_iter().map(|item| (kind, item)));
    }
    Ok(all)
}

fn resource(kind: ModuleKind) -> ApiResource {
    match kind {
        ModuleKind::Module => ApiResource::erase::<Module>(&()),
        ModuleKind::BootstrapModule => ApiResource::erase::<BootstrapModule>(&()),
    }
}

/// An object that people say something to, as far as the command needs it: a module of either kind, or a Cluster.
pub struct Address {
    /// Kind and name as resource of the API.
    pub api: Api<DynamicObject>,
    /// Its kind as kubectl tells it: `module.fleet.muster.dev`.
    pub resource: String,
    /// Its name.
    pub name: String,
    /// What it is, and how those that are there are listed.
    what: (&'static str, &'static str),
}

impl Address {
    /// Where a module is found.
    pub fn of(client: &Client, namespace: &str, module: &crate::args::ModuleName) -> Self {
        let what = ("module", "muster get modules");
        Self::at(client, namespace, &resource(module.kind), &module.name, what)
    }

    /// Where a Cluster is found.
    pub async fn of_cluster(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let version = served(client)
            .await?
            .context("Clusters are not served here (muster crds --management --cluster-api)")?;
        let what = ("Cluster", "muster get clusters");
        Ok(Self::at(client, namespace, &version.api_resource(), name, what))
    }

    fn at(
        client: &Client,
        namespace: &str,
        resource: &ApiResource,
        name: &str,
        what: (&'static str, &'static str),
    ) -> Self {
        Self {
            api: Api::namespaced_with(client.clone(), namespace, resource),
            resource: format!("{}.{}", resource.kind.to_lowercase(), resource.group),
            name: name.to_owned(),
            what,
        }
    }

    /// Reads it; none if it is not there.
    pub async fn find(&self) -> anyhow::Result<Option<DynamicObject>> {
        let found = self.api.get_opt(&self.name).await;
        found.with_context(|| format!("reading {}", self.name))
    }

    /// Reads it; where it is not there, the error names those that it may stand for.
    pub async fn get(&self) -> anyhow::Result<DynamicObject> {
        if let Some(found) = self.find().await? {
            return Ok(found);
        }
        // Who may not list them is offered none.
        let there = self.api.list_metadata(&ListParams::default()).await;
        let names: Vec<String> = there
            .into_iter()
            .flatten()
            .map(|object| object.name_any())
            .collect();
        let ((what, list), near) = (
            self.what,
            near::offer(&self.name, names.iter().map(String::as_str)),
        );
        bail!(
            "there is no {what} {} in this namespace ({list}){near}",
            self.name
        )
    }
}

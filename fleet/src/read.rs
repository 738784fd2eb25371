//! Reads the fleet for views.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use kube::{
    Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, NamespaceResourceScope},
};
use muster_api::{
    BootstrapModule, ClusterUpgrade, Module, ProxyAssemblage, RemoteAssemblage,
    cluster::{self, Version},
    module::ModuleKind,
    node::NodeModule,
};
use muster_controllers::runtime::Api;
use muster_dashboard::{Fleet, Kind, Objects};
use serde::de::DeserializeOwned;

use crate::{extent::Extent, name::ModuleName, near, nodes, watched};

/// Reads the fleet of a rollout: clusters, or the nodes of a cluster.
pub async fn read_fleet(client: &Client, namespace: &str, module: &ModuleName) -> anyhow::Result<Fleet> {
    if module.is_of_nodes() {
        return nodes::read(client).await;
    }
    read(client, namespace).await
}

/// Reads the view of the fleet.
pub async fn read(client: &Client, namespace: &str) -> anyhow::Result<Fleet> {
    Ok(Fleet::of(&read_objects(client, namespace).await?))
}

/// What the dashboard of this cluster follows: if no Modules are served, its nodes. A permanent error is returned.
pub async fn extent(client: &Client, namespace: &str) -> anyhow::Result<Extent> {
    let Err(error) = read_objects(client, namespace).await else {
        return Ok(Extent::WithNodes);
    };
    let is_served = !matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404);
    if is_served || nodes::check_served(client).await.is_err() {
        return Err(error);
    }
    nodes::read_node_objects(client).await?;
    Ok(Extent::Nodes)
}

/// Reads everything that a view of the fleet needs.
pub async fn read_objects(client: &Client, namespace: &str) -> anyhow::Result<Objects> {
    let (modules, bootstrap_modules, upgrades, proxies, remotes, clusters) = tokio::try_join!(
        list_all::<Module>(client, namespace),
        list_all::<BootstrapModule>(client, namespace),
        upgrades(client, namespace),
        list_all::<ProxyAssemblage>(client, namespace),
        list_all::<RemoteAssemblage>(client, namespace),
        async { clusters(client, namespace, served(client).await?).await },
    )?;
    Ok(Objects {
        modules: shared(modules),
        bootstrap_modules: shared(bootstrap_modules),
        upgrades: shared(upgrades),
        proxies: shared(proxies),
        remotes: shared(remotes),
        clusters: shared(clusters),
        ..Objects::default()
    })
}

/// The ClusterUpgrades; empty if they are not served, or may not be read.
async fn upgrades(client: &Client, namespace: &str) -> anyhow::Result<Vec<ClusterUpgrade>> {
    let api: Api<ClusterUpgrade> = Api::namespaced(client.clone(), namespace);
    match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if watched::NOT_THERE.contains(&status.code) => Ok(Vec::new()),
        list => Ok(list.context("listing clusterupgrades")?.items),
    }
}

/// The error for a module that a fleet does not have.
pub fn missing(fleet: &Fleet, module: &ModuleName, namespace: &str) -> String {
    let names = fleet.modules.iter().map(|view| view.name.as_str());
    if module.is_of_nodes() {
        let (name, near) = (module.name.clone(), near::offer(&module.name, names));
        return nodes::NodeError::NoModule { name, near }.to_string();
    }
    let twin = module
        .twin()
        .filter(|twin| fleet.module(twin.kind, &twin.name).is_some());
    let is_cluster = fleet.clusters.iter().any(|cluster| cluster.name == module.name);
    no_module(module, namespace, names, twin, is_cluster)
}

/// The error for a cluster that a fleet does not have.
pub fn missing_cluster(fleet: &Fleet, name: &str, namespace: &str) -> String {
    let names = fleet.clusters.iter().map(|cluster| cluster.name.as_str());
    let module = fleet.modules.iter().find(|view| view.name == name);
    let module = module.map(|view| ModuleName {
        kind: view.kind,
        name: view.name.clone(),
    });
    no_cluster(name, namespace, names, module.map(|module| (module, SEE)))
}

/// The command that shows a module: a verb, and the arguments after the module.
pub(crate) const SEE: (&str, &str) = ("tree", "");

/// The error for a missing module: suggests the module of the other kind, or the cluster, with this name, or similar
/// names.
pub(crate) fn no_module<'a>(
    module: &ModuleName,
    namespace: &str,
    names: impl IntoIterator<Item = &'a str>,
    twin: Option<ModuleName>,
    is_cluster: bool,
) -> String {
    let name = &module.name;
    if let Some(twin) = twin {
        return format!("there is no {module} in namespace {namespace}; there is {twin}");
    }
    if is_cluster {
        return format!(
            "there is no {module} in namespace {namespace}; {name} is a cluster: muster tree cluster/{name} -n {namespace}"
        );
    }
    let near = near::offer(name, names);
    let kinds = if module.kind == Kind::ClusterUpgrade {
        "clusterupgrades"
    } else {
        "modules"
    };
    format!(
        "there is no {module} in namespace {namespace}: see muster get {kinds} -n {namespace}, or name another with -n{near}"
    )
}

/// The error for a missing cluster: suggests the module of this name, if the verb takes one, or similar names.
pub(crate) fn no_cluster<'a>(
    name: &str,
    namespace: &str,
    names: impl IntoIterator<Item = &'a str>,
    module: Option<(ModuleName, (&str, &str))>,
) -> String {
    if let Some((module, (verb, rest))) = module {
        return format!(
            "there is no cluster {name} in namespace {namespace}; {name} is a module: muster {verb} {module}{rest} -n {namespace}"
        );
    }
    let near = near::offer(name, names);
    format!(
        "there is no cluster {name} in namespace {namespace}{near}: see muster get clusters -n {namespace}"
    )
}

fn shared<K>(objects: Vec<K>) -> Vec<Arc<K>> {
    objects.into_iter().map(Arc::new).collect()
}

/// All objects of a kind.
pub async fn list_all<K>(client: &Client, namespace: &str) -> anyhow::Result<Vec<K>>
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

/// The Clusters, in a served version; empty if none is served.
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

/// The served version of Cluster; `None` without Cluster API.
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

/// The namespaces that have modules: each is a fleet.
pub async fn namespaces(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for kind in [ModuleKind::Module, ModuleKind::BootstrapModule] {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind.into()));
        let list = api.list_metadata(&ListParams::default()).await;
        let found = list.with_context(|| format!("listing objects of kind {kind} in all namespaces"))?;
        all.extend(found.items.into_iter().filter_map(|item| item.metadata.namespace));
    }
    Ok(all)
}

/// Every module of either kind.
pub async fn modules(client: &Client, namespace: &str) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let mut all = Vec::new();
    for kind in [ModuleKind::Module, ModuleKind::BootstrapModule] {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(kind.into()));
        let list = api.list(&ListParams::default()).await;
        let items = list
            .with_context(|| format!("listing objects of kind {kind}"))?
            .items;
        all.extend(items.into_iter().map(|item| (kind.into(), item)));
    }
    Ok(all)
}

/// Every NodeModule.
pub async fn node_modules(client: &Client) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(Kind::NodeModule));
    let list = api.list(&ListParams::default()).await;
    let items = list.context("listing nodemodules")?.items.into_iter();
    Ok(items.map(|item| (Kind::NodeModule, item)).collect())
}

/// The resource of a kind.
pub(crate) fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::Module => ApiResource::erase::<Module>(&()),
        Kind::BootstrapModule => ApiResource::erase::<BootstrapModule>(&()),
        Kind::ClusterUpgrade => ApiResource::erase::<ClusterUpgrade>(&()),
        Kind::NodeModule => ApiResource::erase::<NodeModule>(&()),
    }
}

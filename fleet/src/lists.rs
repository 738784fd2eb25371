//! Lists of the objects in the management cluster. Nothing is written, and of Secrets only names are read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, object::HasStatus},
};
use muster_api::{
    BootstrapModule, Module, ModuleRevision, ProxyAssemblage, RemoteAssemblage, RolloutWindow,
    cluster::{Facts, NotReady, Version, cluster_of_secret},
    conditions::READY,
    module::ModuleStatus,
};
use muster_controllers::{
    registry::{self, ClusterRow},
    rolloutwindow::Windows,
    runtime::Api,
};
use muster_windows::Window;
use serde_json::Value;

use crate::read as fleet;

/// The lists.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Namespace of the objects.
    pub namespace: String,
    /// All Modules.
    pub modules: Vec<Module>,
    /// All BootstrapModules.
    pub bootstrap_modules: Vec<BootstrapModule>,
    /// All ProxyAssemblages.
    pub proxies: Vec<ProxyAssemblage>,
    /// All RemoteAssemblages.
    pub remotes: Vec<RemoteAssemblage>,
    /// All ModuleRevisions.
    pub revisions: Vec<ModuleRevision>,
    /// RolloutWindows; `None` if they may not be listed.
    pub windows: Option<Windows>,
    /// Clusters, in the served version.
    pub clusters: Vec<DynamicObject>,
    /// Served version of Cluster; `None` without Cluster API.
    pub version: Option<Version>,
    /// The clusters that have a Secret with a kubeconfig; `None` if Secrets may not be listed.
    pub enrolled: Option<BTreeSet<String>>,
}

/// Reads the lists.
pub async fn read(client: &Client, namespace: &str) -> anyhow::Result<Live> {
    let version = fleet::served(client).await?;
    let (modules, bootstrap_modules, proxies, remotes, revisions, windows, clusters, enrolled) = tokio::try_join!(
        fleet::list_all::<Module>(client, namespace),
        fleet::list_all::<BootstrapModule>(client, namespace),
        fleet::list_all::<ProxyAssemblage>(client, namespace),
        fleet::list_all::<RemoteAssemblage>(client, namespace),
        fleet::list_all::<ModuleRevision>(client, namespace),
        windows(client, namespace),
        fleet::clusters(client, namespace, version),
        enrolled(client, namespace),
    )?;
    Ok(Live {
        namespace: namespace.to_owned(),
        modules,
        bootstrap_modules,
        proxies,
        remotes,
        revisions,
        windows,
        clusters,
        version,
        enrolled,
    })
}

/// The RolloutWindows, as stored. A management cluster of an older version has none.
async fn windows(client: &Client, namespace: &str) -> anyhow::Result<Option<Windows>> {
    let kind = ApiResource::erase::<RolloutWindow>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(kube::Error::Api(status)) if status.is_forbidden() => return Ok(None),
        Err(error) => return Err(error).context("listing RolloutWindows"),
    };
    let read = |window: DynamicObject| Ok(Window::read(&serde_json::to_value(window)?));
    let all: serde_json::Result<Vec<Window>> = list.into_iter().map(read).collect();
    Ok(Some(Windows::of(all.context("reading RolloutWindows")?)))
}

/// The clusters that have a Secret, from names only; `None` if they may not be listed.
async fn enrolled(client: &Client, namespace: &str) -> anyhow::Result<Option<BTreeSet<String>>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match secrets.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let names = list.items.iter().map(ResourceExt::name_any);
            let clusters = names.filter_map(|name| cluster_of_secret(&name).map(str::to_owned));
            Ok(Some(clusters.collect()))
        }
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
        Err(error) => Err(error).context("listing the names of Secrets"),
    }
}

impl Live {
    /// The clusters with their state, as if these manifests of Clusters were applied.
    pub fn rows(&self, applied: &BTreeMap<String, Value>, now: Timestamp) -> Vec<Arc<ClusterRow>> {
        let version = self.version.unwrap_or(Version::V1Beta2);
        let mut all: BTreeMap<String, Facts> = self
            .clusters
            .iter()
            .map(|cluster| (cluster.name_any(), Facts::read(version, cluster)))
            .collect();
        for (name, manifest) in applied {
            // An API server would refuse missing fields; a plan does not report them.
            let Ok(object) = serde_json::from_value::<DynamicObject>(manifest.clone()) else {
                continue;
            };
            let written = Facts::read(version, &object);
            let facts = all.entry(name.clone()).or_insert_with(|| Facts {
                name: name.clone(),
                ..Facts::default()
            });
            facts.labels.extend(written.labels);
            facts.annotations.extend(written.annotations);
            facts.paused = facts.paused || written.paused;
        }
        let reasons = self.reported_not_ready();
        let rows = all.into_values().map(|facts| {
            let enrolled = self.enrolled.as_ref().map(|all| all.contains(&facts.name));
            let reason = reasons.get(&facts.name).cloned();
            Arc::new(ClusterRow {
                state: registry::state_from_object(&self.namespace, &facts, enrolled, reason),
                api_version: facts.api_version,
                name: facts.name,
                uid: facts.uid,
                labels: facts.labels,
                annotations: facts.annotations,
                since: now,
                last_contact: None,
                identity: None,
                upgrading: facts.upgrading,
                leads_elsewhere: false,
            })
        });
        rows.collect()
    }

    /// The last reported reason why a cluster cannot be updated: from the status of modules, else from its assemblages.
    fn reported_not_ready(&self) -> BTreeMap<String, (NotReady, String)> {
        let mut reasons = BTreeMap::new();
        let proxies = self
            .proxies
            .iter()
            .map(|proxy| (proxy.name_any(), proxy.status()));
        let remotes = self
            .remotes
            .iter()
            .map(|remote| (remote.name_any(), remote.status()));
        for (cluster, status) in proxies.chain(remotes) {
            let conditions = status.map_or(&[][..], |status| &status.conditions);
            let ready = conditions.iter().find(|condition| condition.type_ == READY);
            if let Some((reason, ready)) = ready.and_then(|ready| Some((not_ready(&ready.reason)?, ready))) {
                reasons.insert(cluster, (reason, ready.message.clone()));
            }
        }
        let modules = self.modules.iter().map(|module| &module.status);
        let statuses = modules.chain(self.bootstrap_modules.iter().map(|module| &module.status));
        for attention in statuses
            .flatten()
            .flat_map(|status: &ModuleStatus| &status.attention)
        {
            if let Some(reason) = not_ready(&attention.reason) {
                reasons.insert(attention.cluster.clone(), (reason, attention.message.clone()));
            }
        }
        reasons
    }
}

fn not_ready(word: &str) -> Option<NotReady> {
    let all = [
        NotReady::NoKubeconfig,
        NotReady::KubeconfigRejected,
        NotReady::Unreachable,
        NotReady::CredentialsRejected,
        NotReady::KindMissing,
    ];
    all.into_iter().find(|reason| reason.as_str() == word)
}

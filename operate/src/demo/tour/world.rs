//! Reads objects from the API servers as any client does.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Namespace};
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::{Module, ModuleRevision, ProxyAssemblage};
use muster_controllers::runtime::Api;

use super::{
    super::{
        cluster::Cluster,
        plane::{NAMESPACE, Plane},
    },
    guide::CheckResult,
};

/// The user name of the tour.
const VISITOR: &str = "visitor";

/// An application of the example fleet: a Deployment, whose image tag is its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct App {
    /// Namespace of the application in each cluster.
    pub namespace: &'static str,
    /// Name of the Deployment.
    pub deployment: &'static str,
}

/// The web application.
pub(crate) const PODINFO: App = App {
    namespace: "web",
    deployment: "podinfo",
};
/// The operator with its own definition.
pub(crate) const BACKUP: App = App {
    namespace: "backup",
    deployment: "backup-operator",
};

/// The database that has a plan.
pub(crate) const DB: App = App {
    namespace: "db",
    deployment: "db",
};

/// Clients of all API servers.
pub(crate) struct World<'a> {
    plane: &'a Plane,
    clusters: Vec<&'a Cluster>,
}

/// The uid and resource version of an object, by cluster: equal means that it was not written.
pub(crate) type Versions = BTreeMap<String, String>;

impl<'a> World<'a> {
    /// Creates the clients for a demo.
    pub(crate) fn new(plane: &'a Plane, clusters: &[&'a Cluster]) -> Self {
        Self {
            plane,
            clusters: clusters.to_vec(),
        }
    }

    /// The module in the management plane.
    pub(crate) async fn module(&self, name: &str) -> anyhow::Result<Module> {
        let modules: Api<Module> = Api::namespaced(self.plane.client_as(VISITOR), NAMESPACE);
        modules.get(name).await.with_context(|| format!("Module {name}"))
    }

    /// The recorded revisions.
    pub(crate) async fn revisions(&self) -> anyhow::Result<Vec<ModuleRevision>> {
        let revisions: Api<ModuleRevision> = Api::namespaced(self.plane.client_as(VISITOR), NAMESPACE);
        Ok(revisions.list(&ListParams::default()).await?.items)
    }

    /// The status of a module's plan in a cluster, from its assemblage.
    pub(crate) async fn plan(&self, cluster: &str, module: &str) -> anyhow::Result<String> {
        let rows: Api<ProxyAssemblage> = Api::namespaced(self.plane.client_as(VISITOR), NAMESPACE);
        let status = rows.get(cluster).await?.status.unwrap_or_default(); // without a status nothing is reported
        let state = status.syncs.into_iter().find(|state| state.name == module);
        Ok(state.and_then(|state| state.plan.clone()).unwrap_or_default())
    }

    /// The Jobs of a step in a cluster: their names start with that of its file.
    pub(crate) async fn jobs(
        &self,
        cluster: &str,
        namespace: &str,
        stem: &str,
    ) -> anyhow::Result<Vec<String>> {
        let jobs: Api<Job> = Api::namespaced(self.client(cluster)?, namespace);
        let all = jobs.list(&ListParams::default()).await?;
        let names = all.iter().map(ResourceExt::name_any);
        Ok(names.filter(|name| name.starts_with(stem)).collect())
    }

    /// The Deployment of an application in a cluster.
    pub(crate) async fn deployment(&self, cluster: &str, app: App) -> anyhow::Result<Option<Deployment>> {
        let deployments: Api<Deployment> = Api::namespaced(self.client(cluster)?, app.namespace);
        Ok(deployments.get_opt(app.deployment).await?)
    }

    /// Whether an application is at a version in these clusters, and ready, according to the clusters.
    pub(crate) async fn runs(
        &self,
        app: App,
        version: &str,
        clusters: &[&str],
    ) -> anyhow::Result<CheckResult> {
        let mut wrong = Vec::new();
        for cluster in clusters {
            let deployment = self.deployment(cluster, app).await?;
            match deployment
                .as_ref()
                .map(|deployment| (image_tag(deployment), is_ready(deployment)))
            {
                Some((Some(tag), true)) if tag == version => {}
                Some((tag, ready)) => {
                    let state = if ready { "ready" } else { "not ready" };
                    wrong.push(format!("{cluster} has {} {state}", tag.unwrap_or("no image")));
                }
                None => wrong.push(format!("{cluster} has none")),
            }
        }
        Ok(if wrong.is_empty() {
            Ok(String::new())
        } else {
            Err(wrong.join(", "))
        })
    }

    /// The current Deployments.
    pub(crate) async fn versions(&self, app: App) -> anyhow::Result<Versions> {
        let mut versions = Versions::new();
        for cluster in &self.clusters {
            let name = cluster.name.to_string();
            if let Some(deployment) = self.deployment(&name, app).await? {
                let version = deployment.resource_version().unwrap_or_default(); // the server sets it
                versions.insert(
                    name,
                    format!("{}@{version}", deployment.uid().unwrap_or_default()),
                );
            }
        }
        Ok(versions)
    }

    /// Whether the Deployments of these clusters were not written since `before`.
    pub(crate) async fn untouched(
        &self,
        app: App,
        before: &Versions,
        clusters: &[&str],
    ) -> anyhow::Result<CheckResult> {
        let now = self.versions(app).await?;
        let touched: Vec<String> = clusters
            .iter()
            .filter(|cluster| before.get(**cluster) != now.get(**cluster) || !now.contains_key(**cluster))
            .map(|cluster| {
                format!(
                    "{cluster}: {:?} became {:?}",
                    before.get(*cluster),
                    now.get(*cluster)
                )
            })
            .collect();
        Ok(if touched.is_empty() {
            Ok(String::new())
        } else {
            Err(touched.join(", "))
        })
    }

    /// Whether a namespace, with all its objects, is gone from these clusters.
    pub(crate) async fn is_gone(&self, namespace: &str, clusters: &[&str]) -> anyhow::Result<CheckResult> {
        for cluster in clusters {
            let namespaces: Api<Namespace> = Api::all(self.client(cluster)?);
            if namespaces.get_opt(namespace).await?.is_some() {
                return Ok(Err(format!("namespace {namespace} is in {cluster}")));
            }
        }
        Ok(Ok(String::new()))
    }

    fn client(&self, cluster: &str) -> anyhow::Result<Client> {
        let found = self
            .clusters
            .iter()
            .find(|known| known.name.to_string() == cluster);
        Ok(found
            .with_context(|| format!("there is no cluster {cluster}"))?
            .client_as(VISITOR))
    }
}

/// The tag of a Deployment's first image.
fn image_tag(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    Some(pod.containers.first()?.image.as_ref()?.rsplit_once(':')?.1)
}

/// Whether all replicas are updated and available, by the rules of `kubectl rollout status`.
fn is_ready(deployment: &Deployment) -> bool {
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ]
            .iter()
            .all(|number| number.unwrap_or(0) == wanted)
    })
}

/// The Ready condition of a module: status, reason and message.
pub(crate) fn ready(module: &Module) -> (String, String, String) {
    let conditions = module.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready");
    ready.map_or_else(Default::default, |ready| {
        (ready.status.clone(), ready.reason.clone(), ready.message.clone())
    })
}

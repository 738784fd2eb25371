//! Reads the objects of one Cluster that carry its version, and the version that its API server reports.

use std::{collections::BTreeMap, time::Duration};

use kube::{
    Client,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use muster_api::{
    cluster::{self, GROUP},
    cluster_upgrade::UpgradePart,
    labels::label,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    capi::{CONTROL_PLANE, Carrier, Cluster, ClusterFacts, Reference, TOPOLOGY, WORKERS},
    evidence::{Reading, Served},
    version::Version,
};
use crate::{
    registry::Registry,
    runtime::{Api, CallError, call, call::error_chain, call_within},
};

/// The timeout for reading a cluster's version.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Objects per page of a list.
const PAGE: u32 = 200;

/// Reads Clusters of one namespace.
pub struct Reader {
    client: Client,
    namespace: String,
    /// API resources of control plane kinds, from discovery.
    kinds: Mutex<BTreeMap<(String, String), ApiResource>>,
}

/// Why a Cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The Cluster is gone.
    #[error("there is no Cluster {0} any more")]
    Gone(String),
    /// The kind of the control plane is not served.
    #[error("the management cluster does not serve the kind {kind} of the API group {group}")]
    NoKind {
        /// Kind of the control plane.
        kind: String,
        /// API group of the control plane.
        group: String,
    },
    /// An object that the Cluster refers to does not exist.
    #[error("there is no {kind} {name}, which the Cluster refers to")]
    NoObject {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
}

impl Reader {
    /// A reader with this client.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            kinds: Mutex::default(),
        }
    }

    /// Reads a Cluster for a target version: no more than the decision about it needs. Without the registry its own API
    /// server is not asked.
    pub async fn read(
        &self,
        name: &str,
        what: &[UpgradePart],
        target: Version,
        registry: Option<&Registry>,
    ) -> Result<Reading, ReadError> {
        let resource = cluster::Version::V1Beta2.api_resource();
        let (object, facts) = self.cluster(name).await?;
        let mut carriers = Vec::new();
        let mut parts = Vec::new();
        if facts.topology.is_none() {
            if what.contains(&UpgradePart::ControlPlane)
                && let Some(reference) = &facts.control_plane
            {
                carriers.push(self.control_plane(reference).await?);
            }
            if what.contains(&UpgradePart::Workers) {
                carriers.extend(self.workers(name).await?);
            }
        } else if has_target(&facts, target) {
            if let Some(reference) = &facts.control_plane {
                parts.push(self.control_plane(reference).await?);
            }
            parts.extend(self.workers(name).await?);
        }
        // Read last, so that what the Cluster reports of its objects is not older than the objects.
        let (object, facts) = if carriers.is_empty() && parts.is_empty() {
            (object, facts)
        } else {
            self.cluster(name).await?
        };
        if facts.topology.is_some() {
            carriers = vec![Carrier::of(&resource, &object, TOPOLOGY)];
        }
        let mut reading = Reading {
            cluster: facts,
            carriers,
            parts,
            is_chained: false,
            served: Served::NotAsked,
        };
        if reading
            .oldest()
            .is_some_and(|oldest| oldest.first_step_to(target).is_some())
        {
            reading.is_chained = self.is_chained(&reading.cluster).await?;
        }
        if let Some(registry) = registry
            && what.contains(&UpgradePart::ControlPlane)
            && reading.has_begun(target)
        {
            reading.served = served(name, registry).await;
        }
        Ok(reading)
    }

    async fn cluster(&self, name: &str) -> Result<(DynamicObject, ClusterFacts), ReadError> {
        let resource = cluster::Version::V1Beta2.api_resource();
        let found = self.get(&resource, &self.namespace, name).await?;
        let object = found.ok_or_else(|| ReadError::Gone(name.to_owned()))?;
        let field = |name: &str| object.data.get(name).cloned().unwrap_or(Value::Null);
        let facts = ClusterFacts::of(&Cluster {
            metadata: object.metadata.clone(),
            spec: field("spec"),
            status: field("status"),
        });
        Ok((object, facts))
    }

    async fn control_plane(&self, reference: &Reference) -> Result<Carrier, ReadError> {
        let resource = self.kind(reference).await?;
        let found = self.get(&resource, &self.namespace, &reference.name).await?;
        let object = found.ok_or_else(|| ReadError::NoObject {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
        })?;
        Ok(Carrier::of(&resource, &object, CONTROL_PLANE))
    }

    /// MachineDeployments and MachinePools, by name; a management cluster without MachinePools has none.
    async fn workers(&self, cluster: &str) -> Result<Vec<Carrier>, ReadError> {
        let mut all = Vec::new();
        for (kind, plural) in [
            ("MachineDeployment", "machinedeployments"),
            ("MachinePool", "machinepools"),
        ] {
            let version = cluster::Version::V1Beta2.as_str();
            let resource = ApiResource {
                group: GROUP.to_owned(),
                version: version.to_owned(),
                api_version: format!("{GROUP}/{version}"),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            let mut page = ListParams::default()
                .limit(PAGE)
                .labels(&format!("{}={cluster}", label::CAPI_CLUSTER_NAME));
            loop {
                let list = match call(format!("listing {plural} of Cluster {cluster}"), api.list(&page)).await
                {
                    Ok(list) => list,
                    Err(error) if error.is_not_found() => break,
                    Err(error) => return Err(error.into()),
                };
                all.extend(
                    list.items
                        .iter()
                        .map(|object| Carrier::of(&resource, object, WORKERS)),
                );
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(all)
    }

    /// Whether the ClusterClass lists versions, or has an extension that plans them: then it goes through all minor
    /// versions on its own.
    async fn is_chained(&self, cluster: &ClusterFacts) -> Result<bool, ReadError> {
        let Some(topology) = &cluster.topology else {
            return Ok(false);
        };
        let class = &topology.class_ref;
        let version = cluster::Version::V1Beta2.as_str();
        let resource = ApiResource {
            group: GROUP.to_owned(),
            version: version.to_owned(),
            api_version: format!("{GROUP}/{version}"),
            kind: "ClusterClass".to_owned(),
            plural: "clusterclasses".to_owned(),
        };
        let namespace = class.namespace.as_ref().unwrap_or(&self.namespace);
        let found = self.get(&resource, namespace, &class.name).await?;
        Ok(found.is_some_and(|class| {
            let lists = class
                .data
                .pointer("/spec/kubernetesVersions")
                .and_then(Value::as_array);
            let plans = class
                .data
                .pointer("/spec/upgrade/external/generateUpgradePlanExtension");
            lists.is_some_and(|versions| !versions.is_empty()) || plans.is_some()
        }))
    }

    async fn get(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>, CallError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        call(format!("reading {} {name}", resource.kind), api.get_opt(name)).await
    }

    /// The API resource of a kind of control plane, at the version that its API group prefers.
    async fn kind(&self, reference: &Reference) -> Result<ApiResource, ReadError> {
        let Reference { api_group, kind, .. } = reference;
        let key = (api_group.clone(), kind.clone());
        if let Some(known) = self.kinds.lock().get(&key) {
            return Ok(known.clone());
        }
        let unknown = || ReadError::NoKind {
            kind: kind.clone(),
            group: api_group.clone(),
        };
        let groups = call("listing API groups", self.client.list_api_groups()).await?;
        let group = groups.groups.into_iter().find(|group| group.name == *api_group);
        let preferred = group.and_then(|group| {
            let versions = group.versions.into_iter().next();
            group.preferred_version.or(versions)
        });
        let preferred = preferred.ok_or_else(unknown)?;
        let what = format!("listing the kinds of {}", preferred.group_version);
        let served = call(
            what,
            self.client.list_api_group_resources(&preferred.group_version),
        )
        .await?;
        let found = served
            .resources
            .into_iter()
            .find(|resource| resource.kind == *kind && !resource.name.contains('/'));
        let resource = ApiResource {
            group: api_group.clone(),
            version: preferred.version,
            api_version: preferred.group_version,
            kind: kind.clone(),
            plural: found.ok_or_else(unknown)?.name,
        };
        self.kinds.lock().insert(key, resource.clone());
        Ok(resource)
    }
}

/// Whether the topology has the target, or a newer version.
fn has_target(facts: &ClusterFacts, target: Version) -> bool {
    let topology = facts.topology.as_ref();
    topology
        .is_some_and(|topology| Version::parse(&topology.version).is_some_and(|version| version >= target))
}

/// The version that the API server of a cluster reports.
async fn served(cluster: &str, registry: &Registry) -> Served {
    let client = match registry.client(cluster) {
        Ok(client) => client,
        Err(error) => return Served::Unknown(error.to_string()),
    };
    match call_within(TOLD_WITHIN, "reading /version", client.apiserver_version()).await {
        Ok(info) => Version::parse(&info.git_version).map_or_else(
            || Served::Unknown(format!("{} is no version", info.git_version)),
            Served::Version,
        ),
        Err(error) if error.is_not_found() => Served::Nothing,
        Err(error) => Served::Unknown(error_chain(&error)),
    }
}

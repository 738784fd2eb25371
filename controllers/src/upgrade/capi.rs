//! The parts of Cluster API's objects that an upgrade reads: Clusters of v1beta2, and the objects that carry a version.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry, ObjectMeta};
use kube::{
    ResourceExt,
    core::{ApiResource, DynamicObject, NamespaceResourceScope},
};
use muster_api::{
    cluster::{self, GROUP, asks_for_upgrades},
    labels::manager,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::version::Version;

/// A Cluster of v1beta2, as watched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec as unparsed JSON.
    #[serde(default)]
    pub spec: Value,
    /// The status as unparsed JSON.
    #[serde(default)]
    pub status: Value,
}

impl kube::Resource for Cluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Cluster".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        cluster::Version::V1Beta2.as_str().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A reference to an object in the namespace of the Cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// API group, without a version.
    pub api_group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object, in the namespace of the Cluster.
    pub name: String,
}

/// The topology of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The topology's ClusterClass.
    #[serde(default)]
    pub class_ref: ClassReference,
    /// The Kubernetes version of the topology.
    pub version: String,
}

/// The ClusterClass of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClassReference {
    /// Name of the ClusterClass.
    pub name: String,
    /// Namespace of the ClusterClass, if it is not that of the Cluster.
    pub namespace: Option<String>,
}

/// Counts of the machines of a part of a Cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machines {
    /// How many are desired, if known.
    pub desired_replicas: Option<u32>,
    /// How many exist.
    pub replicas: Option<u32>,
    /// How many match the desired spec.
    pub up_to_date_replicas: Option<u32>,
}

impl Machines {
    /// How many match the desired spec; 0 if unknown.
    pub fn up_to_date(&self) -> u32 {
        self.up_to_date_replicas.unwrap_or_default()
    }

    /// How many are desired or still exist, whichever is greater.
    pub fn total(&self) -> u32 {
        self.desired_replicas.max(self.replicas).unwrap_or_default()
    }

    /// Whether all match the desired spec, and no others are left.
    pub fn is_done(&self) -> bool {
        self.up_to_date() == self.total() && self.desired_replicas.is_none_or(|wanted| wanted == self.total())
    }
}

/// What an upgrade needs to know of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterFacts {
    /// Name of the Cluster.
    pub name: String,
    /// Uid of the Cluster.
    pub uid: String,
    /// resourceVersion that was read.
    pub resource_version: String,
    /// Labels of the Cluster.
    pub labels: BTreeMap<String, String>,
    /// muster's annotations on the Cluster.
    pub annotations: BTreeMap<String, String>,
    /// Whether it opts in to upgrades by muster.
    pub opts_in: bool,
    /// The topology, if it has one.
    pub topology: Option<Topology>,
    /// Reference to its control plane.
    pub control_plane: Option<Reference>,
    /// Whether Cluster API has observed its present generation.
    pub is_observed: bool,
    /// Its conditions, by type.
    pub conditions: BTreeMap<String, Fact>,
    /// Machines of the control plane; `None` if it does not report them.
    pub control_plane_machines: Option<Machines>,
    /// Machines of the workers; `None` if not reported.
    pub workers: Option<Machines>,
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The condition's message.
    pub message: String,
}

impl ClusterFacts {
    /// Extracts the facts of a Cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let Cluster {
            metadata,
            spec,
            status,
        } = cluster;
        let annotations = metadata.annotations.clone().unwrap_or_default();
        Self {
            name: cluster.name_any(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            opts_in: asks_for_upgrades(&annotations),
            annotations: annotations
                .into_iter()
                .filter(|(key, _)| key.starts_with("fleet.muster.dev/"))
                .collect(),
            topology: read(spec, "/topology"),
            control_plane: read(spec, "/controlPlaneRef"),
            is_observed: is_observed(metadata, status),
            conditions: conditions(status),
            control_plane_machines: read(status, "/controlPlane"),
            workers: read(status, "/workers"),
        }
    }

    /// Whether a condition is True.
    pub fn is(&self, type_: &str) -> bool {
        self.conditions
            .get(type_)
            .is_some_and(|fact| fact.status == "True")
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: &Value, pointer: &str) -> Option<T> {
    let found = value.pointer(pointer)?;
    T::deserialize(found).ok() // what does not match the form of Cluster API counts as absent
}

fn is_observed(metadata: &ObjectMeta, status: &Value) -> bool {
    let observed = status.pointer("/observedGeneration").and_then(Value::as_i64);
    metadata
        .generation
        .is_none_or(|generation| observed.is_some_and(|observed| observed >= generation))
}

/// Conditions of v1beta2; objects of v1beta1 have them in `status.v1beta2`.
fn conditions(status: &Value) -> BTreeMap<String, Fact> {
    let found = status
        .pointer("/v1beta2/conditions")
        .or_else(|| status.pointer("/conditions"));
    let all: Vec<Condition> = found
        .and_then(|found| Vec::deserialize(found).ok())
        .unwrap_or_default();
    let fact = |condition: Condition| {
        let Condition {
            type_,
            status,
            message,
            ..
        } = condition;
        (type_, Fact { status, message })
    };
    all.into_iter().map(fact).collect()
}

/// One object with a field that carries a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Carrier {
    /// API resource of the object, for requests.
    pub resource: ApiResource,
    /// Name of the object.
    pub name: String,
    /// Uid of the object.
    pub uid: String,
    /// resourceVersion that was read.
    pub resource_version: String,
    /// Path of the field, such as spec, template, spec, version.
    pub path: &'static [&'static str],
    /// The version in the field; `None` if it is empty or invalid.
    pub wanted: Option<Version>,
    /// The version that the object reports for its machines.
    pub reported: Option<Version>,
    /// The field manager that applies the field, if it is not muster.
    pub applied_by: Option<String>,
    /// Whether another manager that uses updates owns the field: then it is taken over.
    pub is_updated_by_another: bool,
    /// Whether the object's controller has observed its present generation.
    pub is_observed: bool,
    /// Counts of its machines.
    pub machines: Machines,
    /// Whether it is rolling out.
    pub is_rolling_out: bool,
    /// Whether one of its Machines is being remediated.
    pub is_remediating: bool,
}

/// The version field of a Cluster with a topology.
pub const TOPOLOGY: &[&str] = &["spec", "topology", "version"];
/// The version field of a control plane.
pub const CONTROL_PLANE: &[&str] = &["spec", "version"];
/// The version field of MachineDeployments and MachinePools.
pub const WORKERS: &[&str] = &["spec", "template", "spec", "version"];

impl Carrier {
    /// Reads an object whose version is at `path`.
    pub fn of(resource: &ApiResource, object: &DynamicObject, path: &'static [&'static str]) -> Self {
        let pointer = format!("/{}", path.join("/"));
        let version = |pointer: &str| object.data.pointer(pointer)?.as_str().and_then(Version::parse);
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let conditions = conditions(status);
        let is = |type_: &str| {
            conditions
                .get(type_)
                .is_some_and(|fact: &Fact| fact.status == "True")
        };
        let machines: Machines = read(&object.data, "/status").unwrap_or_default();
        let wanted = object.data.pointer("/spec/replicas").and_then(Value::as_u64);
        let owners = owners(object.managed_fields(), path);
        Self {
            resource: resource.clone(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            path,
            wanted: version(&pointer),
            reported: version("/status/version"),
            applied_by: owners.applied,
            is_updated_by_another: owners.updated,
            is_observed: is_observed(&object.metadata, status),
            machines: Machines {
                desired_replicas: wanted.and_then(|wanted| u32::try_from(wanted).ok()),
                ..machines
            },
            is_rolling_out: is("RollingOut"),
            is_remediating: is("Remediating"),
        }
    }

    /// Kind and name for messages: `MachineDeployment md-0`.
    pub fn describe(&self) -> String {
        format!("{} {}", self.resource.kind, self.name)
    }
}

struct Owners {
    applied: Option<String>,
    updated: bool,
}

/// The other field managers of a field.
fn owners(managed: &[ManagedFieldsEntry], path: &[&str]) -> Owners {
    let has = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let field = path
            .iter()
            .try_fold(fields?, |fields, name| fields.get(format!("f:{name}")));
        field.map(|_| ())
    };
    let others = managed
        .iter()
        .filter(|entry| entry.manager.as_deref() != Some(manager::UPGRADES))
        .filter(|entry| has(entry).is_some());
    let (mut applied, mut updated) = (None, false);
    for entry in others {
        if entry.operation.as_deref() == Some("Apply") {
            applied = applied.or_else(|| entry.manager.clone());
        } else {
            updated = true;
        }
    }
    Owners { applied, updated }
}

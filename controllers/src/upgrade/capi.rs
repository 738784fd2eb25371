//! Cluster API's objects as far as an upgrade reads them: Clusters of v1beta2, and the objects that carry a version.

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

/// A Cluster of v1beta2, as it is watched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default)]
    pub spec: Value,
    /// Its status.
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

/// An object that another one names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// The API group.
    pub api_group: String,
    /// The kind.
    pub kind: String,
    /// The name, in the namespace of the Cluster.
    pub name: String,
}

/// The topology of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The ClusterClass.
    #[serde(default)]
    pub class_ref: ClassReference,
    /// The version.
    pub version: String,
}

/// The ClusterClass of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClassReference {
    /// Its name.
    pub name: String,
    /// Its namespace, if that is another one.
    pub namespace: Option<String>,
}

/// Machines of a part of a Cluster in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machines {
    /// How many are wanted, if that is said.
    pub desired_replicas: Option<u32>,
    /// How many there are.
    pub replicas: Option<u32>,
    /// How many are as they are wanted.
    pub up_to_date_replicas: Option<u32>,
}

impl Machines {
    /// How many are as they are wanted.
    pub fn up_to_date(&self) -> u32 {
        self.up_to_date_replicas.unwrap_or_default()
    }

    /// How many there are to be, or still are.
    pub fn total(&self) -> u32 {
        self.desired_replicas.max(self.replicas).unwrap_or_default()
    }

    /// All are as they are wanted, and no other one is left.
    pub fn is_done(&self) -> bool {
        self.up_to_date() == self.total() && self.desired_replicas.is_none_or(|wanted| wanted == self.total())
    }
}

/// A Cluster as an upgrade has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version that was read.
    pub resource_version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations of muster.
    pub annotations: BTreeMap<String, String>,
    /// It asks for upgrades by muster.
    pub asks: bool,
    /// The topology, if it has one.
    pub topology: Option<Topology>,
    /// The object of its control plane.
    pub control_plane: Option<Reference>,
    /// Cluster API has observed the generation that stands there.
    pub is_observed: bool,
    /// Its conditions, by type.
    pub conditions: BTreeMap<String, Fact>,
    /// Machines of the control plane; none where that does not say it.
    pub control_plane_machines: Option<Machines>,
    /// Machines of the workers.
    pub workers: Option<Machines>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// True, False or Unknown.
    pub status: String,
    /// For people.
    pub message: String,
}

impl ClusterFacts {
    /// The facts of a Cluster.
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
            asks: asks_for_upgrades(&annotations),
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
    T::deserialize(found).ok() // what is not as Cluster API has it is not there
}

fn is_observed(metadata: &ObjectMeta, status: &Value) -> bool {
    let observed = status.pointer("/observedGeneration").and_then(Value::as_i64);
    metadata
        .generation
        .is_none_or(|generation| observed.is_some_and(|observed| observed >= generation))
}

/// Of v1beta2; objects of v1beta1 have these below `status.v1beta2`.
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
    /// How it is asked for.
    pub resource: ApiResource,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version of the object that was read.
    pub resource_version: String,
    /// Where the field is, such as spec, template, spec, version.
    pub path: &'static [&'static str],
    /// The version that is wanted there. None: it names none, or what it names is none.
    pub wanted: Option<Version>,
    /// What the object says that its machines have.
    pub reported: Option<Version>,
    /// Who applies the field, if that is another manager.
    pub applied_by: Option<String>,
    /// A manager that updates the field has it: it is taken over.
    pub is_updated_by_another: bool,
    /// The controller of the object has observed the generation that stands there.
    pub is_observed: bool,
    /// Its machines in numbers.
    pub machines: Machines,
    /// It is rolling out.
    pub is_rolling_out: bool,
    /// One of its Machines is being remediated.
    pub is_remediating: bool,
}

/// The field of a Cluster with a topology.
pub const TOPOLOGY: &[&str] = &["spec", "topology", "version"];
/// The field of a control plane.
pub const CONTROL_PLANE: &[&str] = &["spec", "version"];
/// The field of MachineDeployments and MachinePools.
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

    /// As people name it: `MachineDeployment md-0`.
    pub fn told(&self) -> String {
        format!("{} {}", self.resource.kind, self.name)
    }
}

struct Owners {
    applied: Option<String>,
    updated: bool,
}

/// Who has a field beside us.
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

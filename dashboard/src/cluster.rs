//! A cluster and the modules on it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{ResourceExt, core::DynamicObject};
use muster_api::{
    cluster::{self, Facts, Version},
    conditions,
    control::Control,
    labels::annotation,
};
use serde::Serialize;

use crate::{Cell, Fleet, Kind, Shape, Snapshot, Tree};

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// Name of the Cluster.
    pub name: String,
    /// Labels of the Cluster.
    pub labels: BTreeMap<String, String>,
    /// The cluster and the modules on it, as `muster tree cluster/NAME` shows them.
    pub tree: Tree,
    /// Why the Cluster itself is not ready for rollouts; `None` if it reports nothing.
    pub not_ready: Option<String>,
    /// Whether the cluster is reachable: reason, message, and since when.
    pub reachable: Option<(String, String, Timestamp)>,
    /// Last contact, if the cluster is unreachable.
    pub last_contact: Option<Timestamp>,
    /// Kubernetes version, if Cluster API reports it.
    pub kubernetes: Option<String>,
    /// Holds and pins set by annotation: which one, and by whom, why, until when.
    pub controls: Vec<(String, String)>,
    /// The modules that select the cluster or are on it, most urgent first.
    pub modules: Vec<Carried>,
}

/// A module on a cluster, or on a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    /// Kind of the module.
    pub kind: Kind,
    /// Name of the module.
    pub module: String,
    /// Target version of the module.
    pub target: String,
    /// State of the module there.
    pub cell: Cell,
}

impl ClusterView {
    /// Builds the view of a cluster; `None` if there is no such Cluster.
    pub fn of(snapshot: &Snapshot, name: &str) -> Option<Self> {
        let fleet = snapshot.fleet();
        let objects = &snapshot.objects;
        let object = objects
            .clusters
            .iter()
            .find(|cluster| cluster.name_any() == name)?;
        let tree = Tree::cluster(fleet, name)?;
        let proxy = objects.proxies.iter().find(|proxy| proxy.name_any() == name);
        let status = proxy.and_then(|proxy| proxy.status.as_ref());
        let reachable = status.and_then(|status| conditions::find(&status.conditions, conditions::REACHABLE));
        Some(Self {
            name: name.to_owned(),
            labels: object.labels().clone(),
            tree,
            not_ready: not_ready(object),
            reachable: reachable.map(|condition| {
                let since = condition.last_transition_time.0;
                (condition.reason.clone(), condition.message.clone(), since)
            }),
            last_contact: status.and_then(|status| Some(status.last_contact.as_ref()?.0)),
            kubernetes: object
                .data
                .pointer("/spec/topology/version")
                .and_then(|version| version.as_str())
                .map(str::to_owned),
            controls: controls(object.annotations()),
            modules: cluster_modules(fleet, name),
        })
    }
}

/// The modules that select a cluster or a node, or are on it, most urgent first.
pub(crate) fn cluster_modules(fleet: &Fleet, name: &str) -> Vec<Carried> {
    let place = fleet.clusters.iter().position(|member| member.name == name);
    let on_it = fleet.modules.iter().filter_map(|module| {
        let cell = module.cells.get(place?)?;
        let is_there = cell.shape != Shape::NotSelected || cell.version.is_some();
        is_there.then(|| Carried {
            kind: module.kind,
            module: module.name.clone(),
            target: module.version.clone(),
            cell: cell.clone(),
        })
    });
    let mut modules: Vec<Carried> = on_it.collect();
    modules.sort_by(|a, b| {
        (a.cell.shape.urgency(), a.kind, &a.module).cmp(&(b.cell.shape.urgency(), b.kind, &b.module))
    });
    modules
}

/// Why the Cluster itself is not ready. Its API version is unknown here, so the Cluster counts as ready if it is ready
/// in either version.
fn not_ready(object: &DynamicObject) -> Option<String> {
    let reasons = [Version::V1Beta2, Version::V1Beta1]
        .map(|version| cluster::state(Some(&Facts::read(version, object))).err());
    match reasons {
        [Some(why), Some(_)] => Some(why.to_string()),
        _ => None,
    }
}

/// Holds and pins in the annotations of a cluster or node: which one, and by whom, why, until when.
pub(crate) fn controls(annotations: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let found = annotations.iter().filter_map(|(key, value)| {
        let what = if key == annotation::HOLD {
            "held".to_owned()
        } else {
            format!("pin of module {}", key.strip_prefix(annotation::PIN_PREFIX)?)
        };
        let description = match Control::parse(value) {
            Ok(control) if key == annotation::HOLD => control.provenance().trim_start().to_owned(),
            Ok(control) => format!("{}{}", control.what, control.provenance()),
            Err(error) => format!("cannot be read: {error}"),
        };
        Some((what, description))
    });
    found.collect()
}

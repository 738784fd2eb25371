//! Cluster API's Cluster, as far as muster reads it: v1beta2 and v1beta1. This module writes nothing to a Cluster and
//! never needs the complete object; only a ClusterUpgrade writes the version of a Cluster.

use std::{collections::BTreeMap, fmt};

use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

use crate::{
    labels::{KUBECONFIG_SUFFIX, MUSTER, annotation},
    reasons::Reason,
    rolloutwindow::MAX_TIME_ZONE,
};

/// The API group of Cluster API.
pub const GROUP: &str = "cluster.x-k8s.io";
/// Prefix of the annotations that muster reads.
const OUR_PREFIX: &str = "fleet.muster.dev/";

/// The versions of Cluster that muster can read, the preferred one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Cluster API before 1.11.
    V1Beta1,
    /// Cluster API since 1.11.
    V1Beta2,
}

impl Version {
    /// The best version among those that an API server serves (`v1beta2`, ...).
    pub fn best<'a>(served: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let known = served.into_iter().filter_map(|version| match version {
            "v1beta2" => Some(Self::V1Beta2),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        });
        known.max()
    }

    /// The value of `apiVersion`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// The API resource of Clusters at this version.
    pub fn api_resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: self.as_str().to_owned(),
            api_version: format!("{GROUP}/{}", self.as_str()),
            kind: "Cluster".to_owned(),
            plural: "clusters".to_owned(),
        }
    }

    /// Path of the field that says that the control plane is initialized.
    fn control_plane_field(self) -> &'static str {
        match self {
            Self::V1Beta1 => "/status/controlPlaneReady",
            Self::V1Beta2 => "/status/initialization/controlPlaneInitialized",
        }
    }
}

/// Why nothing is rolled out to a cluster now. Displays as the reason's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotReady {
    /// The Cluster is being deleted, or gone.
    Deleting,
    /// `spec.paused` is set, or Cluster API's paused annotation.
    ClusterPaused,
    /// The control plane is not initialized yet.
    ControlPlaneNotReady,
    /// There is no Secret with a kubeconfig.
    NoKubeconfig,
    /// The kubeconfig contains something that is not allowed, or lacks a required field.
    KubeconfigRejected,
    /// Five consecutive attempts to connect failed.
    Unreachable,
    /// The API server rejects the credentials.
    CredentialsRejected,
    /// The kind Assemblage, or its namespace, does not exist. Blocks Modules only.
    KindMissing,
}

impl NotReady {
    /// The corresponding [`Reason`].
    pub const fn reason(self) -> Reason {
        match self {
            Self::Deleting => Reason::Deleting,
            Self::ClusterPaused => Reason::ClusterPaused,
            Self::ControlPlaneNotReady => Reason::ControlPlaneNotReady,
            Self::NoKubeconfig => Reason::NoKubeconfig,
            Self::KubeconfigRejected => Reason::KubeconfigRejected,
            Self::Unreachable => Reason::Unreachable,
            Self::CredentialsRejected => Reason::CredentialsRejected,
            Self::KindMissing => Reason::KindMissing,
        }
    }

    /// The reason's name.
    pub const fn as_str(self) -> &'static str {
        self.reason().as_str()
    }
}

impl From<NotReady> for Reason {
    fn from(not_ready: NotReady) -> Self {
        not_ready.reason()
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What muster keeps of a Cluster instead of the full object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The `apiVersion` that the Cluster was read at; used in owner references to it.
    pub api_version: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The labels that selectors and bindings read.
    pub labels: BTreeMap<String, String>,
    /// muster's annotations (`fleet.muster.dev/...`), and other annotations that are short enough to name a time zone:
    /// a RolloutWindow may refer to any of them.
    pub annotations: BTreeMap<String, String>,
    /// A deletionTimestamp is set.
    pub deleting: bool,
    /// `spec.paused` is set, or Cluster API's paused annotation.
    pub paused: bool,
    /// Whether the control plane is initialized, according to the field of the version read.
    pub control_plane: bool,
    /// The Cluster has ClusterUpgrades enabled, and its machines are being replaced: condition `RollingOut`.
    pub upgrading: bool,
}

impl Facts {
    /// Reads a Cluster of the given version. A field that is absent, or of a type that Cluster API does not use, counts
    /// as false.
    pub fn read(version: Version, object: &DynamicObject) -> Self {
        let is_true = |pointer: &str| object.data.pointer(pointer) == Some(&Value::Bool(true));
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        Self {
            api_version: format!("{GROUP}/{}", version.as_str()),
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            labels: object.metadata.labels.clone().unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            paused: is_true("/spec/paused") || annotations.contains_key(annotation::CAPI_PAUSED),
            control_plane: is_true(version.control_plane_field()),
            upgrading: asks_for_upgrades(&annotations) && is_rolling_out(version, object),
            annotations: annotations
                .into_iter()
                .filter(|(key, value)| key.starts_with(OUR_PREFIX) || value.len() <= MAX_TIME_ZONE)
                .collect(),
        }
    }
}

/// Whether these annotations allow ClusterUpgrades to write the Cluster's version.
pub fn asks_for_upgrades(annotations: &BTreeMap<String, String>) -> bool {
    annotations
        .get(annotation::UPGRADES)
        .is_some_and(|manager| manager == MUSTER)
}

fn is_rolling_out(version: Version, object: &DynamicObject) -> bool {
    let conditions = match version {
        Version::V1Beta2 => "/status/conditions",
        Version::V1Beta1 => "/status/v1beta2/conditions",
    };
    let conditions = object.data.pointer(conditions).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "RollingOut" && condition["status"] == "True")
}

/// The block reason derived from the Cluster object alone; `None` represents a Cluster that is gone. The first reason
/// that applies wins.
pub fn state(cluster: Option<&Facts>) -> Result<(), NotReady> {
    match cluster {
        None => Err(NotReady::Deleting),
        Some(facts) if facts.deleting => Err(NotReady::Deleting),
        Some(facts) if facts.paused => Err(NotReady::ClusterPaused),
        Some(facts) if !facts.control_plane && !facts.annotations.contains_key(annotation::ENROLLED) => {
            Err(NotReady::ControlPlaneNotReady)
        }
        Some(_) => Ok(()),
    }
}

/// The Cluster whose kubeconfig a Secret of this name holds.
pub fn cluster_of_secret(secret: &str) -> Option<&str> {
    secret
        .strip_suffix(KUBECONFIG_SUFFIX)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(version: Version, metadata: Value, rest: Value) -> Facts {
        let mut object = rest;
        object["apiVersion"] = json!(version.api_resource().api_version);
        object["kind"] = json!("Cluster");
        object["metadata"] = metadata;
        Facts::read(version, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_cluster_is_in_upgrade_if_it_asks_for_that_and_its_machines_are_replaced() {
        let metadata = json!({"name": "eu-1", "annotations": {"fleet.muster.dev/upgrades": "muster"}});
        let conditions = |status: &str| json!([{"type": "RollingOut", "status": status}]);
        let newer = |status| json!({"status": {"conditions": conditions(status)}});
        let older = |status| json!({"status": {"v1beta2": {"conditions": conditions(status)}}});
        assert!(cluster(Version::V1Beta2, metadata.clone(), newer("True")).upgrading);
        assert!(cluster(Version::V1Beta1, metadata.clone(), older("True")).upgrading);
        assert!(!cluster(Version::V1Beta2, metadata.clone(), newer("Unknown")).upgrading);
        assert!(!cluster(Version::V1Beta2, metadata, json!({})).upgrading);
        assert!(!cluster(Version::V1Beta2, json!({"name": "eu-1"}), newer("True")).upgrading);
    }

    fn check(version: Version, metadata: Value, rest: Value, expect: Result<(), NotReady>) {
        let shown = format!("{version:?} {metadata} {rest}");
        let facts = cluster(version, metadata, rest);
        assert_eq!(state(Some(&facts)), expect, "{shown}");
    }

    #[test]
    fn rows_a_to_c_of_both_versions() {
        use NotReady::{ClusterPaused, ControlPlaneNotReady, Deleting};
        use Version::{V1Beta1, V1Beta2};
        let named = || json!({"name": "eu-1"});
        let annotated = |key: &str| json!({"name": "eu-1", "annotations": {key: ""}});
        let up = |version| match version {
            V1Beta1 => json!({"status": {"controlPlaneReady": true}}),
            V1Beta2 => json!({"status": {"initialization": {"controlPlaneInitialized": true}}}),
        };
        assert_eq!(state(None), Err(Deleting));
        for version in [V1Beta1, V1Beta2] {
            let other = if version == V1Beta1 { V1Beta2 } else { V1Beta1 };
            let deleted = json!({"name": "eu-1", "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {annotation::CAPI_PAUSED: ""}});
            check(version, deleted, up(version), Err(Deleting));
            check(
                version,
                named(),
                json!({"spec": {"paused": true}}),
                Err(ClusterPaused),
            );
            check(
                version,
                annotated(annotation::CAPI_PAUSED),
                up(version),
                Err(ClusterPaused),
            );
            check(version, named(), json!({}), Err(ControlPlaneNotReady));
            check(version, named(), up(other), Err(ControlPlaneNotReady));
            check(
                version,
                named(),
                json!({"status": {"controlPlaneReady": "true"}}),
                Err(ControlPlaneNotReady),
            );
            check(version, annotated(annotation::ENROLLED), json!({}), Ok(()));
            check(version, named(), up(version), Ok(()));
            let mut unpaused = up(version);
            unpaused["spec"] = json!({"paused": false});
            check(version, named(), unpaused, Ok(()));
        }
    }

    #[test]
    fn the_newest_version_that_is_served_is_read() {
        assert_eq!(Version::best(["v1beta1", "v1beta2"]), Some(Version::V1Beta2));
        assert_eq!(Version::best(["v1alpha4", "v1beta1"]), Some(Version::V1Beta1));
        assert_eq!(Version::best(["v1beta3"]), None);
    }

    #[test]
    fn a_secrets_name_leads_to_its_cluster_and_back() {
        assert_eq!(
            cluster_of_secret(&crate::names::kubeconfig_secret("eu-1")),
            Some("eu-1")
        );
        assert_eq!(cluster_of_secret("-kubeconfig"), None);
        assert_eq!(cluster_of_secret("eu-1"), None);
    }
}

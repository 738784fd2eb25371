//! Cluster API's Cluster, as far as muster reads it: v1beta2 and v1beta1. Nothing is written to one here, and a whole one is
//! never needed; the version of a Cluster is written by a ClusterUpgrade alone.

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

    /// As it stands in `apiVersion`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// How clusters of this version are asked for.
    pub fn api_resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: self.as_str().to_owned(),
            api_version: format!("{GROUP}/{}", self.as_str()),
            kind: "Cluster".to_owned(),
            plural: "clusters".to_owned(),
        }
    }

    /// The field that says that the control plane can be spoken to.
    fn control_plane_field(self) -> &'static str {
        match self {
            Self::V1Beta1 => "/status/controlPlaneReady",
            Self::V1Beta2 => "/status/initialization/controlPlaneInitialized",
        }
    }
}

/// Why nothing is rolled to a cluster now. Display is the reason's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotReady {
    /// The Cluster is being deleted, or gone.
    Deleting,
    /// `spec.paused`, or the annotation of Cluster API.
    ClusterPaused,
    /// The control plane was not there yet.
    ControlPlaneNotReady,
    /// No Secret with a kubeconfig.
    NoKubeconfig,
    /// The kubeconfig has what it may not have, or lacks what it needs.
    KubeconfigRejected,
    /// Five attempts in a row failed.
    Unreachable,
    /// The API server refuses the credential.
    CredentialsRejected,
    /// The kind Assemblage, or its namespace, is not there. Stops Modules only.
    KindMissing,
}

impl NotReady {
    /// The reason of the one enum of reasons.
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

    /// The reason's word.
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

/// What muster keeps of a Cluster: a row, not the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `apiVersion` that it was read at: what an owner reference to it says.
    pub api_version: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The labels, which selectors and bindings read.
    pub labels: BTreeMap<String, String>,
    /// The annotations of muster (`fleet.muster.dev/...`), and those of others that are short enough to name a time zone: a RolloutWindow
    /// may refer to any of them.
    pub annotations: BTreeMap<String, String>,
    /// A deletionTimestamp is set.
    pub deleting: bool,
    /// `spec.paused`, or the annotation of Cluster API.
    pub paused: bool,
    /// The control plane is there, by the field of the version read.
    pub control_plane: bool,
    /// It asks for ClusterUpgrades, and its machines are being replaced: condition `RollingOut`.
    pub upgrading: bool,
}

impl Facts {
    /// Reads a Cluster of the version given. What is absent, or of another type than Cluster API gives it, counts as not true.
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

/// Whether a Cluster with these annotations lets ClusterUpgrades write its version.
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

/// What the Cluster object alone says; `None` for a Cluster that is gone. First reason that applies.
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

/// The name of the Secret that holds a Cluster's kubeconfig.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}{KUBECONFIG_SUFFIX}")
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
        let asks = json!({"name": "eu-1", "annotations": {"fleet.muster.dev/upgrades": "muster"}});
        let conditions = |status: &str| json!([{"type": "RollingOut", "status": status}]);
        let newer = |status| json!({"status": {"conditions": conditions(status)}});
        let older = |status| json!({"status": {"v1beta2": {"conditions": conditions(status)}}});
        assert!(cluster(Version::V1Beta2, asks.clone(), newer("True")).upgrading);
        assert!(cluster(Version::V1Beta1, asks.clone(), older("True")).upgrading);
        assert!(!cluster(Version::V1Beta2, asks.clone(), newer("Unknown")).upgrading);
        assert!(!cluster(Version::V1Beta2, asks, json!({})).upgrading);
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
        assert_eq!(cluster_of_secret(&kubeconfig_secret("eu-1")), Some("eu-1"));
        assert_eq!(cluster_of_secret("-kubeconfig"), None);
        assert_eq!(cluster_of_secret("eu-1"), None);
    }
}

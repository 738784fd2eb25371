//! A StatefulSet, as far as decisions depend on it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Pod;

/// A StatefulSet: one zone of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty where the object has none.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`, where it is set.
    pub replicas: Option<u32>,
    /// `spec.serviceName`.
    pub service_name: String,
    /// Whether the update strategy is OnDelete.
    pub on_delete: bool,
    /// What the StatefulSet controller reports.
    pub status: SetStatus,
}

/// The status of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetStatus {
    /// The generation that the rest is about.
    pub observed_generation: i64,
    /// Pods that exist.
    pub replicas: u32,
    /// Of those, ready ones.
    pub ready_replicas: u32,
    /// Of those, ones of `updateRevision`.
    pub updated_replicas: u32,
    /// The revision that all pods had last.
    pub current_revision: String,
    /// The revision of the template.
    pub update_revision: String,
}

impl Set {
    /// Reads a StatefulSet as the API server gives it.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let raw = Raw::deserialize(value)?;
        Ok(Self {
            name: raw.metadata.name,
            uid: raw.metadata.uid,
            generation: raw.metadata.generation,
            labels: raw.metadata.labels.unwrap_or_default(),
            annotations: raw.metadata.annotations.unwrap_or_default(),
            replicas: raw.spec.replicas,
            service_name: raw.spec.service_name,
            on_delete: raw.spec.update_strategy.kind == "OnDelete",
            status: raw.status,
        })
    }

    /// How many pods there should be: what is desired or what is reported, whichever is more (R11). Kubernetes' default of
    /// `spec.replicas` is 1.
    pub fn expected_pods(&self) -> u32 {
        self.replicas.unwrap_or(1).max(self.status.replicas)
    }

    /// Whether it controls the pod: by owner reference, never by labels (R15).
    pub fn owns(&self, pod: &Pod) -> bool {
        pod.controller.as_ref().is_some_and(|owner| {
            owner.kind == "StatefulSet" && owner.name == self.name && owner.uid == self.uid
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: SetStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMetadata {
    name: String,
    uid: String,
    generation: i64,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    replicas: Option<u32>,
    service_name: String,
    update_strategy: RawStrategy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStrategy {
    #[serde(rename = "type")]
    kind: String,
}

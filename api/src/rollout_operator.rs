//! The kinds of rollout-operator.grafana.com/v1, as far as muster implements them, for clusters without
//! rollout-operator.
//!
//! Fields, bounds, columns and subresources match rollout-operator (v0.38.1), so that existing objects remain valid;
//! only maximum lengths are added.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema::{MAX_LABEL, MAX_VALUES};

/// Limits which pods of several zones may be evicted: only one zone may have unavailable pods.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rollout-operator.grafana.com",
    version = "v1",
    kind = "ZoneAwarePodDisruptionBudget",
    plural = "zoneawarepoddisruptionbudgets",
    shortname = "zpdb",
    doc = "Limits which pods of several zones may be evicted: only one zone may have unavailable pods.",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAwarePodDisruptionBudgetSpec {
    /// Maximum number of unavailable pods in a zone or, with partitions, in the same partition of the other zones; 0
    /// forbids evictions. Defaults to 1 if neither this nor maxUnavailablePercentage is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_unavailable: Option<i32>,

    /// Maximum percentage of unavailable pods in a zone, rounded down, at least 1. Cannot be combined with
    /// maxUnavailable or podNamePartitionRegex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_unavailable_percentage: Option<i32>,

    /// Selects the pods, and the StatefulSets that form the zones.
    pub selector: MatchLabels,

    /// A regular expression with a group that captures the partition from a pod's name; it must match the whole name.
    /// Without it, the limit is applied per zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub pod_name_partition_regex: Option<String>,

    /// Number of the capturing group; defaults to 1 if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pod_name_regex_group: Option<i32>,

    /// How long a pod in another zone must be ready before it counts as available, as a Go duration (`20m`). Only with
    /// podNamePartitionRegex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cross_zone_eviction_delay: Option<String>,
}

/// Selects objects by exact label values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchLabels {
    /// Required label values by key; all must match.
    #[schemars(schema_with = "match_labels")]
    pub match_labels: BTreeMap<String, String>,
}

/// A replica count with a `scale` subresource, which a HorizontalPodAutoscaler scales and StatefulSets follow.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rollout-operator.grafana.com",
    version = "v1",
    kind = "ReplicaTemplate",
    plural = "replicatemplates",
    category = "all",
    doc = "A replica count with a scale subresource, which an autoscaler scales and StatefulSets follow.",
    namespaced,
    status = "ReplicaTemplateStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".spec.labelSelector"
    ),
    printcolumn = r#"{"name":"StatusReplicas","type":"string","jsonPath":".status.replicas"}"#,
    printcolumn = r#"{"name":"SpecReplicas","type":"string","jsonPath":".spec.replicas"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaTemplateSpec {
    /// Desired number of replicas.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Selects the pods that an autoscaler measures, in the string form of selectors (`name=ingester-zone-a`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub label_selector: Option<String>,
}

/// Observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaTemplateStatus {
    /// Observed number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

fn match_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_VALUES,
        "additionalProperties": { "type": "string", "maxLength": MAX_LABEL },
    })
}

fn one() -> i32 {
    1
}

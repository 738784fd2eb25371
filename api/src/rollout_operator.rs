//! The kinds of rollout-operator.grafana.com/v1, as far as muster carries them out, for clusters without rollout-operator.
//!
//! Fields, bounds, columns and subresources are rollout-operator's (v0.38.1), so that its objects stay as they are; only lengths are
//! bounded besides.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema::{MAX_LABEL, MAX_VALUES};

/// Which pods of several zones may be evicted: all zones but one stay whole.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rollout-operator.grafana.com",
    version = "v1",
    kind = "ZoneAwarePodDisruptionBudget",
    plural = "zoneawarepoddisruptionbudgets",
    shortname = "zpdb",
    doc = "Which pods of several zones may be evicted: all zones but one stay whole.",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAwarePodDisruptionBudgetSpec {
    /// How many pods of a zone may be unavailable, or of a partition in the other zones; 0 forbids evictions. 1 if neither this nor
    /// maxUnavailablePercentage is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_unavailable: Option<i32>,

    /// How many of a hundred pods of a zone may be unavailable, rounded down, at least 1. Not together with maxUnavailable or
    /// podNamePartitionRegex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_unavailable_percentage: Option<i32>,

    /// The pods, and the StatefulSets that are their zones.
    pub selector: MatchLabels,

    /// An expression whose group is the partition in the name of a pod; it has to match the whole name. Without it, zones are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub pod_name_partition_regex: Option<String>,

    /// The number of that group; 1 if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pod_name_regex_group: Option<i32>,

    /// How long a pod of another zone has to be ready before it counts, as a Go duration (`20m`). Only with podNamePartitionRegex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cross_zone_eviction_delay: Option<String>,
}

/// Labels that objects have to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchLabels {
    /// Values by name; all have to be there.
    #[schemars(schema_with = "match_labels")]
    pub match_labels: BTreeMap<String, String>,
}

/// A number of replicas with a `scale` subresource, which a HorizontalPodAutoscaler scales and StatefulSets mirror.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rollout-operator.grafana.com",
    version = "v1",
    kind = "ReplicaTemplate",
    plural = "replicatemplates",
    category = "all",
    doc = "A number of replicas with a scale subresource, which an autoscaler scales and StatefulSets mirror.",
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
    /// How many replicas are desired.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Which pods an autoscaler measures, as the API server reads selectors (`name=ingester-zone-a`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub label_selector: Option<String>,
}

/// What was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaTemplateStatus {
    /// How many replicas there are.
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

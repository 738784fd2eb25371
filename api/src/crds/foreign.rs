//! CRDs of kinds that other projects define, for clusters that lack them. They carry muster's labels, so that a CRD of
//! another owner is never replaced.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
        CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use crate::definition::ours;

/// A minimal `Cluster` of Cluster API (v1beta2) for management clusters without it: the fields that muster reads; other
/// fields are preserved.
pub fn cluster_api() -> CustomResourceDefinition {
    let version = CustomResourceDefinitionVersion {
        name: "v1beta2".to_owned(),
        served: true,
        storage: true,
        additional_printer_columns: Some(vec![
            column(
                "Initialized",
                "boolean",
                ".status.initialization.controlPlaneInitialized",
            ),
            column("Paused", "boolean", ".spec.paused"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ]),
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: cluster_schema(),
        }),
        subresources: Some(CustomResourceSubresources {
            scale: None,
            status: Some(CustomResourceSubresourceStatus(json!({}))),
        }),
        ..Default::default()
    };
    ours(CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some("clusters.cluster.x-k8s.io".to_owned()),
            ..Default::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: "cluster.x-k8s.io".to_owned(),
            names: CustomResourceDefinitionNames {
                categories: Some(vec!["cluster-api".to_owned()]),
                kind: "Cluster".to_owned(),
                list_kind: Some("ClusterList".to_owned()),
                plural: "clusters".to_owned(),
                short_names: Some(vec!["cl".to_owned()]),
                singular: Some("cluster".to_owned()),
            },
            scope: "Namespaced".to_owned(),
            versions: vec![version],
            ..Default::default()
        },
        status: None,
    })
}

fn cluster_schema() -> Option<JSONSchemaProps> {
    // A schema that cannot be parsed would be missing in its committed file, and a test compares them.
    serde_json::from_value(json!({
        "description": "A Kubernetes cluster, named after its kubeconfig Secret (<name>-kubeconfig). Without Cluster API only its labels and the fields below are used.",
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": {
                "description": "Desired state of the cluster.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "paused": {
                        "description": "Whether muster leaves the cluster unchanged.",
                        "type": "boolean",
                    },
                    "controlPlaneEndpoint": {
                        "description": "Address of the cluster's API server. Informational: muster reads the kubeconfig.",
                        "type": "object",
                        "properties": {
                            "host": { "type": "string", "maxLength": 512 },
                            "port": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 65535 },
                        },
                    },
                },
            },
            "status": {
                "description": "Observed state of the cluster.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "initialization": {
                        "description": "Progress of the cluster's initialization.",
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {
                            "controlPlaneInitialized": {
                                "description": "Whether the API server is reachable. Alternatively, annotate the Cluster with fleet.muster.dev/enrolled.",
                                "type": "boolean",
                            },
                        },
                    },
                },
            },
        },
    }))
    .ok()
}

fn column(name: &str, type_: &str, path: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        ..Default::default()
    }
}

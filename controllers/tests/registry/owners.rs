//! Promise: our objects refer to their Cluster at the version at which Clusters are read, so that they are
//! garbage-collected with it even when Cluster API no longer serves the former version.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use muster_api::cluster::Version;
use serde_json::{Value, json};

use crate::support::{Bed, NS, crd};

/// The versions of Cluster are discovered every five minutes.
const DISCOVERED: Duration = Duration::from_mins(6);

fn assemblages(bed: &Bed) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: "fleet.muster.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "fleet.muster.dev/v1alpha1".to_owned(),
        kind: "ProxyAssemblage".to_owned(),
        plural: "proxyassemblages".to_owned(),
    };
    Api::namespaced_with(bed.management.client(), NS, &kind)
}

/// Creates an assemblage that is owned by the Cluster `eu-1`.
async fn assemblage(bed: &Bed, name: &str, labels: Value) {
    let cluster = bed.clusters().get("eu-1").await.unwrap();
    let owner = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "eu-1", "uid": cluster.uid(),
    });
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "spec": {},
    });
    assemblages(bed)
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
}

/// The versions in owner references of assemblages and identity records, by the names of assemblages.
async fn named_at(bed: &Bed) -> Vec<String> {
    let owner_version = |name: &str, object: &kube::core::ObjectMeta| {
        let owners = object.owner_references.as_deref().unwrap_or_default();
        format!("{name} {}", owners[0].api_version)
    };
    let assemblages = assemblages(bed)
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let records = bed.records().await;
    let mut named: Vec<String> = assemblages
        .items
        .iter()
        .map(|found| owner_version(&found.name_any(), &found.metadata))
        .collect();
    named.extend(
        records
            .iter()
            .map(|record| owner_version("record", &record.metadata)),
    );
    named
}

async fn change_versions(bed: &Bed, versions: Value) {
    let definitions: Api<CustomResourceDefinition> = Api::all(bed.management.client());
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    definitions
        .patch("clusters.cluster.x-k8s.io", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_an_upgrade_of_cluster_api_what_is_ours_names_and_follows_its_cluster() {
    let mut bed = Bed::new(Version::V1Beta1, &["eu-1"]);
    let definition = crd(
        "fleet.muster.dev",
        "v1alpha1",
        "ProxyAssemblage",
        "proxyassemblages",
    );
    bed.management.add([definition]).unwrap();
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    assemblage(&bed, "eu-1", json!({"fleet.muster.dev/managed-by": "muster"})).await;
    assemblage(&bed, "theirs", json!({})).await;
    let version = |name: &str, served: bool, storage: bool| {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": served, "storage": storage, "schema": schema})
    };
    change_versions(
        &bed,
        json!([version("v1beta1", true, false), version("v1beta2", true, true)]),
    )
    .await;
    tokio::time::sleep(DISCOVERED).await;
    let (older, newer) = ("cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2");
    assert_eq!(
        named_at(&bed).await,
        [
            format!("eu-1 {newer}"),
            format!("theirs {older}"),
            format!("record {newer}")
        ]
    );

    change_versions(
        &bed,
        json!([version("v1beta1", false, false), version("v1beta2", true, true)]),
    )
    .await;
    bed.version = Version::V1Beta2;
    bed.clusters()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(named_at(&bed).await, [format!("theirs {older}")]);
}

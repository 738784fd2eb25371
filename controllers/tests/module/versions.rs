//! Promise: what an older or a newer muster wrote is read as far as known here, stays as it is, and causes no rollout.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use muster_api::crds;
use serde_json::{Value, json};

use crate::bed::*;

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";

/// The CRDs of assemblages as another version defines them: their fields are edited by `change`.
async fn define(bed: &Bed, change: impl Fn(&mut Value)) {
    let kinds = crds::management().into_iter().chain(crds::downstream());
    for kind in kinds.filter(|kind| kind.spec.names.plural.ends_with("assemblages")) {
        let mut kind = serde_json::to_value(kind).unwrap();
        change(kind.pointer_mut(SCHEMA).unwrap());
        let kind: CustomResourceDefinition = serde_json::from_value(kind).unwrap();
        for server in bed.clusters.values().chain([&bed.management]) {
            let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
            if definitions.get_opt(&kind.name_any()).await.unwrap().is_none() {
                continue;
            }
            definitions
                .patch(
                    &kind.name_any(),
                    &PatchParams::apply("test").force(),
                    &Patch::Apply(&kind),
                )
                .await
                .unwrap();
        }
    }
}

fn rows(fields: &mut Value) -> &mut Value {
    &mut fields["spec"]["properties"]["syncs"]["items"]
}

/// Untyped, with all fields, even those unknown to this version.
fn assemblages(server: &muster_apiserver::ApiServer, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("fleet.muster.dev", "v1alpha1", kind);
    Api::namespaced_with(server.client(), namespace, &ApiResource::from_gvk(&kind))
}

async fn upstream(bed: &Bed, cluster: &str) -> Value {
    let object = assemblages(&bed.management, NS, "ProxyAssemblage")
        .get(cluster)
        .await;
    serde_json::to_value(object.unwrap()).unwrap()
}

/// Whether single fields of rows have field managers.
fn has_granular_managers(object: &Value) -> bool {
    object["metadata"]["managedFields"]
        .to_string()
        .contains("f:digest")
}

async fn started() -> Bed {
    let bed = Bed::without_controller(&CLUSTERS).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web", "other"], tag);
    }
    bed
}

#[tokio::test(start_paused = true)]
async fn rows_of_before_they_were_written_as_a_whole() {
    let mut bed = started().await;
    define(&bed, |fields| {
        let row = rows(fields).as_object_mut().unwrap();
        assert!(row.remove("x-kubernetes-map-type").is_some());
    })
    .await;
    bed.start_controller();
    bed.deploy("other", "one", json!({})).await;
    bed.deploy("web", "one", json!({"rollout": {"minReadySeconds": 30}}))
        .await;
    assert!(has_granular_managers(&upstream(&bed, "eu-1").await));
    bed.patch("web", version("two")).await;
    bed.until("eu-1 is being changed", || async {
        (bed.text("eu-1", "web").await.as_deref() == Some("two")).then_some(())
    })
    .await;
    bed.crash_controller();
    let (others, web) = (bed.marks("other").await, bed.mark("us-1", "web").await);

    // Upgraded during a rollout.
    define(&bed, |_| ()).await;
    bed.start_controller();
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    assert_ne!(bed.mark("us-1", "web").await, web);
    assert_eq!(bed.marks("other").await, others);
    for cluster in CLUSTERS {
        assert_eq!(
            bed.story(cluster, "web"),
            [Some("one".to_owned()), Some("two".to_owned())],
            "{cluster}"
        );
    }

    // And rolled back.
    bed.crash_controller();
    let marks = bed.marks("web").await;
    define(&bed, |fields| {
        rows(fields)
            .as_object_mut()
            .unwrap()
            .remove("x-kubernetes-map-type");
    })
    .await;
    bed.start_controller();
    bed.settled().await;
    assert_eq!(
        (bed.marks("web").await, bed.marks("other").await),
        (marks, others)
    );
}

#[tokio::test(start_paused = true)]
async fn a_row_with_a_field_of_a_newer_version() {
    let mut bed = started().await;
    define(&bed, |fields| {
        rows(fields)["properties"]["horizon"] = json!({"type": "string"});
    })
    .await;
    bed.start_controller();
    bed.deploy("other", "one", json!({})).await;
    bed.deploy("web", "one", json!({})).await;
    let (web, other) = (bed.marks("web").await, bed.marks("other").await);
    bed.crash_controller();
    let api = assemblages(&bed.management, NS, "ProxyAssemblage");
    let position = |object: &Value, row: &str| {
        let rows = object["spec"]["syncs"].as_array().unwrap();
        rows.iter().position(|it| it["name"] == row).unwrap()
    };
    let at = position(&upstream(&bed, "eu-1").await, "other");
    let newer = json!([{"op": "add", "path": format!("/spec/syncs/{at}/horizon"), "value": "far"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(newer).unwrap());
    api.patch("eu-1", &PatchParams::default(), &patch).await.unwrap();

    bed.start_controller();
    bed.settled().await;
    assert_eq!(
        (bed.marks("web").await, bed.marks("other").await),
        (web, other.clone())
    );
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    assert_eq!(bed.marks("other").await, other);
    // The write of one row did not change another.
    let object = upstream(&bed, "eu-1").await;
    assert_eq!(
        object["spec"]["syncs"][position(&object, "other")]["horizon"],
        "far"
    );
}

//! Promise: a BootstrapModule's Flux objects are kept in their desired state, and objects of others are not touched.

use std::time::Duration;

use muster_api::names;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, FLEET, Ground, Kind, Obstacle, kinds},
    fleet::{APPS, Quality, ROLLED, is_ready, status_text, workload},
};

/// Longer than muster keeps an unused source.
const LONG: Duration = Duration::from_mins(15);

/// Clusters without an agent get it, cluster by cluster, from the management cluster; it is removed when the module is
/// deleted.
pub async fn needs_no_agent(ground: Ground) {
    let bed = deployed(ground).await;
    assert_eq!(bed.order(&workload("web"), "web-v1"), ["eu-1", "eu-2"]);
    assert_eq!(bed.most_in_flight(kinds::REMOTE_ASSEMBLAGE, "web"), 1);
    assert_eq!(bed.most_changing(&workload("web")), 1);
    bed.fleet().delete(kinds::BOOTSTRAP_MODULE, "web").await;
    let poll = async || match bed.fleet().get(kinds::BOOTSTRAP_MODULE, "web").await {
        None => Ok(()),
        Some(module) => Err(status_text(&module)),
    };
    bed.wait_until("the module is gone", ROLLED, poll).await;
    for cluster in ["eu-1", "eu-2"] {
        assert_eq!(bed.version_in(cluster, "web").await, None, "{cluster}");
    }
}

/// Deleted Flux objects are re-created, and manual edits are reverted; the objects in the clusters keep their identity.
pub async fn flux_objects_come_back(ground: Ground) {
    let bed = deployed(ground).await;
    let (fleet, name) = (bed.fleet(), names::kustomization(FLEET, "eu-1", "web"));
    let uid = uid(&bed
        .inside("eu-1", APPS)
        .get(kinds::DEPLOYMENT, "web")
        .await
        .unwrap());
    let kustomization = fleet.get(kinds::KUSTOMIZATION, &name).await.unwrap();
    let source = kustomization["spec"]["sourceRef"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for (kind, name) in [(kinds::KUSTOMIZATION, &name), (kinds::GIT_REPOSITORY, &source)] {
        let before = fleet.get(kind, name).await.unwrap();
        fleet.delete(kind, name).await;
        until(&bed, kind, name, "is back", |now| {
            self::uid(now) != self::uid(&before) && is_ready(now) && now["spec"] == before["spec"]
        })
        .await;
    }
    fleet
        .patch(
            kinds::KUSTOMIZATION,
            &name,
            json!({"spec": {"path": "apps/evil"}}),
        )
        .await;
    let evil = json!({"spec": {"ref": {"commit": "0".repeat(40)}}});
    let before = fleet.get(kinds::GIT_REPOSITORY, &source).await.unwrap();
    fleet.patch(kinds::GIT_REPOSITORY, &source, evil).await;
    until(
        &bed,
        kinds::GIT_REPOSITORY,
        &source,
        "has its commit again",
        |now| now["spec"] == before["spec"] && is_ready(now),
    )
    .await;
    until(&bed, kinds::KUSTOMIZATION, &name, "has its path again", |now| {
        now["spec"] == kustomization["spec"] && is_ready(now)
    })
    .await;
    assert_eq!(
        self::uid(
            &bed.inside("eu-1", APPS)
                .get(kinds::DEPLOYMENT, "web")
                .await
                .unwrap()
        ),
        uid
    );
    if bed.is_virtual() {
        put_back_downstream(&bed).await;
    }
}

/// A manually edited field of an applied object is reverted within the interval of one minute.
async fn put_back_downstream(bed: &Bed) {
    let inside = bed.inside("eu-1", APPS);
    inside
        .patch(kinds::CONFIG_MAP, "web", json!({"data": {"version": "by hand"}}))
        .await;
    let poll = async || {
        let config = inside.get(kinds::CONFIG_MAP, "web").await.unwrap();
        if config["data"]["version"] == "web-v1" {
            Ok(())
        } else {
            Err(config.to_string())
        }
    };
    let (took, ()) = bed
        .wait_until("the field is put back", Duration::from_secs(90), poll)
        .await;
    println!("a hand-edited field is put back after {took:?}");
}

/// A foreign object with muster's labels is left alone; one with a name that muster needs is reported and left alone.
pub async fn foreign_objects_are_left_alone(ground: Ground) {
    let mut bed = deployed(ground).await;
    let ours = bed
        .fleet()
        .get(kinds::KUSTOMIZATION, &names::kustomization(FLEET, "eu-1", "web"))
        .await
        .unwrap();
    let source = ours["spec"]["sourceRef"]["name"].as_str().unwrap();
    let our_source = bed.fleet().get(kinds::GIT_REPOSITORY, source).await.unwrap();
    let taken = names::kustomization(FLEET, "us-1", "web");
    let foreign = [
        (
            kinds::KUSTOMIZATION,
            "foreign",
            &ours,
            ours["metadata"]["labels"].clone(),
        ),
        (
            kinds::GIT_REPOSITORY,
            "src-foreign",
            &our_source,
            our_source["metadata"]["labels"].clone(),
        ),
        (kinds::KUSTOMIZATION, &*taken, &ours, json!({"team": "other"})),
    ];
    let mut before = Vec::new();
    for (kind, name, like, labels) in foreign {
        let mut spec = like["spec"].clone();
        spec["suspend"] = json!(true);
        let object = bed
            .fleet()
            .create(
                kind,
                json!({"metadata": {"name": name, "labels": labels}, "spec": spec}),
            )
            .await;
        before.push((kind, name, touchable(&object)));
    }
    bed.join("us-1", &[("env", "prod")], &[Obstacle::Kind]).await;
    let poll = async || {
        let module = bed.fleet().get(kinds::BOOTSTRAP_MODULE, "web").await.unwrap();
        let message = module["status"].to_string();
        if message.contains("NameConflict") && message.contains(&taken) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("the conflict is reported", Duration::from_secs(700), poll)
        .await;
    if bed.is_virtual() {
        bed.pass(LONG).await;
    }
    for (kind, name, before) in before {
        let now = bed.fleet().get(kind, name).await.expect("it is still there");
        assert_eq!(touchable(&now), before, "{name}");
    }
    assert_eq!(bed.version_in("us-1", "web").await, None);
}

async fn deployed(ground: Ground) -> Bed {
    let mut bed = Bed::new(ground).await;
    for cluster in ["eu-1", "eu-2"] {
        bed.join(cluster, &[("env", "prod")], &[Obstacle::Kind]).await;
    }
    bed.let_bootstrap().await;
    let version = bed.release("web", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "web", &version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "web", &version, ROLLED)
        .await;
    bed
}

async fn until(bed: &Bed, kind: Kind, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
    let poll = async || match bed.fleet().get(kind, name).await {
        Some(now) if holds(&now) => Ok(()),
        Some(now) => Err(format!("{now:#}")),
        None => Err("nothing".to_owned()),
    };
    bed.wait_until(&format!("{name} {what}"), ROLLED, poll).await;
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// What another manager could change: everything except status and managed fields. Finalizers belong to the controller
/// that reconciles all Kustomizations of the namespace, as Flux would.
fn touchable(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    for field in ["finalizers", "managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

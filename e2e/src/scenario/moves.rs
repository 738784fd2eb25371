//! Promise: a cluster moves from the built-in sync to Flux and back: no object is deleted, and no removed field
//! survives.

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, Quality, ROLLED, manifests, status_text},
};

/// One of two clusters moves; each version removes a field.
pub async fn to_flux_and_back(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    release(&bed, 1, "one: a, two: b");
    bed.create_module(kinds::MODULE, "web", "web-v1").await;
    bed.until_ready("web", "web-v1").await;
    let (before, other) = (uids(&bed, "eu-1").await, bed.marks("web").await["us-1"].clone());

    bed.set_flux("eu-1", true).await;
    let poll = async || {
        let events = bed.inside("eu-1", APPS).list(kinds::EVENT).await;
        let reported = events.iter().any(|event| event["reason"] == "FluxPresent");
        if reported {
            Ok(())
        } else {
            Err(format!("{} events", events.len()))
        }
    };
    bed.wait_until("FluxPresent is reported", ROLLED, poll).await;
    bed.restart_agent("eu-1", true).await;
    until_handed_over(&bed, "muster-sync").await;
    assert_eq!(
        bed.marks("web").await["us-1"],
        other,
        "the other one is not touched"
    );
    roll(&bed, 2, "two: b").await;
    assert_eq!(
        data(&bed).await,
        json!({"two": "b", "version": "web-v2", "cluster": "eu-1"})
    );
    assert_eq!(uids(&bed, "eu-1").await, before);

    bed.set_flux("eu-1", false).await;
    bed.restart_agent("eu-1", false).await;
    roll(&bed, 3, "").await;
    assert_eq!(data(&bed).await, json!({"version": "web-v3", "cluster": "eu-1"}));
    until_handed_over(&bed, "kustomize-controller").await;
    assert_eq!(uids(&bed, "eu-1").await, before);
    let summary = bed.module("web").await;
    assert_eq!(
        summary["status"]["summary"]["clusters"],
        "2/2",
        "{}",
        status_text(&summary)
    );
}

/// A version whose ConfigMap also has these fields.
fn release(bed: &Bed, number: u32, fields: &str) {
    let version = format!("web-v{number}");
    let begin = format!("data: {{version: {version}");
    let with = format!(
        "data: {{{fields}{} version: {version}",
        if fields.is_empty() { "" } else { "," }
    );
    let text = manifests("web", &version, Quality::Good).replace(&begin, &with);
    bed.commit_version("web", &text, &version);
}

async fn roll(bed: &Bed, number: u32, fields: &str) {
    release(bed, number, fields);
    let version = format!("web-v{number}");
    bed.target("web", &version).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, 2 * ROLLED)
        .await;
}

/// Waits until a manager owns no field of the application.
async fn until_handed_over(bed: &Bed, manager: &str) {
    let poll = async || {
        let inside = bed.inside("eu-1", APPS);
        let mut left = Vec::new();
        for kind in [kinds::CONFIG_MAP, kinds::DEPLOYMENT] {
            let object = inside.get(kind, "web").await.unwrap();
            let managers = object["metadata"]["managedFields"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            left.extend(managers.into_iter().filter(|entry| entry["manager"] == manager));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    };
    bed.wait_until(&format!("{manager} has nothing"), ROLLED, poll)
        .await;
}

async fn data(bed: &Bed) -> Value {
    bed.inside("eu-1", APPS)
        .get(kinds::CONFIG_MAP, "web")
        .await
        .unwrap()["data"]
        .clone()
}

/// The UIDs of the application's objects and its Kustomization.
async fn uids(bed: &Bed, cluster: &str) -> Vec<Value> {
    let (apps, system) = (bed.inside(cluster, APPS), bed.inside(cluster, SYSTEM_NAMESPACE));
    let objects = [
        apps.get(kinds::CONFIG_MAP, "web").await.unwrap(),
        apps.get(kinds::DEPLOYMENT, "web").await.unwrap(),
        system.list(kinds::KUSTOMIZATION).await.remove(0),
    ];
    objects
        .iter()
        .map(|object| object["metadata"]["uid"].clone())
        .collect()
}

//! Promise: manual changes are reverted, wherever they are made; a new credential is used without any further step.

use std::time::Duration;

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, Kind, Objects, kinds},
    fleet::{APPS, Quality, condition, status_text},
};

/// The longest apply interval, plus a margin for servers that other scenarios keep busy.
const BACK: Duration = Duration::from_secs(90);

/// Objects, source, Kustomization, Assemblage and ProxyAssemblage of a cluster: edited, or deleted.
pub async fn puts_nothing_astray(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.deploy(&["web"]).await;
    let others = bed.marks("web").await["us-1"].clone();
    let (apps, system) = (bed.inside("eu-1", APPS), bed.inside("eu-1", SYSTEM_NAMESPACE));
    let kustomizations = system.list(kinds::KUSTOMIZATION).await;
    let kustomization = crate::bed::name_of(&kustomizations[0]).to_owned();

    let evil = json!({"data": {"version": "by hand"}});
    apps.patch(kinds::CONFIG_MAP, "web", evil).await;
    apps.delete(kinds::DEPLOYMENT, "web").await;
    request_reconcile(&system, &kustomization).await;
    until_whole(&bed).await;

    let path = json!({"spec": {"path": "apps/evil"}});
    edit_and_wait(&bed, &system, kinds::KUSTOMIZATION, &kustomization, path).await;
    let source = kustomizations[0]["spec"]["sourceRef"]["name"].as_str().unwrap();
    let commit = json!({"spec": {"ref": {"commit": "0".repeat(40)}}});
    edit_and_wait(&bed, &system, kinds::GIT_REPOSITORY, source, commit).await;
    let rows = |objects: &Value| {
        let mut rows = objects["spec"]["syncs"].clone();
        rows[0]["package"]["path"] = json!("apps/evil");
        json!({"spec": {"syncs": rows}})
    };
    let assemblage = system.get(kinds::ASSEMBLAGE, "eu-1").await.unwrap();
    edit_and_wait(&bed, &system, kinds::ASSEMBLAGE, "eu-1", rows(&assemblage)).await;
    let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-1").await.unwrap();
    edit_and_wait(&bed, &bed.fleet(), kinds::PROXY_ASSEMBLAGE, "eu-1", rows(&proxy)).await;

    system.delete(kinds::KUSTOMIZATION, &kustomization).await;
    until_whole(&bed).await;
    assert_eq!(
        bed.marks("web").await["us-1"],
        others,
        "no other object is touched"
    );
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
}

/// A Secret gets another credential for the same cluster: everything continues. If the old one is rejected first, this
/// is reported meanwhile.
pub async fn credentials_change(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    let renewed = bed.renew_credential("eu-1").await;
    if bed.is_real() {
        let poll = async || {
            let module = bed.module("web").await;
            let reason = &module["status"]["attention"][0]["reason"];
            if reason == "CredentialsRejected" {
                Ok(())
            } else {
                Err(status_text(&module))
            }
        };
        bed.wait_until("the old one is rejected", BACK, poll).await;
    }
    bed.give_kubeconfig("eu-1", &renewed).await;
    let version = bed.release("other", 1, Quality::Good);
    bed.create_module(kinds::MODULE, "other", &version).await;
    bed.until_ready("other", &version).await;
    bed.until_ready("web", "web-v1").await;
    let ready = bed.module("web").await;
    assert_eq!(condition(&ready, "Ready").unwrap()["status"], "True");
    assert_eq!(
        ready["status"]["summary"]["clusters"],
        "2/2",
        "{}",
        status_text(&ready)
    );
    assert_eq!(bed.marks("web").await, before);
}

/// `flux reconcile kustomization`.
async fn request_reconcile(system: &Objects, kustomization: &str) {
    let now = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
    system.patch(kinds::KUSTOMIZATION, kustomization, now).await;
}

async fn edit_and_wait(bed: &Bed, objects: &Objects, kind: Kind, name: &str, edit: Value) {
    let before = objects.get(kind, name).await.unwrap()["spec"].clone();
    objects.patch(kind, name, edit).await;
    let poll = async || {
        let now = objects.get(kind, name).await.unwrap()["spec"].clone();
        // Every assignment has a new token, and reverting an edit is a new assignment.
        if without_tokens(now.clone()) == without_tokens(before.clone()) {
            Ok(())
        } else {
            Err(now.to_string())
        }
    };
    bed.wait_until(&format!("{kind:?} {name} is put back"), BACK, poll)
        .await;
    until_whole(bed).await;
}

fn without_tokens(mut spec: Value) -> Value {
    for row in spec["syncs"].as_array_mut().into_iter().flatten() {
        row.as_object_mut().unwrap().remove("token");
    }
    spec
}

async fn until_whole(bed: &Bed) {
    let poll = async || {
        let module = bed.module("web").await;
        let version = bed.version_in("eu-1", "web").await;
        let ready = condition(&module, "Ready").is_some_and(|ready| ready["status"] == "True");
        if ready && version.as_deref() == Some("web-v1") {
            Ok(())
        } else {
            Err(format!("{version:?}, {}", status_text(&module)))
        }
    };
    bed.wait_until("eu-1 has all of web-v1", BACK, poll).await;
}

//! Promise: emptying a module withdraws, deleting it releases. Whatever else is deleted, in whatever order: nothing in
//! the clusters is touched.

use std::{collections::BTreeMap, time::Duration};

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, FLEET, Ground, Kind, Obstacle, kinds},
    fleet::{APPS, Quality, ROLLED, condition, is_current, status_text},
};

/// Includes the up to 30 s after which a real garbage collector discovers a new kind.
const COLLECTED: Duration = Duration::from_mins(2);
/// Deadline of a step on servers that other scenarios keep busy.
const DONE: Duration = Duration::from_mins(2);

/// A module that leaves its objects behind is deleted, and the objects stay the same.
pub async fn orphaned(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    let orphan = json!({"spec": {"onDelete": "Orphan"}});
    bed.fleet().patch(kinds::MODULE, "web", orphan).await;
    until_current(&bed, "web").await;
    bed.fleet().delete(kinds::MODULE, "web").await;
    until_gone(&bed, kinds::MODULE, "web").await;
    for cluster in CLUSTERS {
        let left = bed
            .inside(cluster, SYSTEM_NAMESPACE)
            .list(kinds::KUSTOMIZATION)
            .await;
        assert_eq!(left, Vec::<Value>::new(), "{cluster}");
    }
    still(&bed).await;
    assert_eq!(bed.marks("web").await, before);
}

/// A module without a deletion policy is not removed from more clusters than the brake allows until a user confirms.
pub async fn held(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    let unset = json!({"spec": {"onDelete": null}});
    bed.fleet().patch(kinds::MODULE, "web", unset).await;
    until_current(&bed, "web").await;
    bed.fleet().delete(kinds::MODULE, "web").await;
    let module = bed.until_reason("web", "WithdrawalHeld", DONE).await;
    still(&bed).await;
    assert_eq!(bed.marks("web").await, before, "nothing is withdrawn unasked");
    // The command at the end of the message.
    let message = condition(&module, "Ready").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    let annotation = "fleet.muster.dev/acknowledge-withdrawal";
    let argument = message
        .split(&format!("{annotation}="))
        .nth(1)
        .expect("a command");
    let digest = argument.split_whitespace().next().unwrap();
    let acknowledged = json!({"metadata": {"annotations": {annotation: digest}}});
    bed.fleet().patch(kinds::MODULE, "web", acknowledged).await;
    until_gone(&bed, kinds::MODULE, "web").await;
    for cluster in CLUSTERS {
        assert_eq!(bed.version_in(cluster, "web").await, None, "{cluster}");
    }
}

/// A cluster that is paused, or loses its control plane, its Secret or its API server for a while, keeps everything.
pub async fn away(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    for obstacle in [
        Obstacle::Paused,
        Obstacle::ControlPlane,
        Obstacle::Kubeconfig,
        Obstacle::Unreachable,
    ] {
        bed.obstruct("us-1", obstacle).await;
        bed.until_named("web", "us-1", obstacle.reason(), &[], DONE).await;
        let row = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "us-1").await.unwrap();
        assert!(
            row["spec"]["syncs"][0]["source"].is_object(),
            "{obstacle:?}: {row:#}"
        );
        bed.clear("us-1", obstacle).await;
        bed.until_not_named("web", "us-1", DONE).await;
    }
    still(&bed).await;
    assert_eq!(bed.marks("web").await, before);
}

/// A Cluster is deleted while its API server is up, while it is down, after its Secret, and in the foreground: muster's
/// objects for it are removed, and nothing blocks.
pub async fn clusters_deleted(ground: Ground) {
    const FOUR: [&str; 4] = ["alive", "dead", "foreground", "no-secret"];
    let mut bed = Bed::with_clusters(ground, &["eu-1", "alive", "dead", "foreground", "no-secret"]).await;
    bed.let_bootstrap().await;
    bed.deploy(&["web"]).await;
    let base = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &base).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &base, DONE)
        .await;
    let before = (bed.marks("web").await, bed.marks("base").await);

    bed.obstruct("dead", Obstacle::Unreachable).await;
    bed.until_named("web", "dead", "Unreachable", &[], DONE).await;
    bed.obstruct("no-secret", Obstacle::Kubeconfig).await;
    let fleet = bed.fleet();
    for cluster in ["alive", "dead", "no-secret"] {
        fleet.delete(kinds::CLUSTER, cluster).await;
    }
    fleet.delete_in_the_foreground(kinds::CLUSTER, "foreground").await;
    for cluster in FOUR {
        until_gone(&bed, kinds::CLUSTER, cluster).await;
        let poll = async || {
            let mut left = Vec::new();
            for kind in [
                kinds::PROXY_ASSEMBLAGE,
                kinds::REMOTE_ASSEMBLAGE,
                kinds::KUSTOMIZATION,
                kinds::CONFIG_MAP,
            ] {
                let objects = fleet.list(kind).await;
                left.extend(
                    objects
                        .iter()
                        .filter(|object| is_for(object, cluster))
                        .map(Value::to_string),
                );
            }
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join("\n"))
            }
        };
        bed.wait_until(&format!("nothing is left for {cluster}"), COLLECTED, poll)
            .await;
    }
    bed.until_not_named("web", "dead", DONE).await;
    assert_eq!(bed.module("web").await["status"]["summary"]["clusters"], "1/1");
    still(&bed).await;
    bed.clear("dead", Obstacle::Unreachable).await;
    assert_eq!((bed.marks("web").await, bed.marks("base").await), before);
}

/// Assemblages that are deleted manually, in the management cluster and in the cluster, are re-created and adopt the
/// existing objects.
pub async fn assemblages_deleted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1", "us-1"]).await;
    bed.let_bootstrap().await;
    bed.deploy(&["web"]).await;
    let base = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &base).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &base, ROLLED)
        .await;
    let before = (bed.marks("web").await, bed.marks("base").await);
    for (kind, objects) in [
        (kinds::PROXY_ASSEMBLAGE, bed.fleet()),
        (kinds::ASSEMBLAGE, bed.inside("us-1", SYSTEM_NAMESPACE)),
        (kinds::REMOTE_ASSEMBLAGE, bed.fleet()),
    ] {
        let old = objects.get(kind, "us-1").await.unwrap();
        objects.delete(kind, "us-1").await;
        let poll = async || match objects.get(kind, "us-1").await {
            Some(new) if new["metadata"]["uid"] != old["metadata"]["uid"] && has_succeeded(&new) => Ok(()),
            found => Err(format!("{found:?}")),
        };
        bed.wait_until(&format!("{kind:?} is re-created"), COLLECTED, poll)
            .await;
    }
    for (kind, app, version) in [
        (kinds::MODULE, "web", "web-v1"),
        (kinds::BOOTSTRAP_MODULE, "base", &base),
    ] {
        bed.until_ready_within(kind, app, version, DONE).await;
    }
    still(&bed).await;
    assert_eq!((bed.marks("web").await, bed.marks("base").await), before);
}

/// CRDs of muster and of Flux and namespaces are deleted, in the clusters and in the management cluster: everything is
/// released, nothing withdrawn.
pub async fn definitions_deleted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    // Roles and accounts are deleted with their namespace.
    bed.excuse_denials();
    let inside = |cluster| bed.inside(cluster, "");
    delete_and_wait(
        &bed,
        &inside("eu-1"),
        kinds::DEFINITION,
        "assemblages.fleet.muster.dev",
    )
    .await;
    let flux = "kustomizations.kustomize.toolkit.fluxcd.io";
    delete_and_wait(&bed, &inside("eu-2"), kinds::DEFINITION, flux).await;
    delete_and_wait(&bed, &inside("us-1"), kinds::NAMESPACE, SYSTEM_NAMESPACE).await;
    assert_eq!(bed.marks("web").await, before, "by deletions in the clusters");
    let upstream = bed.everywhere();
    for definition in ["proxyassemblages.fleet.muster.dev", "modules.fleet.muster.dev"] {
        delete_and_wait(&bed, &upstream, kinds::DEFINITION, definition).await;
    }
    delete_and_wait(&bed, &upstream, kinds::NAMESPACE, FLEET).await;
    still(&bed).await;
    assert_eq!(
        bed.marks("web").await,
        before,
        "by deletions in the management cluster"
    );
}

/// Lets enough time pass for any object to be touched: on paused time several times the longest interval; otherwise
/// some seconds, enough for reactions to a deletion.
async fn still(bed: &Bed) {
    let seconds = if bed.is_virtual() { 600 } else { 8 };
    bed.pass(Duration::from_secs(seconds)).await;
}

async fn delete_and_wait(bed: &Bed, objects: &crate::bed::Objects, kind: Kind, name: &str) {
    objects.delete(kind, name).await;
    let poll = async || match objects.get(kind, name).await {
        None => Ok(()),
        Some(left) => Err(left["status"].to_string()),
    };
    bed.wait_until(&format!("{name} is gone"), COLLECTED, poll).await;
}

async fn until_gone(bed: &Bed, kind: Kind, name: &str) {
    let poll = async || {
        bed.fleet()
            .get(kind, name)
            .await
            .map_or(Ok(()), |left| Err(status_text(&left)))
    };
    bed.wait_until(&format!("{name} is gone"), COLLECTED, poll).await;
}

async fn until_current(bed: &Bed, module: &str) {
    let poll = async || {
        let module = bed.module(module).await;
        if is_current(&module) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("the change is observed", ROLLED, poll).await;
}

/// Whether an object of the fleet's namespace belongs to a cluster.
fn is_for(object: &Value, cluster: &str) -> bool {
    let secret = format!("{cluster}-kubeconfig");
    object["metadata"]["name"] == cluster
        || object["metadata"]["labels"]["fleet.muster.dev/cluster"] == cluster
        || object["spec"]["kubeConfig"]["secretRef"]["name"] == *secret
}

fn has_succeeded(assemblage: &Value) -> bool {
    let rows = assemblage["status"]["syncs"].as_array();
    rows.is_some_and(|rows| !rows.is_empty() && rows.iter().all(|row| row["state"] == "succeeded"))
}

impl Bed {
    /// What must stay the same in each cluster with an application: the UIDs and specs of its objects, and the resource
    /// version of the one that only muster writes.
    pub async fn marks(&self, app: &str) -> BTreeMap<String, Vec<Value>> {
        let mut marks = BTreeMap::new();
        for cluster in self.clusters() {
            let inside = self.inside(&cluster, APPS);
            let config = inside.get(kinds::CONFIG_MAP, app).await;
            let deployment = inside.get(kinds::DEPLOYMENT, app).await;
            let config = config.unwrap_or_default()["metadata"].clone();
            let deployment = deployment.unwrap_or_default()["metadata"].clone();
            let mark = vec![
                config["uid"].clone(),
                config["resourceVersion"].clone(),
                deployment["uid"].clone(),
                deployment["generation"].clone(),
            ];
            assert!(mark.iter().all(|mark| !mark.is_null()), "{app} is in {cluster}");
            marks.insert(cluster, mark);
        }
        marks
    }
}

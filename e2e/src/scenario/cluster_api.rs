//! Promise: Clusters of Cluster API's newest release, with its own CRD, are read correctly at either version, whichever
//! is stored; deleting a Cluster removes muster's objects for it, and nothing that runs in it.
//!
//! The CRD is a file of Cluster API's Go module, which `cargo xtask real build` copies; without it the embedded beds
//! skip these scenarios. In production, a webhook of Cluster API's controllers converts between the versions; those
//! controllers do not run here. Without a webhook (`strategy: None`, as in the file itself), all versions share the
//! stored fields by name, and nothing else. So the scenarios write a Cluster at the version that is read, as those
//! controllers do; and v1beta1, where it is stored, is made to preserve fields that only v1beta2 knows.

use std::{fs, time::Duration};

use muster_api::{
    labels::{CAPI_SECRET_TYPE, KUBECONFIG_KEY, annotation, label},
    names,
};
use muster_real::Cache;
use muster_sync::yaml;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, FLEET, Ground, Kind, Obstacle, kinds},
    fleet::{APPS, Quality, ROLLED, is_ready, status_text},
};

/// The name of the CRD.
const DEFINITION: &str = "clusters.cluster.x-k8s.io";
/// The finalizer with which Cluster API keeps a Cluster until its infrastructure is deleted.
const FINALIZER: &str = "cluster.cluster.x-k8s.io";
/// The cluster used in all these scenarios.
const CLUSTER: &str = "eu-1";
/// How long a CRD may take to be served or removed.
const SERVED: Duration = Duration::from_mins(1);
/// A real garbage collector discovers a new kind within 30 s.
const COLLECTED: Duration = Duration::from_secs(90);
/// muster checks the served versions of Cluster every 5 minutes.
const DISCOVERED: Duration = Duration::from_mins(6);

/// Which versions are served, and which of them is stored.
#[derive(Clone, Copy)]
struct Versions {
    served: &'static [&'static str],
    stored: &'static str,
}

/// As the newest release has them.
const RELEASED: Versions = Versions {
    served: &["v1beta1", "v1beta2"],
    stored: "v1beta2",
};
/// A management cluster that was upgraded, and whose objects have not been migrated.
const OLDER_STORED: Versions = Versions {
    served: &["v1beta1", "v1beta2"],
    stored: "v1beta1",
};
/// A release before v1beta2.
const BEFORE: Versions = Versions {
    served: &["v1beta1"],
    stored: "v1beta1",
};
/// A release that removed v1beta1.
const AFTER: Versions = Versions {
    served: &["v1beta2"],
    stored: "v1beta2",
};

/// The life of a Cluster, with the CRD as released.
pub async fn newest_release(ground: Ground) {
    life(ground, RELEASED).await;
}

/// The same where the version that is read is not the one that is stored.
pub async fn older_version_stored(ground: Ground) {
    life(ground, OLDER_STORED).await;
}

/// Cluster API is upgraded from a release that only has v1beta1, and again to one that no longer has it: during and
/// after the upgrades, clusters keep what they have, and muster's objects are still deleted with their Cluster.
pub async fn upgraded(ground: Ground) {
    let Some(definition) = definition(ground) else {
        return;
    };
    let mut bed = bed(ground, &definition, OLDER_STORED).await;
    bed.join(CLUSTER, &[("env", "prod")], &[Obstacle::ControlPlane])
        .await;
    reread(&mut bed, &definition, BEFORE).await;
    let ready = json!({"status": {
        "phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    bed.fleet()
        .patch_status(kinds::CLUSTER_V1BETA1, CLUSTER, ready)
        .await;
    bed.deploy(&["web"]).await;
    assert_eq!(owner_version(&bed).await, "cluster.x-k8s.io/v1beta1");
    let uid = workload_uid(&bed, "web").await;

    reread(&mut bed, &definition, RELEASED).await;
    // The status has not been written at the new version yet.
    until_named(&bed, "ControlPlaneNotReady", DISCOVERED).await;
    assert_eq!(bed.version_in(CLUSTER, "web").await.as_deref(), Some("web-v1"));
    write_status(&bed, "Provisioned", true, true).await;
    until_taken(&bed).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    let poll = async || match owner_version(&bed).await {
        version if version == "cluster.x-k8s.io/v1beta2" => Ok(()),
        other => Err(other),
    };
    bed.wait_until("the assemblage names its Cluster at v1beta2", ROLLED, poll)
        .await;

    reread(&mut bed, &definition, AFTER).await;
    until_taken(&bed).await;
    until_collected(&bed).await;
    let cluster = bed.fleet().get(kinds::CLUSTER, CLUSTER).await.unwrap();
    bed.fleet().delete(kinds::CLUSTER, CLUSTER).await;
    until_nothing_is_left(&bed, &cluster).await;
    assert_eq!(workload_uid(&bed, "web").await, uid);
}

/// `kubectl delete --cascade=foreground` of a Cluster with a Module and a BootstrapModule completes on its own.
pub async fn deleted_in_the_foreground(ground: Ground) {
    let Some(definition) = definition(ground) else {
        return;
    };
    let mut bed = bed(ground, &definition, RELEASED).await;
    bed.join(CLUSTER, &[("env", "prod")], &[]).await;
    write_status(&bed, "Provisioned", true, true).await;
    bed.deploy(&["web"]).await;
    bed.let_bootstrap().await;
    let version = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &version, ROLLED)
        .await;
    let cluster = bed.fleet().get(kinds::CLUSTER, CLUSTER).await.unwrap();
    for kind in [
        kinds::PROXY_ASSEMBLAGE,
        kinds::REMOTE_ASSEMBLAGE,
        kinds::CONFIG_MAP,
    ] {
        assert_ne!(
            dependents(&bed, kind, &cluster).await,
            Vec::<String>::new(),
            "{kind:?}"
        );
    }
    let uids = (workload_uid(&bed, "web").await, workload_uid(&bed, "base").await);
    bed.fleet()
        .delete_in_the_foreground(kinds::CLUSTER, CLUSTER)
        .await;
    until_nothing_is_left(&bed, &cluster).await;
    assert_eq!(
        (workload_uid(&bed, "web").await, workload_uid(&bed, "base").await),
        uids
    );
}

/// Pending, provisioning, provisioned, paused, deleting: what muster reports for a Cluster in each phase.
async fn life(ground: Ground, versions: Versions) {
    let Some(definition) = definition(ground) else {
        return;
    };
    let mut bed = bed(ground, &definition, versions).await;
    bed.join(
        CLUSTER,
        &[("env", "prod")],
        &[Obstacle::ControlPlane, Obstacle::Kubeconfig],
    )
    .await;
    let fleet = bed.fleet();
    fleet.patch(kinds::CLUSTER, CLUSTER, whole_cluster()).await;
    let version = bed.release("web", 1, Quality::Good);
    bed.create_module(kinds::MODULE, "web", &version).await;
    for (phase, infrastructure) in [("Pending", false), ("Provisioning", false), ("Provisioned", true)] {
        write_status(&bed, phase, infrastructure, false).await;
        until_named(&bed, "ControlPlaneNotReady", ROLLED).await;
    }
    write_status(&bed, "Provisioned", true, true).await;
    until_named(&bed, "NoKubeconfig", ROLLED).await;
    give_secret(&bed).await;
    until_taken(&bed).await;
    let uid = workload_uid(&bed, "web").await;
    for (pause, resume) in [
        (
            json!({"spec": {"paused": true}}),
            json!({"spec": {"paused": false}}),
        ),
        (annotated(&json!("")), annotated(&Value::Null)),
    ] {
        fleet.patch(kinds::CLUSTER, CLUSTER, pause).await;
        until_named(&bed, "ClusterPaused", ROLLED).await;
        fleet.patch(kinds::CLUSTER, CLUSTER, resume).await;
        until_taken(&bed).await;
    }
    let cluster = fleet.get(kinds::CLUSTER, CLUSTER).await.unwrap();
    fleet.delete(kinds::CLUSTER, CLUSTER).await;
    write_status(&bed, "Deleting", true, true).await;
    until_named(&bed, "Deleting", ROLLED).await;
    let released = json!({"metadata": {"finalizers": null}});
    fleet.patch(kinds::CLUSTER, CLUSTER, released).await;
    until_nothing_is_left(&bed, &cluster).await;
    assert_eq!(workload_uid(&bed, "web").await, uid);
}

/// The CRD as released. `None` if it is missing and the bed is embedded.
fn definition(ground: Ground) -> Option<Value> {
    let file = Cache::open().and_then(|cache| cache.file("capi-core", "cluster.x-k8s.io_clusters.yaml"));
    match file {
        Ok(file) => Some(yaml::to_json(fs::read(file).unwrap()).unwrap()),
        Err(error) if ground.is_real() => panic!("{error:?}"),
        Err(error) => {
            println!("skipped, Cluster API's CRD is missing: {error:#}");
            None
        }
    }
}

/// The CRD with other versions.
fn arranged(definition: &Value, versions: Versions) -> Value {
    let mut definition = definition.clone();
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        let name = version["name"].as_str().unwrap().to_owned();
        version["served"] = versions.served.contains(&name.as_str()).into();
        version["storage"] = (versions.stored == name).into();
        if name == "v1beta1" {
            for part in ["spec", "status"] {
                let schema = format!("/schema/openAPIV3Schema/properties/{part}");
                version.pointer_mut(&schema).unwrap()["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
        }
    }
    definition
}

/// A bed with Cluster API's CRD instead of the built-in one.
async fn bed(ground: Ground, definition: &Value, versions: Versions) -> Bed {
    let mut bed = Bed::new(ground).await;
    bed.crash_controller().await;
    let definitions = bed.everywhere();
    definitions.delete(kinds::DEFINITION, DEFINITION).await;
    let poll = async || match definitions.get(kinds::DEFINITION, DEFINITION).await {
        None => Ok(()),
        Some(left) => Err(left["status"].to_string()),
    };
    bed.wait_until("our CRD is gone", SERVED, poll).await;
    definitions
        .create(kinds::DEFINITION, arranged(definition, versions))
        .await;
    until_served(&bed, versions).await;
    bed.start_controller();
    bed
}

/// Changes the versions while the controller runs, and waits until it has noticed. On real time the controller is
/// restarted, instead of five minutes of waiting.
async fn reread(bed: &mut Bed, definition: &Value, versions: Versions) {
    if !bed.is_virtual() {
        bed.crash_controller().await;
    }
    let definition = arranged(definition, versions);
    bed.everywhere().apply(kinds::DEFINITION, definition).await;
    until_served(bed, versions).await;
    if bed.is_virtual() {
        bed.pass(DISCOVERED).await;
    } else {
        bed.start_controller();
    }
}

/// Waits until exactly these versions accept Clusters. A real server reports readiness too early: it still answers 404,
/// or 429.
async fn until_served(bed: &Bed, versions: Versions) {
    let fleet = bed.fleet();
    for (kind, name) in [(kinds::CLUSTER_V1BETA1, "v1beta1"), (kinds::CLUSTER, "v1beta2")] {
        let is_served = versions.served.contains(&name);
        let probe = json!({"metadata": {"name": "probe"}, "spec": {"paused": true}});
        let poll = async || match fleet.try_create(kind, probe.clone()).await {
            Ok(_) => {
                fleet.delete(kind, "probe").await;
                if is_served {
                    Ok(())
                } else {
                    Err("it is served".to_owned())
                }
            }
            Err(refusal) if !is_served && refusal.starts_with("404") => Ok(()),
            Err(refusal) => Err(refusal),
        };
        bed.wait_until(&format!("{name} served: {is_served}"), SERVED, poll)
            .await;
    }
}

/// Waits until the garbage collector handles Clusters at v1beta2. A real one checks for changed kinds every 30 s, and
/// misses a Cluster that is deleted between the last event of one version and the first list of the next.
async fn until_collected(bed: &Bed) {
    let fleet = bed.fleet();
    for _ in 0..COLLECTED.as_secs() {
        let probe = json!({"metadata": {"name": "probe"}, "spec": {"paused": true}});
        let probe = fleet.create(kinds::CLUSTER, probe).await;
        let owner = json!({
            "apiVersion": probe["apiVersion"], "kind": "Cluster", "name": "probe", "uid": probe["metadata"]["uid"],
        });
        let dependent = json!({"metadata": {"name": "probe", "ownerReferences": [owner]}});
        fleet.create(kinds::CONFIG_MAP, dependent).await;
        fleet.delete(kinds::CLUSTER, "probe").await;
        bed.pass(Duration::from_secs(1)).await;
        if fleet.get(kinds::CONFIG_MAP, "probe").await.is_none() {
            return;
        }
        fleet.delete(kinds::CONFIG_MAP, "probe").await;
    }
    panic!("the collector does not act on Clusters");
}

/// What users and Cluster API's controllers write into a Cluster.
fn whole_cluster() -> Value {
    json!({
        "metadata": {"finalizers": [FINALIZER]},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.128.0.0/12"]}, "services": {"cidrBlocks": ["10.64.0.0/16"]}},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": CLUSTER},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster", "name": CLUSTER},
        },
    })
}

/// The status of a Cluster at v1beta2, as Cluster API's controllers write it.
async fn write_status(bed: &Bed, phase: &str, infrastructure: bool, control_plane: bool) {
    let condition = |kind: &str, holds: bool| {
        let (status, reason) = if holds {
            ("True", kind)
        } else {
            ("False", "NotYet")
        };
        json!({
            "type": kind, "status": status, "reason": reason, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({
        "phase": phase, "observedGeneration": 1,
        "initialization": {"infrastructureProvisioned": infrastructure, "controlPlaneInitialized": control_plane},
        "conditions": [
            condition("Available", control_plane), condition("InfrastructureReady", infrastructure),
            condition("ControlPlaneInitialized", control_plane), condition("ControlPlaneAvailable", control_plane),
            condition("Paused", false), condition("Deleting", phase == "Deleting"),
        ],
        "controlPlane": {"desiredReplicas": 1, "replicas": i32::from(control_plane), "readyReplicas": i32::from(control_plane)},
    });
    bed.fleet()
        .patch_status(kinds::CLUSTER, CLUSTER, json!({"status": status}))
        .await;
}

/// The Secret with a kubeconfig, as Cluster API writes it: with its type and labels, and owned by the Cluster.
async fn give_secret(bed: &Bed) {
    let cluster = bed.fleet().get(kinds::CLUSTER, CLUSTER).await.unwrap();
    let owner = json!({
        "apiVersion": cluster["apiVersion"], "kind": "Cluster", "name": CLUSTER, "uid": cluster["metadata"]["uid"],
    });
    let secret = json!({
        "metadata": {
            "name": names::kubeconfig_secret(CLUSTER), "labels": {label::CAPI_CLUSTER_NAME: CLUSTER}, "ownerReferences": [owner],
        },
        "type": CAPI_SECRET_TYPE,
        "stringData": {KUBECONFIG_KEY: bed.kubeconfig(CLUSTER)},
    });
    bed.fleet().create(kinds::SECRET, secret).await;
}

fn annotated(value: &Value) -> Value {
    json!({"metadata": {"annotations": {annotation::CAPI_PAUSED: value}}})
}

/// Waits until the module lists the cluster with a reason.
async fn until_named(bed: &Bed, reason: &str, deadline: Duration) {
    bed.until_named("web", CLUSTER, reason, &[], deadline).await;
}

/// Waits until the cluster is confirmed and not listed in `attention`.
async fn until_taken(bed: &Bed) {
    let poll = async || {
        let module = bed.module("web").await;
        let summary = &module["status"]["summary"];
        let quiet = summary["clusters"] == "1/1" && summary["skipped"] == 0;
        if quiet && is_ready(&module) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until(&format!("{CLUSTER} is taken"), DISCOVERED, poll)
        .await;
}

/// Waits until the Cluster and all objects that it owns are gone.
async fn until_nothing_is_left(bed: &Bed, cluster: &Value) {
    let kinds = [
        kinds::PROXY_ASSEMBLAGE,
        kinds::REMOTE_ASSEMBLAGE,
        kinds::CONFIG_MAP,
        kinds::SECRET,
        kinds::KUSTOMIZATION,
    ];
    let flux = names::kustomization(FLEET, CLUSTER, "base");
    let poll = async || {
        let mut left = Vec::new();
        for kind in kinds {
            left.extend(dependents(bed, kind, cluster).await);
        }
        for (kind, name) in [(kinds::CLUSTER, CLUSTER), (kinds::KUSTOMIZATION, &flux)] {
            left.extend(bed.fleet().get(kind, name).await.map(|left| left.to_string()));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    };
    let (took, ()) = bed
        .wait_until(
            "no object of ours is left in the management cluster",
            COLLECTED,
            poll,
        )
        .await;
    println!("nothing is left in the management cluster {took:?} after the deletion");
}

/// The objects that name a Cluster as their owner.
async fn dependents(bed: &Bed, kind: Kind, cluster: &Value) -> Vec<String> {
    let owned = |object: &Value| {
        let mut owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners.any(|owner| owner["uid"] == cluster["metadata"]["uid"])
    };
    let objects = bed.fleet().list(kind).await;
    objects
        .iter()
        .filter(|object| owned(object))
        .map(Value::to_string)
        .collect()
}

/// The API version at which muster's assemblage refers to its Cluster.
async fn owner_version(bed: &Bed) -> String {
    let assemblage = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, CLUSTER).await.unwrap();
    let owner = &assemblage["metadata"]["ownerReferences"][0]["apiVersion"];
    owner.as_str().unwrap().to_owned()
}

async fn workload_uid(bed: &Bed, app: &str) -> String {
    let deployment = bed.inside(CLUSTER, APPS).get(kinds::DEPLOYMENT, app).await;
    let deployment = deployment.unwrap_or_else(|| panic!("{app} is not in {CLUSTER}"));
    deployment["metadata"]["uid"].as_str().unwrap().to_owned()
}

//! A ClusterUpgrade over many simulated Clusters: the writes of one version, and the cost for the controller.
//!
//! The API server, the controller, Cluster API and the Clusters share this process: its CPU time and memory cover all
//! of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use http_body_util::{BodyExt, Full};
use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    core::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::{ClusterUpgrade, cluster::Version, crds};
use muster_apiserver::{ApiServer, InProcess};
use muster_controllers::{
    registry::{self, Registry},
    rolloutwindow::{self, WatchedWindows},
    runtime::{Clock, Jitter},
    upgrade,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::{
    controller::context,
    usage::{processor, ratio, resident_memory, writes},
};

const NAMESPACE: &str = "fleet";
/// How long a Cluster takes until all its machines run a version.
const TAKES: Duration = Duration::from_secs(2);
/// How long an upgrade may take.
const PATIENCE: Duration = Duration::from_mins(20);
/// Quiet period that marks the end.
const REST: Duration = Duration::from_mins(1);
/// How long it may take until everything is recorded after the end.
const SETTLES: Duration = Duration::from_mins(1);
/// Requests of one run that are recorded: all of them.
const KEPT: usize = 4_000_000;
/// Machines of a control plane, and of its workers.
const MACHINES: u32 = 3;
/// The first version of all Clusters, and the versions that are rolled out.
const VERSIONS: [&str; 3] = ["v1.33.4", "v1.34.2", "v1.35.0"];

/// The versions reported by the API servers of the Clusters, by address.
type Served = Arc<Mutex<BTreeMap<String, String>>>;

/// Sizes of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Simulated Clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Clusters that may change at once
    #[arg(long, default_value_t = 50)]
    at_once: usize,
}

/// Rolls out two versions over the Clusters, and prints what each one cost.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<()> {
    let api = ApiServer::builder()
        .log_limit(KEPT)
        .namespace(NAMESPACE)
        .with(crds::management())
        .with(crds::upgrades())
        .with([crds::cluster_api(), definition(&control_planes())?])
        .in_process()?;
    let everywhere = ApiServer::builder().log_limit(0).in_process()?;
    let served = Served::default();
    prepare(&api.client_as("bench"), plan.clusters, &served).await?;
    let changing = Arc::<Mutex<Changing>>::default();
    let _cluster_api = AbortOnDropHandle::new(tokio::spawn(simulate_cluster_api(
        api.client_as("cluster-api"),
        Arc::clone(&served),
        Arc::clone(&changing),
    )));
    let _controller = controller(&api, &everywhere, &served);
    let idle = resident_memory()?;
    for version in &VERSIONS[1..] {
        let (began, used) = (Instant::now(), processor()?);
        let before = writes(api.recorder())?;
        changing.lock().most = 0;
        apply(&api.client_as("bench"), version, plan.at_once).await?;
        until_ready(&api.client_as("bench"), version, plan.clusters).await?;
        let after = writes(api.recorder())?;
        let most = changing.lock().most;
        ensure!(most <= plan.at_once, "{most} Clusters changed at once");
        println!(
            "{} Clusters, {} at once (at most {most} were), {version}: {:.1} s (the Clusters alone {:.1} s), {:.1} s of processor time, {} MiB ({idle} MiB before)",
            plan.clusters,
            plan.at_once,
            began.elapsed().as_secs_f64(),
            TAKES.as_secs_f64() * ratio(plan.clusters, plan.at_once),
            processor()?.saturating_sub(used).as_secs_f64(),
            resident_memory()?,
        );
        for (what, count) in &after {
            let count = count - before.get(what).copied().unwrap_or_default();
            println!(
                "  {what}: {count} ({:.3} for each Cluster)",
                ratio(count, plan.clusters)
            );
        }
    }
    tokio::time::sleep(SETTLES).await;
    let before = writes(api.recorder())?;
    tokio::time::sleep(REST).await;
    let after = writes(api.recorder())?;
    ensure!(
        before == after,
        "something was written while idle: {before:?}, then {after:?}"
    );
    println!("at rest for {} s: 0 writes", REST.as_secs());
    Ok(())
}

fn controller(api: &ApiServer, everywhere: &ApiServer, served: &Served) -> Vec<AbortOnDropHandle<()>> {
    let client = api.client_as("controller");
    let (clock, jitter) = (Clock::system(), Jitter::from_system());
    let (everywhere, served) = (everywhere.service(), Arc::clone(served));
    let registry = Registry::new(registry::Setup {
        proxy_hosts: muster_controllers::hosts::Hosts::default(),
        client: client.clone(),
        namespace: NAMESPACE.to_owned(),
        clock: clock.clone(),
        jitter: jitter.clone(),
        connect: Arc::new(move |access| Ok(cluster(everywhere.clone(), &access.server, &served))),
    });
    let context = context(client, NAMESPACE, &registry, (clock, jitter));
    let shutdown = context.shutdown.clone();
    let windows = Arc::<WatchedWindows>::default();
    let tasks = [
        tokio::spawn(Arc::clone(&windows).run(context.clone())),
        tokio::spawn(rolloutwindow::run(context.clone())),
        tokio::spawn(registry.run(shutdown)),
        tokio::spawn(upgrade::run(upgrade::Setup { context, windows })),
    ];
    tasks.map(AbortOnDropHandle::new).into()
}

/// Presents one server as a different one per address, each with its own version.
fn cluster(behind: InProcess, address: &str, served: &Served) -> Client {
    let (address, served) = (address.to_owned(), Arc::clone(served));
    let service = move |request: http::Request<Body>| {
        let (behind, address, served) = (behind.clone(), address.clone(), Arc::clone(&served));
        async move {
            let answer = match request.uri().path() {
                "/api/v1/namespaces/kube-system" => json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": "kube-system", "uid": address, "resourceVersion": "1"},
                }),
                "/version" => json!({
                    "major": "1", "minor": "", "gitVersion": served.lock().get(&address), "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                }),
                _ => return behind.oneshot(request).await,
            };
            let body = Full::from(answer.to_string()).map_err(|never| match never {});
            Ok(http::Response::new(body.boxed_unsync()))
        }
    };
    Client::new(tower::service_fn(service), NAMESPACE)
}

fn name(number: usize) -> String {
    format!("cluster-{number:05}")
}

fn address(cluster: &str) -> String {
    format!("https://{cluster}.test")
}

fn control_planes() -> ApiResource {
    let group = "controlplane.cluster.x-k8s.io";
    ApiResource {
        group: group.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{group}/v1beta2"),
        kind: "KubeadmControlPlane".to_owned(),
        plural: "kubeadmcontrolplanes".to_owned(),
    }
}

fn definition(resource: &ApiResource) -> anyhow::Result<CustomResourceDefinition> {
    let ApiResource {
        group,
        version,
        kind,
        plural,
        ..
    } = resource;
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))?)
}

async fn prepare(client: &Client, clusters: usize, served: &Served) -> anyhow::Result<()> {
    let (all, planes) = (
        objects(client, &Version::V1Beta2.api_resource()),
        objects(client, &control_planes()),
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    // With server-side apply, muster would leave the version to the field's manager.
    let by = PostParams {
        field_manager: Some("clusterctl".to_owned()),
        ..PostParams::default()
    };
    for name in (1..=clusters).map(name) {
        served.lock().insert(address(&name), VERSIONS[0].to_owned());
        let plane = json!({
            "apiVersion": control_planes().api_version, "kind": "KubeadmControlPlane", "metadata": {"name": name},
            "spec": {"version": VERSIONS[0], "replicas": MACHINES},
        });
        planes.create(&by, &serde_json::from_value(plane)?).await?;
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "annotations": {"fleet.muster.dev/enrolled": "", "fleet.muster.dev/upgrades": "muster"}},
            "spec": {
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name},
                "topology": {"classRef": {"name": "class"}, "version": VERSIONS[0]},
            },
        });
        all.create(&by, &serde_json::from_value(cluster)?).await?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": address(&name), "certificate-authority-data": "Q0E="}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let secret = json!({
            "metadata": {"name": format!("{name}-kubeconfig")}, "type": "cluster.x-k8s.io/secret",
            "stringData": {"value": kubeconfig.to_string()},
        });
        secrets.create(&by, &serde_json::from_value(secret)?).await?;
    }
    Ok(())
}

fn objects(client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, resource)
}

/// The Clusters that are changing, and the maximum so far.
#[derive(Default)]
struct Changing {
    now: BTreeSet<String>,
    most: usize,
}

/// Simulates Cluster API: a Cluster with a new version reports that it is rolling out, and after a delay that its
/// machines have the version.
async fn simulate_cluster_api(client: Client, served: Served, changing: Arc<Mutex<Changing>>) {
    let clusters = objects(&client, &Version::V1Beta2.api_resource());
    let mut events = Box::pin(watcher(clusters.clone(), watcher::Config::default()).default_backoff());
    let mut had = BTreeMap::<String, String>::new();
    let mut at_work = JoinSet::new();
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Apply(cluster) | watcher::Event::InitApply(cluster)) = event else {
            continue;
        };
        let name = cluster.name_any();
        let Some(version) = cluster.data["spec"]["topology"]["version"]
            .as_str()
            .map(str::to_owned)
        else {
            continue;
        };
        let before = had.insert(name.clone(), version.clone());
        if before.as_ref() == Some(&version) {
            continue;
        }
        let (client, served, changing) = (client.clone(), Arc::clone(&served), Arc::clone(&changing));
        if before.is_some() {
            let mut changing = changing.lock();
            changing.now.insert(name.clone());
            changing.most = changing.most.max(changing.now.len());
        }
        let is_new = before.is_none();
        at_work.spawn(async move {
            if !is_new {
                // A lost answer would block the benchmark until its timeout, which reports it.
                let _ = status(&client, &name, &version, 0).await;
                tokio::time::sleep(TAKES).await;
                served.lock().insert(address(&name), version.clone());
                changing.lock().now.remove(&name);
            }
            let _ = status(&client, &name, &version, MACHINES).await; // as above
        });
    }
}

/// The status of a Cluster whose control plane and workers have this number of machines at a version.
async fn status(client: &Client, name: &str, version: &str, done: u32) -> kube::Result<()> {
    let (clusters, planes) = (
        objects(client, &Version::V1Beta2.api_resource()),
        objects(client, &control_planes()),
    );
    let by = PatchParams::default();
    let is_done = done == MACHINES;
    let spec = json!({"spec": {"version": version}});
    let plane = planes.patch(name, &by, &Patch::Merge(spec)).await?;
    let mut of_plane = json!({
        "observedGeneration": plane.metadata.generation, "replicas": MACHINES, "upToDateReplicas": done,
        "conditions": conditions(&[("RollingOut", !is_done)]),
    });
    if is_done {
        of_plane["version"] = json!(version);
    }
    planes
        .patch_status(name, &by, &Patch::Merge(json!({"status": of_plane})))
        .await?;
    let part = json!({"desiredReplicas": MACHINES, "replicas": MACHINES, "upToDateReplicas": done});
    let cluster = clusters.get_metadata(name).await?;
    let of_cluster = json!({
        "observedGeneration": cluster.metadata.generation, "controlPlane": part, "workers": part,
        "conditions": conditions(&[
            ("TopologyReconciled", is_done), ("ControlPlaneMachinesUpToDate", is_done),
            ("WorkerMachinesUpToDate", is_done), ("RollingOut", !is_done), ("Remediating", false),
        ]),
    });
    clusters
        .patch_status(name, &by, &Patch::Merge(json!({"status": of_cluster})))
        .await?;
    Ok(())
}

fn conditions(all: &[(&str, bool)]) -> Value {
    let of = |(type_, holds): &(&str, bool)| {
        json!({
            "type": type_, "status": if *holds { "True" } else { "False" }, "reason": "Played", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    all.iter().map(of).collect()
}

async fn apply(client: &Client, version: &str, at_once: usize) -> anyhow::Result<()> {
    let upgrades: Api<ClusterUpgrade> = Api::namespaced(client.clone(), NAMESPACE);
    let object = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ClusterUpgrade", "metadata": {"name": "next"},
        "spec": {"selector": {}, "target": {"kubernetes": version}, "rollout": {"maxUnreadyClusters": at_once}},
    });
    let by = PatchParams::apply("bench").force();
    upgrades.patch("next", &by, &Patch::Apply(object)).await?;
    Ok(())
}

async fn until_ready(client: &Client, version: &str, clusters: usize) -> anyhow::Result<()> {
    let upgrades: Api<ClusterUpgrade> = Api::namespaced(client.clone(), NAMESPACE);
    let ready = async {
        loop {
            let upgrade = upgrades.get("next").await?;
            let generation = upgrade.metadata.generation;
            let status = upgrade.status.unwrap_or_default();
            let updated = status.summary.as_ref().map_or(0, |summary| summary.updated);
            if status.observed_generation == generation && usize::try_from(updated)? == clusters {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ready).await;
    ended.with_context(|| format!("not every Cluster has {version}"))?
}

//! A management cluster with Clusters, a simulated Cluster API, clusters whose version can be set, and the controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    core::{ApiResource, DynamicObject},
};
use muster_api::{ClusterUpgrade, cluster::Version, crds};
use muster_apiserver::{ApiServer, ChangeKind, record::EventRecord};
use muster_controllers::{
    metrics::Metrics,
    reconcile::Context,
    registry::{Connect, connect_by_server},
    rolloutwindow::{self, WatchedWindows},
    runtime::Clock,
    upgrade,
};
use muster_sync::source::MemorySource;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tower::service_fn;

use crate::{context::context, kubeconfig_secret::create_kubeconfig};

pub(crate) const NS: &str = "fleet";
/// The timeout of every wait, in virtual time.
const LIMIT: Duration = Duration::from_hours(4);
/// How often the simulated Cluster API acts.
const TICK: Duration = Duration::from_secs(5);
/// Machines of a control plane, and of the workers.
const MACHINES: u32 = 3;

/// The versions that the API servers of clusters report: a text, or 404.
type Served = Arc<Mutex<BTreeMap<String, Option<String>>>>;

pub(crate) struct Bed {
    pub management: ApiServer,
    pub clusters: Arc<BTreeMap<String, ApiServer>>,
    pub served: Served,
    pub clock: Clock,
    /// Clusters whose Cluster API does nothing any more.
    pub stuck: Arc<Mutex<BTreeSet<String>>>,
    metrics: Metrics,
    tasks: Vec<AbortOnDropHandle<()>>,
    _played: AbortOnDropHandle<()>,
}

/// A reconcile that panicked is retried, so a test could still pass: here it fails.
impl Drop for Bed {
    fn drop(&mut self) {
        let counted = self.metrics.scrape().unwrap_or_default();
        let panicked = counted
            .lines()
            .find(|line| line.contains("result=\"panic\"") && !line.ends_with(" 0"));
        assert!(std::thread::panicking() || panicked.is_none(), "{panicked:?}");
    }
}

pub(crate) fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{group}/v1beta2"),
        kind: kind.to_owned(),
        plural: if kind == "ClusterClass" {
            "clusterclasses".to_owned()
        } else {
            format!("{}s", kind.to_lowercase())
        },
    }
}

pub(crate) fn control_planes() -> ApiResource {
    resource("controlplane.cluster.x-k8s.io", "KubeadmControlPlane")
}

pub(crate) fn deployments() -> ApiResource {
    resource("cluster.x-k8s.io", "MachineDeployment")
}

pub(crate) fn classes() -> ApiResource {
    resource("cluster.x-k8s.io", "ClusterClass")
}

fn definition(resource: &ApiResource) -> CustomResourceDefinition {
    let ApiResource {
        group,
        version,
        kind,
        plural,
        ..
    } = resource;
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap()
}

fn server(kinds: Vec<CustomResourceDefinition>) -> ApiServer {
    let server = ApiServer::builder().event_log(true).namespace(NS);
    server.with(kinds).in_process().unwrap()
}

/// Connects to the clusters, whose versions are those in `served`.
fn connect(clusters: &BTreeMap<String, ApiServer>, served: &Served) -> Connect {
    let clients = clusters.iter().map(|(name, server)| {
        let client = with_version(server.client_as("controller"), name.clone(), Arc::clone(served));
        (format!("https://{name}.test"), client)
    });
    connect_by_server(clients.collect())
}

fn with_version(inner: Client, name: String, served: Served) -> Client {
    let answer = move |request: http::Request<Body>| {
        let (inner, name, served) = (inner.clone(), name.clone(), Arc::clone(&served));
        async move {
            if request.uri().path() != "/version" {
                return inner
                    .send(request)
                    .await
                    .map_err(Box::<dyn std::error::Error + Send + Sync>::from);
            }
            let version = served.lock().get(&name).cloned().flatten();
            let (code, body) = match version {
                Some(version) => (
                    200,
                    json!({
                        "major": "1", "minor": "0", "gitVersion": version, "gitCommit": "", "gitTreeState": "clean",
                        "buildDate": "", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
                    }),
                ),
                None => (
                    404,
                    json!({
                        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "none",
                    }),
                ),
            };
            let answer = http::Response::builder()
                .status(code)
                .header("content-type", "application/json");
            Ok(answer.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    };
    Client::new(service_fn(answer), "default")
}

impl Bed {
    /// Clusters with a topology at a version, and no controller.
    pub(crate) async fn without_controller(names: &[&str], version: &str) -> Self {
        let management = server(
            crds::management()
                .into_iter()
                .chain(crds::upgrades())
                .chain([crds::cluster_api()])
                .chain(
                    [control_planes(), deployments(), classes()]
                        .iter()
                        .map(definition),
                )
                .collect(),
        );
        let mut clusters = BTreeMap::new();
        for name in names {
            clusters.insert((*name).to_owned(), server(Vec::new()));
        }
        let served = clusters
            .keys()
            .map(|name| (name.clone(), Some(version.to_owned())));
        let served: Served = Arc::new(Mutex::new(served.collect()));
        let stuck = Arc::<Mutex<BTreeSet<String>>>::default();
        let played = simulate_cluster_api(
            management.client_as("cluster-api"),
            Arc::clone(&served),
            Arc::clone(&stuck),
        );
        let bed = Self {
            management,
            clusters: Arc::new(clusters),
            served,
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            stuck,
            metrics: Metrics::default(),
            tasks: Vec::new(),
            _played: AbortOnDropHandle::new(tokio::spawn(played)),
        };
        for name in names {
            bed.enroll(
                name,
                json!({"topology": {"classRef": {"name": "class"}, "version": version}}),
            )
            .await;
        }
        bed
    }

    /// Clusters with a topology at a version, and the controller.
    pub(crate) async fn new(names: &[&str], version: &str) -> Self {
        let mut bed = Self::without_controller(names, version).await;
        bed.settle().await;
        bed.start();
        bed
    }

    /// Creates a Cluster that opts in to upgrades, its control plane and its kubeconfig.
    pub(crate) async fn enroll(&self, name: &str, spec: Value) {
        let version = spec["topology"]["version"].as_str().map(str::to_owned);
        let mut spec = spec;
        spec["controlPlaneRef"] =
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name});
        if let Some(version) = version {
            self.make(
                &control_planes(),
                name,
                json!({"spec": {"version": version, "replicas": MACHINES}}),
            )
            .await;
        }
        let cluster = json!({
            "metadata": {
                "labels": {"env": if name.starts_with("dev") { "dev" } else { "prod" }},
                "annotations": {"fleet.muster.dev/enrolled": "", "fleet.muster.dev/upgrades": "muster"},
            },
            "spec": spec,
        });
        self.make(&Version::V1Beta2.api_resource(), name, cluster).await;
        let server = format!("https://{name}.test");
        create_kubeconfig(&self.management.client(), NS, name, &server).await;
    }

    /// Creates an object like Cluster API, by a manager that is not ours.
    pub(crate) async fn make(&self, resource: &ApiResource, name: &str, object: Value) {
        let mut object = object;
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        object["metadata"]["name"] = json!(name);
        let object = serde_json::from_value(object).unwrap();
        let by = PostParams {
            field_manager: Some("clusterctl".to_owned()),
            ..PostParams::default()
        };
        self.objects(resource).create(&by, &object).await.unwrap();
    }

    pub(crate) fn objects(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.management.client(), NS, resource)
    }

    pub(crate) async fn patch(&self, resource: &ApiResource, name: &str, patch: Value) {
        self.objects(resource)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Starts the controller.
    pub(crate) fn start(&mut self) {
        let clock = self.clock.clone();
        let context = Context {
            metrics: self.metrics.clone(),
            ..context(
                self.management.client_as("controller"),
                NS,
                clock.clone(),
                Arc::new(MemorySource::new(clock)),
                connect(&self.clusters, &self.served),
            )
        };
        let (registry, shutdown) = (Arc::clone(&context.registry), context.shutdown.clone());
        let windows = Arc::<WatchedWindows>::default();
        let tasks = [
            tokio::spawn(Arc::clone(&windows).run(context.clone())),
            tokio::spawn(rolloutwindow::run(context.clone())),
            tokio::spawn(registry.run(shutdown)),
            tokio::spawn(upgrade::run(upgrade::Setup { context, windows })),
        ];
        self.tasks = tasks.map(AbortOnDropHandle::new).into();
    }

    /// The metrics of the controller.
    pub(crate) fn scrape(&self) -> String {
        self.metrics.scrape().unwrap()
    }

    pub(crate) fn crash(&mut self) {
        self.tasks.clear();
    }

    /// Creates a ClusterUpgrade of all Clusters that opt in.
    pub(crate) async fn upgrade(&self, name: &str, version: &str, spec: Value) {
        let mut object = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ClusterUpgrade", "metadata": {"name": name},
            "spec": {"selector": {}, "target": {"kubernetes": version}},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        let object = serde_json::from_value(object).unwrap();
        self.upgrades()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) fn upgrades(&self) -> Api<ClusterUpgrade> {
        Api::namespaced(self.management.client(), NS)
    }

    pub(crate) async fn patch_upgrade(&self, name: &str, patch: Value) {
        self.upgrades()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until `f` returns something.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        found: impl Fn() -> F,
    ) -> T {
        let reached = async {
            loop {
                if let Some(found) = found().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        if let Ok(found) = tokio::time::timeout(LIMIT, reached).await {
            return found;
        }
        let all = self
            .upgrades()
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items;
        let statuses: Vec<_> = all.into_iter().map(|upgrade| upgrade.status).collect();
        panic!(
            "not within {LIMIT:?}: {what}\n{}",
            serde_json::to_string_pretty(&statuses).unwrap()
        )
    }

    /// Reason and message of a Cluster in a ClusterUpgrade.
    pub(crate) async fn why(&self, upgrade: &str, cluster: &str) -> Option<(String, String)> {
        let status = self.upgrades().get(upgrade).await.unwrap().status?;
        let group = status.reasons.into_iter().find(|group| {
            let names = group
                .clusters
                .split(',')
                .flat_map(|part| muster_api::ranges::expand(part, 100).unwrap());
            names.into_iter().any(|name| name == cluster)
        })?;
        let message = status
            .attention
            .into_iter()
            .find(|entry| entry.cluster == cluster)
            .map(|entry| entry.message);
        Some((group.reason, message.or(group.message).unwrap_or_default()))
    }

    /// Waits until a Cluster has this reason in a ClusterUpgrade, and returns the message.
    pub(crate) async fn until_why(&self, upgrade: &str, cluster: &str, reason: &str) -> String {
        self.until(&format!("{upgrade} on {cluster}: {reason}"), || async {
            let (known, message) = self.why(upgrade, cluster).await?;
            (known == reason).then_some(message)
        })
        .await
    }

    pub(crate) async fn until_state(&self, upgrade: &str, state: &str) {
        self.until(&format!("{upgrade}: {state}"), || async {
            let status = self.upgrades().get(upgrade).await.unwrap().status?;
            (status.observed_generation.is_some() && status.state.as_deref() == Some(state)).then_some(())
        })
        .await;
    }

    /// Changes a Cluster to one without a topology, with a MachineDeployment.
    pub(crate) async fn without_topology(&self, name: &str, version: &str) {
        let cluster = Version::V1Beta2.api_resource();
        self.patch(&cluster, name, json!({"spec": {"topology": null}}))
            .await;
        let deployment = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": name}},
            "spec": {"replicas": MACHINES, "template": {"spec": {"version": version}}},
        });
        self.make(&deployments(), name, deployment).await;
        self.settled(name).await;
    }

    /// The versions of the control plane and of the MachineDeployment of a Cluster.
    pub(crate) async fn parts(&self, name: &str) -> [String; 2] {
        let control_plane = self.objects(&control_planes()).get(name).await.unwrap();
        let deployment = self.objects(&deployments()).get(name).await.unwrap();
        [
            control_plane.data["spec"]["version"].as_str().unwrap().to_owned(),
            deployment.data["spec"]["template"]["spec"]["version"]
                .as_str()
                .unwrap()
                .to_owned(),
        ]
    }

    /// Waits until Cluster API has reported the status of a Cluster.
    pub(crate) async fn settled(&self, name: &str) {
        self.until(&format!("{name} is observed"), || async {
            let object = self
                .objects(&Version::V1Beta2.api_resource())
                .get(name)
                .await
                .unwrap();
            let observed = object
                .data
                .pointer("/status/observedGeneration")
                .and_then(Value::as_i64);
            (observed == object.metadata.generation).then_some(())
        })
        .await;
    }

    /// Waits until Cluster API has reported the status of each Cluster.
    pub(crate) async fn settle(&self) {
        for name in self.clusters.keys() {
            self.settled(name).await;
        }
    }

    /// The version of the topology of a Cluster.
    pub(crate) async fn topology(&self, cluster: &str) -> String {
        let object = self
            .objects(&Version::V1Beta2.api_resource())
            .get(cluster)
            .await
            .unwrap();
        object.data["spec"]["topology"]["version"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) async fn topologies(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in self.clusters.keys() {
            all.push(self.topology(name).await);
        }
        all
    }

    /// The recorded changes of a resource by the controller: the objects after each.
    pub(crate) fn changes(&self, resource: &str) -> Vec<EventRecord> {
        let events = self.management.recorder().events().into_iter();
        events
            .filter(|event| event.resource.resource == resource && event.kind() != ChangeKind::Deleted)
            .collect()
    }
}

/// Simulates Cluster API: an object with a new version gets it machine by machine, the control plane first, and its
/// status is like that of the real one.
async fn simulate_cluster_api(client: Client, served: Served, stuck: Arc<Mutex<BTreeSet<String>>>) {
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), NS, &Version::V1Beta2.api_resource());
    let mut had: BTreeMap<String, (String, u32)> = BTreeMap::new();
    loop {
        for cluster in clusters
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
        {
            let name = cluster.metadata.name.clone().unwrap();
            if stuck.lock().contains(&name) {
                continue;
            }
            if let Some(version) = cluster.data["spec"]["topology"]["version"].as_str() {
                let version = version.to_owned();
                let known = had
                    .entry(name.clone())
                    .or_insert_with(|| (version.clone(), 2 * MACHINES));
                if known.0 == version {
                    known.1 = (known.1 + 1).min(2 * MACHINES);
                } else {
                    *known = (version.clone(), 0);
                }
                let done = known.1;
                if done >= MACHINES {
                    served.lock().insert(name.clone(), Some(version.clone()));
                }
                machines(
                    &client,
                    &control_planes(),
                    &name,
                    Some(&version),
                    done.min(MACHINES),
                )
                .await;
                status(&clusters, &cluster, done).await;
            } else {
                apart(&client, &clusters, &cluster, &name, &mut had, &served).await;
            }
        }
        tokio::time::sleep(TICK).await;
    }
}

/// A Cluster without a topology: each object is upgraded separately.
async fn apart(
    client: &Client,
    clusters: &Api<DynamicObject>,
    cluster: &DynamicObject,
    name: &str,
    had: &mut BTreeMap<String, (String, u32)>,
    served: &Served,
) {
    let mut all = 0;
    for (resource, pointer) in [
        (control_planes(), "/spec/version"),
        (deployments(), "/spec/template/spec/version"),
    ] {
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), NS, &resource);
        let Some(object) = objects.get_opt(name).await.unwrap() else {
            continue;
        };
        let version = object
            .data
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned();
        let key = format!("{} {name}", resource.kind);
        let known = had.entry(key).or_insert_with(|| (version.clone(), MACHINES));
        if known.0 == version {
            known.1 = (known.1 + 1).min(MACHINES);
        } else {
            *known = (version.clone(), 0);
        }
        let done = known.1;
        all += done;
        let is_control_plane = resource.kind == "KubeadmControlPlane";
        if is_control_plane && done == MACHINES {
            served.lock().insert(name.to_owned(), Some(version.clone()));
        }
        machines(client, &resource, name, None, done).await;
    }
    status(clusters, cluster, all).await;
}

/// Reports how many machines of an object have its version. In a topology, the version comes from the topology.
async fn machines(client: &Client, resource: &ApiResource, name: &str, version: Option<&str>, done: u32) {
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), NS, resource);
    if let Some(version) = version {
        let patch = json!({"spec": {"version": version}});
        objects
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
    let object = objects.get(name).await.unwrap();
    let mut status = json!({
        "observedGeneration": object.metadata.generation, "replicas": MACHINES, "upToDateReplicas": done,
        "conditions": conditions(&[("RollingOut", done < MACHINES)]),
    });
    if done == MACHINES {
        status["version"] = object.data["spec"]["version"].clone();
    }
    objects
        .patch_status(
            name,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await
        .unwrap();
}

async fn status(clusters: &Api<DynamicObject>, cluster: &DynamicObject, done: u32) {
    let all = 2 * MACHINES;
    let part =
        |done: u32| json!({"desiredReplicas": MACHINES, "replicas": MACHINES, "upToDateReplicas": done});
    let (control_plane, workers) = (done.min(MACHINES), done.saturating_sub(MACHINES));
    let status = json!({
        "observedGeneration": cluster.metadata.generation,
        "controlPlane": part(control_plane), "workers": part(workers),
        "conditions": conditions(&[
            ("TopologyReconciled", done == all), ("ControlPlaneMachinesUpToDate", control_plane == MACHINES),
            ("WorkerMachinesUpToDate", workers == MACHINES), ("RollingOut", done < all), ("Remediating", false),
        ]),
    });
    let name = cluster.metadata.name.as_deref().unwrap();
    // An object that was changed meanwhile is not observed yet.
    let patch = json!({"metadata": {"resourceVersion": cluster.metadata.resource_version}, "status": status});
    let _ = clusters
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
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

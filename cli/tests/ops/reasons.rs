//! Promise: views show the controller's decision for each cluster, however many clusters have problems.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    time::Duration,
};

use futures::{StreamExt, stream};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::Module;
use serde_json::{Value, json};

use crate::bed::{Bed, create};

const CLUSTERS: &str = "cluster.x-k8s.io/v1beta2";

/// How long the largest fleet may take.
const LONG: Duration = Duration::from_mins(3);

/// The problem of a cluster, and its reason.
const TROUBLES: [&str; 5] = [
    "ClusterPaused",
    "ControlPlaneNotReady",
    "NoKubeconfig",
    "KubeconfigRejected",
    "Unreachable",
];

/// A kubeconfig with an exec plugin, which muster does not run.
fn with_program(server: &str) -> String {
    let program = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": program}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    })
    .to_string()
}

/// The objects of a cluster with this problem. Nothing listens at the server of `sound`, a kubeconfig.
fn objects(name: &str, trouble: &str, sound: &str) -> Vec<Value> {
    let metadata = json!({"name": name, "namespace": "default"});
    let cluster = json!({
        "apiVersion": CLUSTERS, "kind": "Cluster", "metadata": metadata,
        "spec": {"paused": trouble == "ClusterPaused"},
        "status": {"initialization": {"controlPlaneInitialized": trouble != "ControlPlaneNotReady"}},
    });
    let secret = |kubeconfig: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{name}-kubeconfig"), "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": name}},
            "stringData": {"value": kubeconfig},
        })
    };
    match trouble {
        "NoKubeconfig" => vec![cluster],
        "KubeconfigRejected" => vec![secret(&with_program("https://127.0.0.1:1")), cluster],
        _ => vec![secret(sound), cluster],
    }
}

async fn fleet(bed: &Bed, size: usize) -> BTreeMap<String, &'static str> {
    let client = &bed.management.client();
    // Nothing listens there: the port was freed.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sound = bed.downstream.kubeconfig().unwrap();
    let listens = bed.downstream.address().unwrap().to_string();
    let sound = &sound.replace(&listens, &free.to_string());
    let troubled: BTreeMap<String, &str> = (0..size)
        .map(|place| (format!("eu-{place:04}"), TROUBLES[place % TROUBLES.len()]))
        .collect();
    stream::iter(&troubled)
        .for_each_concurrent(16, |(name, trouble)| async move {
            let mut objects = objects(name, trouble, sound);
            let cluster = objects.pop().unwrap();
            for object in objects {
                create(client, object).await;
            }
            create(client, cluster.clone()).await;
            let clusters: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), "default", &cluster_resource());
            let status = json!({"status": cluster["status"]});
            clusters
                .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        })
        .await;
    troubled
}

fn cluster_resource() -> ApiResource {
    let (group, version) = CLUSTERS.split_once('/').unwrap();
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "Cluster"))
}

/// The reason of each cluster, from the matrix as JSON.
fn by_matrix(matrix: &Value) -> BTreeMap<String, String> {
    let columns = matrix["columns"].as_array().unwrap().iter();
    let cells = matrix["rows"][0]["cells"].as_array().unwrap().iter();
    let reasons = columns.zip(cells).flat_map(|(column, cell)| {
        let clusters = column["clusters"].as_array().unwrap().iter();
        clusters.map(|cluster| (text(cluster), text(&cell["reason"])))
    });
    reasons.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

fn same(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) {
    let differ = expected
        .iter()
        .filter(|(name, reason)| found.get(*name) != Some(*reason));
    let differ: Vec<_> = differ
        .map(|(name, reason)| (name, reason, found.get(name)))
        .take(5)
        .collect();
    assert!(differ.is_empty() && found.len() == expected.len(), "{differ:?}");
}

/// Every view of `size` clusters with problems.
async fn each_view_is_true(size: usize) {
    let bed = Bed::new().await;
    let troubled = fleet(&bed, size).await;
    let client = bed.management.client();
    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {}, "sync": {"source": {"git": {"url": format!("file://{}", bed.path("none").display()), "version": {"tag": "v1"}}}}}});
    create(&client, module).await;
    bed.start_controller();
    let modules: Api<Module> = Api::namespaced(client.clone(), "default");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in troubled.values() {
        *counts.entry((*reason).to_owned()).or_default() += 1;
    }
    let decided = || async {
        let module = modules.get("web").await.unwrap();
        let reasons = module.status.unwrap_or_default().reasons;
        let found = reasons
            .into_iter()
            .map(|group| (group.reason, group.count as usize));
        found.collect::<BTreeMap<String, usize>>()
    };
    let all = async {
        while decided().await != counts {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(LONG, all).await.is_ok();
    assert!(in_time, "{:?}", decided().await);
    let expected: BTreeMap<String, String> = troubled
        .iter()
        .map(|(name, reason)| (name.clone(), (*reason).to_owned()))
        .collect();
    let output = bed.muster("matrix -o json").await;
    same(&by_matrix(&serde_json::from_str(&output.out).unwrap()), &expected);
    // Clusters that do not fit into the list of those that need attention.
    for (name, reason) in troubled.iter().rev().take(TROUBLES.len()) {
        let output = bed.types(&format!("why module/web --cluster {name}"), 0).await;
        assert!(output.contains(reason), "{name}: {output}");
    }
    let dashboard = Dashboard::start(&bed);
    let json: Value = serde_json::from_str(&dashboard.get("/api/v1/matrix.json")).unwrap();
    same(&by_matrix(&json), &expected);
    let page = dashboard.get("/module/web");
    for reason in TROUBLES {
        assert!(page.contains(reason), "{reason} is not on the page");
    }
}

/// A running dashboard.
struct Dashboard {
    child: Child,
    address: String,
}

impl Dashboard {
    fn start(bed: &Bed) -> Self {
        let mut command = bed.command("dashboard --addr 127.0.0.1:0 -n default");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (_, address) = line.split_once("http://").unwrap_or_else(|| panic!("{line}"));
        let address = address.trim().trim_end_matches('/').to_owned();
        Self { child, address }
    }

    /// The body of a response, once the fleet is read.
    fn get(&self, path: &str) -> String {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.address
            )
            .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            match answer.split_once("\r\n\r\n") {
                Some((head, body)) if head.starts_with("HTTP/1.1 200") => return body.to_owned(),
                _ if answer.starts_with("HTTP/1.1 503") => std::thread::sleep(Duration::from_millis(100)),
                _ => panic!("{path}: {answer}"),
            }
        }
        panic!("{path}: the fleet is not read in time");
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_thirty_clusters_in_trouble() {
    each_view_is_true(30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_three_hundred_clusters_in_trouble() {
    each_view_is_true(300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_three_thousand_clusters_in_trouble() {
    each_view_is_true(3000).await;
}

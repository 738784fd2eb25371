//! A full scrape after a small rollout, on paused time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PostParams},
};
use muster_api::{Module, cluster::Version, crds};
use muster_apiserver::ApiServer;
use muster_controllers::{
    metrics::Metrics,
    notify::Config,
    process::{Setup, controller, run_agent},
    registry::Connect,
    runtime::Clock,
};
use muster_sync::source::MemorySource;
use prometheus_parse::{Scrape, Value};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::{cluster::create_cluster, kubeconfig_secret::create_kubeconfig, setup::setup};

const NS: &str = "fleet";
const SYSTEM: &str = "muster-system";
const URL: &str = "https://git.test/fleet.git";

/// A custom resource whose controller reports nothing about it.
const WIDGET: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: example.test/v1
kind: Widget
metadata: {name: w, namespace: default}
";

/// A management cluster, the cluster `eu-1` with an agent, and the cluster `eu-2` that has no kubeconfig.
pub(crate) struct Bed {
    management: ApiServer,
    pub metrics: BTreeMap<&'static str, Metrics>,
    /// The cluster, and its tasks.
    _running: (ApiServer, Vec<AbortOnDropHandle<()>>),
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::notifying(None)
    }

    /// Simulates a controller that reports rollouts there.
    pub(crate) fn notifying(notify: Option<&Arc<Config>>) -> Self {
        let upstream = [crds::management(), crds::flux(), vec![crds::cluster_api()]];
        let management = server(NS, upstream.concat());
        let cluster = server(SYSTEM, [crds::downstream(), crds::flux()].concat());
        let clock = start();
        let source = Arc::new(MemorySource::new(clock));
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting, namespace: default}\n";
        let files = [("base/greeting.yaml", manifest), ("base/widget.yaml", WIDGET)];
        let files = files.map(|(path, text)| (path, text.to_owned()));
        let commit = source.commit(URL, "main", files);
        source.tag(URL, "v1", &commit);
        let door = cluster.client_as("controller");
        let connect: Connect = Arc::new(move |_| Ok(door.clone()));
        let metrics = BTreeMap::from([("controller", Metrics::default()), ("agent", Metrics::default())]);
        let setup = |api: &ApiServer, name: &str, namespace: &str| Setup {
            notify: notify.cloned(),
            metrics: metrics[name].clone(),
            ..setup(
                api.client_as(name),
                namespace,
                start(),
                source.clone(),
                connect.clone(),
            )
        };
        let (above, below) = (
            setup(&management, "controller", NS),
            setup(&cluster, "agent", SYSTEM),
        );
        let running = vec![
            AbortOnDropHandle::new(tokio::spawn(async { controller(above).await.unwrap() })),
            AbortOnDropHandle::new(tokio::spawn(async { run_agent(below).await.unwrap() })),
        ];
        Self {
            management,
            metrics,
            _running: (cluster, running),
        }
    }

    fn clusters(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.management.client(), NS, &Version::V1Beta2.api_resource())
    }

    fn modules(&self) -> Api<Module> {
        Api::namespaced(self.management.client(), NS)
    }

    pub(crate) async fn enrol(&self, name: &str) {
        create_cluster(&self.management.client(), NS, name).await;
    }

    pub(crate) async fn give_kubeconfig(&self, name: &str) {
        let server = format!("https://{name}.test");
        create_kubeconfig(&self.management.client(), NS, name, &server).await;
    }

    pub(crate) async fn create_module(&self) {
        let module = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "base"},
            "spec": {
                "selector": {"matchLabels": {"env": "prod"}}, "onDelete": "Orphan",
                "sync": {"source": {"git": {"url": URL, "version": {"tag": "v1"}}}, "package": {"path": "base", "settle": "5s"}},
            },
        });
        let module = serde_json::from_value(module).unwrap();
        self.modules()
            .create(&PostParams::default(), &module)
            .await
            .unwrap();
    }

    pub(crate) fn scrape(&self, process: &str) -> String {
        self.metrics[process].scrape().unwrap()
    }
}

fn start() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn server(namespace: &str, kinds: Vec<CustomResourceDefinition>) -> ApiServer {
    let clock = muster_apiserver::Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::builder().clock(clock).seed(1).namespace(namespace);
    server.with(kinds).in_process().unwrap()
}

/// As a parser of Prometheus' format reads it: each line is a sample, and all samples of a family follow its TYPE line.
pub(crate) fn parse(text: &str) -> Scrape {
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    let scrape = Scrape::parse(lines).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    let read: usize = scrape
        .samples
        .iter()
        .map(|sample| match &sample.value {
            // A histogram is one sample of many lines; its sum and count are others.
            Value::Histogram(buckets) => buckets.len(),
            _ => 1,
        })
        .sum();
    assert_eq!(read, samples, "every line is understood");
    scrape
}

/// Sorted, and without values that depend on the order in which tasks ran: how often, how long, and when last.
fn normalised(text: &str) -> String {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let counts = ["_total{", "_duration_seconds", "_last_contact_"]
            .iter()
            .any(|word| series.contains(word));
        (series.to_owned(), if counts { "…" } else { value }.to_owned())
    };
    let mut lines = Vec::new();
    let mut family: BTreeSet<String> = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('#') {
            lines.extend(std::mem::take(&mut family));
            lines.push(line.to_owned());
        } else if !line.contains("_bucket{") || line.contains("+Inf") {
            let (series, value) = of(line);
            family.insert(format!("{series} {value}"));
        }
    }
    lines.join("\n")
}

#[tokio::test(start_paused = true)]
async fn after_a_small_rollout() {
    let bed = Bed::new();
    bed.enrol("eu-1").await;
    bed.enrol("eu-2").await;
    bed.give_kubeconfig("eu-1").await;
    bed.create_module().await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    for process in ["controller", "agent"] {
        let text = bed.scrape(process);
        parse(&text);
        insta::assert_snapshot!(process, normalised(&text));
    }
}

/// Deleted modules and clusters have no metrics, and no metric is for one cluster of a module.
#[tokio::test(start_paused = true)]
async fn what_is_gone() {
    let bed = Bed::new();
    bed.enrol("eu-1").await;
    bed.give_kubeconfig("eu-1").await;
    bed.create_module().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let about = |word: &str| {
        let scrape = parse(&bed.scrape("controller"));
        let names = |sample: &&prometheus_parse::Sample| sample.labels.values().any(|value| value == word);
        scrape
            .samples
            .iter()
            .filter(names)
            .map(|sample| sample.metric.clone())
            .collect::<BTreeSet<_>>()
    };
    assert!(
        about("base").contains("muster_module_info"),
        "{:?}",
        about("base")
    );
    assert!(about("eu-1").contains("muster_cluster_up"), "{:?}", about("eu-1"));
    let both = parse(&bed.scrape("controller"))
        .samples
        .into_iter()
        .filter(|sample| {
            let has = |word: &str| sample.labels.values().any(|value| value == word);
            has("base") && has("eu-1")
        });
    assert_eq!(both.count(), 0, "no series for each cluster of each module");
    bed.modules()
        .delete("base", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(about("base"), BTreeSet::new());
    bed.clusters()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(about("eu-1"), BTreeSet::new());
}

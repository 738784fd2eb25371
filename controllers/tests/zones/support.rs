//! A cluster with a group of three zones, the StatefulSet controller, and `muster zones`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use kube::Client;
use muster_apiserver::{ApiServer, ChangeKind, player::Speeds, send};
use muster_controllers::{
    admission::server::Answers,
    lease::Leadership,
    metrics::Metrics,
    process::{self, ZonesSetup},
    reconcile::Base,
    runtime::{Clock, Events, Jitter, Shutdown},
    zones::{self, Zones, metrics::ZoneMetrics, pods::AskPods, reviews::Reviews},
};
use muster_zones::{
    flags::{self, Settings},
    scale::pods::{Answer, Answered, Ask},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

const START: &str = "2026-11-26T12:00:00Z";
/// How long to wait for a state, in virtual time, before a test fails.
const PATIENCE: Duration = Duration::from_hours(2);
const PAUSE: Duration = Duration::from_millis(100);
pub(crate) const ZONES: [&str; 3] = ["db-zone-a", "db-zone-b", "db-zone-c"];
pub(crate) const NS: &str = "default";
pub(crate) const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const PODS_OF_ZONES: &str = "/api/v1/namespaces/default/pods?labelSelector=app%3Ddb";
pub(crate) const TEMPLATES: &str =
    "/apis/rollout-operator.grafana.com/v1/namespaces/default/replicatemplates";
pub(crate) const ROLLOUTS: &str = "/apis/fleet.muster.dev/v1alpha1/namespaces/default/zonerollouts";
pub(crate) const BUDGETS: &str =
    "/apis/rollout-operator.grafana.com/v1/namespaces/default/zoneawarepoddisruptionbudgets";

pub(crate) struct Bed {
    pub api: ApiServer,
    pub pods: Pods,
    clock: Clock,
    flags: Vec<String>,
    running: Vec<AbortOnDropHandle<()>>,
    pub metrics: Metrics,
    /// The revision at which all pods were Ready.
    began: u64,
}

/// Pods with the responses that a test sets, by default 200 with the time; each request is kept.
#[derive(Clone, Default)]
pub(crate) struct Pods {
    pub requests: Arc<Mutex<Vec<String>>>,
    pub answers: Arc<Mutex<BTreeMap<String, Answered>>>,
}

#[async_trait]
impl AskPods for Pods {
    async fn send_request(&self, ask: &Ask) -> Answered {
        self.requests
            .lock()
            .push(format!("{} {}", ask.method.as_str(), ask.pod));
        let known = self.answers.lock().get(&ask.pod).cloned();
        known.unwrap_or_else(|| {
            Ok(Answer {
                status: 200,
                body: "{}".to_owned(),
            })
        })
    }
}

impl Bed {
    /// Three zones of three pods each, all Ready, and `muster zones` with these additional flags.
    pub(crate) async fn new(flags: &[&str]) -> Self {
        let mut bed = Self::empty(flags).await;
        for zone in ZONES {
            bed.create(SETS, set(zone, &json!({}))).await;
        }
        bed.all_ready("v1").await;
        bed.begin().await;
        bed
    }

    /// Starts `muster zones` over sets whose pods are all Ready.
    pub(crate) async fn begin(&mut self) {
        self.start();
        self.until_ready("True UpToDate").await;
        self.began = self.api.revision();
    }

    /// A cluster with the CRDs and nothing else.
    pub(crate) async fn empty(flags: &[&str]) -> Self {
        let api = ApiServer::builder()
            .clock(muster_apiserver::Clock::starting_at(START.parse().unwrap()))
            .event_log(true)
            .workloads(Speeds::default())
            .with(muster_api::crds::zones())
            .with(muster_api::crds::rollout_operator())
            .in_process()
            .unwrap();
        let metrics = Metrics::default();
        let bed = Self {
            api,
            pods: Pods::default(),
            clock: Clock::starting_at(START.parse().unwrap()),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            running: Vec::new(),
            metrics,
            began: 0,
        };
        let ours = json!({"metadata": {"name": "zones"}, "spec": {"containers": [{"name": "zones", "image": "muster"}]}});
        bed.create(PODS, ours).await;
        bed
    }

    pub(crate) fn settings(&self) -> Settings {
        let namespace = format!("-kubernetes.namespace={NS}");
        let arguments: Vec<&str> = std::iter::once(namespace.as_str())
            .chain(self.flags.iter().map(String::as_str))
            .collect();
        Settings::new(&flags::parse_flags(&arguments).unwrap()).unwrap()
    }

    /// Restarts `muster zones`, with these additional flags.
    pub(crate) fn start_with(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.start();
    }

    /// Starts `muster zones`; if it runs already, restarts it without its memory, as after a crash.
    pub(crate) fn start(&mut self) {
        self.running.clear();
        self.running.push(self.another("zones"));
    }

    /// A process, until it is dropped.
    pub(crate) fn another(&self, name: &str) -> AbortOnDropHandle<()> {
        let setup = ZonesSetup {
            client: self.api.client_as(name),
            settings: self.settings(),
            clock: self.clock.clone(),
            jitter: Jitter::seeded(1),
            pods: Arc::new(self.pods.clone()),
            instance: name.to_owned(),
            lease: None,
            door: None,
            webhooks: None,
            zone_metrics: ZoneMetrics::new(&self.metrics),
            metrics: self.metrics.clone(),
            shutdown: Shutdown::new(),
        };
        AbortOnDropHandle::new(tokio::spawn(async move { process::zones(setup).await.unwrap() }))
    }

    /// The review handler, without a server: of a leader, or with this right; its watches run, and the group is up to
    /// date.
    pub(crate) async fn serve(&mut self, leadership: Option<Leadership>) -> Answers {
        let answers = self.serve_as_it_is(leadership);
        self.until_ready("True UpToDate").await;
        answers
    }

    /// The same, with any state of the group.
    pub(crate) fn serve_as_it_is(&mut self, leadership: Option<Leadership>) -> Answers {
        let client = self.api.client_as("zones");
        let metrics = Metrics::default();
        let zones = Zones::new(zones::Setup {
            events: Events::new(client.clone(), "zones", "test", self.clock.clone()),
            client: client.clone(),
            settings: self.settings(),
            clock: self.clock.clone(),
            metrics: ZoneMetrics::new(&metrics),
            pods: Arc::new(self.pods.clone()),
        });
        let reviews = Reviews::new(Arc::clone(&zones));
        reviews.lead(leadership);
        let base = Base {
            client,
            namespace: NS.to_owned(),
            jitter: Jitter::seeded(1),
            metrics,
            shutdown: Shutdown::new(),
        };
        let running = zones::run(zones, base, "zones".to_owned());
        self.running.push(AbortOnDropHandle::new(tokio::spawn(running)));
        reviews.answers()
    }

    /// The time of the cluster.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// The maximum number of zones in which pods were not Ready at once, since all of them first were.
    pub(crate) fn most_disturbed(&self) -> usize {
        let mut pods: BTreeMap<String, Value> = BTreeMap::new();
        let mut most = 0;
        for event in self.api.recorder().events() {
            let object = event.object();
            if object["kind"] != "Pod" {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if event.kind() == ChangeKind::Deleted {
                pods.remove(&name);
            } else {
                pods.insert(name, object.clone());
            }
            if event.revision() > self.began {
                let pods: Vec<Value> = pods.values().cloned().collect();
                let disturbed = ZONES.iter().filter(|zone| ready_pods(&pods, zone, None) < 3);
                most = most.max(disturbed.count());
            }
        }
        most
    }

    /// Changes the image of all zones.
    pub(crate) async fn image(&self, image: &str) {
        for zone in ZONES {
            let containers = json!([{"name": "main", "image": image}]);
            let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            self.edit(&format!("{SETS}/{zone}"), patch).await;
        }
    }

    /// Waits until each zone has three Ready pods of this image.
    pub(crate) async fn all_ready(&self, image: &str) {
        let api = self.api.client();
        self.wait(&format!("all Ready at {image}"), async || {
            let pods = list(&api, PODS).await;
            ZONES
                .iter()
                .all(|zone| ready_pods(&pods, zone, Some(image)) == 3)
                .then_some(())
        })
        .await;
    }

    /// Waits until Ready is `<status> <reason>` at the current generation, and the set revisions are known.
    pub(crate) async fn until_ready(&self, wanted: &str) -> Value {
        self.until(&rollout(), |rollout| ready(rollout) == wanted).await
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        send(&self.api.client(), "POST", path, Some(object))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn edit(&self, path: &str, change: Value) -> Value {
        send(&self.api.client(), "PATCH", path, Some(change))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        send(&self.api.client(), "DELETE", path, None)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn read(&self, path: &str) -> Option<Value> {
        send(&self.api.client(), "GET", path, None).await.ok()
    }

    /// Waits until the object at `path` is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait(path, async || {
            self.read(path).await.filter(|object| wanted(object))
        })
        .await
    }

    async fn wait<T>(&self, what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
        let began = tokio::time::Instant::now();
        loop {
            if let Some(found) = found().await {
                return found;
            }
            if began.elapsed() >= PATIENCE {
                let rollout = self.read(&rollout()).await;
                let status = rollout.map(|rollout| rollout["status"].to_string());
                panic!("{what}: it did not come; the ZoneRollout: {status:?}");
            }
            tokio::time::sleep(PAUSE.max(began.elapsed() / 20)).await;
        }
    }

    /// Writes of `muster zones` so far, as `METHOD path`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.api
            .recorder()
            .writes_of(|client| client.starts_with("zones"))
    }

    /// The deleted pods, in order; each with whether it was in `status.inFlight` before.
    pub(crate) fn deleted(&self) -> Vec<(String, bool)> {
        let mut on_record: Vec<String> = Vec::new();
        let mut deleted = Vec::new();
        for event in self.api.recorder().events() {
            let object = event.object();
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            match object["kind"].as_str() {
                Some("ZoneRollout") => {
                    let entries = object["status"]["inFlight"].as_array().into_iter().flatten();
                    on_record.extend(entries.filter_map(|entry| entry["uid"].as_str().map(str::to_owned)));
                }
                Some("Pod") if object["metadata"]["deletionTimestamp"].is_string() => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    let is_new = !deleted
                        .iter()
                        .any(|(known, ..): &(String, String, bool)| *known == uid);
                    if is_new {
                        let known = on_record.contains(&uid);
                        deleted.push((uid, name, known));
                    }
                }
                _ => {}
            }
        }
        deleted
            .into_iter()
            .map(|(_, name, known)| (name, known))
            .collect()
    }
}

/// A StatefulSet of a zone with three pods; `metadata` is merged in.
pub(crate) fn set(zone: &str, metadata: &Value) -> Value {
    let mut labels = json!({"rollout-group": "db", "app": "db"});
    let mut annotations = json!({});
    for (into, from) in [
        (&mut labels, &metadata["labels"]),
        (&mut annotations, &metadata["annotations"]),
    ] {
        for (key, value) in from.as_object().into_iter().flatten() {
            into[key] = value.clone();
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": zone, "labels": labels, "annotations": annotations},
        "spec": {
            "replicas": 3, "serviceName": "db", "updateStrategy": {"type": "OnDelete"}, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"zone": zone}},
            "template": {
                "metadata": {"labels": {"zone": zone, "app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "v1"}]},
            },
        },
    })
}

fn ready_pods(pods: &[Value], zone: &str, image: Option<&str>) -> usize {
    let of_zone = |pod: &&Value| pod["metadata"]["labels"]["zone"] == *zone;
    let is_ready = |pod: &&Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        pod["metadata"]["deletionTimestamp"].is_null()
            && image.is_none_or(|image| pod["spec"]["containers"][0]["image"] == image)
            && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    pods.iter().filter(of_zone).filter(is_ready).count()
}

/// The Ready condition as `<status> <reason>`; empty if it is of an older generation.
pub(crate) fn ready(object: &Value) -> String {
    if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
        return String::new();
    }
    let (status, reason, _) = condition(object, "Ready");
    format!("{status} {reason}")
}

/// Status, reason and message of a condition.
pub(crate) fn condition(object: &Value, type_: &str) -> (String, String, String) {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    let text = |key: &str| {
        let text = found.and_then(|condition| condition[key].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

/// The path of the group's ZoneRollout.
pub(crate) fn rollout() -> String {
    format!("{ROLLOUTS}/{}", muster_api::names::zone_rollout_name("db"))
}

/// Advances time.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn list(client: &Client, path: &str) -> Vec<Value> {
    let list = send(client, "GET", path, None).await.unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

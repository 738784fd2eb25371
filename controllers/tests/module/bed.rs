//! A management cluster, clusters, one git host, and the processes: each of them can be stopped and restarted.

use std::{collections::BTreeMap, fmt::Debug, future::Future, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::{core::v1::ConfigMap, events::v1::Event},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use muster_api::{Module, ProxyAssemblage, cluster::Version, crds};
use muster_apiserver::{ApiServer, ChangeKind, record::EventRecord};
use muster_controllers::{
    bindings::{Kinds, Objects},
    gates::{self, Evaluator},
    hosts::Hosts,
    metrics::Metrics,
    module,
    process::{ProcessError, Setup, controller, run_agent},
    reconcile::{Base, Context, Options, SyncMode},
    record::Decisions,
    registry::{Connect, connect_by_server},
    rolloutwindow::WatchedWindows,
    runtime::{Clock, Shutdown},
};
use muster_sync::source::MemorySource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::{cluster, context::context, kubeconfig_secret::create_kubeconfig, setup::setup};

pub(crate) const NS: &str = "fleet";
pub(crate) const SYSTEM: &str = "muster-system";
pub(crate) const URL: &str = "https://git.test/fleet.git";
pub(crate) const CLUSTERS: [&str; 3] = ["eu-1", "eu-2", "us-1"];
/// The timeout of every wait, in virtual time.
const LIMIT: Duration = Duration::from_mins(40);

pub(crate) type Process = AbortOnDropHandle<Result<(), ProcessError>>;

pub(crate) struct Bed {
    pub management: ApiServer,
    pub clusters: BTreeMap<String, ApiServer>,
    pub source: Arc<MemorySource>,
    pub clock: Clock,
    /// Which sync processes use that start after this.
    pub sync: SyncMode,
    /// What gates may query, and how.
    pub gates: gates::Access,
    /// The metrics of all processes.
    metrics: Metrics,
    /// Stops all processes.
    pub shutdown: Shutdown,
    pub agents: BTreeMap<String, Process>,
    pub controller: Option<Process>,
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

/// The controller of modules, which ends with its tasks.
pub(crate) struct Deciding {
    pub context: Context,
    pub objects: Arc<Objects>,
    pub tasks: Vec<AbortOnDropHandle<()>>,
}

fn management() -> Vec<CustomResourceDefinition> {
    let muster = crds::management().into_iter();
    muster.chain(crds::flux()).chain([crds::cluster_api()]).collect()
}

impl Bed {
    /// Clusters with agents, and a controller.
    pub(crate) async fn new(names: &[&str]) -> Self {
        let mut bed = Self::without_controller(names).await;
        bed.start_controller();
        bed
    }

    pub(crate) async fn without_controller(names: &[&str]) -> Self {
        let current = |_: &str| crds::downstream();
        Self::with_kinds(names, current).await
    }

    /// Clusters with these CRDs of muster, and no controller.
    pub(crate) async fn with_kinds(
        names: &[&str],
        kinds: impl Fn(&str) -> Vec<CustomResourceDefinition>,
    ) -> Self {
        let management = server(NS, management());
        let mut clusters = BTreeMap::new();
        for name in names {
            let kinds = kinds(name).into_iter().chain(crds::flux()).collect();
            clusters.insert((*name).to_owned(), server(SYSTEM, kinds));
        }
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let now = clock.clone();
        let mut bed = Self {
            management,
            clusters,
            source: Arc::new(MemorySource::new(now)),
            clock,
            sync: SyncMode::Builtin,
            gates: gates::Access::default(),
            metrics: Metrics::default(),
            shutdown: Shutdown::new(),
            agents: BTreeMap::new(),
            controller: None,
        };
        for name in names {
            bed.enroll(name).await;
            bed.start_agent(name);
        }
        bed
    }

    pub(crate) async fn enroll(&self, name: &str) {
        self.create_cluster(name).await;
        self.give_secret(name).await;
    }

    pub(crate) async fn create_cluster(&self, name: &str) {
        cluster::create_cluster(&self.management.client(), NS, name).await;
    }

    pub(crate) async fn give_secret(&self, name: &str) {
        create_kubeconfig(&self.management.client(), NS, name, &address(name)).await;
    }

    pub(crate) fn setup(&self, server: &ApiServer, client: &str, namespace: &str) -> Setup {
        let (client, clock, connect) = (
            server.client_as(client),
            self.clock.clone(),
            connect(&self.clusters),
        );
        Setup {
            options: Options {
                sync: self.sync,
                ..Options::default()
            },
            gates: self.gates.clone(),
            metrics: self.metrics.clone(),
            shutdown: self.shutdown.clone(),
            ..setup(client, namespace, clock, self.source.clone(), connect)
        }
    }

    pub(crate) fn start_controller(&mut self) {
        let process = controller(self.setup(&self.management, "controller", NS));
        self.controller = Some(AbortOnDropHandle::new(tokio::spawn(process)));
    }

    /// Only the module controller, under a client's name: it decides, and delivers nothing to clusters.
    pub(crate) fn decide(&self, client: &str, gap: Duration) -> Deciding {
        let context = context(
            self.management.client_as(client),
            NS,
            self.clock.clone(),
            self.source.clone(),
            connect(&self.clusters),
        );
        let options = Options {
            sync: self.sync,
            ..Options::default()
        };
        let context = Context {
            options: Arc::new(options),
            gap,
            metrics: self.metrics.clone(),
            ..context
        };
        let objects = Objects::new(context.client.clone(), NS, Kinds::default());
        let gates = Evaluator::new(gates::Setup {
            client: context.client.clone(),
            namespace: NS.to_owned(),
            objects: Arc::clone(&objects),
            access: gates::Access {
                hosts: Hosts::default(),
                ..self.gates.clone()
            },
            clock: context.clock.clone(),
        });
        let (registry, shutdown) = (Arc::clone(&context.registry), context.shutdown.clone());
        let dependencies = Arc::<module::Dependencies>::default();
        // With a separate client, so that it can lag behind.
        let knowing = Context {
            client: self.management.client_as(&format!("{client}-dependencies")),
            ..context.clone()
        };
        let windows = Arc::<WatchedWindows>::default();
        let carriers = Arc::<module::Carriers<ProxyAssemblage>>::default();
        let proxies = carriers.watch(&Base::from(&context));
        let tasks = [
            tokio::spawn(proxies.for_each(|_| std::future::ready(()))),
            tokio::spawn(Arc::clone(&windows).run(context.clone())),
            tokio::spawn(registry.run(shutdown.clone())),
            tokio::spawn(Arc::clone(&objects).run(shutdown)),
            tokio::spawn(Arc::clone(&dependencies).run(knowing)),
            tokio::spawn(module::run::<Module>(
                context.clone(),
                Arc::clone(&objects),
                dependencies,
                windows,
                gates,
                Decisions::default(),
                carriers,
            )),
        ];
        Deciding {
            context,
            objects,
            tasks: tasks.map(AbortOnDropHandle::new).into(),
        }
    }

    /// The controller crashes.
    pub(crate) fn crash_controller(&mut self) {
        drop(self.controller.take());
    }

    pub(crate) fn start_agent(&mut self, name: &str) {
        let process = run_agent(self.setup(&self.clusters[name], "agent", SYSTEM));
        self.agents
            .insert(name.to_owned(), AbortOnDropHandle::new(tokio::spawn(process)));
    }

    /// The agent of a cluster crashes.
    pub(crate) fn crash_agent(&mut self, name: &str) {
        self.agents.remove(name);
    }

    /// A tag at which each of these ConfigMaps, in its own directory, contains `text`.
    pub(crate) fn release(&self, tag: &str, apps: &[&str], text: &str) {
        self.release_files(
            tag,
            apps.iter()
                .map(|app| (format!("{app}/all.yaml"), config_map(app, text))),
        );
    }

    pub(crate) fn release_files(&self, tag: &str, files: impl IntoIterator<Item = (String, String)>) {
        let commit = self.source.commit(URL, "main", files);
        self.source.tag(URL, tag, &commit);
    }

    /// An API for objects in the management cluster's namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.management.client(), NS)
    }

    pub(crate) fn cluster_objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.management.client(), NS, &Version::V1Beta2.api_resource())
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>()
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    /// Creates a module of the directory with the same name, and waits until it is in all its clusters.
    pub(crate) async fn deploy(&self, name: &str, tag: &str, spec: Value) {
        self.create::<Module>(module(name, tag, spec)).await;
        self.until_ready(name).await;
    }

    pub(crate) async fn module(&self, name: &str) -> Option<Value> {
        let module = self.api::<Module>().get_opt(name).await.unwrap();
        module.map(|module| serde_json::to_value(module).unwrap())
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.api::<Module>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        let key = format!("fleet.muster.dev/{key}");
        self.patch(name, json!({"metadata": {"annotations": {key: value}}}))
            .await;
    }

    pub(crate) async fn patch_cluster(&self, name: &str, patch: Value) {
        self.cluster_objects()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until `f` returns something.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        poll: impl Fn() -> F,
    ) -> T {
        let reached = async {
            loop {
                if let Some(found) = poll().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        if let Ok(found) = tokio::time::timeout(LIMIT, reached).await {
            return found;
        }
        let modules = self.api::<Module>().list(&ListParams::default()).await;
        let statuses = modules.map(|list| {
            list.items
                .into_iter()
                .map(|module| module.status)
                .collect::<Vec<_>>()
        });
        panic!("not within {LIMIT:?}: {what}\n{statuses:#?}")
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Value {
        self.until(&format!("{name} is ready"), || async {
            self.module(name).await.filter(is_ready)
        })
        .await
    }

    /// Waits until a condition of a module is this, and returns its message.
    pub(crate) async fn until_said(&self, name: &str, type_: &str, expect: &str) -> String {
        self.until(&format!("{name}: {type_} {expect}"), || async {
            let text = condition(&self.module(name).await?, type_)?;
            text.strip_prefix(expect)?.strip_prefix(": ").map(str::to_owned)
        })
        .await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), || async {
            self.module(name).await.is_none().then_some(())
        })
        .await;
    }

    /// The content of a cluster's ConfigMap.
    pub(crate) async fn text(&self, cluster: &str, app: &str) -> Option<String> {
        self.config_map(cluster, app)
            .await
            .and_then(|object| object.data?.get("text").cloned())
    }

    pub(crate) async fn texts(&self, app: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for cluster in self.clusters.keys() {
            texts.push(self.text(cluster, app).await.unwrap_or_default());
        }
        texts
    }

    pub(crate) async fn config_map(&self, cluster: &str, app: &str) -> Option<ConfigMap> {
        let objects: Api<ConfigMap> = Api::namespaced(self.clusters[cluster].client(), "default");
        objects.get_opt(app).await.unwrap()
    }

    /// The identity and version of a module's ConfigMap in a cluster: they differ if it was written.
    pub(crate) async fn mark(&self, cluster: &str, app: &str) -> (String, String) {
        let object = self.config_map(cluster, app).await;
        let object = object.unwrap_or_else(|| panic!("{app} is in {cluster}"));
        (object.uid().unwrap(), object.resource_version().unwrap())
    }

    pub(crate) async fn marks(&self, app: &str) -> Vec<(String, String)> {
        let mut marks = Vec::new();
        for cluster in self.clusters.keys() {
            marks.push(self.mark(cluster, app).await);
        }
        marks
    }

    /// Every content of a ConfigMap in a cluster, in order, from the event log; `None` is its removal.
    pub(crate) fn story(&self, cluster: &str, app: &str) -> Vec<Option<String>> {
        let events = self.clusters[cluster].recorder().events().into_iter();
        let of_app =
            events.filter(|event| event.resource.resource == "configmaps" && name(event.object()) == app);
        let mut story: Vec<Option<String>> = Vec::new();
        for event in of_app {
            let text = event.object()["data"]["text"].as_str().map(str::to_owned);
            let content = if event.kind() == ChangeKind::Deleted {
                None
            } else {
                text
            };
            if story.last() != Some(&content) {
                story.push(content);
            }
        }
        story
    }

    /// The row of a module in a cluster's assemblage.
    pub(crate) async fn row(&self, cluster: &str, module: &str) -> Option<Value> {
        let proxy: ProxyAssemblage = self.api().get_opt(cluster).await.unwrap()?;
        let row = proxy.spec.syncs.into_iter().find(|row| row.name == module)?;
        Some(serde_json::to_value(row).unwrap())
    }

    /// The notes of all events with a reason.
    pub(crate) async fn event_notes(&self, reason: &str) -> Vec<String> {
        let events = self.events().await.into_iter();
        let of_reason = events.filter(|(event_reason, _)| event_reason == reason);
        of_reason.map(|(_, note)| note).collect()
    }

    /// The reasons and notes of all events, in order.
    pub(crate) async fn events(&self) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.management.client(), NS);
        let mut all = events.list(&ListParams::default()).await.unwrap().items;
        // Events of the same time are ordered by name, which contains a counter.
        all.sort_by_key(|event| {
            let name = event.metadata.name.clone().unwrap_or_default();
            (event.event_time.clone(), name)
        });
        all.into_iter()
            .filter_map(|event| Some((event.reason?, event.note?)))
            .collect()
    }

    /// No object anywhere hangs in deletion.
    pub(crate) fn nothing_is_stuck(&self) {
        for (place, server) in self.servers() {
            let mut last: BTreeMap<String, EventRecord> = BTreeMap::new();
            for event in server.recorder().events() {
                let object = event.object();
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let key = format!("{} {namespace}/{}", event.resource.resource, name(object));
                last.insert(key, event);
            }
            assert_eq!(server.recorder().dropped().1, 0, "the event log is whole");
            let stuck = last.into_iter().filter(|(_, event)| {
                event.kind() != ChangeKind::Deleted
                    && event.object()["metadata"].get("deletionTimestamp").is_some()
            });
            let stuck: Vec<String> = stuck
                .map(|(key, event)| format!("{key} {}", event.object()["metadata"]["finalizers"]))
                .collect();
            assert_eq!(stuck, Vec::<String>::new(), "{place}");
        }
    }

    /// Waits a while, and then checks that nothing is stuck.
    pub(crate) async fn settled(&self) {
        pass(Duration::from_mins(2)).await;
        self.nothing_is_stuck();
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = (&str, &ApiServer)> {
        let clusters = self.clusters.iter().map(|(name, server)| (name.as_str(), server));
        clusters.chain([("management", &self.management)])
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn config_map(app: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {app}, namespace: default}}\ndata: {{text: \"{text}\"}}\n"
    )
}

/// A module of the directory with the same name; `spec` overrides the defaults.
pub(crate) fn module(name: &str, tag: &str, spec: Value) -> Value {
    let mut all = json!({
        "selector": {"matchLabels": {"env": "prod"}},
        "sync": {"source": {"git": {"url": URL, "version": {"tag": tag}}}, "package": {"path": name}},
    });
    json_patch::merge(&mut all, &spec);
    json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name}, "spec": all})
}

/// The part of a module's spec that names its version.
pub(crate) fn version(tag: &str) -> Value {
    json!({"spec": {"sync": {"source": {"git": {"version": {"tag": tag}}}}}})
}

pub(crate) fn is_ready(module: &Value) -> bool {
    let current = module["status"]["observedGeneration"] == module["metadata"]["generation"];
    current && condition(module, "Ready").is_some_and(|text| text.starts_with("True "))
}

/// The condition of this type, as `<status> <reason>: <message>`.
pub(crate) fn condition(module: &Value, kind: &str) -> Option<String> {
    let conditions = module["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    let word = |field: &str| condition[field].as_str().unwrap_or_default();
    Some(format!(
        "{} {}: {}",
        word("status"),
        word("reason"),
        word("message")
    ))
}

fn server(namespace: &str, kinds: Vec<CustomResourceDefinition>) -> ApiServer {
    let server = ApiServer::builder().event_log(true).namespace(namespace);
    server.with(kinds).in_process().unwrap()
}

pub(crate) fn connect(clusters: &BTreeMap<String, ApiServer>) -> Connect {
    let clients = clusters.iter();
    let clients = clients.map(|(name, server)| (address(name), server.client_as("controller")));
    connect_by_server(clients.collect())
}

/// The server URL of a cluster. A host label has 63 characters at most; a Cluster's name may be longer.
fn address(name: &str) -> String {
    let labels = name.split('.').flat_map(|label| label.as_bytes().chunks(60));
    let labels: Vec<_> = labels.map(String::from_utf8_lossy).collect();
    format!("https://{}.test", labels.join("."))
}

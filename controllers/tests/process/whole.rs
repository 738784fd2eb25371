//! Promise: the two processes, started as the command starts them, carry a tagged commit from a module into every selected cluster, one
//! after another; a crash between loses nothing; at rest nothing is written. On paused time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
    api::events::v1::Event,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use muster_api::{BootstrapModule, Module, cluster::Version, crds};
use muster_apiserver::ApiServer;
use muster_controllers::{
    process::{ProcessError, Setup, agent, controller},
    reconcile::Options,
    registry::{Access, Connect, ConnectError},
    runtime::{Clock, Jitter, Shutdown},
};
use muster_sync::source::MemorySource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

const NS: &str = "fleet";
const SYSTEM: &str = "muster-system";
const URL: &str = "https://git.test/fleet.git";

type Process = AbortOnDropHandle<Result<(), ProcessError>>;

/// A management cluster, clusters, one git host, and the processes.
struct Bed {
    management: ApiServer,
    clusters: BTreeMap<String, ApiServer>,
    source: Arc<MemorySource>,
    agents: BTreeMap<String, Process>,
    controller: Option<Process>,
    shutdown: Shutdown,
}

impl Bed {
    async fn new(names: &[&str]) -> Self {
        let management = ApiServer::in_process().unwrap();
        install(
            &management,
            NS,
            crds::management()
                .into_iter()
                .chain(crds::flux())
                .chain([crds::cluster_api()]),
        )
        .await;
        let mut clusters = BTreeMap::new();
        for name in names {
            let server = ApiServer::in_process().unwrap();
            install(
                &server,
                SYSTEM,
                crds::downstream().into_iter().chain(crds::flux()),
            )
            .await;
            clusters.insert((*name).to_owned(), server);
        }
        let mut bed = Self {
            management,
            clusters,
            source: Arc::new(MemorySource::new(muster_sync::source::Clock::starting_at(
                jiff::Timestamp::UNIX_EPOCH,
            ))),
            agents: BTreeMap::new(),
            controller: None,
            shutdown: Shutdown::new(),
        };
        for name in names {
            bed.enroll(name).await;
            bed.start_agent(name);
        }
        bed.start_controller();
        bed
    }

    async fn enroll(&self, name: &str) {
        let clusters: Api<DynamicObject> =
            Api::namespaced_with(self.management.client(), NS, &Version::V1Beta2.api_resource());
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
            "metadata": {"name": name, "labels": {"env": "prod"}, "annotations": {"fleet.muster.dev/enrolled": ""}},
        });
        clusters
            .create(&PostParams::default(), &serde_json::from_value(cluster).unwrap())
            .await
            .unwrap();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(format!("{name}-kubeconfig")),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(
                "value".to_owned(),
                ByteString(kubeconfig(name).into_bytes()),
            )])),
            type_: Some("cluster.x-k8s.io/secret".to_owned()),
            ..Secret::default()
        };
        Api::<Secret>::namespaced(self.management.client(), NS)
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }

    fn setup(&self, server: &ApiServer, client: &str, namespace: &str) -> Setup {
        Setup {
            client: server.client_as(client),
            namespace: namespace.to_owned(),
            options: Options::default(),
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            jitter: Jitter::seeded(1),
            source: self.source.clone(),
            connect: connect(&self.clusters),
            gates: muster_controllers::gates::Access::default(),
            notify: None,
            instance: "test".to_owned(),
            lease: None,
            door: None,
            metrics: muster_controllers::metrics::Metrics::default(),
            shutdown: self.shutdown.clone(),
        }
    }

    fn start_controller(&mut self) {
        let process = controller(self.setup(&self.management, "controller", NS));
        self.controller = Some(AbortOnDropHandle::new(tokio::spawn(process)));
    }

    fn start_agent(&mut self, name: &str) {
        let process = agent(self.setup(&self.clusters[name], "agent", SYSTEM));
        self.agents
            .insert(name.to_owned(), AbortOnDropHandle::new(tokio::spawn(process)));
    }

    fn release(&self, tag: &str, greeting: &str) {
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: greeting, namespace: default}}\ndata: {{text: {greeting}, cluster: \"${{CLUSTER}}\"}}\n"
        );
        let commit = self
            .source
            .commit(URL, "main", [("base/greeting.yaml", manifest)]);
        self.source.tag(URL, tag, &commit);
    }

    async fn create<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let objects: Api<K> = Api::namespaced(self.management.client(), NS);
        objects
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }

    fn greetings(&self, name: &str) -> Api<ConfigMap> {
        Api::namespaced(self.clusters[name].client(), "default")
    }

    async fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for name in self.clusters.keys() {
            let greeting = self.greetings(name).get_opt("greeting").await.unwrap();
            texts.push(
                greeting
                    .and_then(|greeting| greeting.data?.get("text").cloned())
                    .unwrap_or_default(),
            );
        }
        texts
    }

    async fn module(&self) -> Value {
        let modules: Api<Module> = Api::namespaced(self.management.client(), NS);
        serde_json::to_value(modules.get("base").await.unwrap()).unwrap()
    }

    /// Waits until all clusters have a text and the module is Ready; the states on the way.
    async fn rolled(&self, text: &str) -> Vec<Vec<String>> {
        let mut seen: Vec<Vec<String>> = Vec::new();
        for _tenth in 0..6_000 {
            let texts = self.texts().await;
            let all = texts.iter().all(|other| other == text);
            if seen.last() != Some(&texts) {
                seen.push(texts);
            }
            if all && ready(&self.module().await) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{seen:?}\n{:#}", self.module().await["status"]);
    }

    fn writes(&self) -> Vec<String> {
        let servers = self.clusters.iter().map(|(name, server)| (name.as_str(), server));
        let all = servers
            .chain([("management", &self.management)])
            .flat_map(|(name, server)| {
                let requests = server.recorder().requests();
                let writes = requests.into_iter().filter(|request| request.is_write());
                writes
                    .map(move |request| format!("{name}: {} {}", request.method, request.path))
                    .collect::<Vec<_>>()
            });
        all.collect()
    }

    fn forget_requests(&self) {
        self.clusters
            .values()
            .chain([&self.management])
            .for_each(|server| server.recorder().clear());
    }
}

fn ready(module: &Value) -> bool {
    let conditions = module
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let current = module["status"]["observedGeneration"] == module["metadata"]["generation"];
    current
        && conditions
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

async fn install(
    server: &ApiServer,
    namespace: &str,
    definitions: impl Iterator<Item = CustomResourceDefinition>,
) {
    let namespaces: Api<Namespace> = Api::all(server.client());
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &object).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(server.client());
    for definition in definitions {
        let name = definition.name_any();
        crds.create(&PostParams::default(), &definition).await.unwrap();
        let established = kube::runtime::wait::await_condition(
            crds.clone(),
            &name,
            kube::runtime::wait::conditions::is_crd_established(),
        );
        tokio::time::timeout(Duration::from_secs(30), established)
            .await
            .unwrap()
            .unwrap();
    }
}

fn connect(clusters: &BTreeMap<String, ApiServer>) -> Connect {
    let doors: BTreeMap<String, Client> = clusters
        .iter()
        .map(|(name, server)| (format!("https://{name}.test"), server.client_as("controller")))
        .collect();
    Arc::new(move |access: &Access| {
        doors
            .get(&access.server)
            .cloned()
            .ok_or_else(|| ConnectError::Field {
                field: "server",
                problem: "no such server in this test".to_owned(),
            })
    })
}

fn kubeconfig(cluster: &str) -> String {
    json!({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{cluster}.test"), "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    })
    .to_string()
}

fn spec(tag: &str) -> Value {
    json!({
        "selector": {"matchLabels": {"env": "prod"}},
        "sync": {
            "source": {"git": {"url": URL, "version": {"tag": tag}}},
            "package": {"path": "base", "substitute": {"CLUSTER": "$(NAME)"}},
        },
        "controlPlaneBindings": [{"name": "NAME", "value": "$(CLUSTER_NAME)"}],
        // Without it a roll over ConfigMaps takes no time at all, and nobody could see its steps.
        "rollout": {"minReadySeconds": 1},
    })
}

#[tokio::test(start_paused = true)]
async fn a_tag_reaches_every_cluster_one_after_another() {
    let bed = Bed::new(&["eu-1", "eu-2", "us-1"]).await;
    bed.release("v1", "one");
    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "base"}, "spec": spec("v1")});
    bed.create::<Module>(module).await;
    let steps = bed.rolled("one").await;
    assert_eq!(
        steps,
        [
            ["", "", ""],
            ["one", "", ""],
            ["one", "one", ""],
            ["one", "one", "one"]
        ]
    );
    let greeting = bed.greetings("us-1").get("greeting").await.unwrap();
    assert_eq!(greeting.data.unwrap()["cluster"], "us-1");

    bed.release("v2", "two");
    let modules: Api<Module> = Api::namespaced(bed.management.client(), NS);
    modules
        .patch(
            "base",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": spec("v2")})),
        )
        .await
        .unwrap();
    let steps = bed.rolled("two").await;
    assert_eq!(
        steps,
        [
            ["one", "one", "one"],
            ["two", "one", "one"],
            ["two", "two", "one"],
            ["two", "two", "two"]
        ]
    );
    let summary = bed.module().await["status"]["summary"].clone();
    assert_eq!(summary["clusters"], "3/3", "{summary}");

    tokio::time::sleep(Duration::from_mins(1)).await;
    bed.forget_requests();
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(bed.writes(), Vec::<String>::new(), "at rest nothing is written");
}

/// The condition of this type, as `<status> <reason>: <message>`.
fn condition(module: &Value, kind: &str) -> Option<String> {
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

#[tokio::test(start_paused = true)]
async fn a_tag_that_moves_is_reported_once_and_rolls_nothing() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.release("v1", "one");
    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "base"}, "spec": spec("v1")});
    bed.create::<Module>(module).await;
    bed.rolled("one").await;
    let pinned = bed.module().await["status"]["source"].clone();
    let commit = pinned["commit"].as_str().unwrap();
    bed.forget_requests();
    bed.release("v1", "moved");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let events: Api<Event> = Api::namespaced(bed.management.client(), NS);
    let told = async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        all.into_iter()
            .filter(|event| event.reason.as_deref() == Some("TagMoved"))
            .count()
    };
    for round in 0..2 {
        let module = bed.module().await;
        let said = condition(&module, "TagMoved").unwrap_or_else(|| panic!("{:#}", module["status"]));
        assert!(
            said.starts_with("True TagMoved: tag v1 now points to commit "),
            "{said}"
        );
        let stays = format!(
            "; clusters stay at {commit}, the commit it was first resolved to; next: push a new tag to roll out the new commit"
        );
        assert!(said.ends_with(&stays), "{said}");
        assert!(ready(&module), "{:#}", module["status"]);
        assert_eq!(module["status"]["source"]["commit"], commit);
        assert_eq!(bed.texts().await, ["one", "one"]);
        let downstream = bed.writes().into_iter().filter(|write| write.starts_with("eu-"));
        assert_eq!(downstream.collect::<Vec<_>>(), Vec::<String>::new());
        assert_eq!(told().await, 1, "round {round}");
        // A controller that starts anew has only the status to go by.
        drop(bed.controller.take());
        bed.start_controller();
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
    // The tag is set back: there is nothing to report any more.
    bed.source.tag(URL, "v1", &commit.parse().unwrap());
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(condition(&bed.module().await, "TagMoved"), None);
    assert_eq!(bed.texts().await, ["one", "one"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_controller_or_an_agent_loses_nothing() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.release("v1", "one");
    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "base"}, "spec": spec("v1")});
    bed.create::<Module>(module).await;
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(300 * round)).await;
        drop(bed.controller.take());
        bed.agents.remove("eu-1");
        tokio::time::sleep(Duration::from_secs(1)).await;
        bed.start_controller();
        bed.start_agent("eu-1");
    }
    bed.rolled("one").await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_module_needs_no_agent() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.agents.clear();
    bed.release("v1", "one");
    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "BootstrapModule", "metadata": {"name": "base"}, "spec": spec("v1")});
    bed.create::<BootstrapModule>(module).await;
    for _tenth in 0..3_000 {
        if bed.texts().await == ["one", "one"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let modules: Api<BootstrapModule> = Api::namespaced(bed.management.client(), NS);
    panic!("{:#?}", modules.get("base").await.unwrap().status);
}

#[tokio::test(start_paused = true)]
async fn processes_end_when_they_are_told_to() {
    let mut bed = Bed::new(&["eu-1"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    bed.shutdown.cancel();
    let processes = std::mem::take(&mut bed.agents)
        .into_values()
        .chain(bed.controller.take());
    for process in processes {
        let ended = tokio::time::timeout(Duration::from_secs(31), process).await;
        assert!(ended.unwrap().unwrap().is_ok());
    }
}

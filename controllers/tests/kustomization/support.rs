//! A cluster with reconciled GitRepositories and Kustomizations, and a repository.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::Client;
use muster_apiserver::ApiServer;
use muster_controllers::{
    gitrepository, kustomization, process,
    reconcile::{Options, SyncMode},
    registry::{Access, Connect, ConnectError},
    runtime::Clock,
};
use muster_sync::source::MemorySource;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use crate::kubeconfig::kubeconfig;
use crate::{context::context, setup::setup};

pub(crate) const NS: &str = "fleet";
pub(crate) const URL: &str = "https://git.test/fleet";
/// How long to wait for a state, in virtual time, before a test fails.
const PATIENCE: Duration = Duration::from_secs(7_200);
/// How often a state is checked, at first; the longer it takes, the less often.
const LOOK: Duration = Duration::from_millis(100);
const START: &str = "2026-11-21T12:00:00Z";

pub(crate) struct Bed {
    pub api: ApiServer,
    pub source: MemorySource,
    pub doors: Doors,
    clock: Clock,
    running: Vec<AbortOnDropHandle<()>>,
}

/// The clusters that kubeconfigs lead to, by server and token.
#[derive(Clone, Default)]
pub(crate) struct Doors(Arc<Mutex<BTreeMap<(String, String), Client>>>);

impl Doors {
    /// Makes kubeconfigs with this server and token lead there.
    pub(crate) fn open(&self, server: &str, token: &str, client: Client) {
        self.0
            .lock()
            .insert((server.to_owned(), token.to_owned()), client);
    }

    fn connect(&self) -> Connect {
        let doors = self.clone();
        Arc::new(move |access: &Access| {
            let token = access.token.as_ref().map(|token| token.expose().clone());
            let door = (access.server.clone(), token.unwrap_or_default());
            doors
                .0
                .lock()
                .get(&door)
                .cloned()
                .ok_or_else(|| ConnectError::Field {
                    field: "server",
                    problem: "no such server in this test".to_owned(),
                })
        })
    }
}

impl Bed {
    /// A cluster with the namespace `fleet`, the Flux kinds, and a GitRepository `src` on branch `main` each minute.
    pub(crate) fn new() -> Self {
        let mut bed = Self::idle();
        bed.start();
        bed
    }

    /// The same in another cluster, whose objects have other uids.
    pub(crate) fn elsewhere() -> Self {
        let mut bed = Self::seeded(2);
        bed.start();
        bed
    }

    /// The same as [`Bed::new`], without any controllers.
    pub(crate) fn idle() -> Self {
        Self::seeded(1)
    }

    fn seeded(seed: u64) -> Self {
        let api = ApiServer::builder()
            .clock(muster_apiserver::Clock::starting_at(START.parse().unwrap()))
            .event_log(true)
            .seed(seed)
            .namespace(NS)
            .with(muster_api::crds::flux())
            .in_process()
            .unwrap();
        let clock = Clock::starting_at(START.parse().unwrap());
        let source = MemorySource::new(clock.clone());
        Self {
            api,
            source,
            doors: Doors::default(),
            clock,
            running: Vec::new(),
        }
    }

    /// Starts the controllers; if they run already, restarts them without their memory, as after a crash.
    pub(crate) fn start(&mut self) {
        self.running.clear();
        self.running = self.controllers(self.api.client_as("muster"));
    }

    /// The controllers of the Flux kinds, until they are dropped.
    pub(crate) fn controllers(&self, client: Client) -> Vec<AbortOnDropHandle<()>> {
        let (clock, source) = (self.clock.clone(), Arc::new(self.source.clone()));
        let context = context(client, NS, clock, source, self.doors.connect());
        vec![
            AbortOnDropHandle::new(tokio::spawn(gitrepository::run(context.clone()))),
            AbortOnDropHandle::new(tokio::spawn(kustomization::run(context))),
        ]
    }

    /// Ends the running controllers, as a crash does, and starts an agent that leaves the Flux kinds to Flux.
    pub(crate) fn start_with_flux(&mut self) {
        self.running.clear();
        let (client, clock) = (self.api.client_as("muster"), self.clock.clone());
        let source = Arc::new(self.source.clone());
        let mut setup = setup(client, NS, clock, source, self.doors.connect());
        setup.options = Options {
            sync: SyncMode::Flux,
            ..Options::default()
        };
        let agent = process::run_agent(setup);
        let agent = async move { agent.await.unwrap() };
        self.running = vec![AbortOnDropHandle::new(tokio::spawn(agent))];
    }

    /// Ends the controllers as a crash does.
    pub(crate) fn crash(&mut self) {
        self.running.clear();
    }

    /// A Secret of the namespace of the Kustomizations.
    pub(crate) async fn secret(&self, name: &str, data: Value) {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        self.create(&format!("/api/v1/namespaces/{NS}/secrets"), secret)
            .await;
    }

    /// A ConfigMap of the namespace of the Kustomizations.
    pub(crate) async fn variables(&self, name: &str, data: Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.create(&format!("/api/v1/namespaces/{NS}/configmaps"), map)
            .await;
    }

    /// Commits these files and nothing else to branch `main`.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned().into_bytes()));
        self.source.commit(URL, "main", files).to_string()
    }

    /// A GitRepository `src` and a Kustomization `app` with path `app`, with these fields in addition to the usual
    /// ones.
    pub(crate) async fn deploy(&self, extra: Value) {
        self.repository("src", json!({})).await;
        self.kustomization("app", extra).await;
    }

    pub(crate) async fn repository(&self, name: &str, extra: Value) {
        let mut spec = json!({"url": URL, "interval": "1m", "ref": {"branch": "main"}});
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        self.create(
            &format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/{NS}/gitrepositories"),
            json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    pub(crate) async fn kustomization(&self, name: &str, extra: Value) {
        let mut spec = json!({
            "sourceRef": {"kind": "GitRepository", "name": "src"}, "path": name, "prune": true, "wait": true,
            "interval": "10m", "retryInterval": "1m", "timeout": "5m",
        });
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        self.create(
            &format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{NS}/kustomizations"),
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    pub(crate) async fn create(&self, path: &str, object: Value) {
        send(&self.api, "POST", path, Some(object))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn edit(&self, path: &str, patch: Value) {
        send(&self.api, "PATCH", path, Some(patch))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Server-side apply with force as `manager`, as another sync tool does.
    pub(crate) async fn apply_as(&self, manager: &str, path: &str, object: Value) -> Value {
        apply_as(&self.api, manager, path, object).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        send(&self.api, "DELETE", path, None)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn read(&self, path: &str) -> Option<Value> {
        read(&self.api, path).await
    }

    /// Waits until the object at `path` is as `wanted`; returns it.
    #[track_caller]
    pub(crate) fn until<'a, F: Fn(&Value) -> bool>(
        &'a self,
        path: &str,
        wanted: F,
    ) -> impl Future<Output = Value> + use<'a, F> {
        until(&self.api, path.to_owned(), move |object| {
            object.filter(|object| wanted(object)).cloned()
        })
    }

    /// Waits until there is no object at `path`.
    #[track_caller]
    pub(crate) fn until_gone<'a>(&'a self, path: &str) -> impl Future<Output = ()> + use<'a> {
        until(&self.api, path.to_owned(), |object| {
            object.is_none().then_some(())
        })
    }

    /// Waits until the Ready condition of a Kustomization is `<status> <reason>` at its current generation; returns the
    /// object.
    #[track_caller]
    pub(crate) fn until_ready<'a>(
        &'a self,
        name: &str,
        wanted: &str,
    ) -> impl Future<Output = Value> + use<'a> {
        let wanted = wanted.to_owned();
        self.until(&kustomization(name), move |object| ready(object) == wanted)
    }

    /// Waits until a Kustomization is Ready at the commit; returns it.
    #[track_caller]
    pub(crate) fn until_at<'a>(&'a self, name: &str, commit: &str) -> impl Future<Output = Value> + use<'a> {
        let revision = format!("main@sha1:{commit}");
        self.until(&kustomization(name), move |object| {
            ready(object) == "True ReconciliationSucceeded"
                && object["status"]["lastAppliedRevision"] == revision
        })
    }

    /// The history of Ready of a Kustomization, as `<status> <reason>`.
    pub(crate) fn history(&self, name: &str) -> Vec<String> {
        let mut history: Vec<String> = Vec::new();
        for event in self.api.recorder().events() {
            let object = event.object();
            if object["kind"] == "Kustomization" && object["metadata"]["name"] == name {
                let said = condition(object, "Ready").map(|ready| words(ready, ["status", "reason"]));
                if said.is_some() && history.last() != said.as_ref() {
                    history.extend(said);
                }
            }
        }
        history
    }

    /// The ConfigMaps and Deployments of the namespace `default`, with their uids and versions.
    pub(crate) async fn deployed(&self) -> Vec<String> {
        let mut deployed = Vec::new();
        for list in [config(""), deployment("")] {
            let list = self.read(list.trim_end_matches('/')).await.unwrap();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            deployed.extend(
                items
                    .iter()
                    .map(|object| words(&object["metadata"], ["name", "uid", "resourceVersion"])),
            );
        }
        deployed
    }

    /// The requests of the controllers that were writes since the recorder was cleared, as `<method> <path>`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.api.recorder().writes("muster")
    }

    /// Advances virtual time.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Requests a reconcile now.
    pub(crate) async fn request(&self, name: &str, at: &str) {
        self.edit(&kustomization(name), requested(at)).await;
    }

    /// Requests a fetch of the repository now.
    pub(crate) async fn fetch(&self, at: &str) {
        self.edit(&repository("src"), requested(at)).await;
    }
}

fn requested(at: &str) -> Value {
    json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}})
}

/// The path of a Kustomization.
pub(crate) fn kustomization(name: &str) -> String {
    format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{NS}/kustomizations/{name}")
}

/// The path of a GitRepository.
pub(crate) fn repository(name: &str) -> String {
    format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/{NS}/gitrepositories/{name}")
}

/// The path of a ConfigMap.
pub(crate) fn config(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

/// The path of a Deployment.
pub(crate) fn deployment(name: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/deployments/{name}")
}

/// A condition as `<status> <reason>`, if it is about the current generation.
pub(crate) fn ready(object: &Value) -> String {
    condition(object, "Ready").map_or_else(String::new, |ready| {
        if ready["observedGeneration"] != object["metadata"]["generation"] {
            return String::new();
        }
        words(ready, ["status", "reason"])
    })
}

/// The texts of these fields.
pub(crate) fn words<const N: usize>(object: &Value, fields: [&str; N]) -> String {
    fields
        .map(|field| object[field].as_str().unwrap_or("-"))
        .join(" ")
}

/// The ids of the inventory of a Kustomization.
pub(crate) fn ids(object: &Value) -> Vec<String> {
    let entries = object["status"]["inventory"]["entries"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// The message of the condition.
pub(crate) fn message<'a>(object: &'a Value, kind: &str) -> &'a str {
    condition(object, kind)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default()
}

async fn send(api: &ApiServer, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
    muster_apiserver::send(&api.client_as("somebody"), method, path, body).await
}

/// Server-side apply with force as `manager`.
pub(crate) async fn apply_as(api: &ApiServer, manager: &str, path: &str, object: Value) -> Value {
    let request = http::Request::patch(format!("{path}?fieldManager={manager}&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes());
    api.client_as("flux").request(request.unwrap()).await.unwrap()
}

/// The managers of an object with their operations, as `muster-sync Apply`.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| words(entry, ["manager", "operation"]))
        .collect()
}

pub(crate) async fn read(api: &ApiServer, path: &str) -> Option<Value> {
    match send(api, "GET", path, None).await {
        Ok(object) => Some(object),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

#[track_caller]
pub(crate) fn until<T>(
    api: &ApiServer,
    path: String,
    wanted: impl Fn(Option<&Value>) -> Option<T>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let start = tokio::time::Instant::now();
        loop {
            let found = read(api, &path).await;
            if let Some(found) = wanted(found.as_ref()) {
                return found;
            }
            let status = found.as_ref().map(|object| &object["status"]);
            assert!(
                start.elapsed() < PATIENCE,
                "{caller}: {path} did not come to it: {status:#?}"
            );
            tokio::time::sleep(LOOK.max(start.elapsed() / 100)).await;
        }
    }
}

/// A manifest of a ConfigMap.
pub(crate) fn config_yaml(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

/// A manifest of a ConfigMap that builds, and that API servers reject: a key with a blank.
pub(crate) fn refused_yaml(name: &str) -> String {
    config_yaml(name, "x").replace("key:", "'no key':")
}

/// A manifest of a Deployment.
pub(crate) fn deployment_yaml(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  selector: {{matchLabels: \
         {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: main, image: \
         '{image}'}}]}}\n"
    )
}

/// The status of a Deployment that has finished generation `generation`.
pub(crate) fn done(generation: i64) -> Value {
    json!({"status": {
        "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
        ],
    }})
}

//! A cluster with reconciled GitRepositories, and a repository in memory.

use std::{sync::Arc, time::Duration};

use muster_apiserver::{ApiServer, send};
use muster_controllers::{gitrepository, reconcile::Context, runtime::Clock};
use muster_sync::source::{MemorySource, Source};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::context::context;

pub(crate) const NS: &str = "fleet";
pub(crate) const URL: &str = "https://git.test/fleet";
/// How long to wait for a state, in virtual time, before a test fails.
const PATIENCE: Duration = Duration::from_secs(7_200);
/// How often a state is checked.
const LOOK: Duration = Duration::from_millis(100);
const START: &str = "2026-11-21T12:00:00Z";

pub(crate) struct Bed {
    pub api: ApiServer,
    pub source: MemorySource,
    pub context: Context,
    running: Option<AbortOnDropHandle<()>>,
}

impl Bed {
    /// A cluster with the namespace `fleet` and the Flux kinds; the controller runs.
    pub(crate) fn new() -> Self {
        Self::with(|source| Arc::new(source))
    }

    /// The same, with the source that this function builds around the one in memory.
    pub(crate) fn with(around: impl FnOnce(MemorySource) -> Arc<dyn Source>) -> Self {
        let api = ApiServer::builder()
            .clock(muster_apiserver::Clock::starting_at(START.parse().unwrap()))
            .event_log(true)
            .seed(1)
            .namespace(NS)
            .with(muster_api::crds::flux())
            .in_process()
            .unwrap();
        let clock = Clock::starting_at(START.parse().unwrap());
        let source = MemorySource::new(clock.clone());
        let context = context(
            api.client_as("muster"),
            NS,
            clock,
            around(source.clone()),
            Arc::new(|_| unreachable!("a GitRepository has no kubeconfig")),
        );
        let mut bed = Self {
            api,
            source,
            context,
            running: None,
        };
        bed.start();
        bed
    }

    /// Starts the controller; if it runs already, restarts it without its memory, as after a crash.
    pub(crate) fn start(&mut self) {
        self.running = None;
        self.running = Some(AbortOnDropHandle::new(tokio::spawn(gitrepository::run(
            self.context.clone(),
        ))));
    }

    /// Commits these files and nothing else to branch `main`.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned().into_bytes()));
        self.source.commit(URL, "main", files).to_string()
    }

    /// A GitRepository of branch `main` each minute, with these fields in addition to the usual ones.
    pub(crate) async fn repository(&self, name: &str, extra: Value) {
        let mut spec = json!({"url": URL, "interval": "1m", "ref": {"branch": "main"}});
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": name}, "spec": spec,
        });
        self.create(repository("").trim_end_matches('/'), object).await;
    }

    /// A Secret with these texts.
    pub(crate) async fn secret(&self, name: &str, data: Value) {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        self.create(&format!("/api/v1/namespaces/{NS}/secrets"), secret)
            .await;
    }

    pub(crate) async fn create(&self, path: &str, object: Value) {
        self.send("POST", path, Some(object)).await.unwrap();
    }

    pub(crate) async fn edit(&self, path: &str, patch: Value) {
        self.send("PATCH", path, Some(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, None).await.unwrap();
    }

    /// Requests a fetch now.
    pub(crate) async fn request(&self, name: &str, at: &str) {
        let annotation = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}});
        self.edit(&repository(name), annotation).await;
    }

    pub(crate) async fn read(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until the object at `path` is as `wanted`; returns it.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.read(path).await;
            if let Some(object) = found.as_ref().filter(|object| wanted(object)) {
                return object.clone();
            }
            let status = found.as_ref().map(|object| &object["status"]);
            assert!(
                tokio::time::Instant::now() < end,
                "{path} did not come to it: {status:#?}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the Ready condition of a GitRepository is `<status> <reason>` at its current generation; returns the
    /// object.
    pub(crate) async fn until_ready(&self, name: &str, wanted: &str) -> Value {
        self.until(&repository(name), |object| ready(object) == wanted)
            .await
    }

    /// The writes of the controller since the recorder was cleared, as `<method> <path>`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.api.recorder().writes("muster")
    }

    /// Advances virtual time.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        send(&self.api.client_as("somebody"), method, path, body).await
    }
}

/// The path of a GitRepository.
pub(crate) fn repository(name: &str) -> String {
    format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/{NS}/gitrepositories/{name}")
}

/// The Ready condition as `<status> <reason>`, if it is about the current generation.
pub(crate) fn ready(object: &Value) -> String {
    let current = condition(object, "Ready")
        .filter(|ready| ready["observedGeneration"] == object["metadata"]["generation"]);
    current.map_or_else(String::new, |ready| {
        format!(
            "{} {}",
            ready["status"].as_str().unwrap(),
            ready["reason"].as_str().unwrap()
        )
    })
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

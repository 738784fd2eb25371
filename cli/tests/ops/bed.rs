//! A management cluster, a cluster to enroll, and a user with the command.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::crds;
use muster_apiserver::ApiServer;
use muster_controllers::{
    metrics::Metrics,
    process::{self, Setup},
    reconcile::Options,
    registry,
    runtime::{Clock, Jitter, Shutdown},
};
use muster_sync::source::{GitOptions, GitSource, Limits};
use serde_json::Value;
use tempfile::TempDir;

/// How long an automatic consequence may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Bed {
    pub management: ApiServer,
    pub downstream: ApiServer,
    directory: TempDir,
    shutdown: Shutdown,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Bed {
    /// Both clusters, with nothing but the definitions of the management cluster.
    pub(crate) async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let management = ApiServer::builder()
            .seed(1)
            .name("management")
            .with(crds::management())
            .with(crds::flux())
            .with([crds::cluster_api()])
            .start()
            .await
            .unwrap();
        let downstream = ApiServer::builder().seed(2).name("new").start().await.unwrap();
        downstream.play_tokens();
        let bed = Self {
            management,
            downstream,
            directory: tempfile::tempdir().unwrap(),
            shutdown: Shutdown::default(),
        };
        std::fs::write(bed.path("management"), bed.management.kubeconfig().unwrap()).unwrap();
        std::fs::write(bed.path("new"), bed.downstream.kubeconfig().unwrap()).unwrap();
        bed
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the controller that ships.
    pub(crate) fn start_controller(&self) {
        let clock = Clock::system();
        let now = clock.clone();
        let git = GitOptions {
            data_dir: self.path("data"),
            allow_insecure: true,
            limits: Limits::default(),
        };
        let setup = Setup {
            client: self.management.client_as("muster-controller"),
            namespace: "default".to_owned(),
            options: Options::default(),
            clock,
            jitter: Jitter::seeded(1),
            source: Arc::new(GitSource::new(git, now).unwrap()),
            connect: Arc::new(registry::connect_over_network),
            gates: muster_controllers::gates::Access::default(),
            notify: None,
            instance: "bed".to_owned(),
            lease: None,
            door: None,
            metrics: Metrics::default(),
            shutdown: self.shutdown.clone(),
        };
        self.management.attach(async move {
            process::controller(setup).await.unwrap();
        });
    }

    /// The command in the directory; `new` is the kubeconfig of the new cluster.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command
            .args(words.split_whitespace())
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.directory.path())
            .env("KUBECONFIG", self.path("management"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command.
    pub(crate) async fn muster(&self, words: &str) -> CommandOutput {
        let mut command = self.command(words);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        CommandOutput {
            code: output.status.code(),
            out: self.masked(&output.stdout),
            err: self.masked(&output.stderr),
        }
    }

    /// Runs the command and asserts the exit code. Returns its output, with ports and directory masked.
    #[track_caller]
    pub(crate) fn types<'a>(&'a self, words: &'a str, code: i32) -> impl Future<Output = String> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let output = self.muster(words).await;
            assert_eq!(
                output.code,
                Some(code),
                "{place}: {words}: {}{}",
                output.out,
                output.err
            );
            output.out + &output.err
        }
    }

    /// Creates what the command prints, in the management cluster.
    pub(crate) async fn install(&self, words: &str) {
        let printed = self.muster(words).await.out;
        for document in muster_sync::yaml::documents("install", printed.as_bytes()).unwrap() {
            create(&self.management.client(), document.value().unwrap()).await;
        }
    }

    /// Waits until the condition is true.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(
            tokio::time::timeout(SOON, waiting).await.is_ok(),
            "not in time: {what}"
        );
    }

    /// The text without what differs from run to run.
    fn masked(&self, bytes: &[u8]) -> String {
        let port = |server: &ApiServer| server.address().unwrap().port().to_string();
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .replace(&port(&self.management), "1111")
            .replace(&port(&self.downstream), "2222")
            .replace(&self.directory.path().display().to_string(), "DIRECTORY")
    }

    /// The address of the new cluster.
    pub(crate) fn address(&self) -> String {
        format!("https://{}", self.downstream.address().unwrap())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// An object's kind, name and version, of all of these resources.
pub(crate) async fn versions(client: &Client, kinds: &[(&str, &str)]) -> Vec<String> {
    let mut all = Vec::new();
    for (api_version, kind) in kinds {
        for object in objects(client, api_version, kind).await {
            all.push(format!(
                "{kind}/{}@{}",
                object.name_any(),
                object.resource_version().unwrap()
            ));
        }
    }
    all
}

/// All objects of a kind.
pub(crate) async fn objects(client: &Client, api_version: &str, kind: &str) -> Vec<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    api.list(&ListParams::default()).await.unwrap().items
}

/// Creates an object.
pub(crate) async fn create(client: &Client, object: Value) {
    let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &dynamic).await.unwrap();
}

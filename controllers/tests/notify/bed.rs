//! A management cluster in which the test writes rollouts, and the notifier.

use std::{fs, sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use muster_api::{Module, ModuleRevision, crds, module::ModuleKind, names};
use muster_apiserver::ApiServer;
use muster_controllers::{
    metrics::Metrics,
    notify::{self, Config},
    reconcile::Context,
    runtime::Clock,
};
use muster_sync::source::MemorySource;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

use super::{context::context, host::Host};

pub(crate) const NS: &str = "fleet";
pub(crate) const URL: &str = "https://git.test/acme/fleet.git";
pub(crate) const COMMIT: &str = "1234567890123456789012345678901234567890";
/// Values that no object and no metric may contain.
pub(crate) const SECRETS: [&str; 2] = ["hunter2-token", "hunter2-key"];
const START: &str = "2026-11-21T12:00:00Z";

pub(crate) struct Bed {
    pub api: ApiServer,
    pub host: Host,
    pub metrics: Metrics,
    context: Context,
    config: Arc<Config>,
    running: Option<AbortOnDropHandle<()>>,
    _files: TempDir,
}

impl Bed {
    /// `receivers` is their list in the configuration; `HOST` in it is the address of the host.
    pub(crate) async fn new(receivers: &str) -> Self {
        let host = Host::new().await;
        let files = TempDir::new().unwrap();
        for (name, text) in [("token", SECRETS[0]), ("key", SECRETS[1])] {
            fs::write(files.path().join(name), format!("{text}\n")).unwrap();
        }
        fs::write(
            files.path().join("hook-url"),
            format!("http://{}/incoming", host.address),
        )
        .unwrap();
        let receivers = receivers.replace("HOST", &format!("http://{}", host.address));
        let written = format!("link: https://muster.test/{{kind}}/{{module}}\nreceivers:\n{receivers}");
        let path = files.path().join("notify.yaml");
        fs::write(&path, written).unwrap();
        let config = Arc::new(Config::read(&path).unwrap());
        let api = ApiServer::builder().seed(1).namespace(NS);
        let api = api.with(crds::management()).in_process().unwrap();
        let clock = Clock::starting_at(START.parse().unwrap());
        let context = context(
            api.client_as("muster"),
            NS,
            clock.clone(),
            Arc::new(MemorySource::new(clock)),
            Arc::new(|_| unreachable!("no cluster is registered")),
        );
        let mut bed = Self {
            metrics: context.metrics.clone(),
            api,
            host,
            context,
            config,
            running: None,
            _files: files,
        };
        bed.start();
        bed
    }

    /// Starts the notifier; if it runs already, restarts it without its memory, as after a crash.
    pub(crate) fn start(&mut self) {
        self.running = None;
        let run = notify::run(self.context.clone(), Arc::clone(&self.config));
        self.running = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }

    /// Ends the notifier, as a crash does.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    fn modules(&self) -> Api<Module> {
        Api::namespaced(self.api.client(), NS)
    }

    pub(crate) fn revisions(&self) -> Api<ModuleRevision> {
        Api::namespaced(self.api.client(), NS)
    }

    /// A module, and its desired revision; nothing was rolled out yet.
    pub(crate) async fn module(&self, name: &str, labels: Value) {
        let sync =
            json!({"source": {"git": {"url": URL, "version": {"tag": "v1.1.0"}}}, "package": {"path": name}});
        let module = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name, "labels": labels},
            "spec": {"selector": {}, "onDelete": "Orphan", "sync": sync},
        });
        let module = serde_json::from_value(module).unwrap();
        let module = self
            .modules()
            .create(&PostParams::default(), &module)
            .await
            .unwrap();
        let revision = json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ModuleRevision", "metadata": {"name": revision_name(name)},
            "spec": {
                "moduleRef": {"kind": "Module", "name": name, "uid": module.uid()}, "revision": revision(name),
                "commit": COMMIT, "sync": sync,
            },
        });
        let revision = serde_json::from_value(revision).unwrap();
        self.revisions()
            .create(&PostParams::default(), &revision)
            .await
            .unwrap();
    }

    /// Sets the module's status: the number of updated clusters of four, and other fields.
    pub(crate) async fn set_rollout_status(&self, name: &str, updated: u32, more: Value) {
        let mut status = json!({
            "revision": revision(name),
            "summary": {"total": 4, "updated": updated, "updating": 1, "clusters": format!("{updated}/4")},
        });
        merge(&mut status, more);
        let patch = Patch::Merge(json!({"status": status}));
        self.modules()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Updates the status of the revision.
    pub(crate) async fn story(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.revisions()
            .patch_status(&revision_name(name), &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn begins(&self, name: &str) {
        self.set_rollout_status(name, 0, json!({})).await;
        self.story(name, json!({"started": self.now()})).await;
    }

    pub(crate) async fn ends(&self, name: &str, verdict: &str, more: Value) {
        let mut status = json!({"finished": self.now(), "verdict": verdict, "counts": {"total": 4, "updated": 4, "clusters": "4/4"}});
        merge(&mut status, more);
        self.story(name, status).await;
    }

    pub(crate) fn now(&self) -> String {
        self.context.clock.now().to_string()
    }

    pub(crate) async fn revision(&self, name: &str) -> ModuleRevision {
        self.revisions().get(&revision_name(name)).await.unwrap()
    }

    /// Waits until a receiver's record is written.
    pub(crate) async fn recorded(&self, name: &str, receiver: &str, holds: impl Fn(&Value) -> bool) {
        let key = format!("notify.fleet.muster.dev/{receiver}");
        for _ in 0..3_000 {
            let revision = self.revision(name).await;
            let annotation = revision.annotations().get(&key);
            if annotation.is_some_and(|annotation| holds(&serde_json::from_str(annotation).unwrap())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", self.revision(name).await.annotations());
    }

    /// Waits until a line is among the metrics.
    pub(crate) async fn counted(&self, line: &str) {
        for _ in 0..3_000 {
            if self.metrics.scrape().unwrap().lines().any(|one| one == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{line}\n{}", self.metrics.scrape().unwrap());
    }
}

fn merge(object: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        panic!("{more}")
    };
    object.as_object_mut().unwrap().extend(more);
}

/// A hash of the name.
pub(crate) fn revision(name: &str) -> String {
    let digit = char::from_digit(u32::from(name.as_bytes()[0]) % 16, 16).unwrap();
    digit.to_string().repeat(64)
}

fn revision_name(name: &str) -> String {
    names::module_revision_name(ModuleKind::Module, NS, name, &revision(name))
}

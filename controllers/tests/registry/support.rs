//! A management cluster with a running registry, and downstream clusters, in-process and on paused time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::{
    ApiServer,
    fault::{Fault, Match, Rule},
};
use muster_controllers::{
    registry::{Access, Connect, ConnectError, Registry, Setup},
    runtime::{Clock, Jitter, Shutdown},
};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const NS: &str = "fleet";
/// A Secret that neither watch shows is read every 30 s.
pub(crate) const READ: Duration = Duration::from_secs(30);
/// "Within 2 s of the event."
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// A management cluster with a running registry, and clusters that it can reach by URL.
pub(crate) struct Bed {
    pub management: ApiServer,
    pub downstream: BTreeMap<&'static str, ApiServer>,
    pub registry: Arc<Registry>,
    pub version: Version,
    connect: Connect,
    running: tokio_util::task::AbortOnDropHandle<()>,
}

impl Bed {
    pub(crate) fn new(version: Version, clusters: &[&'static str]) -> Self {
        Self::with(version, clusters, |connect| connect)
    }

    /// With another way to create clients.
    pub(crate) fn with(
        version: Version,
        clusters: &[&'static str],
        other: impl FnOnce(Connect) -> Connect,
    ) -> Self {
        let cluster = crd("cluster.x-k8s.io", version.as_str(), "Cluster", "clusters");
        let management = ApiServer::builder().namespace(NS).with([cluster]);
        let management = management.in_process().unwrap();
        let mut downstream = BTreeMap::new();
        for name in clusters.iter().copied() {
            let assemblage = crd("fleet.muster.dev", "v1alpha1", "Assemblage", "assemblages");
            let server = ApiServer::builder().namespace("muster-system").with([assemblage]);
            downstream.insert(name, server.in_process().unwrap());
        }
        let connect = other(connect(&downstream));
        let (registry, running) = start(management.client(), &connect);
        Self {
            management,
            downstream,
            registry,
            version,
            connect,
            running,
        }
    }

    /// A second process on the same clusters.
    pub(crate) fn beside(&self) -> (Arc<Registry>, tokio_util::task::AbortOnDropHandle<()>) {
        start(self.management.client(), &self.connect)
    }

    /// Restarts the process: everything outside the API server is lost.
    pub(crate) fn restart(&mut self) {
        (self.registry, self.running) = start(self.management.client(), &self.connect);
    }

    pub(crate) fn clusters(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.management.client(), NS, &self.version.api_resource())
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.management.client(), NS)
    }

    pub(crate) async fn cluster(&self, name: &str) {
        let ready = match self.version {
            Version::V1Beta1 => json!({"controlPlaneReady": true}),
            Version::V1Beta2 => json!({"initialization": {"controlPlaneInitialized": true}}),
        };
        self.cluster_with(name, ready).await;
    }

    pub(crate) async fn cluster_with(&self, name: &str, status: Value) {
        let object = json!({
            "apiVersion": self.version.api_resource().api_version, "kind": "Cluster",
            "metadata": {"name": name, "namespace": NS, "labels": {"env": "test"}}, "spec": {}, "status": status,
        });
        self.clusters()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }

    pub(crate) async fn patch_cluster(&self, name: &str, patch: Value) {
        self.clusters()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn secret(&self, name: &str, config: &str) {
        self.secrets()
            .create(&PostParams::default(), &secret(name, config, Kind::Typed))
            .await
            .unwrap();
    }

    pub(crate) async fn swap_secret(&self, name: &str, config: &str) {
        let patch = json!({"stringData": {"value": config}});
        self.secrets()
            .patch(
                &format!("{name}-kubeconfig"),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
            .unwrap();
    }

    pub(crate) async fn good(&self, name: &str) {
        self.cluster(name).await;
        self.secret(name, &kubeconfig(name, "token")).await;
    }

    pub(crate) fn state(&self, name: &str) -> Option<NotReady> {
        self.registry
            .get(name)
            .map_or(Some(NotReady::Deleting), |row| row.state.reason())
    }

    /// Waits until a cluster is in a state; returns how long it took.
    pub(crate) async fn until(&self, name: &str, expect: Option<NotReady>) -> Duration {
        let started = Instant::now();
        let mut changes = Box::pin(self.registry.subscribe());
        let reached = async {
            // The present state counts, too.
            while self.state(name) != expect {
                changes.next().await.unwrap();
            }
        };
        let limit = Duration::from_mins(5);
        assert!(
            tokio::time::timeout(limit, reached).await.is_ok(),
            "{name} is {:?}, not {expect:?}",
            self.registry.get(name)
        );
        started.elapsed()
    }

    pub(crate) fn break_down(&self, name: &str, fault: Fault) {
        self.downstream[name]
            .faults()
            .add(Rule::always(Match::default(), fault));
    }

    pub(crate) fn repair(&self, name: &str) {
        self.downstream[name].faults().clear();
    }

    /// The message of a cluster's state.
    pub(crate) fn message(&self, name: &str) -> String {
        self.registry
            .get(name)
            .map(|row| row.state.message().to_owned())
            .unwrap_or_default()
    }

    /// The uid of a downstream cluster's `kube-system`.
    pub(crate) async fn uid(&self, name: &str) -> String {
        let namespaces: Api<Namespace> = Api::all(self.downstream[name].client());
        namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
    }

    /// The reasons and notes of events about Clusters, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(self.management.client(), NS);
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.sort_by_key(|event| event.event_time.clone());
        events
            .into_iter()
            .map(|event| {
                format!(
                    "{}: {}",
                    event.reason.unwrap_or_default(),
                    event.note.unwrap_or_default()
                )
            })
            .collect()
    }

    /// The records of identities.
    pub(crate) async fn records(&self) -> Vec<ConfigMap> {
        let records: Api<ConfigMap> = Api::namespaced(self.management.client(), NS);
        let ours = ListParams::default().labels("fleet.muster.dev/identity");
        records.list(&ours).await.unwrap().items
    }

    pub(crate) fn calls(&self, name: &str) -> usize {
        self.downstream[name].recorder().requests().len()
    }
}

fn start(client: Client, connect: &Connect) -> (Arc<Registry>, tokio_util::task::AbortOnDropHandle<()>) {
    let registry = Registry::new(Setup {
        proxy_hosts: muster_controllers::hosts::Hosts::default(),
        client,
        namespace: NS.to_owned(),
        clock: Clock::system(),
        jitter: Jitter::seeded(1),
        connect: Arc::clone(connect),
    });
    let running = tokio::spawn(Arc::clone(&registry).run(Shutdown::new()));
    (registry, tokio_util::task::AbortOnDropHandle::new(running))
}

/// Connects as the wiring does: the server by its URL, the client by its token; `to-<cluster>` leads to that cluster
/// from any URL.
pub(crate) fn connect(downstream: &BTreeMap<&'static str, ApiServer>) -> Connect {
    // The closure outlives the map that it was created from.
    let tokens = ["token", "old", "new"];
    let mut doors: BTreeMap<(String, String), Client> = BTreeMap::new();
    for name in downstream.keys() {
        let at = |token: &str| (format!("https://{name}.test"), token.to_owned());
        for token in tokens {
            doors.insert(at(token), downstream[name].client_as(token));
        }
        for (other, server) in downstream {
            let token = format!("to-{other}");
            doors.insert(at(&token), server.client_as(&token));
        }
    }
    Arc::new(move |access: &Access| {
        let token = access
            .token
            .as_ref()
            .map(|token| token.expose().clone())
            .unwrap_or_default();
        doors
            .get(&(access.server.clone(), token))
            .cloned()
            .ok_or_else(|| ConnectError::Field {
                field: "server",
                problem: "no such server in this test".to_owned(),
            })
    })
}

pub(crate) enum Kind {
    Typed,
    Labelled,
    Plain,
}

pub(crate) fn secret(cluster: &str, config: &str, kind: Kind) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{cluster}-kubeconfig")),
            namespace: Some(NS.to_owned()),
            labels: matches!(kind, Kind::Labelled)
                .then(|| BTreeMap::from([("fleet.muster.dev/kubeconfig".to_owned(), String::new())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "value".to_owned(),
            ByteString(config.as_bytes().to_vec()),
        )])),
        type_: Some(
            if matches!(kind, Kind::Typed) {
                "cluster.x-k8s.io/secret"
            } else {
                "Opaque"
            }
            .to_owned(),
        ),
        ..Secret::default()
    }
}

pub(crate) fn kubeconfig(cluster: &str, token: &str) -> String {
    crate::kubeconfig::kubeconfig(&format!("https://{cluster}.test"), token)
}

pub(crate) fn crd(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

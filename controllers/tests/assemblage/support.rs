//! API servers with the kinds of muster, controllers on them, and Flux, simulated by the test.

use std::{collections::BTreeMap, fmt::Debug, future::Future, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use muster_api::{
    Assemblage, ProxyAssemblage, RemoteAssemblage, Shared,
    assemblage::{AssemblageSpec, SyncRow, SyncState, TargetedAssemblageSpec},
    crds,
    flux::{GitRepository, Kustomization},
    names,
    sync::{GitSource, GitVersion, LocalReference, Source},
};
use muster_apiserver::ApiServer;
use muster_controllers::{
    assemblage,
    bindings::{Kinds, Objects},
    proxyassemblage,
    reconcile::{Context, Options, SyncMode},
    registry::{Connect, connect_by_server},
    remoteassemblage,
    runtime::Clock,
};
use muster_sync::source::MemorySource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::{cluster::create_cluster, context::context, kubeconfig_secret::create_kubeconfig};

/// The initial commit of rows.
pub(crate) const OLD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// The commit that rows are updated to.
pub(crate) const NEW: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
/// The namespace of the management cluster.
pub(crate) const FLEET: &str = "fleet";
/// The namespace of downstream clusters.
pub(crate) const SYSTEM: &str = "muster-system";
/// The name of the controllers' client in a server's recorder.
pub(crate) const CONTROLLERS: &str = "controllers";
/// The maximum wait, in virtual time.
const LIMIT: Duration = Duration::from_mins(10);

/// One cluster: its API server, and the tasks that run on it.
pub(crate) struct Cluster {
    pub server: ApiServer,
    pub namespace: &'static str,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Cluster {
    /// A cluster with the kinds that an agent needs.
    pub(crate) fn downstream() -> Self {
        Self::with(SYSTEM, crds::downstream().into_iter().chain(crds::flux()))
    }

    /// A cluster with the kinds that the controllers need.
    pub(crate) fn management() -> Self {
        Self::with(
            FLEET,
            crds::management()
                .into_iter()
                .chain(crds::flux())
                .chain([crds::cluster_api()]),
        )
    }

    fn with(namespace: &'static str, kinds: impl Iterator<Item = CustomResourceDefinition>) -> Self {
        let server = ApiServer::builder()
            .event_log(true)
            .namespace(namespace)
            .with(kinds)
            .in_process()
            .unwrap();
        Self {
            server,
            namespace,
            tasks: Vec::new(),
        }
    }

    /// The objects of a kind in this cluster's namespace, with the test's client.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.server.client(), self.namespace)
    }

    /// The dependencies of controllers on this cluster.
    pub(crate) fn context(&self, connect: Connect) -> (Context, Arc<Objects>) {
        let client = self.server.client_as(CONTROLLERS);
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let objects = Objects::new(client.clone(), self.namespace, Kinds::default());
        let source = Arc::new(MemorySource::new(clock.clone()));
        let context = context(client, self.namespace, clock, source, connect);
        (context, objects)
    }

    /// Runs a task until the cluster is dropped, or [`Cluster::crash`].
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(AbortOnDropHandle::new(tokio::spawn(task)));
    }

    /// Ends all tasks at once.
    pub(crate) fn crash(&mut self) {
        self.tasks.clear();
    }

    /// Runs the controller of Assemblages.
    pub(crate) fn run_assemblages(&mut self) {
        self.run_assemblages_by(SyncMode::Builtin);
    }

    /// Runs the controller of Assemblages, with this applier.
    pub(crate) fn run_assemblages_by(&mut self, sync: SyncMode) {
        let (mut context, objects) = self.context(no_clusters());
        context.options = Arc::new(Options {
            sync,
            ..Options::default()
        });
        self.spawn(Arc::clone(&objects).run(context.shutdown.clone()));
        self.spawn(assemblage::run(context, objects));
    }

    /// Runs the registry and the controllers of both assemblages of a management cluster.
    pub(crate) fn run_management(&mut self, downstream: &BTreeMap<&'static str, Cluster>) {
        let (context, objects) = self.context(connect(downstream));
        self.spawn(Arc::clone(&context.registry).run(context.shutdown.clone()));
        self.spawn(Arc::clone(&objects).run(context.shutdown.clone()));
        self.spawn(proxyassemblage::run(
            context.clone(),
            Arc::clone(&objects),
            Arc::default(),
        ));
        self.spawn(remoteassemblage::run(context, objects, Arc::default()));
    }

    /// Creates an object.
    pub(crate) async fn create<K>(&self, object: K) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Changes an object as `kubectl` would.
    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let by = PatchParams {
            field_manager: Some("kubectl-patch".to_owned()),
            ..PatchParams::default()
        };
        self.api().patch(name, &by, &Patch::Merge(patch)).await.unwrap()
    }

    /// Replaces the rows of an Assemblage, a RemoteAssemblage or a ProxyAssemblage.
    pub(crate) async fn set_rows<K>(&self, name: &str, rows: &[SyncRow])
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let _: K = self.patch(name, json!({"spec": {"syncs": rows}})).await;
    }

    /// All Kustomizations, by name.
    pub(crate) async fn kustomizations(&self) -> Vec<Kustomization> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }

    /// The Kustomization of a row, if it exists.
    pub(crate) async fn kustomization(&self, assemblage: &str, row: &str) -> Option<Kustomization> {
        self.api()
            .get_opt(&names::kustomization(self.namespace, assemblage, row))
            .await
            .unwrap()
    }

    /// Waits for the Kustomization of a row.
    pub(crate) async fn until_kustomization(
        &self,
        assemblage: &str,
        row: &str,
        holds: impl Fn(&Kustomization) -> bool,
    ) -> Kustomization {
        until(&format!("the Kustomization of {row}"), || async {
            self.kustomization(assemblage, row)
                .await
                .filter(|object| holds(object))
        })
        .await
    }

    /// Waits for the state of a row.
    pub(crate) async fn until_state<K: HasStates>(
        &self,
        assemblage: &str,
        row: &str,
        expect: &str,
    ) -> SyncState {
        until(&format!("{row} {expect}"), || async {
            let object: K = self.api().get(assemblage).await.unwrap();
            object
                .states()
                .into_iter()
                .find(|state| state.name == row && line(state) == expect)
        })
        .await
    }

    /// Simulates source-controller: all sources have fetched their commits.
    pub(crate) async fn fetch_sources(&self) {
        for source in self
            .api::<GitRepository>()
            .list(&ListParams::default())
            .await
            .unwrap()
        {
            let commit = source.spec.reference.clone().unwrap().commit.unwrap();
            let status = json!({"status": {
                "observedGeneration": source.metadata.generation,
                "artifact": {"revision": format!("sha1:{commit}"), "lastUpdateTime": "2026-01-01T00:00:00Z", "path": "", "url": ""},
                "conditions": [condition(source.metadata.generation, "True", "Succeeded", "stored artifact")],
            }});
            self.api::<GitRepository>()
                .patch_status(&source.name_any(), &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    /// Waits for the source of a commit, and simulates source-controller.
    pub(crate) async fn until_fetched(&self, commit: &str) {
        let name = names::source(URL, commit, None);
        until(&format!("the source of {commit}"), || async {
            self.api::<GitRepository>().get_opt(&name).await.unwrap()
        })
        .await;
        self.fetch_sources().await;
    }

    /// Simulates kustomize-controller: it has applied a Kustomization, or failed to.
    pub(crate) async fn report(
        &self,
        kustomization: &Kustomization,
        status: &str,
        reason: &str,
        message: &str,
    ) {
        let commit = self.commit_of(kustomization).await;
        let mut body = json!({"status": {"conditions": [condition(kustomization.metadata.generation, status, reason, message)]}});
        if status == "True" {
            body["status"]["observedGeneration"] = json!(kustomization.metadata.generation);
            body["status"]["lastAppliedRevision"] = json!(format!("sha1:{commit}"));
        }
        self.api::<Kustomization>()
            .patch_status(
                &kustomization.name_any(),
                &PatchParams::default(),
                &Patch::Merge(body),
            )
            .await
            .unwrap();
    }

    /// Simulates Flux for a row with a new commit until it has succeeded.
    pub(crate) async fn carry_out(&self, assemblage: &str, row: &str, commit: &str) -> Kustomization {
        self.until_fetched(commit).await;
        let source = names::source(URL, commit, None);
        let kustomization = self
            .until_kustomization(assemblage, row, |object| object.spec.source_ref.name == source)
            .await;
        self.report(
            &kustomization,
            "True",
            "ReconciliationSucceeded",
            "Applied revision",
        )
        .await;
        kustomization
    }

    async fn commit_of(&self, kustomization: &Kustomization) -> String {
        let source: GitRepository = self.api().get(&kustomization.spec.source_ref.name).await.unwrap();
        source.spec.reference.unwrap().commit.unwrap()
    }

    /// The number of requests by controllers that match `counts`.
    pub(crate) fn requests(
        &self,
        counts: impl Fn(&muster_apiserver::record::RequestRecord) -> bool,
    ) -> usize {
        self.server
            .recorder()
            .requests()
            .iter()
            .filter(|request| request.client == CONTROLLERS && counts(request))
            .count()
    }

    /// The number of writes by controllers.
    pub(crate) fn writes(&self) -> usize {
        self.requests(|request| request.is_write())
    }
}

/// An object with states of rows.
pub(crate) trait HasStates:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
    /// The states of its rows.
    fn states(&self) -> Vec<SyncState>;
}

macro_rules! has_states {
    ($($kind:ty),*) => {
        $(impl HasStates for $kind {
            fn states(&self) -> Vec<SyncState> {
                let states = self.status.iter().flat_map(|status| &status.syncs);
                states.map(|state| state.clone().into_inner()).collect()
            }
        })*
    };
}

has_states!(Assemblage, RemoteAssemblage, ProxyAssemblage);

/// The repository of all rows.
pub(crate) const URL: &str = "https://git.test/web";

/// A row at a commit.
pub(crate) fn row(name: &str, commit: &str, token: u64) -> SyncRow {
    SyncRow {
        name: name.to_owned(),
        source: Some(Source::Git(GitSource {
            url: URL.to_owned(),
            version: GitVersion {
                commit: Some(commit.to_owned()),
                tag: None,
            },
            secret_ref: None,
            proxy_secret_ref: None,
            verify: None,
        })),
        commit: Some(commit.to_owned()),
        digest: Some(format!("sha256:{commit}")),
        token: Some(token),
        ..SyncRow::default()
    }
}

/// The rows in the form of assemblages.
pub(crate) fn shared<T: Clone>(parts: &[T]) -> Vec<Shared<T>> {
    parts.iter().cloned().map(Shared::from).collect()
}

/// An Assemblage.
pub(crate) fn assemblage(name: &str, rows: &[SyncRow]) -> Assemblage {
    Assemblage::new(name, AssemblageSpec { syncs: shared(rows) })
}

/// The spec of a ProxyAssemblage or RemoteAssemblage for a Cluster.
pub(crate) fn targeted(cluster: &str, rows: &[SyncRow]) -> TargetedAssemblageSpec {
    TargetedAssemblageSpec {
        cluster_ref: Some(LocalReference {
            name: cluster.to_owned(),
        }),
        kubeconfig_ref: None,
        syncs: shared(rows),
    }
}

/// A state in one line: token, phase, reason.
pub(crate) fn line(state: &SyncState) -> String {
    let token = state
        .token
        .map_or_else(|| "-".to_owned(), |token| token.to_string());
    let class = state.class.map(|class| format!(" {class:?}")).unwrap_or_default();
    format!(
        "{token} {:?} {}{class}",
        state.state,
        state.reason.as_deref().unwrap_or("-")
    )
}

/// Waits, in virtual time, until there is a result.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let reached = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, reached)
        .await
        .unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
}

/// Advances virtual time.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn condition(generation: Option<i64>, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Clients of no cluster.
pub(crate) fn no_clusters() -> Connect {
    connect(&BTreeMap::new())
}

/// Clients of clusters, by URL.
pub(crate) fn connect(downstream: &BTreeMap<&'static str, Cluster>) -> Connect {
    let clients = downstream.iter().map(|(name, cluster)| {
        let client = cluster.server.client_as(CONTROLLERS);
        (format!("https://{name}.test"), client)
    });
    connect_by_server(clients.collect())
}

/// Clusters with a control plane and a kubeconfig.
pub(crate) async fn enrol(management: &Cluster, clusters: &[&str]) {
    let client = management.server.client();
    for name in clusters {
        create_cluster(&client, FLEET, name).await;
        create_kubeconfig(&client, FLEET, name, &format!("https://{name}.test")).await;
    }
}

//! A server with a player, and queries of its state.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use muster_apiserver::ApiServer;
use muster_apiserver::player::Speeds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Timeout for a condition.
const PATIENCE: Duration = Duration::from_mins(2);

/// Poll interval.
const TICK: Duration = Duration::from_millis(50);

pub(crate) struct Bed {
    pub api: ApiServer,
}

/// A namespaced kind.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
{
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(Speeds::default())
    }

    pub(crate) fn with(speeds: Speeds) -> Self {
        Self {
            api: ApiServer::builder()
                .seed(7)
                .event_log(true)
                .workloads(speeds)
                .in_process()
                .unwrap(),
        }
    }

    pub(crate) fn of<K: Kind>(&self) -> Api<K> {
        Api::default_namespaced(self.api.client_as("tester"))
    }

    pub(crate) async fn create<K: Kind>(&self, object: Value) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.of().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K: Kind>(&self, name: &str, patch: Value) -> K {
        self.of()
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap()
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) {
        self.of::<K>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    pub(crate) async fn all<K: Kind>(&self) -> Vec<K> {
        self.of().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn names<K: Kind>(&self) -> Vec<String> {
        self.all::<K>().await.iter().map(ResourceExt::name_any).collect()
    }

    /// The object as JSON, once it exists and `holds` is true.
    pub(crate) async fn until<K: Kind>(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let object = self.of::<K>().get_opt(name).await.unwrap();
            let object = object.map_or(Value::Null, |object| serde_json::to_value(object).unwrap());
            if holds(&object) {
                return object;
            }
            assert!(tokio::time::Instant::now() < end, "never: {object:#}");
            tokio::time::sleep(TICK).await;
        }
    }

    /// All objects of a kind as JSON, once `holds` is true.
    pub(crate) async fn until_all<K: Kind>(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let all: Vec<Value> = self
                .all::<K>()
                .await
                .iter()
                .map(|o| serde_json::to_value(o).unwrap())
                .collect();
            if holds(&all) {
                return all;
            }
            assert!(tokio::time::Instant::now() < end, "never: {all:#?}");
            tokio::time::sleep(TICK).await;
        }
    }

    pub(crate) async fn deployment_done(&self, name: &str) -> Value {
        self.until::<Deployment>(name, is_done).await
    }

    pub(crate) async fn replica_sets(&self) -> Vec<ReplicaSet> {
        self.all().await
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.all().await
    }

    /// The time since the server started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.api.clock().elapsed()
    }

    /// The times since the start of the server at which the player wrote something.
    pub(crate) fn writes(&self) -> Vec<String> {
        let requests = self.api.recorder().requests();
        let own = requests
            .iter()
            .filter(|request| request.client == "workload-player" && request.is_write());
        own.map(|request| {
            format!(
                "{:?} {} {} {}",
                request.at,
                request.method,
                request.path,
                request.code()
            )
        })
        .collect()
    }

    pub(crate) async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Whether a Deployment is complete, as in `kubectl rollout status`.
pub(crate) fn is_done(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
    deployment["metadata"]["generation"] == status["observedGeneration"]
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|count| &status[*count] == spec)
        && reason(deployment, "Progressing") == "NewReplicaSetAvailable"
}

/// The condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

pub(crate) fn reason<'a>(object: &'a Value, kind: &str) -> &'a str {
    condition(object, kind)["reason"].as_str().unwrap_or_default()
}

pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image),
    }})
}

pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

pub(crate) fn set_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// The image of a pod, ReplicaSet or the like.
pub(crate) fn image(object: &Value) -> &str {
    let spec = &object["spec"];
    let spec = if spec["template"].is_null() {
        spec
    } else {
        &spec["template"]["spec"]
    };
    spec["containers"][0]["image"].as_str().unwrap_or_default()
}

//! Reads a namespace from the API server: a decision is never based on a cache.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Pod as ApiPod},
};
use kube::{
    Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
    discovery,
};
use muster_api::{ZoneRollout, labels::label::ROLLOUT_GROUP, names};
use muster_zones::{
    admit,
    model::{Group, Pod, Set},
    scale::{
        mirror::{Reference, Scale},
        times::{Tracker, begun},
    },
};
use parking_lot::Mutex;
use serde_json::Value;

use super::Error;
use crate::runtime::{Api, CallError, call, call::error_chain};

/// The objects read from a namespace.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// All ZoneRollouts. They are read first: a write over them is based on objects that were read after them.
    pub rollouts: Vec<ZoneRollout>,
    /// All StatefulSets, without pods.
    pub sets: Vec<Set>,
    /// The resourceVersions of the StatefulSets, by name.
    pub versions: BTreeMap<String, String>,
    /// All pods.
    pub pods: Vec<Pod>,
    /// The data of the zone tracker's ConfigMap, if it exists.
    pub tracker: Result<Option<BTreeMap<String, String>>, String>,
}

impl Namespace {
    /// The ZoneRollout with this name.
    pub(super) fn rollout(&self, name: &str) -> Option<&ZoneRollout> {
        let name_of = |rollout: &&ZoneRollout| rollout.metadata.name.as_deref() == Some(name);
        self.rollouts.iter().find(name_of)
    }

    /// The group of a ZoneRollout.
    pub(super) fn group(&self, rollout: &ZoneRollout, now: Timestamp) -> Group {
        let name = &rollout.spec.group;
        let of_group = |set: &&Set| set.labels.get(ROLLOUT_GROUP) == Some(name);
        let sets: Vec<Set> = self.sets.iter().filter(of_group).cloned().collect();
        let status = begun(rollout.status.as_ref(), &sets, now);
        Group::new(name, sets, &self.pods).with(rollout.spec.clone(), status)
    }

    /// The times of the zone tracker.
    pub(super) fn tracker(&self) -> Result<Tracker, String> {
        let data = self.tracker.clone()?;
        Tracker::parse(&data.unwrap_or_default())
    }
}

/// Reads objects of one namespace.
pub(super) struct Reader {
    client: Client,
    namespace: String,
    tracker: String,
    mirror_kinds: Vec<String>,
    /// Discovered kinds of references.
    kinds: Mutex<BTreeMap<(String, String), ApiResource>>,
}

impl Reader {
    /// `tracker` is the name of the zone tracker's ConfigMap, `mirror_kinds` are kinds that may be mirrored.
    pub(super) fn new(client: Client, namespace: &str, tracker: &str, mirror_kinds: &[String]) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            tracker: tracker.to_owned(),
            mirror_kinds: mirror_kinds.to_vec(),
            kinds: Mutex::default(),
        }
    }

    /// Everything that a pass over a group needs.
    pub(super) async fn all(&self) -> Result<Namespace, Error> {
        let rollouts = self.rollouts().await?;
        let (sets, versions) = self.sets().await?;
        Ok(Namespace {
            rollouts,
            sets,
            versions,
            pods: self.pods().await?,
            tracker: self.tracker().await.map_err(|error| error_chain(&error)),
        })
    }

    /// What a review needs: of its group, or of its set alone. Each failed read is a separate error.
    pub(super) async fn zones(&self, group: Option<&str>, set: &str, now: Timestamp) -> admit::Zones {
        let words = |error: &Error| error_chain(error);
        let record = match group {
            None => Ok(None),
            Some(group) => self.rollout(&names::zone_rollout_name(group)).await,
        };
        let of_review = |found: &Set| match group {
            Some(group) => found.labels.get(ROLLOUT_GROUP).map(String::as_str) == Some(group),
            None => found.name == set,
        };
        let sets = self.sets().await;
        let sets = sets.map(|(sets, _)| sets.into_iter().filter(of_review).collect::<Vec<Set>>());
        let record_of = |rollout: &ZoneRollout| admit::Record {
            version: rollout.metadata.resource_version.clone().unwrap_or_default(),
            status: begun(rollout.status.as_ref(), sets.as_deref().unwrap_or_default(), now),
        };
        admit::Zones {
            record: record
                .map(|found| found.as_ref().map(record_of))
                .map_err(|error| words(&error)),
            sets: sets.map_err(|error| words(&error)),
            pods: self.pods().await.map_err(|error| words(&error)),
            tracker: self.tracker().await.map_err(|error| words(&error)),
        }
    }

    /// Reads all ZoneRollouts.
    pub(super) async fn rollouts(&self) -> Result<Vec<ZoneRollout>, Error> {
        let api: Api<ZoneRollout> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = call("listing ZoneRollouts", api.list(&ListParams::default())).await?;
        Ok(list.items)
    }

    /// Reads one ZoneRollout.
    pub(super) async fn rollout(&self, name: &str) -> Result<Option<ZoneRollout>, Error> {
        let api: Api<ZoneRollout> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(call(format!("reading ZoneRollout {name}"), api.get_opt(name)).await?)
    }

    /// Reads all StatefulSets, and their resourceVersions.
    pub(super) async fn sets(&self) -> Result<(Vec<Set>, BTreeMap<String, String>), Error> {
        let objects = self.list::<StatefulSet>("StatefulSets").await?;
        let mut versions = BTreeMap::new();
        let mut sets = Vec::with_capacity(objects.len());
        for object in objects {
            let set = Set::from_value(&object)
                .map_err(|error| Error::Unreadable("StatefulSet", name(&object), error))?;
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            versions.insert(set.name.clone(), version.to_owned());
            sets.push(set);
        }
        Ok((sets, versions))
    }

    /// Reads all pods.
    pub(super) async fn pods(&self) -> Result<Vec<Pod>, Error> {
        let objects = self.list::<ApiPod>("pods").await?;
        let pods = objects.into_iter().map(|object| {
            Pod::from_value(&object).map_err(|error| Error::Unreadable("Pod", name(&object), error))
        });
        pods.collect()
    }

    /// Reads one pod.
    pub(super) async fn pod(&self, name: &str) -> Result<Pod, Error> {
        let object = self.get::<ApiPod>(name).await?;
        Pod::from_value(&object).map_err(|error| Error::Unreadable("Pod", name.to_owned(), error))
    }

    /// Reads the data of the zone tracker's ConfigMap.
    pub(super) async fn tracker(&self) -> Result<Option<BTreeMap<String, String>>, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = &self.tracker;
        let map = call(format!("reading ConfigMap {name}"), api.get_opt(name)).await?;
        Ok(map.map(|map| map.data.unwrap_or_default()))
    }

    /// Reads an object through its subresource `scale`.
    pub(super) async fn parent(
        &self,
        namespace: &str,
        resource: &str,
        name: &str,
    ) -> Result<Value, admit::ReadError> {
        let kind = match resource {
            "statefulsets" => "StatefulSet",
            "deployments" => "Deployment",
            "replicasets" => "ReplicaSet",
            other => return Err(admit::ReadError::Failed(format!("{other} have no replicas"))),
        };
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps", "v1", kind), resource);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        match call(format!("reading {resource} {name}"), api.get(name)).await {
            Ok(object) => Ok(value(&object)),
            Err(error) if error.is_not_found() => Err(admit::ReadError::NotFound(answered(&error))),
            Err(error) => Err(admit::ReadError::Failed(answered(&error))),
        }
    }

    /// The replicas of a reference; the error is a message.
    pub(super) async fn scale(&self, reference: &Reference) -> Result<Scale, String> {
        let api = self.reference(reference).await?;
        let what = format!("reading the scale of {} {}", reference.kind, reference.name);
        let scale = call(what, api.get_scale(&reference.name))
            .await
            .map_err(|error| error_chain(&error))?;
        let count = |replicas: Option<i32>| u32::try_from(replicas.unwrap_or_default()).unwrap_or_default();
        Ok(Scale {
            spec: count(scale.spec.and_then(|spec| spec.replicas)),
            status: count(scale.status.map(|status| status.replicas)),
        })
    }

    /// The API of a reference's kind, if that may be mirrored.
    pub(super) async fn reference(&self, reference: &Reference) -> Result<Api<DynamicObject>, String> {
        let Reference {
            kind, api_version, ..
        } = reference;
        if !self.mirror_kinds.contains(kind) {
            return Err(format!(
                "kind {kind} must not be mirrored; to allow it: -mirror-kinds={},{kind}",
                self.mirror_kinds.join(",")
            ));
        }
        let key = (api_version.clone(), kind.clone());
        let known = self.kinds.lock().get(&key).cloned();
        let resource = if let Some(resource) = known {
            resource
        } else {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let version = if version.is_empty() { "v1" } else { version };
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let found = call(
                format!("finding kind {kind} of {api_version}"),
                discovery::pinned_kind(&self.client, &gvk),
            );
            let (resource, _) = found.await.map_err(|error| error_chain(&error))?;
            self.kinds.lock().insert(key, resource.clone());
            resource
        };
        Ok(Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &resource,
        ))
    }

    async fn list<K: Resource<DynamicType = ()>>(&self, what: &str) -> Result<Vec<Value>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::erase::<K>(&()),
        );
        let list = call(format!("listing {what}"), api.list(&ListParams::default())).await?;
        Ok(list.items.iter().map(value).collect())
    }

    async fn get<K: Resource<DynamicType = ()>>(&self, name: &str) -> Result<Value, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::erase::<K>(&()),
        );
        let object = call(format!("reading {} {name}", K::kind(&())), api.get(name)).await?;
        Ok(value(&object))
    }
}

/// The API server's message, without the request.
pub(super) fn answered(error: &CallError) -> String {
    match error {
        CallError::Api { source, .. } => error_chain(source.as_ref()),
        CallError::Deadline { .. } => error_chain(error),
    }
}

/// An object as JSON: it was parsed from JSON.
pub(super) fn value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

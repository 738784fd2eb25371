//! A client for one cluster, with what applying needs: a few verbs, each with a total deadline, and discovery.

mod call;
pub mod kinds;

use std::{borrow::Cow, sync::Arc, time::Duration};

use http::{HeaderValue, header::CONTENT_TYPE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList};
use kube::{
    Client,
    api::{
        DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
    core::{DynamicObject, ObjectList, Request, Resource},
};
use muster_api::{
    flux::Kustomization,
    labels::manager,
    path::{self, SegmentError},
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::sync::Semaphore;

pub use self::{
    call::{CallError, RESPONSE_LIMIT, RETRY_AFTER_MAX},
    kinds::{Kind, Kinds},
};
use crate::inventory::ObjectId;

/// The field manager of everything that is applied. It never changes: with another name, no field would be ours any
/// more.
pub const FIELD_MANAGER: &str = muster_api::labels::manager::SYNC;

/// How many objects of one cluster are processed at once. An API server handles eight writers well; more only queue.
pub const CONCURRENCY: usize = 8;

/// A client of a cluster. Clones share the discovery cache and the concurrency limit.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    kinds: Arc<Kinds>,
    permits: Arc<Semaphore>,
    deadline: Duration,
}

impl Cluster {
    /// Creates a cluster from a client. No call takes longer than `deadline`, not counting the wait for a permit.
    pub fn new(client: Client, deadline: Duration) -> Self {
        Self {
            client,
            kinds: Arc::default(),
            permits: Arc::new(Semaphore::new(CONCURRENCY)),
            deadline,
        }
    }

    /// The same cluster with another client, for renewed credentials.
    #[must_use]
    pub fn through(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// How a kind is served, if it is. Queries the server if it is not cached.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, CallError> {
        if let Some(known) = self.kinds.get(api_version, kind) {
            return Ok(Some(known));
        }
        // A value that is invalid in a URL is not served by any API server, and would request something else.
        if path::api_version(api_version).is_err() {
            return Ok(None);
        }
        let root = if api_version.contains('/') { "apis" } else { "api" };
        match self
            .read::<APIResourceList>(&format!("/{root}/{api_version}"))
            .await
        {
            Ok(list) => Ok(self.kinds.learn(api_version, &list).remove(kind)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How a kind is served now: in `version` if that is served, otherwise in any other version of its group. `None`
    /// only if discovery says so.
    pub async fn kind_in_any_version(&self, id: &ObjectId, version: &str) -> Result<Option<Kind>, CallError> {
        if let Some(kind) = self.kind(&id.api_version(version), &id.kind).await? {
            return Ok(Some(kind));
        }
        if id.group.is_empty() {
            return Ok(None);
        }
        let groups = self.read::<APIGroupList>("/apis").await?;
        let versions = groups
            .groups
            .into_iter()
            .filter(|group| group.name == id.group)
            .flat_map(|group| group.versions);
        for served in versions.filter(|served| served.version != version) {
            if let Some(kind) = self.kind(&served.group_version, &id.kind).await? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Drops the cached kinds of a group, because its definitions have changed.
    pub fn drop_cached_group(&self, group: &str) {
        self.kinds.drop_group(group);
    }

    /// Reads an object, if it exists. If the kind is no longer served in that version it is discovered again, so that
    /// an object is not considered gone because it is served in another version now.
    pub async fn get(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Value>, CallError> {
        match self.get_as(kind, id).await {
            Err(CallError::Refused(status)) if status.code == 404 && status.reason != "NotFound" => {
                self.drop_cached_group(&id.group);
                match self.kind_in_any_version(id, &kind.resource.version).await? {
                    None => Ok(None),
                    Some(served) if served == *kind => Err(CallError::Refused(status)),
                    Some(served) => self.get_as(&served, id).await,
                }
            }
            found => found,
        }
    }

    async fn get_as(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Value>, CallError> {
        // No cluster has such an object. An empty namespace is different: the scope of the kind may have changed.
        if path::check(&id.name).is_err() || (!id.namespace.is_empty() && path::check(&id.namespace).is_err())
        {
            return Ok(None);
        }
        let (requests, name) = requests(kind, id)?;
        let request = requests.get(&name, &GetParams::default());
        match self.call(request).await {
            Ok(object) => Ok(Some(object)),
            Err(CallError::Refused(status)) if status.code == 404 && status.reason == "NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Server-side apply of `body`, with force; `dry_run` only returns the result.
    pub async fn apply(
        &self,
        kind: &Kind,
        id: &ObjectId,
        body: &Value,
        dry_run: bool,
    ) -> Result<Value, CallError> {
        let params = PatchParams {
            dry_run,
            ..PatchParams::apply(FIELD_MANAGER).force()
        };
        let (requests, name) = requests(kind, id)?;
        self.call(requests.patch(&name, &params, &Patch::Apply(body)))
            .await
    }

    /// Dry run of applying `body` with a separate field manager: no existing field is removed.
    pub(crate) async fn compare(&self, kind: &Kind, id: &ObjectId, body: &Value) -> Result<Value, CallError> {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply(manager::SYNC_COMPARE).force()
        };
        let (requests, name) = requests(kind, id)?;
        self.call(requests.patch(&name, &params, &Patch::Apply(body)))
            .await
    }

    /// Dry run of replacing an object.
    pub(crate) async fn dry_replace(
        &self,
        kind: &Kind,
        id: &ObjectId,
        object: &Value,
    ) -> Result<Value, CallError> {
        let params = PostParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let (requests, name) = requests(kind, id)?;
        self.call(requests.replace(&name, &params, object.to_string().into_bytes()))
            .await
    }

    /// Dry run of a strategic merge patch.
    pub(crate) async fn dry_merge(
        &self,
        kind: &Kind,
        id: &ObjectId,
        patch: &Value,
    ) -> Result<Value, CallError> {
        let params = PatchParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (requests, name) = requests(kind, id)?;
        self.call(requests.patch(&name, &params, &Patch::Strategic(patch)))
            .await
    }

    /// Sends a JSON patch and returns the resulting object. The patch must replace the resource version with the one
    /// that it was made for: then the server refuses it with a conflict if the object has changed.
    pub(crate) async fn patch(&self, kind: &Kind, id: &ObjectId, patch: &Value) -> Result<Value, CallError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (requests, name) = requests(kind, id)?;
        let request = requests.patch(&name, &params, &Patch::Merge(patch));
        let request = request.map(|mut request| {
            let of_json_patch = HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(CONTENT_TYPE, of_json_patch);
            request
        });
        self.call(request).await
    }

    /// Deletes the object as it was read and, in the background, its dependents. A conflict if the object has changed
    /// since.
    pub async fn delete(&self, kind: &Kind, id: &ObjectId, live: &Value) -> Result<(), CallError> {
        let text = |pointer| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                // No object has an empty uid or resource version.
                uid: Some(text("/metadata/uid").unwrap_or_default()),
                resource_version: text("/metadata/resourceVersion"),
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let (requests, name) = requests(kind, id)?;
        let _: IgnoredAny = self.call(requests.delete(&name, &params)).await?;
        Ok(())
    }

    /// The uid of the `kube-system` namespace, which identifies the cluster. `None` if reading it is forbidden, or it
    /// does not exist.
    pub async fn identity(&self) -> Result<Option<String>, CallError> {
        match self.read::<Value>("/api/v1/namespaces/kube-system").await {
            Ok(namespace) => Ok(namespace
                .pointer("/metadata/uid")
                .and_then(Value::as_str)
                .map(str::to_owned)),
            Err(CallError::Refused(status)) if matches!(status.code, 403 | 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The Kustomizations of a namespace; empty if the kind is not served.
    pub async fn kustomizations(&self, namespace: &str) -> Result<Vec<Kustomization>, CallError> {
        let path = format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{namespace}/kustomizations");
        match self.read::<ObjectList<Kustomization>>(&path).await {
            Ok(list) => Ok(list.items),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// At most `limit` pods of a namespace that match a label selector, read in pages of 500: at 20 KiB each a page is
    /// 10 MiB.
    pub async fn pods(&self, namespace: &str, selector: &str, limit: usize) -> Result<Vec<Value>, CallError> {
        let namespace = segment("namespace", namespace)?;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let mut params = ListParams::default().labels(selector).limit(500);
        let mut pods = Vec::new();
        loop {
            let mut list: Value = self.call(Request::new(path.clone()).list(&params)).await?;
            let items = list.get_mut("items").and_then(Value::as_array_mut);
            pods.append(&mut items.map(std::mem::take).unwrap_or_default());
            match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() && pods.len() < limit => params = params.continue_token(next),
                _ => return Ok(pods),
            }
        }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| CallError::Request(error.to_string()))?;
        self.send(request).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        self.send(request.map_err(|error| CallError::Request(error.to_string()))?)
            .await
    }

    async fn send<T: DeserializeOwned>(&self, request: http::Request<Vec<u8>>) -> Result<T, CallError> {
        // The semaphore is never closed, so a permit always becomes available.
        let _permit = self.permits.acquire().await.ok();
        let answer = call::exchange(&self.client, request, self.deadline).await?;
        serde_json::from_slice(&answer).map_err(CallError::Garbled)
    }
}

/// A request builder for objects of a kind in the namespace of an object, and the object's name escaped for a URL: kube
/// inserts both unescaped.
fn requests<'a>(kind: &Kind, id: &'a ObjectId) -> Result<(Request, Cow<'a, str>), CallError> {
    let namespace = if kind.namespaced {
        Some(segment("namespace", &id.namespace)?)
    } else {
        None
    };
    let url = DynamicObject::url_path(&kind.resource, namespace.as_deref());
    path::collection(&url).map_err(|error| cannot_ask("path", &url, &error))?;
    Ok((Request::new(url), segment("name", &id.name)?))
}

/// A name as a URL path segment.
fn segment<'a>(what: &str, text: &'a str) -> Result<Cow<'a, str>, CallError> {
    path::segment(text).map_err(|error| cannot_ask(what, text, &error))
}

fn cannot_ask(what: &str, text: &str, error: &SegmentError) -> CallError {
    CallError::Request(format!("{what} {text:?} cannot be part of a URL: {error}"))
}

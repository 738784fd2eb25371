//! The objects that bindings read: fetched when first needed, cached while a watch reports their changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta, request},
    discovery,
    runtime::watcher,
};
use muster_api::{path, sync::Binding};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;

use super::{BindingError, Evaluation, Kinds, KnownObjects, ObjectId, Values, evaluate};
use crate::runtime::{Api, CallError, Key, Shutdown, call, call::error_chain, watch as watching};

/// Rounds of reads in one evaluation at most: each needs an object whose name is read from the one before.
const ROUNDS: usize = 8;
/// Cached objects at most: the facts of 2,000 clusters several times over. Above the limit, objects are read but not
/// cached.
const KEPT_MAX: usize = 10_000;
/// The pause after a failed discovery of a kind.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(5);

/// A kind by apiVersion and name.
type Kind = (String, String);
/// Events of one kind's watch: the objects' names; `None`: a new list begins, so anything may have changed.
type Names = BoxStream<'static, (Kind, Option<String>)>;

/// The referenced objects of one namespace. [`Objects::run`] watches them; without it each evaluation reads.
pub struct Objects {
    client: Client,
    namespace: String,
    kinds: Kinds,
    state: Mutex<State>,
    /// Kinds that were needed so far.
    needed: watch::Sender<BTreeSet<Kind>>,
    /// Counts changes of referenced objects.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Every object that was ever requested, with the number of its changes.
    wanted: BTreeMap<ObjectId, u64>,
    kept: KnownObjects,
    watched: BTreeSet<Kind>,
    resources: BTreeMap<Kind, ApiResource>,
}

impl Objects {
    /// Reads objects of these kinds in `namespace`.
    pub fn new(client: Client, namespace: impl Into<String>, kinds: Kinds) -> Arc<Self> {
        Arc::new(Self {
            client,
            namespace: namespace.into(),
            kinds,
            state: Mutex::default(),
            needed: watch::Sender::default(),
            changes: watch::Sender::default(),
        })
    }

    /// Evaluates bindings, reading the objects that they need.
    pub async fn resolve(&self, bindings: &[Binding], given: &Values) -> Result<Values, BindingError> {
        let mut known = KnownObjects::new();
        for _round in 0..ROUNDS {
            match evaluate(bindings, given, &self.kinds, &known)? {
                Evaluation::Values(values) => return Ok(values),
                Evaluation::Needs(objects) => {
                    for object in objects {
                        let value = self.get(&object).await?;
                        known.insert(object, value);
                    }
                }
            }
        }
        Err(BindingError::TooDeep(ROUNDS))
    }

    /// Which kinds may be read.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The current state of an object of any kind: neither cached nor watched.
    pub async fn read_live(&self, object: &ObjectId) -> Result<Option<Value>, CallError> {
        let kind = (object.api_version.clone(), object.kind.clone());
        self.read(&kind, object).await
    }

    /// Notifies each time an object that was ever needed is changed, created or deleted. Several changes may be merged
    /// into one notification.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold(self.changes.subscribe(), |mut changes| async move {
            changes.changed().await.ok().map(|()| ((), changes))
        })
    }

    /// Watches the kinds that are needed, until shutdown.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.watch_needed() => {}
        }
    }

    /// An object from the cache or from the API server. After this, [`Objects::changes`] reports its changes.
    pub async fn get(&self, object: &ObjectId) -> Result<Option<Arc<Value>>, CallError> {
        let kind = (object.api_version.clone(), object.kind.clone());
        let before = {
            let mut state = self.state.lock();
            if let Some(value) = state.kept.get(object) {
                return Ok(value.clone());
            }
            *state.wanted.entry(object.clone()).or_default()
        };
        self.needed.send_if_modified(|needed| needed.insert(kind.clone()));
        let value = self.read(&kind, object).await?.map(Arc::new);
        let mut state = self.state.lock();
        let unchanged = state.wanted.get(object) == Some(&before);
        if unchanged && state.watched.contains(&kind) && state.kept.len() < KEPT_MAX {
            state.kept.insert(object.clone(), value.clone());
        }
        Ok(value)
    }

    async fn read(&self, kind: &Kind, object: &ObjectId) -> Result<Option<Value>, CallError> {
        let name = &object.name;
        let namespace = object.namespace.as_ref().unwrap_or(&self.namespace);
        let resource = match self.resource(kind).await {
            Ok(resource) => resource,
            // A kind that is not served has no objects.
            Err(error) if error.is_not_found() || error.is_unknown_kind() => return Ok(None),
            Err(error) => return Err(error),
        };
        let objects: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let what = format!("reading {} {namespace}/{name}", kind.1);
        let object = call(what, objects.get_opt(name)).await?;
        // The object was parsed from JSON, so it can be converted back.
        Ok(object.and_then(|object| serde_json::to_value(object).ok()))
    }

    async fn resource(&self, kind: &Kind) -> Result<ApiResource, CallError> {
        if let Some(resource) = self.state.lock().resources.get(kind) {
            return Ok(resource.clone());
        }
        if (kind.0.as_str(), kind.1.as_str()) == ("v1", "ConfigMap") {
            return Ok(ApiResource::erase::<ConfigMap>(&()));
        }
        let (group, version) = kind.0.split_once('/').unwrap_or(("", &kind.0));
        let gvk = GroupVersionKind::gvk(group, version, &kind.1);
        let what = format!("looking up kind {} ({})", kind.1, kind.0);
        let lookup = async {
            // The name becomes a part of a URL path.
            path::api_version(&kind.0).map_err(|error| {
                let words = format!("{:?} is not a valid apiVersion: {error}", kind.0);
                kube::Error::BuildRequest(request::Error::Validation(words))
            })?;
            discovery::pinned_kind(&self.client, &gvk).await
        };
        let (resource, _) = call(what, lookup).await?;
        self.state.lock().resources.insert(kind.clone(), resource.clone());
        Ok(resource)
    }

    async fn watch_needed(self: Arc<Self>) {
        let mut needed = self.needed.subscribe();
        let mut started: BTreeSet<Kind> = BTreeSet::new();
        let mut names: SelectAll<Names> = SelectAll::new();
        let mut opening: FuturesUnordered<BoxFuture<'static, Names>> = FuturesUnordered::new();
        loop {
            for kind in needed.borrow_and_update().clone() {
                if started.insert(kind.clone()) {
                    opening.push(Arc::clone(&self).open(kind).boxed());
                }
            }
            tokio::select! {
                // The sender is a field of `self`, so it is never dropped.
                Ok(()) = needed.changed() => {}
                Some(opened) = opening.next() => names.push(opened),
                Some((kind, name)) = names.next() => self.changed(&kind, name.as_deref()),
            }
        }
    }

    /// Opens the watch of a kind: metadata only.
    async fn open(self: Arc<Self>, kind: Kind) -> Names {
        let resource = loop {
            match self.resource(&kind).await {
                Ok(resource) => break resource,
                Err(error) => warn!(
                    kind = kind.1,
                    error = error_chain(&error),
                    "a kind that bindings read cannot be watched"
                ),
            }
            tokio::time::sleep(LOOK_UP_AGAIN).await;
        };
        let objects: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let events = watching::watch_api(objects, watcher::Config::default(), kind.1.clone());
        let names = events.filter_map(move |event| {
            let name = match &event {
                watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                    Some(Some(Key::of(object).name))
                }
                watcher::Event::InitDone => Some(None),
                watcher::Event::Init | watcher::Event::InitApply(_) => None,
            };
            std::future::ready(name.map(|name| (kind.clone(), name)))
        });
        names.boxed()
    }

    /// Drops changed objects from the cache, and notifies if they were ever needed.
    fn changed(&self, kind: &Kind, name: Option<&str>) {
        let mut state = self.state.lock();
        state.watched.insert(kind.clone());
        let concerns = |id: &ObjectId| {
            (&id.api_version, &id.kind) == (&kind.0, &kind.1) && name.is_none_or(|name| id.name == name)
        };
        state.kept.retain(|id, _| !concerns(id));
        let mut any = false;
        for (_, count) in state.wanted.iter_mut().filter(|(id, _)| concerns(id)) {
            *count += 1;
            any = true;
        }
        if any {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

//! Scheduling by kube-runtime: at most one reconcile of an object at a time, many objects concurrently, repeated
//! triggers merged, and a graceful shutdown.

use std::{collections::BTreeSet, convert::Infallible, fmt::Debug, sync::Arc, time::Duration};

use futures::{FutureExt, Stream, StreamExt, future, future::BoxFuture, stream, stream::BoxStream};
use kube::{
    Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
    runtime::{
        applier,
        controller::{Action, Config, Error as ApplierError},
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, error, warn};

use super::Base;
use crate::{
    metrics::{Controller, Metrics},
    runtime::{
        Guard, Index, Jitter, Key, Panicked, Shutdown, Unreadable,
        call::error_chain,
        retry::{Failures, Retry, Retryable},
        watch::{self, Watched},
    },
};

/// Concurrent reconciles of one controller: each mostly waits for an API server, which handles about eight writers
/// well.
pub const WORKERS: u16 = 8;

/// Runs a reconcile function over the objects of a kind.
///
/// ```text
/// Runner::new("module", &context)      // watches Modules in the context's namespace
///     .rows(assemblages.clone())       // fills an index; a changed row enqueues its targets
///     .on(keys_of_changed_clusters)    // any other stream of keys
///     .run(Arc::new(my_context), reconcile).await;   // until shutdown
/// ```
pub struct Runner<K: Resource<DynamicType = ()> + 'static> {
    name: &'static str,
    client: kube::Client,
    namespace: String,
    store: Store<K>,
    unreadable: Arc<Unreadable>,
    queue: stream::SelectAll<BoxStream<'static, ObjectRef<K>>>,
    gates: Vec<BoxFuture<'static, ()>>,
    workers: u16,
    shutdown: Shutdown,
    jitter: Jitter,
    metrics: Metrics,
}

impl<K> Runner<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Reconciles the objects of `K` in the context's namespace. `name` is for the log.
    pub fn new(name: &'static str, base: impl Into<Base>) -> Self {
        let base = base.into();
        let events = watch::watch::<K>(base.client.clone(), &base.namespace, watcher::Config::default());
        Self::watching(name, base, events)
    }
}

impl<K> Runner<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Reconciles the objects of `K`, which is cluster-scoped. `name` is for the log.
    pub fn of_cluster(name: &'static str, base: impl Into<Base>) -> Self {
        let base = base.into();
        let events = watch::watch_cluster::<K>(base.client.clone(), watcher::Config::default());
        Self::watching(name, base, events)
    }
}

impl<K> Runner<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Reconciles the objects of `K` that `events` show: for a watch that has other readers. `name` is for the log.
    pub fn watching(
        name: &'static str,
        base: Base,
        events: impl Stream<Item = Watched<K>> + Send + 'static,
    ) -> Self {
        let Base {
            client,
            namespace,
            jitter,
            metrics,
            shutdown,
        } = base;
        let (store, mut writer) = reflector::store::<K>();
        let unreadable = Arc::<Unreadable>::default();
        let invalid = Arc::clone(&unreadable);
        let changed = events
            .inspect(move |event| invalid.record(event))
            .filter_map(|event| std::future::ready(readable(event)))
            .map(move |event| {
                writer.apply_watcher_event(&event);
                stream::iter(touched(&event))
            })
            .flatten();
        let mut queue = stream::SelectAll::new();
        queue.push(changed.boxed());
        Self {
            name,
            client,
            namespace,
            store,
            unreadable,
            queue,
            gates: Vec::new(),
            workers: WORKERS,
            shutdown,
            jitter,
            metrics,
        }
    }

    /// Sets the maximum number of concurrent reconciles, instead of [`WORKERS`].
    #[must_use]
    pub fn workers(mut self, workers: u16) -> Self {
        // For kube-runtime, zero means unlimited.
        self.workers = workers.max(1);
        self
    }

    /// Enqueues each key of a stream. Keys of objects that do not exist are dropped.
    #[must_use]
    pub fn on(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.queue.push(keys.map(|key| key.object_ref()).boxed());
        self
    }

    /// Watches `O` in the same namespace into an index; a changed row enqueues its old and new targets. No reconcile
    /// starts before the index has been filled.
    #[must_use]
    pub fn rows<O, R>(self, index: Arc<Index<O, R>>) -> Self
    where
        O: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
        R: Clone + PartialEq + Send + Sync + 'static,
    {
        let gate = Arc::clone(&index);
        self.late_rows(index).after(async move { gate.synced().await })
    }

    /// Like [`Self::rows`], but reconciles do not wait until the index is filled: not every cluster has the kind.
    #[must_use]
    pub fn late_rows<O, R>(self, index: Arc<Index<O, R>>) -> Self
    where
        O: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
        R: Clone + PartialEq + Send + Sync + 'static,
    {
        let events = watch::watch::<O>(self.client.clone(), &self.namespace, watcher::Config::default());
        self.on(watch::watch_rows(events, index))
    }

    /// Like [`Self::rows`], for a cluster-scoped kind; a changed row enqueues the keys that `keys` returns for its old
    /// and new targets.
    #[must_use]
    pub fn cluster_rows<O, R>(
        self,
        index: Arc<Index<O, R>>,
        keys: impl Fn(BTreeSet<Key>) -> Vec<Key> + Send + 'static,
    ) -> Self
    where
        O: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
        R: Clone + PartialEq + Send + Sync + 'static,
    {
        let events = watch::watch_cluster::<O>(self.client.clone(), watcher::Config::default());
        let gate = Arc::clone(&index);
        let keys = events.flat_map(move |event| stream::iter(keys(index.event(&event))));
        self.after(async move { gate.synced().await }).on(keys)
    }

    /// Starts no reconcile before `ready` completes.
    #[must_use]
    pub fn after(mut self, ready: impl Future<Output = ()> + Send + 'static) -> Self {
        self.gates.push(ready.boxed());
        self
    }

    /// The objects of `K` as last observed, without `managedFields`.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// The objects of `K` that exist but cannot be parsed. The store keeps their last readable version, if there was
    /// one.
    pub fn unreadable(&self) -> Arc<Unreadable> {
        Arc::clone(&self.unreadable)
    }

    /// Runs until the context's shutdown; then waits for the reconciles in progress and returns. Dropping the future
    /// cancels everything at once.
    pub async fn run<Ctx, F, Fut, E>(self, context: Arc<Ctx>, reconcile: F)
    where
        Ctx: Send + Sync + 'static,
        F: Fn(Arc<K>, Arc<Ctx>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Retryable,
    {
        let Self {
            name,
            client: _,
            namespace: _,
            store,
            unreadable: _,
            queue,
            gates,
            workers,
            shutdown,
            jitter,
            metrics,
        } = self;
        let counts = metrics.controller(name);
        let ready = future::join_all(gates).map(|_| ()).boxed().shared();
        let synced = synced(counts.clone(), ready.clone(), store.clone());
        let (queued, started) = (counts.clone(), counts.clone());
        let (reconcile, ending) = (Arc::new(reconcile), shutdown.clone());
        let failures = Arc::new(Failures::default());
        let succeeded = Arc::clone(&failures);
        let policy = Arc::clone(&failures);
        let results = applier(
            move |object: Arc<K>, context: Arc<Ctx>| {
                let (reconcile, succeeded, key) =
                    (Arc::clone(&reconcile), Arc::clone(&succeeded), Key::of(&*object));
                let (ready, ending, started) = (ready.clone(), ending.clone(), started.clone());
                async move {
                    if ending.run_until_cancelled_owned(ready).await.is_none() {
                        return Ok(Action::await_change());
                    }
                    let _running = started.started(&key);
                    let action = supervised(reconcile(object, context)).await?;
                    succeeded.reset(&key);
                    Ok(action)
                }
                .boxed()
            },
            move |object: Arc<K>, error: &Failed<E>, _context| {
                let wait = policy.after_failure(&Key::of(&*object), error.retry(), &jitter);
                wait.map_or_else(Action::await_change, Action::requeue)
            },
            context,
            store,
            queue
                .map(move |object| {
                    queued.queued(key_of(&object));
                    Ok::<_, Infallible>(object)
                })
                .take_until(shutdown.cancelled_owned()),
            Config::default().concurrency(workers),
        );
        let all = results.for_each(|result| {
            log_result(name, &failures, &counts, result);
            future::ready(())
        });
        tokio::select! {
            () = all => {}
            never = synced => match never {},
        }
    }
}

/// Reports when a controller has synced; then waits forever.
async fn synced<K>(counts: Controller, ready: impl Future<Output = ()>, store: Store<K>) -> Infallible
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    ready.await;
    // The writer of the store lives as long as the queue beside it: the only error is unreachable, and would leave it
    // not synced.
    if store.wait_until_ready().await.is_ok() {
        counts.synced();
    }
    future::pending().await
}

fn key_of<K: reflector::Lookup>(object: &ObjectRef<K>) -> Key {
    Key::new(object.namespace.clone().unwrap_or_default(), object.name.clone())
}

/// A reconcile that returned no action.
#[derive(Debug, Error)]
enum Failed<E: std::error::Error + 'static> {
    #[error(transparent)]
    Reconcile(E),
    /// A bug in muster: the object is not reconciled for a while, all others continue.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl<E: Retryable> Failed<E> {
    fn retry(&self) -> Retry {
        match self {
            Self::Reconcile(error) => error.retry(),
            Self::Panicked(_) => Retry::At(AFTER_PANIC),
        }
    }
}

/// The pause for an object after its reconcile panicked.
const AFTER_PANIC: Duration = Duration::from_mins(5);

/// Runs a reconcile as a separate task, so that a panic affects only that object. Dropping the future cancels the task.
async fn supervised<E: Retryable>(
    work: impl Future<Output = Result<Action, E>> + Send + 'static,
) -> Result<Action, Failed<E>> {
    match AbortOnDropHandle::new(tokio::spawn(work.in_current_span())).await {
        Ok(result) => result.map_err(Failed::Reconcile),
        Err(error) => Err(Failed::Panicked(error.into())),
    }
}

/// Logs and counts the result of a reconcile.
fn log_result<K, E: Retryable>(
    name: &str,
    failures: &Failures,
    counts: &Controller,
    result: Result<(ObjectRef<K>, Action), ApplierError<Failed<E>, Infallible>>,
) where
    K: Resource<DynamicType = ()>,
{
    match result {
        Ok((object, action)) => {
            debug!(controller = name, %object, ?action, "reconciled");
            counts.succeeded();
        }
        Err(ApplierError::ObjectNotFound(object)) => {
            debug!(controller = name, %object, "the object is gone");
            let key = key_of(&object);
            failures.reset(&key);
            counts.gone(&key);
        }
        Err(ApplierError::ReconcilerFailed(Failed::Panicked(panicked), object)) => {
            counts.panicked();
            panicked.log(&format!("the controller {name} reconciled {object}"));
        }
        Err(ApplierError::ReconcilerFailed(failed @ Failed::Reconcile(_), object)) => {
            counts.failed();
            warn!(controller = name, %object, error = error_chain(&failed), "reconcile failed");
        }
        Err(ApplierError::RunnerError(error)) => error!(controller = name, %error, "the queue stopped"),
        Err(ApplierError::QueueError(never)) => match never {},
    }
}

/// Unwraps an event whose objects could all be parsed. For an object that cannot be parsed, the last readable version
/// stays.
fn readable<K: Resource<DynamicType = ()>>(event: Watched<K>) -> Option<watcher::Event<K>> {
    let object = |Guard(object): Guard<K>| {
        object.inspect_err(|invalid| warn!(kind = %K::kind(&()), name = invalid.metadata.name, %invalid, "an object cannot be read")).ok()
    };
    Some(match event {
        watcher::Event::Apply(guard) => watcher::Event::Apply(object(guard)?),
        watcher::Event::Delete(guard) => watcher::Event::Delete(object(guard)?),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(guard) => watcher::Event::InitApply(object(guard)?),
        watcher::Event::InitDone => watcher::Event::InitDone,
    })
}

/// The object that an event adds or changes.
fn touched<K: Resource<DynamicType = ()>>(event: &watcher::Event<K>) -> Option<ObjectRef<K>> {
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            Some(Key::of(object).object_ref())
        }
        watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitDone => None,
    }
}

//! Watches that do not end: without `managedFields`, with a short backoff, not stopped by one object that cannot be
//! parsed, and not stuck with a server that answers 410 to the start of a watch (kube-runtime would request the same
//! resourceVersion forever).

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{
    Client, Resource, ResourceExt,
    core::{ClusterResourceScope, NamespaceResourceScope},
    runtime::{WatchStreamExt, utils::Backoff, watcher, watcher::DefaultBackoff},
};
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use super::Api;
use super::{Guard, Index, Key, call::error_chain};

/// After this number of consecutive failures to resume from a known version, the watch starts with a new list. One may
/// be chance; three cost 6 s of backoff.
const GONE_LIMIT: u32 = 3;

/// The longest pause after a failure. kube-runtime's pause of up to a minute means that a process does not know for a
/// minute that its API server is back, and for a second one if the server has forgotten the known version (a restarted
/// API server forgets all). At this pause, the twenty watches of a process send four requests per second.
const LONGEST: Duration = Duration::from_secs(5);

/// An event of [`watch`].
pub type Watched<K> = watcher::Event<Guard<K>>;

/// Watches the objects of a kind in a namespace. Errors are logged and retried with backoff; the stream ends only when
/// it is dropped.
pub fn watch<K>(
    client: Client,
    namespace: &str,
    config: watcher::Config,
) -> impl Stream<Item = Watched<K>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<Guard<K>> = Api::namespaced(client, namespace);
    watch_api(api, config, K::kind(&()).into_owned())
}

/// Like [`watch`], for a cluster-scoped kind.
pub fn watch_cluster<K>(
    client: Client,
    config: watcher::Config,
) -> impl Stream<Item = Watched<K>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<Guard<K>> = Api::all(client);
    watch_api(api, config, K::kind(&()).into_owned())
}

/// Like [`watch`], with an [`Api`] from the caller, which determines how objects are parsed: as a [`Guard`], or only
/// their metadata. `kind` is for the log.
pub fn watch_api<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: String,
) -> impl Stream<Item = watcher::Event<K>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch_reporting(api, config, kind, |_error| {})
}

/// Like [`watch_api`]; `on_error` is called with each failure, for callers that show what was read.
pub fn watch_reporting<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: String,
    on_error: impl FnMut(&watcher::Error) + Send,
) -> impl Stream<Item = watcher::Event<K>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    stream::unfold(
        (Open::new(api, config, kind), on_error),
        |(mut open, mut on_error)| async move {
            let event = open.next(&mut on_error).await;
            Some((event, (open, on_error)))
        },
    )
}

/// A watch, and how to restart it.
struct Open<K: Resource> {
    api: Api<K>,
    config: watcher::Config,
    kind: String,
    current: BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>,
    /// Consecutive 410 responses.
    gone: u32,
}

impl<K> Open<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    fn new(api: Api<K>, config: watcher::Config, kind: String) -> Self {
        let current = start(&api, &config);
        Self {
            api,
            config,
            kind,
            current,
            gone: 0,
        }
    }

    async fn next(&mut self, on_error: &mut (impl FnMut(&watcher::Error) + Send)) -> watcher::Event<K> {
        loop {
            match self.current.next().await {
                Some(Ok(event)) => {
                    self.gone = 0;
                    return event;
                }
                Some(Err(error)) => {
                    on_error(&error);
                    warn!(
                        kind = self.kind,
                        error = error_chain(&error),
                        "a watch failed and is retried"
                    );
                    self.gone = if is_gone(&error) { self.gone + 1 } else { 0 };
                }
                None => self.gone = GONE_LIMIT,
            }
            if self.gone >= GONE_LIMIT {
                debug!(kind = self.kind, "a watch starts over with a new list");
                self.current = start(&self.api, &self.config);
                self.gone = 0;
            }
        }
    }
}

fn start<K>(
    api: &Api<K>,
    config: &watcher::Config,
) -> BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api = match api.clone().for_watching() {
        Ok(api) => api,
        // This never becomes possible: it is logged once, and the stream does not end.
        Err(error) => {
            let refused = stream::iter([Err(watcher::Error::WatchStartFailed(error))]);
            return refused.chain(stream::pending()).boxed();
        }
    };
    watcher::watcher(api, config.clone())
        .modify(|object: &mut K| object.managed_fields_mut().clear())
        .backoff(Patience::default())
        .boxed()
}

/// kube-runtime's pauses, up to [`LONGEST`].
#[derive(Default)]
struct Patience(DefaultBackoff);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(LONGEST))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0.reset();
    }
}

fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// The keys that events affect, after applying them to an index.
pub fn watch_rows<K, R>(
    events: impl Stream<Item = Watched<K>> + Send,
    index: Arc<Index<K, R>>,
) -> impl Stream<Item = Key> + Send
where
    K: Resource + Send + Sync + 'static,
    R: Clone + PartialEq + Send + Sync + 'static,
{
    events.flat_map(move |event| stream::iter(index.event(&event)))
}

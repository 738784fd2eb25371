//! Watches that report their failures, and kinds that may not be served.

use futures::{StreamExt as _, stream, stream::BoxStream};
use kube::{
    Resource,
    api::ListParams,
    runtime::{watcher, watcher::Event},
};
use muster_controllers::runtime::{Api, call::error_chain, watch::watch_reporting};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

/// The status codes for listing a kind that is not served, or may not be read.
pub(crate) const NOT_THERE: [u16; 2] = [403, 404];

/// The events of a watch, and its failures.
pub(crate) fn watch_events<K, T>(
    api: Api<K>,
    fail: impl Fn(String) -> T + Send + 'static,
    to_item: impl Fn(Event<K>) -> T + Send + 'static,
) -> BoxStream<'static, T>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    T: 'static,
{
    // Failures arrive in a channel beside the events; one that is not read yet is enough.
    let (failed, failures) = mpsc::channel::<String>(1);
    let events = watch_reporting(
        api,
        watcher::Config::default(),
        K::kind(&()).into_owned(),
        move |error| {
            let _ = failed.try_send(error_chain(error)); // as above
        },
    );
    let failures = stream::unfold(failures, |mut failures| async move {
        let failure = failures.recv().await?;
        Some((failure, failures))
    });
    let failures = failures.map(fail);
    stream::select(events.map(to_item), failures).boxed()
}

/// Whether a list fails with one of these codes: 404 if the kind is not served. Other errors are reported by the watch.
pub(crate) async fn is_refused<K: Clone + DeserializeOwned + std::fmt::Debug>(
    api: &Api<K>,
    codes: &[u16],
) -> bool {
    let one = ListParams::default().limit(1);
    matches!(api.list_metadata(&one).await, Err(kube::Error::Api(status)) if codes.contains(&status.code))
}

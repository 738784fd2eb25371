//! Promise: one object's failure, panic or slowness does not affect others; reconciles in flight at the end are
//! finished; nothing starts before its caches are synced.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use muster_apiserver::ApiServer;
use muster_controllers::{
    reconcile::{Context, Runner},
    runtime::{Action, Clock, Index, Key, Retry, Retryable},
};
use muster_sync::source::MemorySource;
use parking_lot::Mutex;
use serde_json::json;
use thiserror::Error;
use tokio::time::Instant;

const NS: &str = "default";

#[derive(Debug, Error)]
#[error("as the test wants it")]
struct Failed;

impl Retryable for Failed {
    fn retry(&self) -> Retry {
        Retry::Soon
    }
}

/// The recorded reconciles: object and time.
#[derive(Default)]
struct Log(Mutex<Vec<(String, Duration)>>);

impl Log {
    fn of(&self, name: &str) -> Vec<Duration> {
        self.0
            .lock()
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, at)| *at)
            .collect()
    }
}

fn context(api: &ApiServer) -> Context {
    let source = Arc::new(MemorySource::new(Clock::system()));
    let connect = Arc::new(|_: &_| unreachable!("no cluster is connected to here"));
    crate::context::context(api.client(), NS, Clock::system(), source, connect)
}

async fn create(api: &ApiServer, name: &str) {
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    config_maps(api)
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

fn config_maps(api: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(api.client(), NS)
}

#[tokio::test(start_paused = true)]
async fn one_objects_failure_is_its_own() {
    let api = ApiServer::in_process().unwrap();
    let context = context(&api);
    for name in ["bad", "panics", "silent", "good"] {
        create(&api, name).await;
    }
    let (log, started) = (Arc::new(Log::default()), Instant::now());
    let runner =
        Runner::<ConfigMap>::new("test", &context).run(Arc::clone(&log), move |object, log| async move {
            let name = object.name_any();
            log.0.lock().push((name.clone(), started.elapsed()));
            match name.as_str() {
                "bad" => Err(Failed),
                "panics" => panic!("as the test wants it"),
                "silent" => std::future::pending().await,
                _ => Ok(Action::requeue(Duration::from_secs(10))),
            }
        });
    let running = tokio::spawn(runner);
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(log.of("good").len(), 60, "each 10 s, whatever the others do");
    assert_eq!(log.of("panics").len(), 2, "left alone for five minutes");
    assert_eq!(log.of("silent").len(), 1);
    let bad = log.of("bad");
    assert!(
        (20..=35).contains(&bad.len()),
        "250 ms, doubling to 30 s: {bad:?}"
    );
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_finished_at_the_end() {
    let api = ApiServer::in_process().unwrap();
    let context = context(&api);
    create(&api, "slow").await;
    let finished = Arc::new(AtomicUsize::new(0));
    let runner = Runner::<ConfigMap>::new("test", &context).run(
        Arc::clone(&finished),
        |object: Arc<ConfigMap>, finished: Arc<AtomicUsize>| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            finished.fetch_add(usize::from(object.name_any() == "slow"), Ordering::Relaxed);
            Ok::<_, Failed>(Action::requeue(Duration::from_secs(1)))
        },
    );
    let running = tokio::spawn(runner);
    tokio::time::sleep(Duration::from_secs(5)).await;
    context.shutdown.cancel();
    let started = Instant::now();
    running.await.unwrap();
    assert!(started.elapsed() <= Duration::from_secs(6));
    assert_eq!(
        finished.load(Ordering::Relaxed),
        1,
        "it was finished, and none was begun after"
    );
}

#[tokio::test(start_paused = true)]
async fn rows_come_first_and_then_wake_old_and_new_targets() {
    let api = ApiServer::in_process().unwrap();
    let context = context(&api);
    let secrets: Api<Secret> = Api::namespaced(api.client(), NS);
    for name in ["x", "y"] {
        create(&api, name).await;
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("row".to_owned()),
            labels: Some(BTreeMap::from([("for".to_owned(), "x".to_owned())])),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let index = Arc::new(Index::new(
        |secret: &Secret| secret.labels().get("for").cloned(),
        |key, target: &String| vec![Key::new(key.namespace.clone(), target.clone())],
    ));
    let reconciled: Arc<Mutex<Vec<(String, usize)>>> = Arc::default();
    let (rows, log) = (Arc::clone(&index), Arc::clone(&reconciled));
    let runner = Runner::<ConfigMap>::new("test", &context).rows(index).run(
        log,
        move |object, log: Arc<Mutex<Vec<_>>>| {
            let rows = rows.about(&Key::of(&*object)).len();
            async move {
                log.lock().push((object.name_any(), rows));
                Ok::<_, Failed>(Action::await_change())
            }
        },
    );
    let running = tokio::spawn(runner);
    let take = || async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut reconciled = std::mem::take(&mut *reconciled.lock());
        reconciled.retain(|(name, _)| name == "x" || name == "y");
        reconciled.sort();
        reconciled.dedup();
        reconciled
    };
    let row = |name: &str, rows| (name.to_owned(), rows);
    let last = take().await;
    assert!(last.contains(&row("x", 1)), "{last:?}");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"for": "y"}}}));
    secrets
        .patch("row", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(
        take().await,
        [row("x", 0), row("y", 1)],
        "previous and new holder"
    );
    secrets.delete("row", &DeleteParams::default()).await.unwrap();
    assert_eq!(take().await, [row("y", 0)]);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"of": "no interest"}}}));
    assert!(
        secrets
            .patch("row", &PatchParams::default(), &patch)
            .await
            .is_err()
    );
    assert_eq!(take().await, []);
    running.abort();
}

//! Fault rules: each has its effect, on the matching requests, the given number of times.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use muster_apiserver::{ApiServer, Verb};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn maps(api: &ApiServer, client: &str) -> Api<ConfigMap> {
    Api::default_namespaced(api.client_as(client))
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn error_responses_have_no_effect_and_affect_only_matching_requests() {
    for (failure, expect) in [
        (Failure::Unauthorized, 401),
        (Failure::Forbidden, 403),
        (Failure::Conflict, 409),
        (Failure::Expired, 410),
        (Failure::Internal, 500),
    ] {
        let api = ApiServer::in_process().unwrap();
        let creates = Match {
            verbs: vec![Verb::Create],
            ..Match::client("victim")
        };
        api.faults().add(Rule::times(creates, Fault::Status(failure), 1));
        let revision = api.revision();
        let refused = maps(&api, "victim")
            .create(&PostParams::default(), &config_map("a"))
            .await
            .unwrap_err();
        assert_eq!((code(refused), api.revision()), (expect, revision));
        maps(&api, "other")
            .create(&PostParams::default(), &config_map("b"))
            .await
            .unwrap();
        maps(&api, "victim")
            .create(&PostParams::default(), &config_map("a"))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_response_comes_after_the_write() {
    let api = ApiServer::in_process().unwrap();
    api.faults()
        .add(Rule::times(Match::client("victim"), Fault::DropResponse, 1));
    let dropped = maps(&api, "victim")
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap_err();
    assert_eq!(code(dropped), 0, "no answer");
    assert!(maps(&api, "other").get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_comes_before_the_write_and_can_be_lifted() {
    let api = ApiServer::in_process().unwrap();
    let rule = api.faults().add(Rule::always(Match::default(), Fault::Refuse));
    assert_eq!(
        code(
            maps(&api, "a")
                .create(&PostParams::default(), &config_map("a"))
                .await
                .unwrap_err()
        ),
        0
    );
    api.faults().remove(rule);
    assert!(maps(&api, "a").get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_virtual_time() {
    let api = ApiServer::in_process().unwrap();
    api.faults().add(Rule::always(
        Match::default(),
        Fault::Delay(Duration::from_secs(7)),
    ));
    let start = tokio::time::Instant::now();
    maps(&api, "a").list(&ListParams::default()).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(7) && start.elapsed() < Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn open_watches_can_be_closed() {
    let api = ApiServer::in_process().unwrap();
    let (one, other) = (maps(&api, "one"), maps(&api, "other"));
    let version = api.revision().to_string();
    let mut closed = Box::pin(one.watch(&WatchParams::default(), &version).await.unwrap());
    let mut open = Box::pin(other.watch(&WatchParams::default(), &version).await.unwrap());
    let close = async {
        tokio::task::yield_now().await;
        api.faults().close_watches(Match::client("one"));
    };
    let (ended, ()) = tokio::join!(closed.try_next(), close);
    assert!(ended.unwrap().is_none());
    other
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(open.try_next().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn compaction_ends_watches_that_start_before_it() {
    let api = ApiServer::in_process().unwrap();
    let maps = maps(&api, "a");
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let old = api.revision() - 1;
    api.compact();
    let mut events = Box::pin(
        maps.watch(&WatchParams::default(), &old.to_string())
            .await
            .unwrap(),
    );
    let event = events.try_next().await.unwrap().unwrap();
    assert!(matches!(event, kube::api::WatchEvent::Error(status) if status.code == 410));
}

/// A real server compacts every five minutes, so no contract case can show it.
#[tokio::test(start_paused = true)]
async fn compaction_ends_exact_lists_of_before_with_code_410() {
    let api = ApiServer::in_process().unwrap();
    let maps = maps(&api, "a");
    let created = async |name: &str| {
        maps.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap()
    };
    let first = created("a").await.metadata.resource_version.unwrap();
    created("b").await;
    let past = ListParams::default()
        .at(&first)
        .matching(kube::api::VersionMatch::Exact);
    let then = maps.list(&past).await.unwrap();
    assert!(
        then.items
            .iter()
            .all(|map| map.metadata.name.as_deref() != Some("b"))
    );
    api.compact();
    let refusal = maps.list(&past).await.unwrap_err();
    assert!(
        matches!(&refusal, kube::Error::Api(status) if status.code == 410 && status.reason == "Expired"),
        "{refusal}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_event_log_has_every_version_with_its_instant() {
    let api = ApiServer::builder().event_log(true).seed(1).in_process().unwrap();
    let start = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    maps(&api, "a")
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let events = api.recorder().events();
    let last = events.last().unwrap();
    assert_eq!(last.object()["metadata"]["name"], "a");
    assert_eq!((last.at - start).as_secs(), 5);
    assert_eq!(last.revision(), api.revision());
}

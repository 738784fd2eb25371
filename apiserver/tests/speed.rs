//! Performance of the server in process. Measured and printed, not asserted: run it with `--release -- --ignored
//! --nocapture`.

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

use std::time::Instant;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use muster_apiserver::ApiServer;
use serde_json::json;

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v".repeat(500)}})).unwrap()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn writes_lists_and_fan_out() {
    let api = ApiServer::builder().log_limit(0).in_process().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let start = Instant::now();
    let count = 5_000;
    for index in 0..count {
        maps.create(&PostParams::default(), &map(&format!("m{index}")))
            .await
            .unwrap();
    }
    let per_second = f64::from(count) / start.elapsed().as_secs_f64();
    println!("creates per second: {per_second:.0}");
    let start = Instant::now();
    maps.list(&ListParams::default()).await.unwrap();
    println!("list of {count}: {:?}", start.elapsed());
    let version = api.revision().to_string();
    let mut watches = Vec::new();
    for _ in 0..1_000 {
        watches.push(Box::pin(
            maps.watch(&WatchParams::default(), &version).await.unwrap(),
        ));
    }
    let start = Instant::now();
    maps.create(&PostParams::default(), &map("last")).await.unwrap();
    for watch in &mut watches {
        watch.try_next().await.unwrap().unwrap();
    }
    println!(
        "fan-out of one write to 1000 watches, decoded: {:?}",
        start.elapsed()
    );
    let start = Instant::now();
    let servers: Vec<ApiServer> = (0..100).map(|_| ApiServer::in_process().unwrap()).collect();
    println!("start of {} servers: {:?}", servers.len(), start.elapsed());
}

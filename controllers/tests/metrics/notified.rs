//! A complete process with a receiver: it is notified of a rollout from start to end, and that is counted.

use std::{sync::Arc, time::Duration};

use muster_controllers::notify::Config;
use tempfile::TempDir;

use super::{host::Host, scrape::Bed};

#[tokio::test]
async fn a_rollout_is_notified_and_counted() {
    let host = Host::new().await;
    let text = format!(
        "receivers: [{{name: hook, kind: webhook, url: 'http://{}/hook', phases: [Rolling, Good]}}]",
        host.address
    );
    let directory = TempDir::new().unwrap();
    let config = Config::parse(&text, directory.path()).unwrap();
    let bed = Bed::notifying(Some(&Arc::new(config)));
    bed.enrol("eu-1").await;
    bed.give_kubeconfig("eu-1").await;
    bed.create_module().await;
    host.until_last("/hook", |last| last["phase"] == "Good").await;
    let requests = host.received_requests("/hook");
    let phases: Vec<(&str, u64)> = requests
        .iter()
        .map(|heard| {
            (
                heard.body["phase"].as_str().unwrap(),
                heard.body["sequence"].as_u64().unwrap(),
            )
        })
        .collect();
    // A rollout over one cluster may finish before its start is notified.
    assert!(
        phases == [("Rolling", 1), ("Good", 2)] || phases == [("Good", 1)],
        "{phases:?}"
    );
    assert_eq!(requests[0].body["module"]["name"], "base");
    assert_eq!(requests.last().unwrap().body["clusters"]["updated"], 1);
    let line = format!(
        "muster_notifications_total{{receiver=\"hook\",outcome=\"sent\"}} {}",
        requests.len()
    );
    // It is counted when the receiver has responded.
    for _ in 0..1_000 {
        if bed.scrape("controller").contains(&line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{line}\n{}", bed.scrape("controller"));
}

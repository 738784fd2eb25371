//! When things are done: intervals and retries with their jitter, time limits, requests.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Bed, URL, config, config_yaml, deployment, deployment_yaml, message};

/// The time between one fetch of the source and the next, `count` times.
async fn gaps(bed: &Bed, count: usize) -> Vec<Duration> {
    let mut gaps = Vec::new();
    let (mut reads, mut since) = (bed.source.counts(URL).reads, Instant::now());
    while gaps.len() <= count {
        bed.pass(Duration::from_millis(100)).await;
        let now = bed.source.counts(URL).reads;
        if now > reads {
            gaps.push(since.elapsed());
            (reads, since) = (now, Instant::now());
        }
    }
    // The first one started somewhere in between.
    gaps.split_off(1)
}

fn near(gap: Duration, seconds: f64) -> bool {
    (seconds * 0.95 - 0.5..=seconds * 1.05 + 0.5).contains(&gap.as_secs_f64())
}

#[tokio::test(start_paused = true)]
async fn everything_is_reconciled_each_interval_with_jitter() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({"interval": "10m"})).await;
    bed.until_at("app", &commit).await;
    let gaps = gaps(&bed, 12).await;
    assert!(gaps.iter().all(|gap| near(*gap, 600.0)), "{gaps:?}");
    let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
    let spread = most.saturating_sub(*least);
    assert!(
        spread > Duration::from_secs(10),
        "a fleet would act in step: {gaps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_at_the_retry_interval_or_else_the_interval() {
    for (extra, seconds) in [
        (json!({"interval": "10m", "retryInterval": "2m"}), 120.0),
        (json!({"interval": "4m", "retryInterval": null}), 240.0),
    ] {
        let bed = Bed::new();
        bed.commit(&[("app/a.yaml", "a: [b")]);
        bed.deploy(extra).await;
        bed.until_ready("app", "False BuildFailed").await;
        let gaps = gaps(&bed, 4).await;
        assert!(gaps.iter().all(|gap| near(*gap, seconds)), "{gaps:?}");
    }
}

/// A failure that is likely to be transient, such as an overload, is retried sooner than one that only a user can fix.
#[tokio::test(start_paused = true)]
async fn an_overload_is_tried_again_soon() {
    let bed = Bed::new();
    let applying = Match {
        verbs: vec![Verb::Patch],
        path: Some("configmaps/a".into()),
        ..Match::default()
    };
    bed.api
        .faults()
        .add(Rule::times(applying, Fault::Status(Failure::Unavailable), 2));
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({"retryInterval": "1h"})).await;
    bed.until_ready("app", "False ReconciliationFailed").await;
    let started = Instant::now();
    bed.until_at("app", &commit).await;
    assert!(
        started.elapsed() <= Duration::from_secs(22),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn applying_takes_no_longer_than_its_timeout() {
    let bed = Bed::new();
    let applying = Match {
        verbs: vec![Verb::Patch],
        path: Some("configmaps/".into()),
        ..Match::default()
    };
    // Each call ends within its own deadline; many of them together do not.
    bed.api
        .faults()
        .add(Rule::always(applying, Fault::Delay(Duration::from_secs(25))));
    let files: Vec<(String, String)> = (0..64)
        .map(|n| (format!("app/{n}.yaml"), config_yaml(&format!("a{n}"), "x")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    bed.commit(&files);
    bed.deploy(json!({"timeout": "1m"})).await;
    let started = Instant::now();
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "applying took longer than 60s: context deadline exceeded"
    );
    assert!(
        started.elapsed() <= Duration::from_secs(64),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn health_is_waited_for_no_longer_than_the_timeout() {
    let bed = Bed::new();
    bed.commit(&[("app/d.yaml", &deployment_yaml("d", "nginx"))]);
    bed.deploy(json!({"timeout": "90s"})).await;
    bed.until(&deployment("d"), |_| true).await;
    let started = Instant::now();
    let object = bed.until_ready("app", "False HealthCheckFailed").await;
    assert!(message(&object, "Ready").starts_with("health check failed after 1m30s: timeout waiting for: "));
    let took = started.elapsed();
    assert!((88..=96).contains(&took.as_secs()), "{took:?}");
}

/// A request ends every wait: for an interval, for a retry, for a health check.
#[tokio::test(start_paused = true)]
async fn a_request_cuts_every_wait_short() {
    let bed = Bed::new();
    bed.commit(&[
        ("good/a.yaml", &config_yaml("a", "x")),
        ("broken/b.yaml", "a: [b"),
        ("ill/d.yaml", &deployment_yaml("d", "nginx")),
    ]);
    bed.repository("src", json!({"interval": "24h"})).await;
    for (name, outcome) in [
        ("good", "True ReconciliationSucceeded"),
        ("broken", "False BuildFailed"),
        ("ill", "Unknown Progressing"),
    ] {
        bed.kustomization(
            name,
            json!({"interval": "24h", "retryInterval": "24h", "timeout": "20h"}),
        )
        .await;
        bed.until_ready(name, outcome).await;
        bed.pass(Duration::from_secs(10)).await;
        let reads = bed.source.counts(URL).reads;
        bed.pass(Duration::from_secs(600)).await;
        assert_eq!(bed.source.counts(URL).reads, reads, "{name} is at rest");
        bed.request(name, "now").await;
        bed.pass(Duration::from_secs(1)).await;
        assert_eq!(bed.source.counts(URL).reads, reads + 1, "{name} was asked for");
    }
}

/// While suspended it does nothing, and reports nothing; afterwards it continues at once.
#[tokio::test(start_paused = true)]
async fn a_suspended_one_rests_and_then_goes_on() {
    let bed = Bed::new();
    let commit = bed.commit(&[("app/a.yaml", &config_yaml("a", "one"))]);
    bed.deploy(json!({})).await;
    bed.until_at("app", &commit).await;
    let path = crate::support::kustomization("app");
    bed.edit(&path, json!({"spec": {"suspend": true, "path": "nowhere"}}))
        .await;
    let before = bed.read(&path).await.unwrap()["status"].clone();
    let deployed = bed.deployed().await;
    bed.commit(&[("app/b.yaml", &config_yaml("b", "two"))]);
    bed.pass(Duration::from_secs(7_200)).await;
    assert_eq!(bed.read(&path).await.unwrap()["status"], before);
    assert_eq!(bed.deployed().await, deployed);
    bed.edit(&path, json!({"spec": {"suspend": null, "path": "app"}}))
        .await;
    let started = Instant::now();
    bed.until(&config("b"), |object: &Value| object["data"]["key"] == "two")
        .await;
    assert!(
        started.elapsed() <= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

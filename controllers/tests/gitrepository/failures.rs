//! A repository that cannot be fetched: what is kept, what is reported, and when it is retried.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use muster_apiserver::{
    Verb,
    fault::{Fault as ApiFault, Match, Rule},
};
use muster_controllers::reconcile::Options;
use muster_sync::source::{
    CommitId, Fault, Fetched, Files, MemorySource, Remote, Resolved, Source, SourceError, Want,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Bed, URL, message, ready, repository};

/// A source that records requests and their times.
struct Noted {
    inner: MemorySource,
    notes: Arc<Mutex<Vec<(Instant, Remote)>>>,
}

#[async_trait]
impl Source for Noted {
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError> {
        self.inner.resolve(remote, want).await
    }

    async fn fetch(&self, remote: &Remote, want: &Want) -> Result<Fetched, SourceError> {
        self.notes.lock().push((Instant::now(), remote.clone()));
        self.inner.fetch(remote, want).await
    }

    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError> {
        self.inner.read(remote, commit, path).await
    }

    async fn retain(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError> {
        self.inner.retain(named).await
    }
}

type Notes = Arc<Mutex<Vec<(Instant, Remote)>>>;

fn noted() -> (Bed, Notes) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let bed = Bed::with(|inner| {
        Arc::new(Noted {
            inner,
            notes: Arc::clone(&notes),
        })
    });
    (bed, notes)
}

fn unreachable() -> SourceError {
    SourceError::Unreachable {
        url: URL.into(),
        why: "connection refused".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_good_revision_is_kept_and_named_with_its_age() {
    let bed = Bed::new();
    let commit = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({})).await;
    let before = bed.until_ready("src", "True Succeeded").await;
    let time = before["status"]["artifact"]["lastUpdateTime"].as_str().unwrap();
    for (error, reason) in [
        (unreachable(), "GitOperationFailed"),
        (
            SourceError::Unauthorized {
                url: URL.into(),
                status: 401,
                given: true,
            },
            "AuthenticationFailed",
        ),
        (
            SourceError::Protocol {
                url: URL.into(),
                why: "early EOF".into(),
            },
            "GitOperationFailed",
        ),
        (
            SourceError::Storage {
                what: "writing a mirror",
                why: "no space left on device".into(),
            },
            "GitOperationFailed",
        ),
    ] {
        bed.source.break_with(URL, Fault::Fail(error.clone()));
        let object = bed.until_ready("src", &format!("False {reason}")).await;
        let object = bed
            .until(&repository("src"), |now| {
                now["metadata"]["uid"] == object["metadata"]["uid"]
                    && message(now, "Ready").starts_with(&error.to_string())
            })
            .await;
        assert_eq!(
            message(&object, "Ready"),
            format!("{error}; the last good revision is main@sha1:{commit} of {time}")
        );
        assert_eq!(object["status"]["artifact"], before["status"]["artifact"]);
        // The old artifact can still be read.
        let files = bed
            .source
            .read(&Remote::new(URL), &commit.parse().unwrap(), "")
            .await
            .unwrap();
        assert_eq!(files.len(), 1);
    }
    bed.source.clear_fault(URL);
    let object = bed.until_ready("src", "True Succeeded").await;
    assert_eq!(object["status"]["artifact"], before["status"]["artifact"]);
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_again_less_and_less_often_and_not_in_step() {
    let (bed, notes) = noted();
    bed.source.break_with(URL, Fault::Fail(unreachable()));
    for name in ["one", "other"] {
        bed.repository(name, json!({"interval": "24h", "ignore": name}))
            .await;
    }
    bed.pass(Duration::from_mins(10)).await;
    let waits = |name: &str| -> Vec<f64> {
        let notes = notes.lock();
        let times: Vec<Instant> = notes
            .iter()
            .filter(|(_, remote)| remote.ignore.as_deref() == Some(name))
            .map(|(at, _)| *at)
            .collect();
        times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .collect()
    };
    let (one, other) = (waits("one"), waits("other"));
    println!("{one:.1?}\n{other:.1?}");
    for waits in [&one, &other] {
        assert!(waits.len() > 10, "{waits:?}");
        for (wait, expect) in waits
            .iter()
            .zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0].into_iter().chain([60.0; 20]))
        {
            assert!((expect * 0.79..expect * 1.21 + 0.1).contains(wait), "{waits:?}");
        }
    }
    assert_ne!(one, other);
}

#[tokio::test(start_paused = true)]
async fn a_spec_change_is_fetched_at_once_despite_the_backoff() {
    let (bed, notes) = noted();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({"interval": "24h", "ref": {"branch": "lost"}}))
        .await;
    bed.pass(Duration::from_hours(1)).await;
    let before = notes.lock().len();
    bed.edit(&repository("src"), json!({"spec": {"ref": {"branch": "main"}}}))
        .await;
    let began = Instant::now();
    bed.until_ready("src", "True Succeeded").await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(notes.lock().len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_has_the_time_and_the_way_in_that_the_spec_names() {
    let (bed, notes) = noted();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.secret(
        "git",
        json!({"username": "ann", "password": "hunter2", "ca.crt": "pem"}),
    )
    .await;
    let fields = json!({"timeout": "20s", "secretRef": {"name": "git"}, "ignore": "/tests/"});
    bed.repository("src", fields).await;
    let object = bed.until_ready("src", "True Succeeded").await;
    let remote = notes.lock()[0].1.clone();
    let credentials = remote.credentials.clone().unwrap();
    assert_eq!(
        (credentials.username.as_deref(), credentials.password.as_deref()),
        (Some("ann"), Some("hunter2"))
    );
    assert_eq!(credentials.ca_crt.as_deref(), Some(&b"pem"[..]));
    assert_eq!(remote.timeout, Some(Duration::from_secs(20)));
    assert_eq!(remote.ignore.as_deref(), Some("/tests/"));
    assert_eq!(object["status"]["observedIgnore"], "/tests/");
    bed.source.break_with(URL, Fault::Hang);
    let began = Instant::now();
    bed.request("src", "now").await;
    let object = bed.until_ready("src", "False GitOperationFailed").await;
    assert!(
        message(&object, "Ready").starts_with(&format!("{URL} did not answer within 20s")),
        "{object:#}"
    );
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    let everything = bed.read(&repository("src")).await.unwrap().to_string();
    assert!(!everything.contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_comes_or_changes_is_noticed_within_a_minute_or_so() {
    let (bed, notes) = noted();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({"interval": "24h", "secretRef": {"name": "git"}}))
        .await;
    let object = bed.until_ready("src", "False AuthenticationFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "Secret fleet/git does not exist; create it, or correct spec.secretRef"
    );
    bed.pass(Duration::from_mins(30)).await;
    assert_eq!(notes.lock().len(), 0, "no request is sent without credentials");
    bed.secret("git", json!({"username": "ann"})).await;
    bed.pass(Duration::from_secs(75)).await;
    let object = bed.read(&repository("src")).await.unwrap();
    assert_eq!(
        message(&object, "Ready"),
        "credentials cannot be used: username and password must both be set"
    );
    bed.edit(
        "/api/v1/namespaces/fleet/secrets/git",
        json!({"stringData": {"password": "hunter2"}}),
    )
    .await;
    let began = Instant::now();
    bed.until_ready("src", "True Succeeded").await;
    assert!(began.elapsed() < Duration::from_secs(75), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_used_where_its_host_is_allowed() {
    let mut bed = Bed::new();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({"proxySecretRef": {"name": "proxy"}}))
        .await;
    let message_of = async |bed: &Bed, wanted: &str| {
        let object = bed.until_ready("src", wanted).await;
        message(&object, "Ready").to_owned()
    };
    assert_eq!(
        message_of(&bed, "False AuthenticationFailed").await,
        "Secret fleet/proxy does not exist; create it, or correct spec.proxySecretRef"
    );
    let secret = json!({"address": "http://proxy.test:3128", "username": "ann", "password": "hunter2"});
    bed.secret("proxy", secret).await;
    assert_eq!(
        message_of(&bed, "False AccessDenied").await,
        "Secret fleet/proxy, which spec.proxySecretRef names: proxy proxy.test:3128 is not allowed; start this process with --proxy-hosts proxy.test:3128"
    );
    let allowed = ["proxy.test:3128".parse().unwrap()];
    bed.context.options = Arc::new(Options {
        proxy_hosts: allowed.into_iter().collect(),
        ..Options::default()
    });
    bed.start();
    bed.until_ready("src", "True Succeeded").await;
    let socks = json!({"stringData": {"address": "socks5://hunter2.test"}});
    bed.edit("/api/v1/namespaces/fleet/secrets/proxy", socks).await;
    bed.request("src", "now").await;
    let text = message_of(&bed, "False AuthenticationFailed").await;
    assert!(
        text.contains(": key \"address\" is not an address of an HTTP proxy"),
        "{text}"
    );
    let everything = bed.read(&repository("src")).await.unwrap().to_string();
    assert!(!everything.contains("hunter2"), "{everything}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_is_let_go() {
    let bed = Bed::new();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({})).await;
    bed.until_ready("src", "True Succeeded").await;
    // The status as Flux leaves it.
    bed.edit(
        &repository("src"),
        json!({"metadata": {"finalizers": ["finalizers.fluxcd.io"]}}),
    )
    .await;
    bed.delete(&repository("src")).await;
    bed.pass(Duration::from_secs(5)).await;
    assert!(bed.read(&repository("src")).await.is_none());
    let fetches = bed.source.counts(URL).fetches;
    bed.pass(Duration::from_hours(1)).await;
    assert_eq!(bed.source.counts(URL).fetches, fetches);
}

#[tokio::test(start_paused = true)]
async fn a_restart_costs_one_fetch_and_no_write() {
    let mut bed = Bed::new();
    bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("src", json!({"interval": "24h"})).await;
    bed.until_ready("src", "True Succeeded").await;
    bed.api.recorder().clear();
    let fetches = bed.source.counts(URL).fetches;
    bed.start();
    bed.pass(Duration::from_mins(10)).await;
    assert_eq!(bed.source.counts(URL).fetches, fetches + 1);
    assert_eq!(bed.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_no_repository_names_is_forgotten_but_never_on_a_list_that_failed() {
    let bed = Bed::new();
    let first = bed.commit(&[("a.yaml", "a: 1\n")]);
    bed.repository("pinned", json!({"ref": {"commit": first}, "interval": "24h"}))
        .await;
    bed.until_ready("pinned", "True Succeeded").await;
    let second = bed.commit(&[("a.yaml", "a: 2\n")]);
    bed.repository("src", json!({})).await;
    bed.until_ready("src", "True Succeeded").await;
    let third = bed.commit(&[("a.yaml", "a: 3\n")]);
    let at = |commit: &str| {
        let revision = format!("main@sha1:{commit}");
        move |object: &Value| object["status"]["artifact"]["revision"] == revision
    };
    bed.until(&repository("src"), at(&third)).await;
    let has = async |commit: &str| {
        let commit = commit.parse().unwrap();
        bed.source.read(&Remote::new(URL), &commit, "").await.is_ok()
    };
    let lists = Match {
        verbs: vec![Verb::List],
        ..Match::client("muster")
    };
    let rule = bed.api.faults().add(Rule::always(lists, ApiFault::Refuse));
    bed.pass(Duration::from_hours(3)).await;
    assert!(has(&second).await, "nothing was forgotten");
    bed.api.faults().remove(rule);
    bed.pass(Duration::from_hours(3)).await;
    assert!(!has(&second).await, "it is unreferenced");
    assert!(has(&first).await && has(&third).await);
    assert_eq!(
        ready(&bed.read(&repository("src")).await.unwrap()),
        "True Succeeded"
    );
}

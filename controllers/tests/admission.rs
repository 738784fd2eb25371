//! Promise: the admission server serves a certificate that API servers trust, across all renewals, and responds within
//! limits.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failed expectation is meant to end the test"
)]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::FutureExt;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, api::PostParams};
use muster_apiserver::ApiServer;
use muster_controllers::{
    admission::{
        bundles,
        certificate::{self, SPREAD, Step, Stored, Subject, next_certificate_step},
        keeper::{Keeper, Storage},
        server::{Answer, Answers, MAX_BODY, Server, Shown, WebhookRequest, certified_key},
    },
    runtime::{Clock, Shutdown},
};
use muster_zones::authority::{INJECT_LABEL, NAMESPACE_LABEL};
use serde_json::json;
use tokio::net::TcpListener;

const NAME: &str = "zones.muster-system.svc";

fn subject(days: u64) -> Subject {
    Subject {
        dns_names: vec![NAME.to_owned()],
        org: "Example".to_owned(),
        expiration: Duration::from_secs(days * 86_400),
    }
}

fn start() -> Timestamp {
    "2026-11-26T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

#[track_caller]
fn replaced(stored: &Stored, subject: &Subject, now: Timestamp) -> Stored {
    match next_certificate_step(stored, subject, now).unwrap() {
        Step::Replace(next) => *next,
        Step::Keep(until) => panic!("kept until {until}"),
    }
}

#[track_caller]
fn kept(stored: &Stored, subject: &Subject, now: Timestamp) -> Timestamp {
    match next_certificate_step(stored, subject, now).unwrap() {
        Step::Keep(until) => until,
        Step::Replace(_) => panic!("replaced"),
    }
}

fn count(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

#[test]
fn a_certificate_is_renewed_in_time_and_a_new_authority_is_published_first() {
    let (subject, now) = (subject(30), start());
    let first = replaced(&Stored::default(), &subject, now);
    assert_eq!(kept(&first, &subject, now), now + days(20));
    // The certificate is renewed, by the same authority.
    let second = replaced(&first, &subject, now + days(20));
    assert_ne!(second.certificate, first.certificate);
    assert_eq!(second.authorities, first.authorities);
    // The authority is renewed: published first, while the certificate stays.
    let mut stored = second;
    let mut at = now + days(20);
    while kept_or_old(&stored, &subject, at) {
        stored = replaced(&stored, &subject, at + days(20));
        at += days(20);
    }
    let at = at + days(20);
    let published = replaced(&stored, &subject, at);
    assert_eq!(published.certificate, stored.certificate);
    assert_eq!(count(&published.authorities), 2);
    let spread = SignedDuration::try_from(SPREAD).unwrap();
    assert_eq!(kept(&published, &subject, at), at + spread);
    // Its certificate is served once all know the authority, and the old authority is removed once all serve the new
    // certificate.
    let signed = replaced(&published, &subject, at + spread);
    assert_ne!(signed.certificate, published.certificate);
    assert_eq!(count(&signed.authorities), 2);
    let alone = replaced(&signed, &subject, at + spread + spread);
    assert_eq!(alone.certificate, signed.certificate);
    assert_eq!(count(&alone.authorities), 1);
    assert!(signed.authorities.starts_with(&alone.authorities));
    kept(&alone, &subject, at + spread + spread);
}

/// Whether in another twenty days only the certificate is renewed.
fn kept_or_old(stored: &Stored, subject: &Subject, at: Timestamp) -> bool {
    let next = replaced(stored, subject, at + days(20));
    next.authorities == stored.authorities
}

#[test]
fn an_unusable_certificate_is_replaced_at_once() {
    let (subject, now) = (subject(30), start());
    let good = replaced(&Stored::default(), &subject, now);
    let other = replaced(&Stored::default(), &subject, now);
    let named = Subject {
        dns_names: vec!["other.svc".to_owned()],
        ..subject.clone()
    };
    for (bad, subject, at) in [
        (
            Stored {
                key: other.key.clone(),
                ..good.clone()
            },
            &subject,
            now,
        ),
        (
            Stored {
                key: "none".to_owned(),
                ..good.clone()
            },
            &subject,
            now,
        ),
        (
            Stored {
                certificate: String::new(),
                ..good.clone()
            },
            &subject,
            now,
        ),
        (
            Stored {
                authorities: String::new(),
                ..good.clone()
            },
            &subject,
            now,
        ),
        (good.clone(), &named, now),
        // The certificate has expired: the process was down.
        (good.clone(), &subject, now + days(400)),
    ] {
        let next = replaced(&bad, subject, at);
        assert_eq!(count(&next.authorities), 1);
        kept(&next, subject, at);
    }
}

/// The Secret of rollout-operator has no key of its authority.
#[test]
fn the_certificate_of_the_original_is_shown_until_another_authority_is_known() {
    let (subject, now) = (subject(30), start());
    let original = Stored {
        authority_key: String::new(),
        ..replaced(&Stored::default(), &subject, now)
    };
    let published = replaced(&original, &subject, now + days(1));
    assert_eq!(published.certificate, original.certificate);
    assert_eq!(published.key, original.key);
    assert!(published.authorities.ends_with(&original.authorities));
}

struct Door {
    address: SocketAddr,
    shown: Shown,
    shutdown: Shutdown,
    ended: tokio::task::JoinHandle<Result<(), rustls::Error>>,
}

impl Door {
    async fn open(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shown, shutdown) = (listener.local_addr().unwrap(), Shown::default(), Shutdown::new());
        let server = Server {
            listener,
            shown: shown.clone(),
            answers,
            deadline: Duration::from_secs(2),
            shutdown: shutdown.clone(),
        };
        Self {
            address,
            shown,
            shutdown,
            ended: tokio::spawn(server.run()),
        }
    }

    /// A client that trusts only these authorities.
    fn client(&self, authorities: &str) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default(); // another test did
        let roots = reqwest::Certificate::from_pem_bundle(authorities.as_bytes()).unwrap();
        reqwest::Client::builder()
            .tls_certs_only(roots)
            .resolve(NAME, self.address)
            .no_proxy()
            .build()
            .unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.address.port())
    }
}

/// Responds with the request.
fn echo() -> Answers {
    Arc::new(|asked: WebhookRequest| {
        let text = format!(
            "{} {} {} {}",
            asked.method,
            asked.path,
            asked.content_type,
            asked.body.len()
        );
        async move { Answer::text(StatusCode::OK, &text) }.boxed()
    })
}

#[tokio::test]
async fn it_answers_and_shows_another_certificate_without_a_connection_that_fails() {
    let (subject, now) = (subject(30), Timestamp::now());
    let first = replaced(&Stored::default(), &subject, now);
    let second = replaced(&Stored::default(), &subject, now);
    let door = Door::open(echo()).await;
    door.shown
        .change(certified_key(&first.certificate, &first.key).unwrap());
    let both = format!("{}{}", first.authorities, second.authorities);
    let client = door.client(&both);
    let ask = || {
        client
            .post(door.url("/admission/a"))
            .header("content-type", "application/json")
            .body("{}")
    };
    let answer = ask().send().await.unwrap().text().await.unwrap();
    assert_eq!(answer, "POST /admission/a application/json 2\n");
    door.shown
        .change(certified_key(&second.certificate, &second.key).unwrap());
    // The existing connection continues; new ones get the new certificate.
    assert_eq!(ask().send().await.unwrap().status(), 200);
    let strict = door.client(&second.authorities);
    assert_eq!(strict.get(door.url("/")).send().await.unwrap().status(), 200);
    let outdated = door.client(&first.authorities);
    assert!(outdated.get(door.url("/")).send().await.is_err());
}

#[tokio::test]
async fn requests_are_bounded() {
    let stored = replaced(&Stored::default(), &subject(30), Timestamp::now());
    let slow: Answers = Arc::new(|asked: WebhookRequest| {
        async move {
            if asked.path == "/slow" {
                std::future::pending::<()>().await;
            }
            Answer::text(StatusCode::OK, "in time")
        }
        .boxed()
    });
    let door = Door::open(slow).await;
    door.shown
        .change(certified_key(&stored.certificate, &stored.key).unwrap());
    let client = door.client(&stored.authorities);
    let large = client
        .post(door.url("/"))
        .body(vec![0_u8; MAX_BODY + 1])
        .send()
        .await
        .unwrap();
    assert_eq!(large.status(), 413);
    let late = client.get(door.url("/slow")).send().await.unwrap();
    assert_eq!(late.status(), 504);
    assert_eq!(client.get(door.url("/")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_is_being_answered_is_finished_at_the_end() {
    let stored = replaced(&Stored::default(), &subject(30), Timestamp::now());
    let (asked, was_asked) = tokio::sync::watch::channel(false);
    let (go, going) = tokio::sync::watch::channel(false);
    let answers: Answers = Arc::new(move |_| {
        let mut going = going.clone();
        asked.send_replace(true);
        async move {
            let _ = going.wait_for(|going| *going).await; // the test ended
            Answer::text(StatusCode::OK, "finished")
        }
        .boxed()
    });
    let door = Door::open(answers).await;
    door.shown
        .change(certified_key(&stored.certificate, &stored.key).unwrap());
    let answer = tokio::spawn(door.client(&stored.authorities).get(door.url("/")).send());
    let mut was_asked = was_asked;
    was_asked.wait_for(|asked| *asked).await.unwrap();
    door.shutdown.cancel();
    go.send_replace(true);
    let answer = answer.await.unwrap().unwrap().text().await.unwrap();
    assert_eq!(answer, "finished\n");
    door.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn two_replicas_show_one_certificate() {
    let api = ApiServer::builder().in_process().unwrap();
    let storage = Storage::Secret {
        namespace: "default".to_owned(),
        name: "certificate".to_owned(),
        subject: subject(30),
    };
    let clock = Clock::system();
    let keeper = || Keeper::new(api.client_as("zones"), clock.clone(), storage.clone());
    let (mut one, _, one_published) = keeper();
    let (mut other, _, other_published) = keeper();
    let (one, other) = tokio::join!(one.turn(), other.turn());
    one.unwrap();
    other.unwrap();
    assert!(!one_published.borrow().is_empty());
    assert_eq!(*one_published.borrow(), *other_published.borrow());
    let secrets: Api<Secret> = Api::namespaced(api.client_as("test"), "default");
    let data = secrets.get("certificate").await.unwrap().data.unwrap();
    assert_eq!(data["ca"].0, one_published.borrow().as_bytes());
    for key in ["cert", "key", "ca-key"] {
        assert!(data[key].0.starts_with(b"-----BEGIN "), "{key}");
    }
}

#[tokio::test]
async fn a_file_with_an_expired_certificate_is_named_and_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let write = |stored: &Stored| {
        std::fs::write(file("tls.crt"), &stored.certificate).unwrap();
        std::fs::write(file("tls.key"), &stored.key).unwrap();
    };
    let of = |now| replaced(&Stored::default(), &subject(30), now);
    let now = Timestamp::now();
    let api = ApiServer::builder().in_process().unwrap();
    let storage = Storage::Files {
        certificate: file("tls.crt"),
        key: file("tls.key"),
    };
    let (mut keeper, shown, _) = Keeper::new(api.client_as("zones"), Clock::system(), storage);
    let expired = of(now - days(31));
    write(&expired);
    let error = keeper.turn().await.unwrap_err().to_string();
    let words = format!(
        "{}: this certificate expired at {}, and API servers refuse it; write a new one to the file",
        file("tls.crt").display(),
        certificate::expires(&expired.certificate).unwrap()
    );
    assert_eq!(error, words);
    assert!(shown.known().now_or_never().is_none(), "it is shown");
    write(&of(now));
    keeper.turn().await.unwrap();
    assert!(shown.known().now_or_never().is_some());
    // The valid certificate is served until a valid one replaces it.
    write(&expired);
    assert_eq!(keeper.turn().await.unwrap_err().to_string(), words);
    assert!(shown.known().now_or_never().is_some());
}

fn webhooks(labels: &serde_json::Value, bundles: &[Option<&str>]) -> ValidatingWebhookConfiguration {
    let webhooks: Vec<_> = bundles
        .iter()
        .map(|bundle| {
            let bundle = bundle.map(|bundle| k8s_openapi::ByteString(bundle.as_bytes().to_vec()));
            json!({
                "name": "a.example.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1/", "caBundle": bundle},
            })
        })
        .collect();
    serde_json::from_value(json!({"metadata": {"name": "hooks", "labels": labels}, "webhooks": webhooks}))
        .unwrap()
}

#[test]
fn only_configurations_that_ask_for_it_get_the_authorities() {
    let labels = json!({INJECT_LABEL: "true", NAMESPACE_LABEL: "zones"});
    let paths = |configuration: &ValidatingWebhookConfiguration, authorities: &str| {
        let patch = bundles::bundle_patch(configuration, "zones", authorities).unwrap_or_default();
        let paths = patch.iter().filter(|entry| entry["op"] == "add");
        let paths: Vec<String> = paths
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect();
        paths.join(" ")
    };
    let path = |index: usize| format!("/webhooks/{index}/clientConfig/caBundle");
    assert_eq!(paths(&webhooks(&labels, &[None]), "ca"), path(0));
    assert_eq!(
        paths(&webhooks(&labels, &[Some("ca"), Some("old")]), "ca"),
        path(1)
    );
    assert_eq!(paths(&webhooks(&labels, &[Some("ca")]), "ca"), "");
    assert_eq!(paths(&webhooks(&labels, &[None]), ""), "", "not known yet");
    for other in [
        json!({INJECT_LABEL: "false", NAMESPACE_LABEL: "zones"}),
        json!({INJECT_LABEL: "true", NAMESPACE_LABEL: "other"}),
        json!({}),
    ] {
        assert_eq!(paths(&webhooks(&other, &[None]), "ca"), "", "{other}");
    }
}

#[tokio::test]
async fn bundles_follow_the_authorities_and_the_configurations() {
    let api = ApiServer::builder().in_process().unwrap();
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api.client_as("test"));
    let create = |name: &str| {
        let labels = json!({INJECT_LABEL: "true", NAMESPACE_LABEL: "zones"});
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "webhooks": [{
                "name": "a.example.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
            }],
        }))
        .unwrap()
    };
    configurations
        .create(&PostParams::default(), &create("before"))
        .await
        .unwrap();
    let (authorities, published) = tokio::sync::watch::channel(String::new());
    let shutdown = Shutdown::new();
    let keeping = tokio::spawn(bundles::keep_ca_bundles::<MutatingWebhookConfiguration>(
        api.client_as("zones"),
        "zones".to_owned(),
        published,
        |_all| {},
        shutdown.clone(),
    ));
    let until = async |name: &str, bundle: &str| {
        let has = async || {
            let live = configurations.get(name).await.unwrap();
            let webhook = live.webhooks.unwrap_or_default().remove(0);
            webhook
                .client_config
                .ca_bundle
                .is_some_and(|found| found.0 == bundle.as_bytes())
        };
        let wait = async {
            while !has().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait)
            .await
            .unwrap_or_else(|_| panic!("{name} has not {bundle}"));
    };
    authorities.send_replace("one".to_owned());
    until("before", "one").await;
    configurations
        .create(&PostParams::default(), &create("after"))
        .await
        .unwrap();
    until("after", "one").await;
    authorities.send_replace("two".to_owned());
    until("before", "two").await;
    until("after", "two").await;
    shutdown.cancel();
    keeping.await.unwrap();
}

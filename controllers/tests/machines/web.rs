//! Promise: updaters are called over HTTPS with their own authorities, at the handlers that they name, within their
//! limits; the file that configures them is parsed strictly.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::FutureExt as _;
use http::StatusCode;
use muster_controllers::{
    admission::server::{Answer, Server, Shown, WebhookRequest, certified_key},
    machines::{
        config,
        updaters::{Call as _, Web},
    },
    runtime::Shutdown,
};
use muster_machines::Hook;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

type Answers = Arc<dyn Fn(&str) -> (StatusCode, String) + Send + Sync>;

/// An updater, and the file that names it.
struct Updater {
    file: String,
    paths: Arc<Mutex<Vec<String>>>,
    _server: AbortOnDropHandle<()>,
}

async fn updater(answers: Answers) -> Updater {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let certificate = Shown::default();
    certificate.change(certified_key(&pem, &made.signing_key.serialize_pem()).unwrap());
    let paths = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&paths);
    let server = Server {
        listener,
        shown: certificate,
        answers: Arc::new(move |request: WebhookRequest| {
            log.lock().push(request.path.clone());
            let (status, text) = answers(&request.path);
            async move {
                Answer {
                    status,
                    content_type: "application/json",
                    body: text.into_bytes(),
                }
            }
            .boxed()
        }),
        deadline: Duration::from_secs(10),
        shutdown: Shutdown::new(),
    };
    let bundle = BASE64_STANDARD.encode(pem);
    Updater {
        file: format!(
            "updaters:\n- {{name: os, clientConfig: {{url: 'https://localhost:{port}/base', caBundle: {bundle}}}}}\n"
        ),
        paths,
        _server: AbortOnDropHandle::new(tokio::spawn(async move { server.run().await.unwrap() })),
    }
}

fn discovery(hook: &str, timeout: u8) -> String {
    let api = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
    let one = |name: &str, hook: &str| json!({"name": name, "requestHook": {"apiVersion": api, "hook": hook}, "timeoutSeconds": timeout});
    json!({"status": "Success", "handlers": [one("update-machine", hook), one("before", "BeforeClusterUpgrade")]}).to_string()
}

async fn called(updater: &Updater, limit: Duration) -> Result<(u16, Value), String> {
    let updaters = config::read(updater.file.as_bytes()).unwrap();
    let called = Web::default()
        .call(&updaters[0], Hook::UpdateMachine, &json!({}), limit)
        .await;
    called.map(|(code, body)| (code, serde_json::from_slice(&body).unwrap_or_default()))
}

#[tokio::test]
async fn at_the_handler_that_it_names() {
    let updater = updater(Arc::new(|path| match path.rsplit('/').next() {
        Some("discovery") => (StatusCode::OK, discovery("UpdateMachine", 10)),
        _ => (StatusCode::OK, json!({"status": "Success"}).to_string()),
    }))
    .await;
    let (code, body) = called(&updater, Duration::from_secs(5)).await.unwrap();
    assert_eq!((code, &body["status"]), (200, &json!("Success")));
    let prefix = "/base/hooks.runtime.cluster.x-k8s.io/v1alpha1";
    assert_eq!(
        *updater.paths.lock(),
        [
            format!("{prefix}/discovery"),
            format!("{prefix}/updatemachine/update-machine")
        ]
    );
}

#[tokio::test]
async fn what_does_not_answer_is_no_answer() {
    let silent = updater(Arc::new(|path| match path.rsplit('/').next() {
        Some("discovery") => (StatusCode::OK, discovery("CanUpdateMachine", 10)),
        _ => (StatusCode::OK, String::new()),
    }))
    .await;
    let error = called(&silent, Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(error, "its discovery names no handler for UpdateMachine");
    let redirecting = updater(Arc::new(|_| (StatusCode::FOUND, String::new()))).await;
    assert_eq!(
        called(&redirecting, Duration::from_secs(5)).await.unwrap_err(),
        "discovery: HTTP 302"
    );
    // Without its authority it gets no request.
    let mut stranger = updater(Arc::new(|_| (StatusCode::OK, String::new()))).await;
    let (before, _) = stranger.file.split_once(", caBundle").unwrap();
    stranger.file = format!("{before}}}}}\n");
    called(&stranger, Duration::from_secs(5)).await.unwrap_err();
    assert!(stranger.paths.lock().is_empty());
}

#[test]
fn the_file_is_read_strictly() {
    for (text, words) in [
        (
            "updaters: [{name: os}]",
            "updaters[0]: missing field `clientConfig`",
        ),
        (
            "updaters: []\nmore: 1",
            "more: unknown field `more`, expected `updaters`",
        ),
        (
            "updaters: [{name: OS, clientConfig: {url: 'https://a'}}]",
            "updater \"OS\": ",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'http://a'}}]",
            "updater \"os\": clientConfig.url \"http://a\" is not https",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a', caBundle: '!'}}]",
            "updater \"os\": clientConfig.caBundle is not base64",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a', caBundle: AAAA}}]",
            "updater \"os\": clientConfig.caBundle has no PEM certificate",
        ),
        (
            "updaters: [{name: os, clientConfig: {}}]",
            "updater \"os\": clientConfig has neither url nor service",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}}, {name: os, clientConfig: {url: 'https://b'}}]",
            "updater \"os\": it is defined twice",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}, deadline: 0s}]",
            "updater \"os\": deadline is 0s: it would fail at once",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}, prepareNode: Drain, drainDeadline: 0s}]",
            "updater \"os\": drainDeadline is 0s: it would fail at once",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}, prepareNode: Cordon, drainDeadline: 1m}]",
            "updater \"os\": drainDeadline has no meaning without prepareNode: Drain",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}, prepareNode: drain}]",
            "updaters[0].prepareNode: unknown variant `drain`",
        ),
        (
            "updaters: [{name: os, clientConfig: {url: 'https://a'}, acknowledgement: maybe}]",
            "updaters[0].acknowledgement: unknown variant `maybe`",
        ),
    ] {
        let error = config::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}

//! Servers that are silent, slow, redirect elsewhere, or send something else: each ends within its limits, with a
//! specific error.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::git_server::{Door, GitServer, WebServer};
use crate::support::repo::Repo;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::{IntoResponse as _, Redirect};
use futures::StreamExt as _;
use muster_sync::source::{
    Clock, Credentials, GitOptions, GitSource, Limits, Remote, Source, SourceError, Want,
};

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";

/// Long enough for a busy machine to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Resolves a tag, within some time and a few kilobytes.
async fn fetch_tag(remote: &Remote, timeout: Duration) -> SourceError {
    let data = tempfile::tempdir().unwrap();
    let limits = Limits {
        timeout,
        bytes: 4096,
        ..Limits::default()
    };
    let options = GitOptions {
        data_dir: data.path().to_owned(),
        allow_insecure: true,
        limits,
    };
    let source = GitSource::new(options, Clock::system()).unwrap();
    let began = std::time::Instant::now();
    let error = source
        .fetch(remote, &Want::Tag("v1".to_owned()))
        .await
        .unwrap_err();
    assert!(
        began.elapsed() < timeout + Duration::from_secs(10),
        "ended after {:?}",
        began.elapsed()
    );
    error
}

async fn ask_router(router: Router) -> (WebServer, SourceError) {
    ask_router_within(router, PATIENCE).await
}

async fn ask_router_within(router: Router, timeout: Duration) -> (WebServer, SourceError) {
    let server = WebServer::start(router, Door::Plain).await;
    let error = fetch_tag(&Remote::new(format!("{}/repo", server.origin())), timeout).await;
    (server, error)
}

fn advertisement(body: Body) -> Response<Body> {
    Response::builder()
        .header("content-type", ADVERTISEMENT)
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_silent_server_ends_at_the_deadline() {
    let (_server, error) = ask_router_within(
        Router::new().fallback(std::future::pending::<StatusCode>),
        Duration::from_millis(500),
    )
    .await;
    assert!(matches!(error, SourceError::Timeout { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("did not answer within 0.5s (waiting for an answer); see --git-timeout"),
        "{error}"
    );
}

#[tokio::test]
async fn a_dripping_server_does_not_extend_the_deadline() {
    let drip = || async {
        let drops = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, Infallible>(Bytes::from_static(b"0")), ()))
        });
        // A packet of 4096 bytes, one byte every 20 ms.
        let start = futures::stream::iter([Ok(Bytes::from_static(b"1000# service=git-upload-pack\n"))]);
        advertisement(Body::from_stream(start.chain(drops)))
    };
    let (_server, error) = ask_router_within(Router::new().fallback(drip), Duration::from_millis(500)).await;
    assert!(matches!(error, SourceError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn an_endless_answer_ends_at_the_limit() {
    let flood = || async {
        let line = b"003f0123456789012345678901234567890123456789 refs/heads/abcdef\n";
        let lines = futures::stream::repeat(Ok::<_, Infallible>(Bytes::from_static(line)));
        let start = futures::stream::iter([Ok(Bytes::from_static(b"001e# service=git-upload-pack\n0000"))]);
        advertisement(Body::from_stream(start.chain(lines)))
    };
    let (_server, error) = ask_router(Router::new().fallback(flood)).await;
    let message = error.to_string();
    assert!(
        message.contains("is more than the limit of 4096; see --git-max-bytes"),
        "{message}"
    );
}

#[tokio::test]
async fn an_announced_size_is_believed() {
    let large = || async { advertisement(Body::from(vec![b'0'; 5000])) };
    let (_server, error) = ask_router(Router::new().fallback(large)).await;
    assert!(
        matches!(
            error,
            SourceError::LimitExceeded {
                option: "--git-max-bytes",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused_and_gets_no_credentials() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let thief = Router::new().fallback(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async { StatusCode::OK }
    });
    let thief = WebServer::start(thief, Door::Plain).await;
    for target in [
        thief.origin().to_owned(),
        "https://127.0.0.1".to_owned(),
        "http://169.254.169.254".to_owned(),
    ] {
        let to = format!("{target}/repo/info/refs?service=git-upload-pack");
        let server = WebServer::start(
            Router::new().fallback(move || {
                let to = to.clone();
                async move { Redirect::temporary(&to) }
            }),
            Door::Plain,
        )
        .await;
        let credentials = Credentials {
            bearer_token: Some("hunter2".to_owned()),
            ..Credentials::default()
        };
        let remote = Remote::new(format!("{}/repo", server.origin())).with_credentials(credentials);
        let error = fetch_tag(&remote, PATIENCE).await;
        assert_eq!(
            error,
            SourceError::RedirectRefused {
                url: remote.url,
                to: target
            }
        );
    }
    assert_eq!(
        requests.load(Ordering::SeqCst),
        0,
        "the other host was never asked"
    );
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a: 1\n")]);
    repo.git(&["tag", "v1"]);
    let git = GitServer::start(repo.path(), Door::Plain, None).await;
    let moved = git.moved("old", ".git");
    let data = tempfile::tempdir().unwrap();
    let options = GitOptions {
        data_dir: data.path().to_owned(),
        allow_insecure: true,
        limits: Limits::default(),
    };
    let source = GitSource::new(options, Clock::system()).unwrap();
    source
        .fetch(&Remote::new(moved), &Want::Tag("v1".to_owned()))
        .await
        .unwrap();
    let paths: Vec<String> = git
        .recorded_requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(
        paths.last().map(String::as_str),
        Some("/.git/git-upload-pack"),
        "{paths:?}"
    );
}

#[tokio::test]
async fn redirects_that_do_not_end_are_left() {
    let again = || async { Redirect::temporary("/repo/info/refs?service=git-upload-pack") };
    let (_server, error) = ask_router(Router::new().fallback(again)).await;
    assert!(matches!(error, SourceError::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn answers_that_are_not_git_are_named() {
    let check = async |status: u16, content_type: &'static str, body: &'static [u8], expect: &str| {
        let answer = move || async move {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", content_type.parse().unwrap());
            (StatusCode::from_u16(status).unwrap(), headers, body).into_response()
        };
        let (_server, error) = ask_router(Router::new().fallback(answer)).await;
        assert!(error.to_string().contains(expect), "{status}: {error}");
        error
    };
    check(
        200,
        "text/html",
        b"<html>",
        "it answered with content-type text/html; is this the address of a repository?",
    )
    .await;
    check(200, ADVERTISEMENT, b"<html>", "does not speak git as expected").await;
    check(200, ADVERTISEMENT, b"", "does not speak git as expected").await;
    check(
        200,
        ADVERTISEMENT,
        b"001e# service=git-upload-pack\n0000",
        "does not speak git as expected",
    )
    .await;
    check(
        404,
        "text/plain",
        b"",
        "was not found: it is not a git repository",
    )
    .await;
    check(403, "text/plain", b"", "answered 403: credentials are needed").await;
    check(
        418,
        "text/plain",
        b"",
        "does not speak git as expected: it answered 418",
    )
    .await;
    assert!(
        check(503, "text/plain", b"", "cannot be reached: it answered 503")
            .await
            .is_transient()
    );
    assert!(
        check(429, "text/plain", b"", "cannot be reached: it answered 429")
            .await
            .is_transient()
    );
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let error = fetch_tag(&Remote::new(format!("http://127.0.0.1:{port}/repo")), PATIENCE).await;
    assert!(
        matches!(error, SourceError::Unreachable { .. }) && error.is_transient(),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_that_brings_credentials_is_refused() {
    let server = WebServer::start(
        Router::new().fallback(|headers: HeaderMap| async move {
            let host = headers.get("host").unwrap().to_str().unwrap();
            Redirect::temporary(&format!(
                "http://mallory:pw@{host}/repo/info/refs?service=git-upload-pack"
            ))
        }),
        Door::Plain,
    )
    .await;
    let remote = Remote::new(format!("{}/repo", server.origin()));
    let error = fetch_tag(&remote, PATIENCE).await;
    assert_eq!(
        error,
        SourceError::RedirectRefused {
            url: remote.url,
            to: server.origin().to_owned()
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_host_delays_no_other() {
    let silent = WebServer::start(
        Router::new().fallback(std::future::pending::<StatusCode>),
        Door::Plain,
    )
    .await;
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a: 1\n")]);
    let git = GitServer::start(repo.path(), Door::Plain, None).await;
    let data = tempfile::tempdir().unwrap();
    let options = GitOptions {
        data_dir: data.path().to_owned(),
        allow_insecure: true,
        limits: Limits::default(),
    };
    let source = Arc::new(GitSource::new(options, Clock::system()).unwrap());
    let main = || Want::Branch("main".to_owned());
    let hanging: Vec<_> = (0..20)
        .map(|number| {
            let (source, remote) = (
                Arc::clone(&source),
                Remote {
                    timeout: Some(Duration::from_secs(5)),
                    ..Remote::new(format!("{}/{number}", silent.origin()))
                },
            );
            tokio::spawn(async move { source.fetch(&remote, &main()).await })
        })
        .collect();
    let began = std::time::Instant::now();
    source
        .fetch(&Remote::new(git.url(".git")), &main())
        .await
        .unwrap();
    assert!(
        hanging.iter().all(|fetch| !fetch.is_finished()),
        "it came while the others hang, after {:?}",
        began.elapsed()
    );
    for fetch in hanging {
        let error = fetch.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("did not answer within 5s"), "{error}");
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

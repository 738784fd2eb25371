//! Laws of clients: every accepted kubeconfig yields a client, and that client sends exactly what the kubeconfig
//! contains.

#![expect(clippy::panic, reason = "a law that does not hold ends the run")]

use futures::FutureExt as _;
use http::{HeaderValue, Request, Response, Uri, header::AUTHORIZATION, uri::PathAndQuery};
use kube::client::{Body, ConfigExt as _};
use muster_controllers::registry::{
    Access, configuration, connect_over_network,
    kubeconfig::{self, Secret},
};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

/// A certificate authority that has signed nothing: most inputs are not certificates, and are rejected before anything
/// else is tried.
const AUTHORITY: &[u8] = b"\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUG0PyPzTH+yQk/IwXwlg1XNeDNVMwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbGF3czAgFw0yNjExMjUxMzU3MTRaGA8yMTI2MTEwMTEzNTcx
NFowDzENMAsGA1UEAwwEbGF3czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIG1
wYvLZrnyZzkb7A2XLr1m8JytTf6PpYrAucDs4tQQuAYyr2AAk3GLyDdhB/xzjdFN
le5oOHviqMA1GkJjXKSjUzBRMB0GA1UdDgQWBBTo+E1xx4BoWb9AQToGZ7r/Fnp5
rjAfBgNVHSMEGDAWgBTo+E1xx4BoWb9AQToGZ7r/Fnp5rjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQDSdiE4D7cEInmUhAjnREydmWg+Lca5jK75
3pjSkKq6OwIgUJXZTxN1D4qjqXssf4EmRw1y97GMIWIq/ZHf+0deEg0=
-----END CERTIFICATE-----
";

/// A path of realistic maximum length: a kind with a long name, and a selector.
const PATH_MAX: usize = 32 * 1024;

/// The laws, for the bytes of a kubeconfig.
pub fn check(bytes: &[u8]) {
    let Ok(access) = kubeconfig::parse_kubeconfig(bytes) else {
        return;
    };
    // Invalid certificates are rejected, without a panic.
    drop(in_runtime(|| connect_over_network(&access).map(drop)));
    let access = Access {
        certificate_authority: AUTHORITY.to_vec(),
        client_certificate: None,
        ..access
    };
    let made = in_runtime(|| connect_over_network(&access).map(drop));
    assert!(made.is_ok(), "accepted, and no client can be created: {made:?}");
    for path in ["/api".to_owned(), format!("/{}?a=b", "x".repeat(PATH_MAX))] {
        let sent = in_runtime(|| sent(&access, &path));
        assert_is(&access, &path, &sent);
    }
}

/// A client spawns a task and so needs a runtime; no I/O drivers, because nothing connects.
fn in_runtime<T>(work: impl FnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let _inside = runtime.enter();
    work()
}

/// A request for a path, as it would be sent.
fn sent(access: &Access, path: &str) -> Request<()> {
    let config = configuration(access).unwrap_or_else(|error| panic!("{error}"));
    let auth = config.auth_layer().unwrap_or_else(|error| panic!("{error}"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let last = service_fn(move |request: Request<Body>| {
        let kept = sender.send(request.map(drop));
        async move {
            kept?;
            Ok::<_, BoxError>(Response::new(Body::empty()))
        }
    });
    let request = Request::get(path).body(Body::empty());
    let request = request.unwrap_or_else(|error| panic!("{error}"));
    let last = config.base_uri_layer().layer(last);
    match auth {
        Some(auth) => drop(auth.layer(last).oneshot(request).now_or_never()),
        None => drop(last.oneshot(request).now_or_never()),
    }
    receiver
        .try_recv()
        .unwrap_or_else(|_nothing| panic!("nothing is sent"))
}

fn assert_is(access: &Access, path: &str, sent: &Request<()>) {
    let server: Uri = access.server.parse().unwrap_or_else(|error| panic!("{error}"));
    let (prefix, uri) = (server.path().trim_end_matches('/'), sent.uri());
    assert_eq!(uri.authority(), server.authority());
    assert_eq!(uri.scheme_str(), Some("https"));
    assert_eq!(
        uri.path_and_query().map(PathAndQuery::as_str),
        Some(format!("{prefix}{path}").as_str())
    );
    let token = access.token.as_ref().map(Secret::expose);
    let credential = sent.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    assert_eq!(
        credential,
        token
            .map(|token| format!("Bearer {token}"))
            .as_deref()
            .map(str::as_bytes)
    );
}

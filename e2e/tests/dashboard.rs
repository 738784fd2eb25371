//! Promise: `muster dashboard` shows the state of the API server live, to clients that address this machine, and writes
//! nothing.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use muster_api::{Module, crds};
use muster_apiserver::ApiServer;
use muster_e2e::bed::muster;
use serde_json::{Value, json};

/// Timeout of every wait; a change arrives within two seconds, which is printed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running dashboard.
struct Dashboard {
    child: Child,
    address: String,
}

impl Dashboard {
    fn start(kubeconfig: &Path) -> Self {
        let mut child = Command::new(muster())
            .args([
                "dashboard",
                "--addr",
                "127.0.0.1:0",
                "--dashboard-hosts",
                "fleet.test",
                "-n",
                "default",
            ])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("{line}"));
        let address = rest.trim().trim_end_matches('/').to_owned();
        Self { child, address }
    }

    /// Sends a raw request, and returns the response's status and text. The connection is closed.
    fn send_request(&self, request: &str, host: &str) -> (u16, String) {
        let mut answer = String::new();
        let mut stream = self.open(request, host, "Connection: close\r\n");
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let text = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, text)
    }

    fn open(&self, request: &str, host: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").unwrap();
        stream
    }

    /// Repeats a request until the response is as expected.
    fn until(&self, path: &str, holds: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let (_, text) = self.send_request(&format!("GET {path}"), "localhost");
            if holds(&text) {
                return text;
            }
            assert!(started.elapsed() < PATIENCE, "{path}: {text}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // It may have exited on its own, which a request has shown already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines of a stream until one is as expected.
fn until_line(stream: TcpStream, holds: impl Fn(&str) -> bool) -> String {
    let end = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if holds(&line) {
            end.shutdown(Shutdown::Both).unwrap();
            return line;
        }
    }
    panic!("the stream ended")
}

/// An API server with two Clusters, a module, and its row in one of them.
async fn fleet() -> ApiServer {
    let cluster = |name: &str| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {},
            "metadata": {"name": name, "namespace": "default", "labels": {"env": "prod"}},
        })
    };
    let source = json!({"git": {"url": "https://git.test/fleet", "version": {"tag": "v2"}}});
    let module = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"env": "prod"}}, "sync": {"source": source}},
    });
    let row = json!({"name": "web", "token": 1, "digest": "d", "revision": "r", "source": source});
    let proxy = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "metadata": {"name": "eu-1", "namespace": "default"},
        "spec": {"clusterRef": {"name": "eu-1"}, "syncs": [row]},
    });
    let server = ApiServer::builder()
        .with(crds::management())
        .with([crds::cluster_api()])
        .with([cluster("eu-1"), cluster("eu-2"), module, proxy]);
    server.start().await.unwrap()
}

/// Sets what the module's status reports for eu-1.
async fn write_attention(client: &Client, reason: &str, message: &str) {
    let modules: Api<Module> = Api::namespaced(client.clone(), "default");
    let attention =
        json!([{"cluster": "eu-1", "reason": reason, "since": "2026-01-02T03:04:05Z", "message": message}]);
    let groups = json!([{"reason": reason, "count": 1, "clusters": "eu-1"}, {"reason": "WaitingTurn", "count": 1, "clusters": "eu-2"}]);
    let status = json!({"status": {"attention": attention, "reasons": groups}});
    modules
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_a_status_arrives_in_the_browser() {
    // Only a second call could fail, because the provider is already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = fleet().await;
    let client = api.client_as("somebody");
    write_attention(&client, "Updating", "applying v2").await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    std::fs::write(&kubeconfig, api.kubeconfig().unwrap()).unwrap();
    let dashboard = Dashboard::start(&kubeconfig);

    let page = dashboard.until("/", |page| page.contains("cell:Module:web:eu-1"));
    assert!(page.contains("1 module on 2 clusters: "), "{page}");
    let (status, body) = dashboard.send_request("GET /api/v1/matrix.json", "fleet.test");
    let matrix = Command::new(muster())
        .args(["matrix", "-o", "json", "-n", "default", "--kubeconfig"])
        .arg(&kubeconfig)
        .output()
        .unwrap();
    let expect: Value = serde_json::from_slice(&matrix.stdout).unwrap();
    assert_eq!(
        (status, serde_json::from_str::<Value>(&body).unwrap()),
        (200, expect)
    );

    let stream = dashboard.open("GET /events/", "localhost", "");
    let stream = tokio::task::spawn_blocking(move || {
        let mut first = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            first.read_line(&mut line).unwrap();
        }
        stream
    })
    .await
    .unwrap();
    let written = Instant::now();
    write_attention(
        &client,
        "Failed",
        "Deployment web/web: ImagePullBackOff <script>alert(1)</script>",
    )
    .await;
    let line =
        tokio::task::spawn_blocking(move || until_line(stream, |line| line.contains("cell:Module:web:eu-1")));
    let line = line.await.unwrap();
    println!("a status arrived after {:?}", written.elapsed());
    assert!(
        line.contains("failed") && !line.contains("cell:Module:web:eu-2"),
        "{line}"
    );
    let page = dashboard.until("/module/web/on/eu-1", |page| page.contains("ImagePullBackOff"));
    assert!(!page.contains("<script>alert"), "{page}");

    for (request, host, expect) in [
        ("POST /", "localhost", 405),
        ("DELETE /module/web", "localhost", 405),
        ("GET /", "evil.example", 421),
        ("GET /", "fleet.test", 200),
        ("GET /../../etc/passwd", "localhost", 404),
        ("GET /module/web/../../..", "localhost", 404),
        ("GET /cluster/none", "localhost", 404),
    ] {
        let (status, text) = dashboard.send_request(request, host);
        assert_eq!(status, expect, "{request} {host}: {text}");
    }
    // The dashboard only reads.
    let requests = api.recorder().requests();
    let writes: Vec<String> = requests
        .iter()
        .filter(|request| request.client == "kubernetes-admin" && request.method != "GET")
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    assert_eq!(writes, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_are_bounded() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // as above
    let api = fleet().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    std::fs::write(&kubeconfig, api.kubeconfig().unwrap()).unwrap();
    let dashboard = Dashboard::start(&kubeconfig);
    dashboard.until("/", |page| page.contains("cell:Module:web:eu-1"));
    // Streams up to the limit are kept; every further client must retry later.
    let mut kept: Vec<TcpStream> = Vec::new();
    let mut refused = 0;
    for _ in 0..10_000 {
        let mut stream = dashboard.open("GET /events/activity", "localhost", "");
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        match &head {
            b"HTTP/1.1 200" => kept.push(stream),
            b"HTTP/1.1 503" => {
                let mut rest = String::new();
                stream.read_to_string(&mut rest).unwrap();
                assert!(rest.contains("retry-after: 10"), "{rest}");
                refused += 1;
            }
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!((kept.len(), refused), (256, 10_000 - 256));
    let (status, _) = dashboard.send_request("GET /", "localhost");
    assert_eq!(status, 200, "pages are answered all the same");
    drop(kept);
    let started = Instant::now();
    loop {
        let mut stream = dashboard.open("GET /events/", "localhost", "");
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        if head == *b"HTTP/1.1 200" {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "places come free");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

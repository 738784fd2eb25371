//! The metrics and health endpoint, over a socket: its responses, and which clients it refuses.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use muster_controllers::{health::Health, lease::Leadership, metrics::Metrics};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

async fn open(health: Health) -> (SocketAddr, AbortOnDropHandle<()>) {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = door.local_addr().unwrap();
    (address, AbortOnDropHandle::new(tokio::spawn(health.serve(door))))
}

/// Sends text and reads until the server closes the connection.
async fn say(door: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(door).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // A reset also ends the connection.
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

/// Status and body of a response.
async fn send_request(door: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let answer = say(door, &format!("{method} {path} HTTP/1.1\r\nHost: muster\r\n\r\n")).await;
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, body.to_owned())
}

fn expect(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[tokio::test]
async fn alive_and_ready() {
    let metrics = Metrics::default();
    let health = Health::new(metrics.clone());
    let (door, _open) = open(health.clone()).await;
    assert_eq!(send_request(door, "GET", "/healthz").await, expect(200, "ok\n"));
    assert_eq!(
        send_request(door, "GET", "/readyz").await,
        expect(200, "ok\n"),
        "a standby is ready"
    );
    let (module, agent) = (metrics.controller("Module"), metrics.controller("assemblage"));
    health.acts(None);
    let missing = "not synced yet: assemblage, module\n";
    assert_eq!(send_request(door, "GET", "/readyz").await, expect(503, missing));
    assert_eq!(send_request(door, "GET", "/healthz").await, expect(200, "ok\n"));
    agent.synced();
    module.synced();
    assert_eq!(send_request(door, "GET", "/readyz").await, expect(200, "ok\n"));
}

/// A process that should have ended and has not: the kubelet restarts it.
#[tokio::test]
async fn leading_by_its_own_word_alone() {
    let health = Health::new(Metrics::default());
    let (door, _open) = open(health.clone()).await;
    let ended = |ago| Leadership::until(tokio::time::Instant::now().checked_sub(ago).unwrap());
    health.acts(Some(ended(Duration::from_secs(5))));
    assert_eq!(
        send_request(door, "GET", "/healthz").await.0,
        200,
        "it is given time to end"
    );
    health.acts(Some(ended(Duration::from_secs(25))));
    let why = "the right to act ended 25 s ago, and the process is still running\n";
    assert_eq!(send_request(door, "GET", "/healthz").await, expect(503, why));
    assert_eq!(send_request(door, "GET", "/readyz").await, expect(503, why));
}

#[tokio::test]
async fn what_else_is_asked() {
    let (door, _open) = open(Health::new(Metrics::default())).await;
    let (status, body) = send_request(door, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(body.ends_with("# EOF\n"), "{body}");
    let paths = "available: /metrics, /healthz and /readyz\n";
    assert_eq!(send_request(door, "GET", "/").await, expect(404, paths));
    assert_eq!(
        send_request(door, "GET", "/debug/pprof").await,
        expect(404, paths)
    );
    assert_eq!(
        send_request(door, "POST", "/metrics").await,
        expect(405, "only GET\n")
    );
    assert_eq!(send_request(door, "HEAD", "/healthz").await, expect(200, ""));
    assert!(say(door, "what?\r\n\r\n").await.starts_with("HTTP/1.1 400"));
}

/// Clients that send nothing, or too much, are disconnected; more of them than there are slots delay the others, and do
/// not lock them out.
#[tokio::test]
async fn bad_guests() {
    let (door, _open) = open(Health::new(Metrics::default())).await;
    let started = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(door).await.unwrap());
    }
    let endless = tokio::spawn(say_endlessly(door));
    assert_eq!(send_request(door, "GET", "/healthz").await, expect(200, "ok\n"));
    endless.await.unwrap();
    println!("answered and disconnected after {:?}", started.elapsed());
    let mut byte = [0];
    for stream in &mut silent {
        // Closed or reset: either way no byte arrives.
        let read = stream.read(&mut byte).await.unwrap_or(0);
        assert_eq!(read, 0);
    }
}

/// A header that does not end.
async fn say_endlessly(door: SocketAddr) {
    let mut stream = TcpStream::connect(door).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ").await.unwrap();
    let more = vec![b'x'; 64 * 1024];
    // At most 64 MiB: it must be refused long before.
    for _ in 0..1024 {
        if stream.write_all(&more).await.is_err() {
            return;
        }
    }
    panic!("the server accepts everything");
}

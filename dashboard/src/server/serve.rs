//! Connections: as many as can be, each with deadlines.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tracing::{debug, warn};

/// Connections at once: streams, and browsers that load pages beside. More wait to be accepted.
const CONNECTIONS: usize = 1_024;
/// How long the head of a request may take to come, and how long a connection may rest between two requests.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// Bytes of the head of a request: an address, and what a proxy adds.
const HEAD_BYTES: usize = 32 * 1024;
/// How long a connection may live at all: somebody who reads nothing gives its place back then.
const CONNECTION_DEADLINE: Duration = Duration::from_hours(1);
/// A pause after a connection that could not be accepted, for want of file descriptors for instance.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Answers at a door until it is dropped.
pub async fn serve(door: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed: the only error is not reachable, and would end the bound alone.
        let place = Arc::clone(&free).acquire_owned().await.ok();
        while connections.try_join_next().is_some() {}
        match door.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                connections.spawn(async move {
                    converse(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "a connection to the dashboard could not be accepted");
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router) {
    // Small messages, and each wants to arrive at once. Where that cannot be set they arrive a little later.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_DEADLINE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection to the dashboard failed"),
        Err(_elapsed) => debug!("a connection to the dashboard lived long enough"),
    }
}

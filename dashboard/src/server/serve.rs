//! Connections: limited in number, each with deadlines.

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

/// Maximum number of connections: streams, and browsers that load pages. Further ones wait to be accepted.
const CONNECTIONS: usize = 1_024;
/// How long a request head may take to arrive, and how long a connection may be idle between two requests.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// Maximum bytes of a request head: a URL, and the headers that a proxy adds.
const HEAD_BYTES: usize = 32 * 1024;
/// Maximum lifetime of a connection: a client that reads nothing frees its slot then.
const CONNECTION_DEADLINE: Duration = Duration::from_hours(1);
/// Pause after a failed accept, such as for lack of file descriptors.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Serves connections of a listener until the future is dropped.
pub async fn serve(door: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed, so this cannot fail; an error would only lift the limit.
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
    // Small messages should be sent at once. Without this option they arrive slightly later.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_DEADLINE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection to the dashboard failed"),
        Err(_elapsed) => debug!("a connection to the dashboard reached its maximum lifetime"),
    }
}

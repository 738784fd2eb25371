//! A relay in front of an API server that counts the bytes that pass.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

/// Maximum of bytes per read.
const CHUNK: usize = 16 * 1024;

/// Listens on loopback until it is dropped.
#[derive(Debug)]
pub struct Meter {
    address: String,
    bytes: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Meter {
    /// A relay to `host:port`.
    pub async fn before(server: &str) -> std::io::Result<Self> {
        Self::counting(server, Arc::default()).await
    }

    /// A relay to `host:port` with a counter that several relays can share.
    pub async fn counting(server: &str, bytes: Arc<AtomicU64>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (server, counter) = (server.to_owned(), Arc::clone(&bytes));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else {
                    continue;
                };
                // Delays by Nagle's algorithm would distort every measurement.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, Arc::clone(&counter)));
                tokio::spawn(pass(from_server, to_client, Arc::clone(&counter)));
            }
        });
        Ok(Self {
            address,
            bytes,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// The address of the relay.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The bytes of both directions so far, TLS included.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, bytes: Arc<AtomicU64>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
        if to.write_all(&chunk[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

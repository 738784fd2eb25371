//! An HTTP proxy on loopback: every name leads to the same server.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Forwards it.
    Leads,
    /// Forwards requests with this `Proxy-Authorization`, and answers others with 407.
    Asks(&'static str),
    /// Answers 403.
    Refuses,
    /// Accepts the request and never answers.
    Stalls,
    /// Answers with one byte every 50 ms.
    Drips,
}

pub(crate) struct Proxy {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    conduct: Arc<Mutex<Conduct>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy that forwards only to this server.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let conduct = Arc::new(Mutex::new(Conduct::Leads));
        let (heads, how) = (Arc::clone(&requests), Arc::clone(&conduct));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (heads, conduct) = (Arc::clone(&heads), *how.lock());
                tokio::spawn(lead(client, server, conduct, heads));
            }
        });
        Self {
            address,
            requests,
            conduct,
            task,
        }
    }

    pub(crate) fn conduct(&self, conduct: Conduct) {
        *self.conduct.lock() = conduct;
    }

    /// The first lines of the requests, in order.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn lead(
    mut client: TcpStream,
    server: SocketAddr,
    conduct: Conduct,
    requests: Arc<Mutex<Vec<String>>>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 << 10 {
        head.push(client.read_u8().await.ok()?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next()?.to_owned();
    requests.lock().push(line.clone());
    let has_authorization = |words: &str| {
        text.lines().any(|line| {
            line.split_once(": ").is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("proxy-authorization") && value == words
            })
        })
    };
    let refusal: &[u8] = match conduct {
        Conduct::Leads => b"",
        Conduct::Asks(words) if has_authorization(words) => b"",
        Conduct::Asks(_) => {
            b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"
        }
        Conduct::Refuses => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
        Conduct::Stalls => {
            // Until the client gives up.
            drop(client.read_u8().await);
            return None;
        }
        Conduct::Drips => {
            let mut tick = tokio::time::interval(std::time::Duration::from_millis(50));
            loop {
                tick.tick().await;
                client.write_all(b" ").await.ok()?;
            }
        }
    };
    if !refusal.is_empty() {
        client.write_all(refusal).await.ok()?;
        return None;
    }
    let mut upstream = TcpStream::connect(server).await.ok()?;
    if line.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    } else {
        upstream.write_all(&head).await.ok()?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut upstream)
        .await
        .ok()?;
    Some(())
}

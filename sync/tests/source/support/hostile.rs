//! A malicious git server: it offers one branch, and sends any given bytes as its pack.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, Response};
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::git_server::{Door, WebServer};

/// The offered commit; no pack contains it.
pub(crate) const COMMIT: &str = "0123456789012345678901234567890123456789";

const CAPABILITIES: &str = "side-band-64k ofs-delta shallow multi_ack_detailed allow-reachable-sha1-in-want";

/// Maximum size of a side-band packet, including its header.
const PACKET: usize = 65_000;

/// A server that always sends this pack, and counts requests.
pub(crate) struct Liar {
    web: WebServer,
    requests: Arc<AtomicUsize>,
}

impl Liar {
    pub(crate) async fn start(pack: Vec<u8>) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let (counter, pack) = (Arc::clone(&requests), Bytes::from(pack));
        let router = Router::new().fallback(move |request: Request| {
            counter.fetch_add(1, Ordering::SeqCst);
            let pack = pack.clone();
            async move { answer(request, &pack).await }
        });
        Self {
            web: WebServer::start(router, Door::Plain).await,
            requests,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/repo", self.web.origin())
    }

    /// Requests so far.
    pub(crate) fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn answer(request: Request, pack: &[u8]) -> Response<Body> {
    if request.method() == Method::GET {
        return typed("advertisement", advertisement());
    }
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    // libgit2 first asks where history is cut off: nowhere.
    let mut answer = b"0000".to_vec();
    if body.windows(4).any(|window| window == b"done") {
        answer.extend_from_slice(b"0008NAK\n");
        for part in pack.chunks(PACKET - 5) {
            write!(answer, "{:04x}\u{1}", part.len() + 5).unwrap();
            answer.extend_from_slice(part);
        }
        answer.extend_from_slice(b"0000");
    }
    typed("result", answer)
}

fn typed(kind: &str, body: Vec<u8>) -> Response<Body> {
    Response::builder()
        .header("content-type", format!("application/x-git-upload-pack-{kind}"))
        .body(Body::from(body))
        .unwrap()
}

/// One branch.
pub(crate) fn advertisement() -> Vec<u8> {
    let line = format!("{COMMIT} refs/heads/main\0{CAPABILITIES}\n");
    format!(
        "001e# service=git-upload-pack\n0000{:04x}{line}0000",
        line.len() + 4
    )
    .into_bytes()
}

/// Types of objects in a pack.
pub(crate) mod kind {
    pub(crate) const TREE: u8 = 2;
    pub(crate) const BLOB: u8 = 3;
    pub(crate) const BY_OFFSET: u8 = 6;
    pub(crate) const BY_ID: u8 = 7;
}

/// An arbitrary pack; its checksum is wrong.
pub(crate) struct Pack(Vec<u8>);

impl Pack {
    /// Declares this number of objects.
    pub(crate) fn of(objects: u32) -> Self {
        Self([&b"PACK\0\0\0\x02"[..], &objects.to_be_bytes()].concat())
    }

    /// The offset of the next object.
    pub(crate) fn offset(&self) -> usize {
        self.0.len()
    }

    /// Adds an object that declares a size, whatever its content.
    pub(crate) fn object(&mut self, kind: u8, size: u64, content: &[u8]) -> &mut Self {
        self.head(kind, size);
        self.deflated(content)
    }

    /// Adds a delta based on the object at an offset, whose result is `result` bytes, by copying `base` bytes
    /// repeatedly.
    pub(crate) fn delta(&mut self, base: usize, base_size: u64, result: u64) -> &mut Self {
        let delta = delta(base_size, result);
        let distance = self.offset() - base;
        self.head(kind::BY_OFFSET, delta.len() as u64);
        let mut digits = vec![u8::try_from(distance & 127).unwrap()];
        let mut rest = distance >> 7;
        while rest > 0 {
            rest -= 1;
            digits.push(u8::try_from(rest & 127).unwrap() | 128);
            rest >>= 7;
        }
        digits.reverse();
        self.0.extend_from_slice(&digits);
        self.deflated(&delta)
    }

    /// Adds a delta based on an object by id.
    pub(crate) fn delta_of(&mut self, base: [u8; 20], base_size: u64, result: u64) -> &mut Self {
        let delta = delta(base_size, result);
        self.head(kind::BY_ID, delta.len() as u64);
        self.0.extend_from_slice(&base);
        self.deflated(&delta)
    }

    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 20]);
        std::mem::take(&mut self.0)
    }

    /// Adds the correct checksum.
    pub(crate) fn sound(&mut self) -> Vec<u8> {
        let mut child = Command::new("sha1sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&self.0).unwrap();
        let output = child.wait_with_output().unwrap().stdout;
        let digits = |at: usize| std::str::from_utf8(&output[2 * at..2 * at + 2]).unwrap();
        let sum: Vec<u8> = (0..20)
            .map(|at| u8::from_str_radix(digits(at), 16).unwrap())
            .collect();
        self.0.extend_from_slice(&sum);
        std::mem::take(&mut self.0)
    }

    fn head(&mut self, kind: u8, size: u64) {
        let mut byte = kind << 4 | u8::try_from(size & 15).unwrap();
        let mut rest = size >> 4;
        while rest > 0 {
            self.0.push(byte | 128);
            byte = u8::try_from(rest & 127).unwrap();
            rest >>= 7;
        }
        self.0.push(byte);
    }

    fn deflated(&mut self, content: &[u8]) -> &mut Self {
        let mut encoder = ZlibEncoder::new(&mut self.0, Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap();
        self
    }
}

/// A delta: two sizes, then copies of as much of the base as one instruction can copy.
fn delta(base: u64, result: u64) -> Vec<u8> {
    let mut delta = Vec::new();
    for mut size in [base, result] {
        while size >= 128 {
            delta.push(u8::try_from(size & 127).unwrap() | 128);
            size >>= 7;
        }
        delta.push(u8::try_from(size).unwrap());
    }
    let (mut left, at_once) = (result, base.min(0xff_ffff));
    while left > 0 && delta.len() < 1 << 16 {
        let size = left.min(at_once);
        delta.push(0b1111_0000);
        delta.extend_from_slice(&size.to_le_bytes()[..3]);
        left -= size;
    }
    delta
}

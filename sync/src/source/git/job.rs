//! The input of a fetch, and what the server offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use git2::Oid;
use jiff::Timestamp;
use parking_lot::Mutex;

use muster_kit::Clock;

use super::super::deadline::Deadline;
use super::super::github::Tokens;
use super::super::transport::Context;
use super::super::url::GitUrl;
use super::super::{Credentials, Verify, Want};
use super::GitOptions;
use super::mirror::Mirror;
use crate::proxy::Proxies;

/// Everything that a fetch needs; it runs on a blocking thread.
pub(super) struct Job {
    pub url: GitUrl,
    pub credentials: Option<Credentials>,
    pub proxies: Proxies,
    pub tokens: Arc<Tokens>,
    pub clock: Clock,
    pub want: Want,
    pub mirror: Mirror,
    pub options: Arc<GitOptions>,
    pub deadline: Deadline,
    /// Whether these credentials have opened the repository before: only then may a stored commit be used without
    /// contacting the server.
    pub proven: bool,
    /// What must be signed, and by which keys.
    pub verify: Option<Verify>,
    /// The current time, to check the expiry of keys and signatures.
    pub now: Timestamp,
    pub remembered: Arc<Remembered>,
}

/// A reference of the server.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) id: Oid,
}

/// What the requested name refers to.
pub(super) struct ResolvedRef {
    /// The reference; `None` if a commit was requested.
    pub name: Option<String>,
    /// Id of the annotated tag object.
    pub tag: Option<Oid>,
    pub commit: Oid,
}

/// Tags and commits by mirror and id, so that an object with a bad signature is not transferred at each try.
pub(super) type Remembered = Mutex<BTreeMap<(String, Oid), Arc<[u8]>>>;

/// What an operation has received from the server.
pub(super) struct Session {
    pub context: Arc<Context>,
    pub heads: Vec<Head>,
    pub found: ResolvedRef,
}

//! What a fetch needs, and what the server offers it.

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

/// Everything that a fetch needs; it runs where it may block.
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
    /// Whether these credentials have opened the repository before: only then may what is here be had without asking.
    pub proven: bool,
    /// What must be signed.
    pub verify: Option<Verify>,
    /// The time, for keys and signatures that expire.
    pub now: Timestamp,
    pub remembered: Arc<Remembered>,
}

/// What a server offers under a name.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) id: Oid,
}

/// What the wanted name leads to.
pub(super) struct Found {
    /// The reference; none for a commit.
    pub name: Option<String>,
    /// The object of an annotated tag.
    pub tag: Option<Oid>,
    pub commit: Oid,
}

/// Tags and commits by mirror and name, so that one whose signature is bad is not transferred at each try.
pub(super) type Remembered = Mutex<BTreeMap<(String, Oid), Arc<[u8]>>>;

/// What an operation has asked the server for.
pub(super) struct Session {
    pub context: Arc<Context>,
    pub heads: Vec<Head>,
    pub found: Found,
}

//! Signatures of tags and commits: whether the object that a reference points to was signed by a trusted key.
//!
//! Pure: a function of the bytes of an object, the keys, the time, and the requested reference.
//!
//! Invariant: what is not proven is refused. If a case is ambiguous the stricter reading applies, so that nothing
//! passes that `git verify-tag` and `git verify-commit` would not call good.
//! Invariant: messages contain nothing from a Secret except the names of its keys; public keys are shown by
//! fingerprint.

mod keys;
mod object;
mod openpgp;
mod packets;
mod ssh;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::keys::KeyRing;
use self::object::{Form, Signed};
use super::{CommitId, Unverified};

/// What must be signed, and by which keys.
#[derive(Debug, Clone)]
pub struct Verify {
    /// What must be signed.
    pub mode: VerifyMode,
    /// The trusted keys, one of which must have signed.
    pub keys: Arc<KeyRing>,
}

/// Which object must be signed: `mode` of the GitRepository's `verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyMode {
    /// The commit.
    Commit,
    /// The tag that points to the commit.
    Tag,
    /// Both, each by any of the keys.
    TagAndCommit,
}

impl VerifyMode {
    /// Whether the tag must be signed.
    pub const fn tag(self) -> bool {
        matches!(self, Self::Tag | Self::TagAndCommit)
    }

    /// Whether the commit must be signed.
    pub const fn commit(self) -> bool {
        matches!(self, Self::Commit | Self::TagAndCommit)
    }
}

/// The key of a good signature: its type and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer(String);

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Verifies the bytes of the tag object that `name` refers to: it must have this name, point to `commit`, and be
/// signed.
pub fn verify_tag(
    bytes: &[u8],
    name: &str,
    commit: &CommitId,
    keys: &KeyRing,
    now: Timestamp,
) -> Result<Signer, Unverified> {
    let object = object::tag(bytes)?;
    let Some(headers) = &object.tag else {
        return Err(Unverified::Malformed("not a tag"));
    };
    // Check the signature first: the other fields only matter if it is good.
    let signer = signature(&object, keys, now)?;
    if headers.name != name {
        return Err(Unverified::Renamed(headers.name.chars().take(256).collect()));
    }
    if headers.kind != "commit" {
        return Err(Unverified::NotOfACommit(headers.kind.chars().take(16).collect()));
    }
    if headers.object != commit.as_str() {
        return Err(Unverified::OtherCommit {
            signed: format!("commit {}", headers.object.chars().take(64).collect::<String>()),
            used: commit.to_string(),
        });
    }
    Ok(signer)
}

/// Verifies the bytes of a commit, whose id proves its content: it must be signed.
pub fn verify_commit(bytes: &[u8], keys: &KeyRing, now: Timestamp) -> Result<Signer, Unverified> {
    signature(&object::commit(bytes)?, keys, now)
}

fn signature(object: &Signed<'_>, keys: &KeyRing, now: Timestamp) -> Result<Signer, Unverified> {
    let signer = match object.form {
        Form::OpenPgp => openpgp::verify_openpgp(&keys.openpgp, &object.payload, &object.signature, now),
        Form::Ssh => ssh::verify_ssh(&keys.ssh, &object.payload, &object.signature, object.at, now),
        Form::X509 => Err(Unverified::Unsupported("X.509")),
    };
    signer.map(Signer)
}

/// Seconds since 1970 as a time; saturates at the end of the calendar.
fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

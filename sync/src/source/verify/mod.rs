//! Signatures of tags and commits: whether what a name leads to was signed by a key that is trusted.
//!
//! Pure: a function of the bytes of an object, of keys, of the time, and of the name that was asked for.
//!
//! Invariant: what is not proven is refused. Of two readings of a case the stricter one holds, so that nothing passes here that
//! `git verify-tag` and `git verify-commit` would not call good.
//! Invariant: no message holds anything of a Secret but the names of its keys; keys are named by their fingerprints.

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
use super::CommitId;

/// What must be signed, and by whom.
#[derive(Debug, Clone)]
pub struct Verify {
    /// What must be signed.
    pub mode: VerifyMode,
    /// The keys of which one must have signed it.
    pub keys: Arc<KeyRing>,
}

/// What must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyMode {
    /// The commit.
    Commit,
    /// The tag that leads to it.
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

/// The key of a good signature: its kind and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer(String);

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a tag or a commit is not taken for signed. A key stands in it by its kind and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// It has no signature.
    #[error("it is not signed; next: sign it (git tag -s, git commit -S) and push it")]
    Unsigned,
    /// A tag that is only a name.
    #[error(
        "it is a lightweight tag, which holds no signature; next: make a signed one (git tag -s) and push it"
    )]
    Lightweight,
    /// A branch or a commit where a tag is asked for.
    #[error("mode Tag needs a tag, and none is named; next: name a tag, or use the mode for commits")]
    NoTag,
    /// The signed tag has another name.
    #[error(
        "the signed tag names itself {0:?}: it was renamed, which can bring an old release back; next: sign a tag of this name"
    )]
    Renamed(String),
    /// The signed tag is of another commit.
    #[error(
        "the signed tag is of {signed}, not of commit {used}, which the server gives for it; next: find out who moved it"
    )]
    OtherCommit {
        /// What the tag says.
        signed: String,
        /// The commit that would be used.
        used: String,
    },
    /// The signed tag is of no commit, but of a tag, a folder or a file.
    #[error("the signed tag is of a {0}, not of a commit; next: sign a tag of the commit itself")]
    NotOfACommit(String),
    /// The object is not one as git writes it.
    #[error("it is {0}; next: make it anew with git, and sign it")]
    Malformed(&'static str),
    /// The signature cannot be read.
    #[error("its signature cannot be read: {0}; next: sign it again")]
    Broken(&'static str),
    /// More than one signature.
    #[error("it has several signatures, of which it is unclear which one counts; next: sign it once")]
    Several,
    /// A signature of a kind that is not supported.
    #[error("it is signed with {0}, which is not supported; next: sign it with OpenPGP or ssh")]
    Unsupported(&'static str),
    /// No key of the Secret.
    #[error(
        "it is signed by {0}, which is not among the keys of the Secret; next: add the key there if you trust it"
    )]
    UnknownKey(String),
    /// The signature is not of this content.
    #[error(
        "its signature by {0} is bad: it was changed after it was signed; next: find out by whom, and sign what is right"
    )]
    Bad(String),
    /// A hash or a key that can be forged.
    #[error(
        "its signature uses {0}, which can be forged; next: sign it with SHA-256 or better and a strong key"
    )]
    Weak(String),
    /// The signature has an end, which has passed.
    #[error("its signature expired {0}; next: sign it again")]
    ExpiredSignature(Timestamp),
    /// The key has an end, which has passed.
    #[error(
        "{key}, which signed it, expired {at}; next: extend the key and put it into the Secret, or sign with another one"
    )]
    ExpiredKey {
        /// The key.
        key: String,
        /// When it ended.
        at: Timestamp,
    },
    /// The key must not be used yet.
    #[error(
        "{key}, which signed it, is not valid before {at}; next: correct valid-after in the Secret, or sign with another key"
    )]
    EarlyKey {
        /// The key.
        key: String,
        /// When it begins.
        at: Timestamp,
    },
    /// The key was revoked by its owner.
    #[error("{0}, which signed it, is revoked; next: sign it with another key")]
    Revoked(String),
    /// The key says that it is not for signing, or does not say that it is.
    #[error("{key}, which signed it, {why}; next: sign it with a key for signing")]
    NotForSigning {
        /// The key.
        key: String,
        /// What is missing.
        why: &'static str,
    },
    /// It was signed later than now, or before the key existed.
    #[error(
        "it says that it was signed {at}, which is {why}; next: check the clock of its signer, and sign it again"
    )]
    WrongTime {
        /// The time of the signature.
        at: Timestamp,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An ssh signature for another purpose.
    #[error("its signature is for {0:?}, not for git; next: sign it with git")]
    Namespace(String),
}

/// Verifies the bytes of the tag object that `name` leads to: it must name itself so, be of `commit`, and be signed.
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
    // First whether it is signed at all by whom we trust: what it says of itself matters only then.
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

/// Verifies the bytes of a commit, which its name stands for: it must be signed.
pub fn verify_commit(bytes: &[u8], keys: &KeyRing, now: Timestamp) -> Result<Signer, Unverified> {
    signature(&object::commit(bytes)?, keys, now)
}

fn signature(object: &Signed<'_>, keys: &KeyRing, now: Timestamp) -> Result<Signer, Unverified> {
    let signer = match object.form {
        Form::OpenPgp => openpgp::verify(&keys.openpgp, &object.payload, &object.signature, now),
        Form::Ssh => ssh::verify(&keys.ssh, &object.payload, &object.signature, object.at, now),
        Form::X509 => Err(Unverified::Unsupported("X.509")),
    };
    signer.map(Signer)
}

/// A time of the past or the future in seconds; one beyond the calendar is its end.
fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

//! Git sources: resolving, fetching into mirrors, reading from the object database.
//!
//! [`Source`] is the seam: [`GitSource`] talks to real repositories, [`MemorySource`] is a repository made of maps for tests
//! and for the virtual bed. Whoever needs configuration asks in three steps: *resolve* (which commit is this tag), *fetch* (have
//! the commit here), *read* (the manifests below a path of it).

mod commit;
mod deadline;
mod entries;
mod error;
mod git;
mod github;
mod github_app;
mod ignored;
mod limits;
mod memory;
mod pack;
mod transport;
mod types;
mod url;
mod verify;
mod worktree;

use std::collections::BTreeSet;

use async_trait::async_trait;

pub use self::commit::{CommitId, InvalidCommitId};
pub use self::error::{AppRefusal, HostKeyRefusal, Refusal, SourceError, SourceErrorClass, Unverified};
#[doc(hidden)]
pub use self::git::Objects;
pub use self::git::{GitOptions, GitSource};
pub use self::github_app::GitHubApp;
pub use self::limits::Limits;
pub use self::memory::{Counts, Fault, MemorySource};
pub use self::types::{Credentials, Fetched, File, Files, Remote, Resolved, Want};
pub use self::verify::{KeyRing, Signer, Verify, VerifyMode, verify_commit, verify_tag};
pub use self::worktree::{FolderError, FolderErrors, read_folder};
pub use muster_kit::Clock;

/// Where configuration comes from.
///
/// Implementations never delete or forget on failure: what was fetched before can still be read.
#[async_trait]
pub trait Source: Send + Sync {
    /// Finds the commit that `want` names now, by asking the remote for its references; transfers no content.
    /// A [`Want::Commit`] resolves to itself without a call.
    ///
    /// Where [`Remote::verify`] is set, what is signed is transferred as well, kept by nobody, and verified: an unsigned one is
    /// [`SourceError::VerificationFailed`].
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError>;

    /// Makes the commit that `want` names available to [`Source::read`]. A commit that is here already costs no call.
    /// Where [`Remote::verify`] is set, it is verified each time.
    async fn fetch(&self, remote: &Remote, want: &Want) -> Result<Fetched, SourceError>;

    /// The manifests (`*.yaml`, `*.yml`) below `path` of a commit that was fetched before, sorted by the bytes of their paths.
    /// `path` is relative to the root of the repository; `.`, `./` and the empty path are the root.
    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError>;

    /// Gives back the room of what is not named: `named` is every commit of every URL that anybody may still read, and must be
    /// complete. What was fetched or read within the last hour stays as well.
    async fn retain(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError>;
}

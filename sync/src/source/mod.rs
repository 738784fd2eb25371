//! Git sources: resolving, fetching into mirrors, reading from the object database.
//!
//! [`Source`] is the interface: [`GitSource`] uses real repositories, [`MemorySource`] keeps repositories in memory for
//! tests and simulations. A caller gets configuration in three steps: *resolve* (a tag to a commit), *fetch* (the
//! commit into local storage), *read* (the manifests below a path of it).

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
pub use self::error::{AppRefusal, EntryRefusal, HostKeyRefusal, SourceError, SourceErrorClass, Unverified};
#[doc(hidden)]
pub use self::git::Objects;
pub use self::git::{GitOptions, GitSource};
pub use self::github_app::GitHubApp;
pub use self::limits::Limits;
pub use self::memory::{Counts, Fault, MemorySource};
pub use self::types::{Credentials, Fetched, File, Files, Remote, Resolved, Want};
pub use self::verify::{KeyRing, Signer, Verify, VerifyMode, verify_commit, verify_tag};
pub use self::worktree::{DirectoryError, DirectoryErrors, read_directory};
pub use muster_kit::Clock;

/// A source of configuration.
///
/// Implementations never delete anything because of a failure: what was fetched before can still be read.
#[async_trait]
pub trait Source: Send + Sync {
    /// Resolves `want` to its current commit by listing the references of the remote; transfers no content. A
    /// [`Want::Commit`] resolves to itself without a call.
    ///
    /// If [`Remote::verify`] is set, the signed object is also transferred and verified, without storing it; an
    /// unsigned one is a [`SourceError::VerificationFailed`].
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError>;

    /// Makes the commit that `want` refers to available to [`Source::read`]. A commit that is stored already costs no
    /// call. If [`Remote::verify`] is set, it is verified each time.
    async fn fetch(&self, remote: &Remote, want: &Want) -> Result<Fetched, SourceError>;

    /// The manifests (`*.yaml`, `*.yml`) below `path` of a commit that was fetched before, sorted by the bytes of their
    /// paths. `path` is relative to the root of the repository; `.`, `./` and the empty path are the root.
    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError>;

    /// Frees the space of unused commits: `named` is every commit of every URL that may still be read, and must be
    /// complete. Commits that were fetched or read within the last hour are kept as well.
    async fn retain(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError>;
}

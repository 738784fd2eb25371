//! Limits on the size of a repository.

use std::time::Duration;

use jiff::SignedDuration;

/// Limits of one fetch and one read. Each has a command-line flag, which the error names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes received by one fetch (`--git-max-bytes`).
    pub bytes: u64,
    /// Bytes of the list of branches and tags that a server sends (`--git-max-reference-bytes`). libgit2 needs about
    /// four times as much memory for it.
    pub reference_bytes: u64,
    /// Bytes of one object that must be held in memory: a tree, a commit, the result of a delta
    /// (`--git-max-object-bytes`). libgit2 holds a delta, its base and its result at the same time. Other files are
    /// streamed, within [`Self::bytes`].
    pub object_bytes: u64,
    /// Bytes of packs that a mirror may hold before unused commits are pruned (`--git-spare-bytes`).
    pub spare_bytes: u64,
    /// Objects in one fetch, and entries walked in one commit (`--git-max-objects`).
    pub objects: usize,
    /// Manifests below the path (`--git-max-files`).
    pub files: usize,
    /// Bytes of one manifest (`--git-max-file-bytes`).
    pub file_bytes: u64,
    /// Bytes of all manifests of one read together (`--git-max-total-bytes`): many small paths may refer to one large
    /// blob.
    pub total_bytes: u64,
    /// Depth of nested directories (`--git-max-depth`).
    pub depth: usize,
    /// Total time of one resolve or fetch, including the wait for other fetches (`--git-timeout`).
    pub timeout: Duration,
    /// Fetches from one host at a time (`--git-fetches-per-host`).
    pub per_host: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            reference_bytes: 24 << 20,
            object_bytes: 32 << 20,
            spare_bytes: 64 << 20,
            objects: 100_000,
            files: 10_000,
            file_bytes: 8 << 20,
            total_bytes: 64 << 20,
            depth: 64,
            timeout: Duration::from_mins(1),
            per_host: 4,
        }
    }
}

/// How long a commit is kept after its last use even if no source refers to it yet, as it will shortly after a fetch.
pub(super) const RECENT: SignedDuration = SignedDuration::from_hours(1);

//! What a repository may cost.

use std::time::Duration;

use jiff::SignedDuration;

/// Limits of one fetch and one read. Each has an option of the process, which its error names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes received by one fetch (`--git-max-bytes`).
    pub bytes: u64,
    /// Bytes of the list of branches and tags that a server offers (`--git-max-reference-bytes`). libgit2 makes about four times
    /// as much memory of it.
    pub reference_bytes: u64,
    /// Bytes of one object that has to be held as a whole: a folder, a commit, what a delta makes (`--git-max-object-bytes`).
    /// libgit2 holds a delta, its base and what they make at once. Other files are streamed, within [`Self::bytes`].
    pub object_bytes: u64,
    /// Bytes of packs that a mirror may hold before what no source names is taken out of it (`--git-spare-bytes`).
    pub spare_bytes: u64,
    /// Objects in one fetch, and entries walked in one commit (`--git-max-objects`).
    pub objects: usize,
    /// Manifests below the path (`--git-max-files`).
    pub files: usize,
    /// Bytes of one manifest (`--git-max-file-bytes`).
    pub file_bytes: u64,
    /// Bytes of all manifests of one read together (`--git-max-total-bytes`): many small paths may name one large blob.
    pub total_bytes: u64,
    /// Folders within folders (`--git-max-depth`).
    pub depth: usize,
    /// Total time of one resolve or fetch, waiting for its turn included (`--git-timeout`).
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

/// How long a commit stays after its last use though nobody names it: what was fetched is named a moment later.
pub(super) const RECENT: SignedDuration = SignedDuration::from_hours(1);

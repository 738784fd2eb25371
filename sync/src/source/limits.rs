//! What a repository may cost.

use std::time::Duration;

/// Limits of one fetch and one read. Each has an option of the process, which its error names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes received by one fetch (`--git-max-bytes`).
    pub bytes: u64,
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

//! Canonical bytes and their hashes: revisions and digests.

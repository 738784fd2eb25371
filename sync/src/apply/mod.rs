//! Staged server-side apply and prune.

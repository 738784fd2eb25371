//! From git to a cluster: sources, YAML, substitution, staged apply, inventory, health.
//!
//! ```text
//!   git ─► source ─► files ─► build ──────────────► objects ─► apply ─► cluster ─► health
//!          mirrors,           yaml, substitute,                staged, by dry run;
//!          limits             places for errors                inventory: what may exist
//! ```
//!
//! This crate knows nothing about Modules or rollouts, and reads no clock: the caller passes the time.
//!
//! Invariant: the source is a complete local commit, read from the object database; no file is checked out, no process
//! is started.
//! Invariant: a credential is sent only to the host it is for, and appears in no message.
//! Invariant: an object is in the inventory before it is created, and is removed from it after it is found to be gone.
//! Invariant: an up-to-date object costs no write.

pub mod apply;
pub mod build;
pub mod cluster;
pub mod health;
pub mod inventory;
pub mod jobs;
pub mod plan;
pub mod prepared;
pub mod proxy;
pub mod source;
pub mod substitute;
pub mod yaml;

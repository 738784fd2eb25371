//! From git to a cluster: sources, YAML, substitution, staged apply, inventory, health.
//!
//! ```text
//!   git ─► source ─► files ─► build ──────────────► objects ─► apply ─► cluster ─► health
//!          mirrors,           yaml, substitute,                staged, by dry run;
//!          limits             places for errors                inventory: what may exist
//! ```
//!
//! Nothing here knows Modules or rollouts, and nothing reads a clock of its own: whoever calls says when it is.
//!
//! Invariant: what is read is a commit that is here as a whole, out of the object database; no file is checked out, no process started.
//! Invariant: a credential goes to the host it is for, and into no message.
//! Invariant: an object is in the inventory before it is created, and leaves it after it was seen gone.
//! Invariant: an object that is as it should be costs no write.

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

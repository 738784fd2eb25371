//! The agent of a node as a service of its host: rows from the API server, reports to it, and the steps that install it.
//!
//! ```text
//!   install (init container) ─► binary, units ─► systemd ─► restore (at boot, no network) ─► service
//!   copy_token (container)   ─► token, ca.crt ───────────────────────────────────────────────┘
//! ```
//!
//! Invariant: what is unconfirmed is restored before anything is read from the API server, and whatever that answers.
//! Invariant: no credential but the token that is bound to this node is used.

pub mod beat;
pub mod command;
pub mod config_file;
pub mod connection;
mod files;
pub mod install;
pub mod lease;
pub mod platform;
pub mod process;
pub mod report;
pub mod rows;
pub mod service;
pub mod token;
pub mod worker;

/// The field manager of the agent.
pub const MANAGER: &str = "muster-node-agent";

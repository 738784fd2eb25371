//! The node agent as a service of its host: it reads rows from the API server, reports to it, and contains the
//! installation.
//!
//! ```text
//!   install (init container) ─► binary, units ─► systemd ─► restore (at boot, no network) ─► service
//!   copy_token (container)   ─► token, ca.crt ───────────────────────────────────────────────┘
//! ```
//!
//! Invariant: unconfirmed changes are restored before anything is read from the API server, whatever it responds.
//! Invariant: no credential is used but the token that is bound to this node.

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

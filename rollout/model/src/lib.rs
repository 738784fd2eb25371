//! A model of muster's decision function and the shell around it, explored exhaustively scope by scope.
//!
//! ```text
//!   scope ──► world ──► states ──► laws        E1 to E13 of every decision and every write
//!               │          └─────► fair runs   EL1 to EL5 from every state
//!               └ shell (W1 to W7) around the shipped `muster_rollout::plan`
//! ```
//!
//! See `docs/model.md`.

pub mod check;
pub mod event;
pub mod fair;
pub mod model;
pub mod normal;
pub mod observer;
pub mod pending_write;
pub mod reached;
pub mod scope;
pub mod set;
mod shell;
pub mod show;
pub mod state;
pub mod table;
pub mod world;
pub mod wrong;

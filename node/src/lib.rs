//! The node agent on its host: it changes files, checks the node, and restores the files if the checks fail.
//!
//! ```text
//!   configuration of the node ─────────┐
//!   rows of the node (Assignment) ─────┴─► admit ─► draft ─► carry out ─► Confirmed ──────► reports
//!                                                     │          └──────► restore ─► verdict ──┘
//!            journal, plan, originals, memory ◄───────┴── start: restores what is unconfirmed
//! ```
//!
//! This crate does not depend on Kubernetes: the shell that watches and reports passes rows to [`Agent::assign`] and
//! writes the result.
//!
//! Invariant: each file is completely old or completely new, and which of them is known, after a kill or a power cut at
//! any time.
//! Invariant: unconfirmed changes are restored without help: by the running agent, by its next start, or at boot.
//! Invariant: nothing is opened except the agent's own directory, files below the prefixes of the node's configuration,
//! and what the checks read.
//! Invariant: a content is condemned only if the checks succeed with the old files and failed with the new ones.
//! Invariant: no secret is in anything that is stored, printed or reported.

mod agent;
mod change;
mod checks;
mod clock;
mod config;
mod conflicts;
mod content;
pub mod disk;
pub mod duration;
mod hold;
mod host;
pub mod journal;
mod known_bad;
mod lock;
mod machine;
mod memory;
mod originals;
mod outcome;
mod own;
pub mod paths;
mod piece;
mod plan;
pub mod process;
mod report;
mod sealed;
mod secrets;
mod start;
mod status;
mod swap;

pub use agent::{Acknowledge, Agent, AgentEnvironment, AgentError, Answer};
pub use change::verdict;
pub use checks::{API_TIMEOUT, Failing, PERIOD, failing};
pub use clock::{Clock, HostClock};
pub use config::{
    CheckTarget, Config, ConfigError, ConfigProblem, DIAL_TRIES, Dial, MAX_TIMEOUT, Program, Server,
};
pub use content::{
    Assignment, Attributes, Checks, Content, File, FileState, Key, MAX_CONTENT, MAX_ENTRIES, OnDelete,
};
pub use hold::Hold;
pub use host::{Account, Dialed, Host};
pub use known_bad::KnownBad;
pub use lock::{Lock, LockError};
pub use machine::{ApiServer, Machine, PlainHttp, identity};
pub use memory::{MAX_TRIES, PAUSE};
pub use originals::MAX_ORIGINAL;
pub use outcome::{ChangeOutcome, Class, MAX_FAILING, MAX_MESSAGE, RefusalProblem, RowRefusal, Verdict};
pub use piece::Piece;
pub use report::{Report, State, Waiting};
pub use secrets::MAX_SECRET;
pub use start::Services;
pub use status::{RowStatus, Status, held, hold_for, release, status};

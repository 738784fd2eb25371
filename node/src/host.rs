//! What the agent asks of its host beside files: a seam, so that tests play it.

use std::{collections::BTreeMap, fmt, net::SocketAddr, time::Duration};

use crate::config::{Program, Server};

/// Users or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// A user.
    User,
    /// A group.
    Group,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Group => "group",
        })
    }
}

/// What became of one try to open a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialed {
    /// It was opened.
    Open,
    /// The address refused it (ECONNREFUSED), which is an answer.
    Refused,
    /// Nothing answered, with the system's words.
    Failed(String),
}

/// The host: its programs, links, connections, accounts and secrets.
pub trait Host {
    /// Runs a program to its end. `Err` has what it printed, or why it did not run; both may have secrets in them.
    fn run(&self, program: &Program) -> Result<(), String>;
    /// The operational state of each network interface, as the kernel names it (`up`, `down`, `unknown`, ...).
    fn links(&self) -> Result<BTreeMap<String, String>, String>;
    /// One try to open a connection.
    fn dial(&self, target: SocketAddr, timeout: Duration) -> Dialed;
    /// Whether the API server answers a request, read from the server itself and from no cache.
    fn api_server(&self, server: &Server, timeout: Duration) -> Result<(), String>;
    /// Number of a user or group.
    fn account(&self, kind: Account, name: &str) -> Option<u32>;
    /// Content of the file of a secret, at most [`crate::secrets::MAX_SECRET`] bytes.
    fn secret(&self, file: &str) -> Result<Vec<u8>, String>;
}

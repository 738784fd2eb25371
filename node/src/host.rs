//! The host as the agent uses it, except for files: an abstraction, so that tests can simulate it.

use std::{collections::BTreeMap, fmt, net::SocketAddr, time::Duration};

use crate::config::{Program, Server};

/// The kind of account.
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

/// The result of one attempt to open a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialed {
    /// It was opened.
    Open,
    /// The address refused it (ECONNREFUSED), which is a response.
    Refused,
    /// There was no response; with the system's error message.
    Failed(String),
}

/// The host: its programs, links, connections, accounts and secrets.
pub trait Host {
    /// Runs a program to completion. `Err` contains its output, or why it did not run; both may contain secrets.
    fn run(&self, program: &Program) -> Result<(), String>;
    /// The operational state of each network interface, as the kernel names it (`up`, `down`, `unknown`, ...).
    fn links(&self) -> Result<BTreeMap<String, String>, String>;
    /// One attempt to open a connection.
    fn dial(&self, target: SocketAddr, timeout: Duration) -> Dialed;
    /// Whether the API server responds to a request, from the server itself and not from a cache.
    fn api_server(&self, server: &Server, timeout: Duration) -> Result<(), String>;
    /// The ID of a user or group.
    fn account(&self, kind: Account, name: &str) -> Option<u32>;
    /// Content of a secret's file, at most [`crate::secrets::MAX_SECRET`] bytes.
    fn secret(&self, file: &str) -> Result<Vec<u8>, String>;
}

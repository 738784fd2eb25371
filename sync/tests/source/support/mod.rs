//! Helpers for tests of sources: repositories made by git itself, and web servers for them.

pub(crate) mod child;
pub(crate) mod git_server;
pub(crate) mod gpg;
pub(crate) mod hostile;
pub(crate) mod proxy;
pub(crate) mod repo;
pub(crate) mod ssh_server;
pub(crate) mod sshd;

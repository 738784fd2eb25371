//! What tests of sources share: repositories made by git itself, and web servers for them.

pub mod child;
pub mod git_server;
pub mod gpg;
pub mod hostile;
pub mod proxy;
pub mod repo;
pub mod ssh_server;
pub mod sshd;

//! One agent for each directory, during the lifetime of its process.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The file name in the agent's own directory.
const FILE: &str = "lock";

/// Why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("another agent or muster node-agent restore is running")]
    Held,
    /// The lock file cannot be created.
    #[error("cannot lock the directory of the agent: {0}")]
    Io(#[from] io::Error),
}

/// The lock. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Acquires the lock of this directory.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(directory.join(FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

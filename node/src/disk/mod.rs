//! The disk as the agent uses it: an abstraction, so that tests can lose unsynced data, fill the disk, and cut the
//! power at each operation.
//!
//! All paths are absolute. Durable are: the data written by [`Disk::write_at`], the content of a file after
//! [`Disk::sync_file`], and the names in a directory after [`Disk::sync_dir`]. Anything else may or may not survive a
//! power cut.

mod host;

pub use host::HostDisk;

use std::{fmt, io};

use rustix::io::Errno;

use crate::content::Attributes;

/// The result of a disk operation.
pub type DiskResult<T> = Result<T, DiskError>;

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// The operation, for display.
    pub operation: &'static str,
    /// The path.
    pub path: String,
    /// The error number (errno).
    pub code: i32,
}

impl DiskError {
    pub(crate) fn new(operation: &'static str, path: &str, code: Errno) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            code: code.raw_os_error(),
        }
    }

    /// Whether the path, or a directory on the way to it, does not exist.
    pub fn is_absent(&self) -> bool {
        self.code == Errno::NOENT.raw_os_error()
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.code);
        write!(f, "cannot {} {}: {error}", self.operation, self.path)
    }
}

impl std::error::Error for DiskError {}

/// The type of a directory's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// Identifies an existing file: its device and inode numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Inode(pub u64, pub u64);

/// Why a name cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The immutable attribute is set.
    Immutable,
    /// The append-only attribute is set.
    AppendOnly,
    /// Something is mounted there.
    MountPoint,
}

/// The entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The type of the entry.
    pub kind: Kind,
    /// Owner and permission bits, including those beyond 0777.
    pub attributes: Attributes,
    /// The identity of the file.
    pub inode: Inode,
    /// Why it cannot be replaced, if so.
    pub obstacle: Option<Obstacle>,
}

/// The disk operations. Symbolic links are never followed, and no path leaves the directories that the disk was opened
/// with.
pub trait Disk {
    /// The entry at the path; `None` if it, or a directory on the way, does not exist.
    fn entry(&self, path: &str) -> DiskResult<Option<Entry>>;
    /// Content of a file up to a maximum size in bytes; `None` if it does not exist.
    fn read(&self, path: &str, most: u64) -> DiskResult<Option<Vec<u8>>>;
    /// Names in a directory.
    fn list(&self, directory: &str) -> DiskResult<Vec<String>>;
    /// Free bytes on the file system of a directory; `None` if it is mounted read-only.
    fn free(&self, directory: &str) -> DiskResult<Option<u64>>;
    /// Creates a file with this content; an existing one is unlinked first. Not durable before [`Disk::sync_file`] and
    /// [`Disk::sync_dir`].
    fn write_new(&self, path: &str, content: &[u8], attributes: Attributes) -> DiskResult<()>;
    /// Makes the content of a file durable.
    fn sync_file(&self, path: &str) -> DiskResult<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, directory: &str) -> DiskResult<()>;
    /// Creates a hard link in the same directory.
    fn link(&self, from: &str, to: &str) -> DiskResult<()>;
    /// Renames a file atomically, and replaces the target.
    fn rename(&self, from: &str, to: &str) -> DiskResult<()>;
    /// Removes a name; it need not exist.
    fn unlink(&self, path: &str) -> DiskResult<()>;
    /// Creates a directory that is readable by all users.
    fn make_dir(&self, path: &str) -> DiskResult<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> DiskResult<()>;
    /// Creates a file of this size, filled with zeroes on the disk, so that overwriting needs no space. Durable.
    fn allocate(&self, path: &str, bytes: usize) -> DiskResult<()>;
    /// Overwrites a part of an allocated file. Durable when it returns; a power cut may tear it.
    fn write_at(&self, path: &str, offset: usize, content: &[u8]) -> DiskResult<()>;
}

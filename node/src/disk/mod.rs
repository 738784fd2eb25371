//! The disk as the agent uses it: a seam, so that tests can lose what was not synced, fill it, and cut the power at each operation.
//!
//! All paths are absolute. Durable are: what [`Disk::write_at`] wrote, the content of a file after [`Disk::sync_file`], and the names in a
//! folder after [`Disk::sync_dir`]. Anything else may be lost, or not, at a power cut.

mod host;

pub use host::HostDisk;

use std::{fmt, io};

use rustix::io::Errno;

use crate::content::Attributes;

/// What an operation of the disk gives.
pub type DiskResult<T> = Result<T, DiskError>;

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// The operation, for people.
    pub operation: &'static str,
    /// What it was about.
    pub path: String,
    /// The system's number of the error.
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

    /// Whether the path, or a folder on the way to it, is not there.
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

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// A file's identity while it exists: the device and the number of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Inode(pub u64, pub u64);

/// What keeps a name from being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The immutable attribute is set.
    Immutable,
    /// The append-only attribute is set.
    AppendOnly,
    /// Something is mounted there.
    MountPoint,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// File, folder, ...
    pub kind: Kind,
    /// Owner and permission bits, those beyond 0777 included.
    pub attributes: Attributes,
    /// Which file it is.
    pub inode: Inode,
    /// What keeps it from being replaced.
    pub obstacle: Option<Obstacle>,
}

/// The operations. No symbolic link is followed anywhere, and no path leaves the folders that the disk was opened with.
pub trait Disk {
    /// What stands at the path; `None` where nothing does, or a folder on the way is not there.
    fn entry(&self, path: &str) -> DiskResult<Option<Entry>>;
    /// Content of a file of at most so many bytes; `None` where it is not there.
    fn read(&self, path: &str, most: u64) -> DiskResult<Option<Vec<u8>>>;
    /// Names in a folder.
    fn list(&self, folder: &str) -> DiskResult<Vec<String>>;
    /// Bytes that are free on the file system of a folder; `None` where it is mounted read-only.
    fn free(&self, folder: &str) -> DiskResult<Option<u64>>;
    /// A new file with this content; one that stands there is unlinked first. Not durable before [`Disk::sync_file`] and [`Disk::sync_dir`].
    fn write_new(&self, path: &str, content: &[u8], attributes: Attributes) -> DiskResult<()>;
    /// Makes the content of a file durable.
    fn sync_file(&self, path: &str) -> DiskResult<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, folder: &str) -> DiskResult<()>;
    /// A second name in the same folder for a file.
    fn link(&self, from: &str, to: &str) -> DiskResult<()>;
    /// Gives a file the name of another, which loses it, at once.
    fn rename(&self, from: &str, to: &str) -> DiskResult<()>;
    /// Removes a name; it need not be there.
    fn unlink(&self, path: &str) -> DiskResult<()>;
    /// A new folder, for all to read.
    fn make_dir(&self, path: &str) -> DiskResult<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &str) -> DiskResult<()>;
    /// A file of so many zeroes, which are on the disk: writing over them needs no space. Durable.
    fn allocate(&self, path: &str, bytes: usize) -> DiskResult<()>;
    /// Writes over a part of an allocated file. Durable when it returns; at a power cut it may be torn.
    fn write_at(&self, path: &str, offset: usize, content: &[u8]) -> DiskResult<()>;
}

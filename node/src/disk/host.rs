//! The disk of this host: held directories, and nothing outside of them.
//!
//! Each operation opens the directory of its path below a held one with `openat2`, where the kernel rejects links and
//! paths that leave the held directory, and works on the name in it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    rc::Rc,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, ResolveFlags, StatVfsMountFlags,
        StatxAttributes, StatxFlags, Uid, fallocate, fchmod, fchown, fstat, fstatvfs, fsync, linkat, mkdirat,
        openat2, renameat, statx, unlinkat,
    },
    io::Errno,
};

use super::{Disk, DiskError, DiskResult, Entry, Inode, Kind, Obstacle};
use crate::{content::Attributes, paths};

/// Directories created by this agent are readable by all users.
const DIRECTORY_MODE: u32 = 0o755;

/// The disk below held directories.
#[derive(Debug)]
pub struct HostDisk {
    roots: Vec<String>,
    held: RefCell<BTreeMap<String, Rc<OwnedFd>>>,
}

impl HostDisk {
    /// The disk below these directories. A directory is opened at its first use, and held from then on.
    pub fn new(roots: impl IntoIterator<Item = String>) -> Self {
        Self {
            roots: roots.into_iter().collect(),
            held: RefCell::default(),
        }
    }

    /// The held directory above the path, and the relative path.
    fn root<'p>(&self, path: &'p str) -> rustix::io::Result<(Rc<OwnedFd>, &'p str)> {
        let above = self.roots.iter().filter(|root| paths::is_within(path, root));
        let root = above.max_by_key(|root| root.len()).ok_or(Errno::XDEV)?;
        let rest = path[root.len()..].trim_start_matches('/');
        Ok((self.hold(root)?, if rest.is_empty() { "." } else { rest }))
    }

    fn hold(&self, root: &str) -> rustix::io::Result<Rc<OwnedFd>> {
        if let Some(held) = self.held.borrow().get(root) {
            // A directory that was removed and re-created is another one.
            if fstat(held.as_ref())?.st_nlink > 0 {
                return Ok(Rc::clone(held));
            }
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = Rc::new(openat2(CWD, root, flags, Mode::empty(), resolve)?);
        self.held.borrow_mut().insert(root.to_owned(), Rc::clone(&opened));
        Ok(opened)
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let (root, rest) = self.root(path)?;
        open_below(root.as_fd(), rest, flags)
    }

    fn directory(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Runs an operation with the name in its directory.
    fn in_directory<T>(
        &self,
        operation: &'static str,
        path: &str,
        act: impl FnOnce(BorrowedFd<'_>, &str) -> rustix::io::Result<T>,
    ) -> DiskResult<T> {
        let (directory, name) = paths::split(path);
        let done = self
            .directory(directory)
            .and_then(|directory| act(directory.as_fd(), name));
        done.map_err(|code| DiskError::new(operation, path, code))
    }
}

fn open_below(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) {
        Mode::RUSR | Mode::WUSR
    } else {
        Mode::empty()
    };
    openat2(
        directory,
        name,
        flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        mode,
        resolve,
    )
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn absent_is_none<T>(result: DiskResult<T>) -> DiskResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

fn unlink(directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// A new file that is completely on the disk, or an error: the space is reserved before the content is written.
fn create(
    directory: BorrowedFd<'_>,
    name: &str,
    content: &[u8],
    attributes: Attributes,
) -> rustix::io::Result<File> {
    unlink(directory, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(open_below(directory, name, flags)?);
    if !content.is_empty() {
        match fallocate(&file, FallocateFlags::empty(), 0, content.len() as u64) {
            // Some file systems do not support it: then the write fails if there is no space.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(code) => return Err(code),
        }
    }
    file.write_all(content).map_err(|error| errno(&error))?;
    let given = |id: u32| (id != Attributes::KEEP).then_some(id);
    let (owner, group) = (given(attributes.uid), given(attributes.gid));
    fchown(&file, owner.map(Uid::from_raw), group.map(Gid::from_raw))?;
    fchmod(&file, Mode::from_raw_mode(attributes.mode))?;
    Ok(file)
}

fn entry(directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<Entry> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let found = statx(directory, name, flags, StatxFlags::BASIC_STATS)?;
    let mode = u32::from(found.stx_mode);
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let obstacles = [
        (StatxAttributes::IMMUTABLE, Obstacle::Immutable),
        (StatxAttributes::APPEND, Obstacle::AppendOnly),
        (StatxAttributes::MOUNT_ROOT, Obstacle::MountPoint),
    ];
    let obstacle = obstacles
        .into_iter()
        .find(|(attribute, _)| found.stx_attributes.contains(*attribute));
    Ok(Entry {
        kind,
        attributes: Attributes {
            mode: mode & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
        },
        inode: Inode(
            u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            found.stx_ino,
        ),
        obstacle: obstacle.map(|(_, obstacle)| obstacle),
    })
}

impl Disk for HostDisk {
    fn entry(&self, path: &str) -> DiskResult<Option<Entry>> {
        if self.roots.iter().any(|root| root == path) {
            let held = self.hold(path).and_then(|directory| entry(directory.as_fd(), ""));
            return absent_is_none(held.map_err(|code| DiskError::new("examine", path, code)));
        }
        absent_is_none(self.in_directory("examine", path, entry))
    }

    fn read(&self, path: &str, most: u64) -> DiskResult<Option<Vec<u8>>> {
        absent_is_none(self.in_directory("read", path, |directory, name| {
            // Opening a pipe would block until there is a writer.
            let file = File::from(open_below(directory, name, OFlags::RDONLY | OFlags::NONBLOCK)?);
            let mut content = Vec::new();
            let read = file.take(most + 1).read_to_end(&mut content);
            read.map_err(|error| errno(&error))?;
            if content.len() as u64 > most {
                return Err(Errno::FBIG);
            }
            Ok(content)
        }))
    }

    fn list(&self, directory: &str) -> DiskResult<Vec<String>> {
        let names = || {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.directory(directory)?)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        names().map_err(|code| DiskError::new("list", directory, code))
    }

    fn free(&self, directory: &str) -> DiskResult<Option<u64>> {
        let free = || {
            let system = fstatvfs(self.directory(directory)?)?;
            let writable = !system.f_flag.contains(StatVfsMountFlags::RDONLY);
            Ok(writable.then_some(system.f_bavail.saturating_mul(system.f_frsize)))
        };
        free().map_err(|code| DiskError::new("examine", directory, code))
    }

    fn write_new(&self, path: &str, content: &[u8], attributes: Attributes) -> DiskResult<()> {
        self.in_directory("write", path, |directory, name| {
            create(directory, name, content, attributes).map(drop)
        })
    }

    fn sync_file(&self, path: &str) -> DiskResult<()> {
        self.in_directory("sync", path, |directory, name| {
            fsync(open_below(directory, name, OFlags::RDONLY | OFlags::NONBLOCK)?)
        })
    }

    fn sync_dir(&self, directory: &str) -> DiskResult<()> {
        let done = self.directory(directory).and_then(fsync);
        done.map_err(|code| DiskError::new("sync", directory, code))
    }

    fn link(&self, from: &str, to: &str) -> DiskResult<()> {
        self.in_directory("link", from, |directory, name| {
            linkat(directory, name, directory, paths::split(to).1, AtFlags::empty())
        })
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.in_directory("rename", from, |directory, name| {
            renameat(directory, name, directory, paths::split(to).1)
        })
    }

    fn unlink(&self, path: &str) -> DiskResult<()> {
        absent_is_none(self.in_directory("remove", path, unlink)).map(|_| ())
    }

    fn make_dir(&self, path: &str) -> DiskResult<()> {
        self.in_directory("make the directory", path, |directory, name| {
            match mkdirat(directory, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
                Err(Errno::EXIST) => Ok(()),
                done => done,
            }
        })
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.in_directory("remove the directory", path, |directory, name| {
            unlinkat(directory, name, AtFlags::REMOVEDIR)
        })
    }

    fn allocate(&self, path: &str, bytes: usize) -> DiskResult<()> {
        self.in_directory("allocate", path, |directory, name| {
            fsync(create(directory, name, &vec![0; bytes], Attributes::PRIVATE)?)?;
            fsync(directory)
        })
    }

    fn write_at(&self, path: &str, offset: usize, content: &[u8]) -> DiskResult<()> {
        self.in_directory("write", path, |directory, name| {
            let file = File::from(open_below(directory, name, OFlags::WRONLY | OFlags::DSYNC)?);
            let written = file.write_all_at(content, offset as u64);
            written.map_err(|error| errno(&error))
        })
    }
}

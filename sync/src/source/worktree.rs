//! Reads the manifests of a directory on disk as from a commit: with the same names, patterns, refusals and limits.
//!
//! Symbolic links, in the path or below it, are refused as in a commit. What git would not commit is ignored: `.git`,
//! untracked files that `.gitignore` excludes, sockets, devices.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use git2::Repository;

use super::entries::{self, Collector};
use super::ignored::{FILE_NAME, Ignored};
use super::{EntryRefusal, Files, Limits, Remote, SourceError};

/// The entry that marks a work tree or a submodule.
const GIT: &str = ".git";

/// Why a directory on disk, or an entry in it, was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// An error that a commit would have too.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The path does not exist.
    #[error("{path:?} does not exist")]
    Absent {
        /// The directory, as given by the user.
        path: String,
    },
    /// The operating system denies access.
    #[error("{path:?} cannot be read: {why}")]
    Unreadable {
        /// The path that was read.
        path: String,
        /// The error of the operating system.
        why: String,
    },
}

/// A directory that could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryErrors {
    /// Everything that is refused, sorted by path; never empty.
    pub errors: Vec<DirectoryError>,
    /// The files that could be read: used to find more errors, never applied.
    pub readable: Files,
}

impl fmt::Display for DirectoryErrors {
    /// The first error, and the number of others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.errors.first() {
            write!(f, "{first}")?;
        }
        match self.errors.len() {
            0 | 1 => Ok(()),
            all => write!(f, "; and {} more", all - 1),
        }
    }
}

impl std::error::Error for DirectoryErrors {}

/// The manifests of a directory in a work tree. Patterns of `.sourceignore` apply from the root of the work tree on, as
/// in a commit; a directory outside of any work tree is its own root. Paths are shown relative to the given directory,
/// without a leading `./`.
pub fn read_directory(directory: &Path, limits: &Limits) -> Result<Files, DirectoryErrors> {
    let alone = |error| DirectoryErrors {
        errors: vec![error],
        readable: Files::default(),
    };
    let (place, ignored, tracked) = enter(directory, limits).map_err(alone)?;
    let mut walk = Walk {
        limits,
        collector: Collector::new(limits),
        tracked,
        entries: 0,
        errors: Vec::new(),
    };
    let ended = walk.directory(&place, &ignored, 0);
    let mut errors = walk.errors;
    errors.extend(ended.err());
    let readable = walk.collector.finish();
    if errors.is_empty() {
        Ok(readable)
    } else {
        Err(DirectoryErrors { errors, readable })
    }
}

/// A directory, with its three paths.
struct DirectoryPaths {
    disk: PathBuf,
    /// Relative to the root of the work tree: what patterns match.
    from_root: String,
    /// For display.
    shown: String,
}

impl DirectoryPaths {
    fn below(&self, name: &str) -> Self {
        Self {
            disk: self.disk.join(name),
            from_root: entries::join(&self.from_root, name),
            shown: entries::join(&self.shown, name),
        }
    }
}

/// What git tracks or would track, if there is a repository.
struct Tracked {
    repository: Repository,
    index: git2::Index,
}

impl Tracked {
    fn of(root: &Path) -> Option<Self> {
        // If git cannot open the directory, it is read like one without git: everything in it counts.
        let repository = Repository::open(root).ok()?;
        let index = repository.index().ok()?;
        Some(Self { repository, index })
    }

    /// Whether `git add --all` would exclude the path.
    fn leaves_out(&self, path: &str, is_directory: bool) -> bool {
        let git_path = if is_directory {
            format!("{path}/")
        } else {
            path.to_owned()
        };
        // If git fails for a path, it is included.
        self.repository
            .is_path_ignored(Path::new(&git_path))
            .unwrap_or(false)
            && self.index.find_prefix(git_path.as_str()).is_err()
    }
}

/// The start directory, the patterns that apply in it, and the git state. No path component below the root is a
/// symbolic link.
fn enter(
    directory: &Path,
    limits: &Limits,
) -> Result<(DirectoryPaths, Ignored, Option<Tracked>), DirectoryError> {
    let shown = display_prefix(directory)?;
    let disk = resolved(directory).map_err(|error| unreadable(&directory.display().to_string(), &error))?;
    let root = disk
        .ancestors()
        .find(|above| fs::symlink_metadata(above.join(GIT)).is_ok())
        .unwrap_or(&disk)
        .to_owned();
    let mut place = DirectoryPaths {
        disk: root.clone(),
        from_root: String::new(),
        shown: shown.clone(),
    };
    check_directory(&place)?;
    let mut ignored = with_patterns(&Ignored::new(&Remote::default())?, &place, limits)?;
    let below = disk.strip_prefix(&root).unwrap_or_else(|_| Path::new(""));
    for component in below.components() {
        let name = entries::entry_name(&place.from_root, component.as_os_str().as_bytes())?.to_owned();
        place = DirectoryPaths {
            shown: shown.clone(),
            ..place.below(&name)
        };
        check_directory(&place)?;
        ignored = with_patterns(&ignored, &place, limits)?;
    }
    Ok((place, ignored, Tracked::of(&root)))
}

/// The displayed prefix of paths below the directory.
fn display_prefix(directory: &Path) -> Result<String, DirectoryError> {
    let text = directory.to_str().ok_or_else(|| SourceError::InvalidPath {
        path: directory.display().to_string(),
        why: "it is not UTF-8",
    })?;
    let text = text.trim_start_matches("./").trim_end_matches('/');
    Ok(match (text, directory.has_root()) {
        ("." | "", false) => String::new(),
        _ => text.to_owned(),
    })
}

/// The directory as an absolute path. Symbolic links are only resolved if the path contains `..`.
fn resolved(directory: &Path) -> io::Result<PathBuf> {
    let goes_up = directory
        .components()
        .any(|component| component == Component::ParentDir);
    if goes_up {
        directory.canonicalize()
    } else {
        std::path::absolute(directory)
    }
}

/// Refuses anything but a directory.
fn check_directory(place: &DirectoryPaths) -> Result<(), DirectoryError> {
    let path = || display_name(&place.shown);
    match fs::symlink_metadata(&place.disk) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(found) if found.is_symlink() => Err(SourceError::Refused {
            path: path(),
            why: EntryRefusal::Symlink,
        }
        .into()),
        Ok(_) => Err(SourceError::InvalidPath {
            path: path(),
            why: "it is a file; use the directory that contains it",
        }
        .into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DirectoryError::Absent { path: path() }),
        Err(error) => Err(unreadable(&path(), &error)),
    }
}

fn display_name(shown: &str) -> String {
    if shown.is_empty() { "." } else { shown }.to_owned()
}

fn unreadable(path: &str, error: &io::Error) -> DirectoryError {
    DirectoryError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

struct Walk<'a> {
    limits: &'a Limits,
    collector: Collector<'a>,
    tracked: Option<Tracked>,
    /// Number of entries visited so far.
    entries: usize,
    errors: Vec<DirectoryError>,
}

impl Walk<'_> {
    /// Reads a directory. Refusals are collected and reading continues; a limit ends it.
    fn directory(
        &mut self,
        place: &DirectoryPaths,
        ignored: &Ignored,
        depth: usize,
    ) -> Result<(), DirectoryError> {
        entries::check_depth(&place.shown, depth, self.limits)?;
        for entry in listed(place)? {
            if place.from_root.is_empty() && entry.file_name() == GIT {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.objects {
                return Err(SourceError::LimitExceeded {
                    what: format!("the number of entries below {:?}", display_name(&place.shown)),
                    limit: self.limits.objects as u64,
                    option: "--git-max-objects",
                }
                .into());
            }
            match self.entry(place, &entry, ignored, depth) {
                Err(error @ DirectoryError::Source(SourceError::LimitExceeded { .. })) => return Err(error),
                Err(error) => self.errors.push(error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &DirectoryPaths,
        entry: &fs::DirEntry,
        ignored: &Ignored,
        depth: usize,
    ) -> Result<(), DirectoryError> {
        let name = entry.file_name();
        let kind = entry
            .file_type()
            .map_err(|error| unreadable(&parent.shown, &error))?;
        let name = entries::entry_name(&parent.shown, name.as_bytes())?;
        let place = parent.below(name);
        if self
            .tracked
            .as_ref()
            .is_some_and(|tracked| tracked.leaves_out(&place.from_root, kind.is_dir()))
        {
            return Ok(());
        }
        let refuse = |why| {
            if ignored.is_ignored(&place.from_root, false) {
                return Ok(());
            }
            Err(SourceError::Refused {
                path: place.shown.clone(),
                why,
            }
            .into())
        };
        if kind.is_symlink() {
            refuse(EntryRefusal::Symlink)
        } else if kind.is_dir() && fs::symlink_metadata(place.disk.join(GIT)).is_ok() {
            refuse(EntryRefusal::Submodule)
        } else if kind.is_dir() {
            let ignored = with_patterns(ignored, &place, self.limits)?;
            self.directory(&place, &ignored, depth + 1)
        } else if kind.is_file() {
            self.file(&place, name, ignored)
        } else {
            Ok(())
        }
    }

    fn file(&mut self, place: &DirectoryPaths, name: &str, ignored: &Ignored) -> Result<(), DirectoryError> {
        if ignored.is_ignored(&place.from_root, false) || !Collector::wants(&place.shown, name)? {
            return Ok(());
        }
        let bytes = read(place, |size| self.collector.admit(&place.shown, size))?;
        Ok(self.collector.push(place.shown.clone(), bytes.into())?)
    }
}

/// The entries of a directory, sorted by the bytes of their names.
fn listed(place: &DirectoryPaths) -> Result<Vec<fs::DirEntry>, DirectoryError> {
    let entries: io::Result<Vec<_>> = fs::read_dir(&place.disk).and_then(Iterator::collect);
    let mut entries = entries.map_err(|error| unreadable(&display_name(&place.shown), &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// The patterns that apply in a directory, including those of its own file.
fn with_patterns(
    ignored: &Ignored,
    place: &DirectoryPaths,
    limits: &Limits,
) -> Result<Ignored, DirectoryError> {
    let file = place.below(FILE_NAME);
    match fs::symlink_metadata(&file.disk) {
        Ok(found) if found.is_file() => {
            let text = read(&file, |size| Collector::new(limits).admit(&file.shown, size))?;
            Ok(ignored.with_file(&place.from_root, &text)?)
        }
        Ok(_) => Ok(ignored.clone()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ignored.clone()),
        Err(error) => Err(unreadable(&file.shown, &error)),
    }
}

/// The content of a file of an admitted size; if the file grows meanwhile, no more than that is read.
fn read(
    place: &DirectoryPaths,
    admit: impl FnOnce(u64) -> Result<(), SourceError>,
) -> Result<Vec<u8>, DirectoryError> {
    let failed = |error| unreadable(&place.shown, &error);
    let file = fs::File::open(&place.disk).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    admit(size)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

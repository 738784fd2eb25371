//! The manifests of a folder on disk, as they would be read from a commit of it: the same names, patterns, refusals and limits.
//!
//! Nothing is followed: a symbolic link, in the path or below it, is refused as it would be in a commit. What git would not
//! commit is not looked at: `.git`, what `.gitignore` leaves out and is not tracked, sockets, devices.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use git2::Repository;

use super::entries::{self, Collector};
use super::ignored::{FILE_NAME, Ignored};
use super::{Files, Limits, Refusal, Remote, SourceError};

/// The folder that makes its parent a work tree, or a submodule.
const GIT: &str = ".git";

/// Why a folder on disk, or something in it, was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// What would be refused in a commit too.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is nothing of that name.
    #[error("{path:?} is not there")]
    Absent {
        /// The folder, as it was named.
        path: String,
    },
    /// The operating system does not let us.
    #[error("{path:?} cannot be read: {why}")]
    Unreadable {
        /// What was to be read.
        path: String,
        /// What the operating system said.
        why: String,
    },
}

/// A folder that is not read as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderErrors {
    /// Everything that is refused, in the order of the paths; never empty.
    pub errors: Vec<FolderError>,
    /// What could be read besides: for more errors, never to be applied.
    pub readable: Files,
}

impl fmt::Display for FolderErrors {
    /// The first one, and how many there are besides.
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

impl std::error::Error for FolderErrors {}

/// The manifests of a folder of a work tree. Patterns of `.sourceignore` count from the root of the work tree on, as in a
/// commit; a folder outside of any work tree is its own root. Paths are shown as the folder was named, `./` left out.
pub fn read_folder(folder: &Path, limits: &Limits) -> Result<Files, FolderErrors> {
    let alone = |error| FolderErrors {
        errors: vec![error],
        readable: Files::default(),
    };
    let (place, ignored, tracked) = enter(folder, limits).map_err(alone)?;
    let mut walk = Walk {
        limits,
        collector: Collector::new(limits),
        tracked,
        entries: 0,
        errors: Vec::new(),
    };
    let ended = walk.folder(&place, &ignored, 0);
    let mut errors = walk.errors;
    errors.extend(ended.err());
    let readable = walk.collector.finish();
    if errors.is_empty() {
        Ok(readable)
    } else {
        Err(FolderErrors { errors, readable })
    }
}

/// One folder by its three names.
struct Place {
    disk: PathBuf,
    /// From the root of the work tree: what patterns are about.
    from_root: String,
    /// For people.
    shown: String,
}

impl Place {
    fn below(&self, name: &str) -> Self {
        Self {
            disk: self.disk.join(name),
            from_root: entries::join(&self.from_root, name),
            shown: entries::join(&self.shown, name),
        }
    }
}

/// What git tracks or would track, where there is git.
struct Tracked {
    repository: Repository,
    index: git2::Index,
}

impl Tracked {
    fn of(root: &Path) -> Option<Self> {
        // A folder that git cannot open is read like one without git: everything in it counts.
        let repository = Repository::open(root).ok()?;
        let index = repository.index().ok()?;
        Some(Self { repository, index })
    }

    /// Whether a commit of everything would leave the path out.
    fn leaves_out(&self, path: &str, is_folder: bool) -> bool {
        let asked = if is_folder {
            format!("{path}/")
        } else {
            path.to_owned()
        };
        // A path that git cannot judge is looked at.
        self.repository
            .is_path_ignored(Path::new(&asked))
            .unwrap_or(false)
            && self.index.find_prefix(asked.as_str()).is_err()
    }
}

/// The folder to begin with, the patterns that hold in it, and what git knows. No component below the root is a link.
fn enter(folder: &Path, limits: &Limits) -> Result<(Place, Ignored, Option<Tracked>), FolderError> {
    let shown = shown(folder)?;
    let disk = resolved(folder).map_err(|error| unreadable(&folder.display().to_string(), &error))?;
    let root = disk
        .ancestors()
        .find(|above| fs::symlink_metadata(above.join(GIT)).is_ok())
        .unwrap_or(&disk)
        .to_owned();
    let mut place = Place {
        disk: root.clone(),
        from_root: String::new(),
        shown: shown.clone(),
    };
    check_folder(&place)?;
    let mut ignored = with_patterns(&Ignored::new(&Remote::default())?, &place, limits)?;
    let below = disk.strip_prefix(&root).unwrap_or_else(|_| Path::new(""));
    for component in below.components() {
        let name = entries::entry_name(&place.from_root, component.as_os_str().as_bytes())?.to_owned();
        place = Place {
            shown: shown.clone(),
            ..place.below(&name)
        };
        check_folder(&place)?;
        ignored = with_patterns(&ignored, &place, limits)?;
    }
    Ok((place, ignored, Tracked::of(&root)))
}

/// How paths below the folder begin.
fn shown(folder: &Path) -> Result<String, FolderError> {
    let text = folder.to_str().ok_or_else(|| SourceError::InvalidPath {
        path: folder.display().to_string(),
        why: "it is not UTF-8",
    })?;
    let text = text.trim_start_matches("./").trim_end_matches('/');
    Ok(match (text, folder.has_root()) {
        ("." | "", false) => String::new(),
        _ => text.to_owned(),
    })
}

/// The folder as an absolute path. Links stay as they are, unless the way to it goes up again.
fn resolved(folder: &Path) -> io::Result<PathBuf> {
    let goes_up = folder
        .components()
        .any(|component| component == Component::ParentDir);
    if goes_up {
        folder.canonicalize()
    } else {
        std::path::absolute(folder)
    }
}

/// Refuses what is no folder.
fn check_folder(place: &Place) -> Result<(), FolderError> {
    let path = || named(&place.shown);
    match fs::symlink_metadata(&place.disk) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(found) if found.is_symlink() => Err(SourceError::Refused {
            path: path(),
            why: Refusal::Symlink,
        }
        .into()),
        Ok(_) => Err(SourceError::InvalidPath {
            path: path(),
            why: "it is a file; name the folder that holds it",
        }
        .into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FolderError::Absent { path: path() }),
        Err(error) => Err(unreadable(&path(), &error)),
    }
}

fn named(shown: &str) -> String {
    if shown.is_empty() { "." } else { shown }.to_owned()
}

fn unreadable(path: &str, error: &io::Error) -> FolderError {
    FolderError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

struct Walk<'a> {
    limits: &'a Limits,
    collector: Collector<'a>,
    tracked: Option<Tracked>,
    /// Looked at so far.
    entries: usize,
    errors: Vec<FolderError>,
}

impl Walk<'_> {
    /// Takes what is in a folder. What is refused is remembered, and the rest looked at; a limit ends it.
    fn folder(&mut self, place: &Place, ignored: &Ignored, depth: usize) -> Result<(), FolderError> {
        entries::check_depth(&place.shown, depth, self.limits)?;
        for entry in listed(place)? {
            if place.from_root.is_empty() && entry.file_name() == GIT {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.objects {
                return Err(SourceError::LimitExceeded {
                    what: format!("the number of entries below {:?}", named(&place.shown)),
                    limit: self.limits.objects as u64,
                    option: "--git-max-objects",
                }
                .into());
            }
            match self.entry(place, &entry, ignored, depth) {
                Err(error @ FolderError::Source(SourceError::LimitExceeded { .. })) => return Err(error),
                Err(error) => self.errors.push(error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &Place,
        entry: &fs::DirEntry,
        ignored: &Ignored,
        depth: usize,
    ) -> Result<(), FolderError> {
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
            refuse(Refusal::Symlink)
        } else if kind.is_dir() && fs::symlink_metadata(place.disk.join(GIT)).is_ok() {
            refuse(Refusal::Submodule)
        } else if kind.is_dir() {
            let ignored = with_patterns(ignored, &place, self.limits)?;
            self.folder(&place, &ignored, depth + 1)
        } else if kind.is_file() {
            self.file(&place, name, ignored)
        } else {
            Ok(())
        }
    }

    fn file(&mut self, place: &Place, name: &str, ignored: &Ignored) -> Result<(), FolderError> {
        if ignored.is_ignored(&place.from_root, false) || !Collector::wants(&place.shown, name)? {
            return Ok(());
        }
        let bytes = read(place, |size| self.collector.admit(&place.shown, size))?;
        Ok(self.collector.push(place.shown.clone(), bytes.into())?)
    }
}

/// The entries of a folder by the bytes of their names.
fn listed(place: &Place) -> Result<Vec<fs::DirEntry>, FolderError> {
    let entries: io::Result<Vec<_>> = fs::read_dir(&place.disk).and_then(Iterator::collect);
    let mut entries = entries.map_err(|error| unreadable(&named(&place.shown), &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// The patterns that hold in a folder, those of its own file included.
fn with_patterns(ignored: &Ignored, place: &Place, limits: &Limits) -> Result<Ignored, FolderError> {
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

/// The content of a file whose size is admitted; no more than that is read, if it grows meanwhile.
fn read(place: &Place, admit: impl FnOnce(u64) -> Result<(), SourceError>) -> Result<Vec<u8>, FolderError> {
    let failed = |error| unreadable(&place.shown, &error);
    let file = fs::File::open(&place.disk).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    admit(size)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

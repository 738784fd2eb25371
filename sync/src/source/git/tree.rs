//! Reads manifests directly from the object database.

use std::collections::BTreeSet;

use bytes::Bytes;
use git2::{Oid, Repository, Tree, TreeEntry};

use super::super::entries::{self, Collector};
use super::super::ignored::{FILE_NAME, Ignored};
use super::super::{CommitId, EntryRefusal, Files, Limits, Remote, SourceError};

/// File modes that git writes.
mod mode {
    pub(crate) const TREE: i32 = 0o040_000;
    pub(crate) const FILES: [i32; 3] = [0o100_644, 0o100_755, 0o100_664];
    pub(crate) const SYMLINK: i32 = 0o120_000;
    pub(crate) const SUBMODULE: i32 = 0o160_000;
}

/// An entry that we refuse, or an error of libgit2.
pub(super) enum Problem {
    Source(SourceError),
    Git(git2::Error),
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<git2::Error> for Problem {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
}

/// The manifests below a path of a commit. `check` is called repeatedly to test the deadline.
pub(super) fn read(
    repository: &Repository,
    root: &Tree<'_>,
    remote: &Remote,
    commit: &CommitId,
    path: &str,
    limits: &Limits,
    check: &dyn Fn() -> Result<(), SourceError>,
) -> Result<Files, Problem> {
    let mut reader = Reader {
        repository,
        limits,
        check,
        collector: Collector::new(limits),
        entries: 0,
    };
    let mut ignored = reader.with_patterns(&Ignored::new(remote)?, "", root)?;
    let mut directory = String::new();
    let mut tree = root.clone();
    for name in entries::components(path)? {
        let not_found = || SourceError::PathNotFound {
            commit: commit.to_string(),
            path: path.to_owned(),
        };
        let entry = tree.get_name_bytes(name.as_bytes()).ok_or_else(not_found)?;
        let (id, mode) = (entry.id(), entry.filemode_raw());
        drop(entry);
        directory = entries::join(&directory, name);
        let why = match mode {
            mode::TREE => None,
            mode::SYMLINK => Some(EntryRefusal::Symlink),
            mode::SUBMODULE => Some(EntryRefusal::Submodule),
            _ => Some(EntryRefusal::NoDirectory),
        };
        if let Some(why) = why {
            return Err(SourceError::Refused { path: directory, why }.into());
        }
        tree = repository.find_tree(id)?;
        ignored = reader.with_patterns(&ignored, &directory, &tree)?;
    }
    reader.directory(&tree, &directory, &ignored, 0)?;
    Ok(reader.collector.finish())
}

struct Reader<'a> {
    repository: &'a Repository,
    limits: &'a Limits,
    check: &'a dyn Fn() -> Result<(), SourceError>,
    collector: Collector<'a>,
    /// Number of entries visited so far; the same tree may be visited many times.
    entries: usize,
}

impl Reader<'_> {
    fn directory(
        &mut self,
        tree: &Tree<'_>,
        directory: &str,
        ignored: &Ignored,
        depth: usize,
    ) -> Result<(), Problem> {
        entries::check_depth(directory, depth, self.limits)?;
        let mut names = BTreeSet::new();
        for entry in tree {
            (self.check)()?;
            if !names.insert(entry.name_bytes().to_vec()) {
                let name = entry.name_bytes().escape_ascii().to_string();
                return Err(SourceError::Refused {
                    path: entries::join(directory, &name),
                    why: EntryRefusal::Twice,
                }
                .into());
            }
            self.entries += 1;
            if self.entries > self.limits.objects {
                let what = format!("the number of entries below {directory:?}");
                let limit = self.limits.objects as u64;
                return Err(SourceError::LimitExceeded {
                    what,
                    limit,
                    option: "--git-max-objects",
                }
                .into());
            }
            self.entry(&entry, directory, ignored, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        entry: &TreeEntry<'_>,
        directory: &str,
        ignored: &Ignored,
        depth: usize,
    ) -> Result<(), Problem> {
        let name = entries::entry_name(directory, entry.name_bytes())?;
        let path = entries::join(directory, name);
        match entry.filemode_raw() {
            mode::TREE => {
                let tree = self.repository.find_tree(entry.id())?;
                let ignored = self.with_patterns(ignored, &path, &tree)?;
                self.directory(&tree, &path, &ignored, depth + 1)
            }
            mode if mode::FILES.contains(&mode) => self.file(entry.id(), path, name, ignored),
            mode::SYMLINK => Ok(entries::refuse_unless_ignored(
                ignored,
                path,
                EntryRefusal::Symlink,
            )?),
            mode::SUBMODULE => Ok(entries::refuse_unless_ignored(
                ignored,
                path,
                EntryRefusal::Submodule,
            )?),
            mode => Err(SourceError::Refused {
                path,
                why: EntryRefusal::UnknownMode(mode.cast_unsigned()),
            }
            .into()),
        }
    }

    fn file(&mut self, id: Oid, path: String, name: &str, ignored: &Ignored) -> Result<(), Problem> {
        if ignored.is_ignored(&path, false) || !Collector::wants(&path, name)? {
            return Ok(());
        }
        let (size, _) = self.repository.odb()?.read_header(id)?;
        self.collector.admit(&path, size as u64)?;
        let blob = self.repository.find_blob(id)?;
        Ok(self
            .collector
            .push(path, Bytes::copy_from_slice(blob.content()))?)
    }

    /// The patterns that apply in a directory, including those of its own file.
    fn with_patterns(&self, ignored: &Ignored, directory: &str, tree: &Tree<'_>) -> Result<Ignored, Problem> {
        let entry = tree
            .get_name(FILE_NAME)
            .filter(|entry| mode::FILES.contains(&entry.filemode_raw()));
        let Some(entry) = entry else {
            return Ok(ignored.clone());
        };
        let path = entries::join(directory, FILE_NAME);
        let (size, _) = self.repository.odb()?.read_header(entry.id())?;
        Collector::new(self.limits).admit(&path, size as u64)?;
        Ok(ignored.with_file(directory, self.repository.find_blob(entry.id())?.content())?)
    }
}

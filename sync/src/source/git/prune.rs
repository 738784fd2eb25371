//! Prunes mirrors: removes commits that no source refers to.
//!
//! A fetch only adds. From time to time the caller lists the commits in use, and the rest of a mirror is removed once
//! that is worthwhile. The mirror is repacked into a new pack and the old packs are removed last, so that a kill leaves
//! too much, never too little.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::super::deadline::Deadline;
use super::super::{Limits, SourceError};
use super::crash::point;
use super::mirror::{self, Mirror, PACKS, Part, move_packs, sync_directory, writing};

/// File mode of packs: read-only for the owner.
const PACK_MODE: u32 = 0o400;

/// A mirror is repacked when it holds this many times the objects in use.
const WORTH: usize = 2;

impl Mirror {
    /// Drops commits that are not in `named`, and frees their space if it exceeds the limit.
    pub(super) fn prune(
        &self,
        named: &BTreeSet<Oid>,
        limits: &Limits,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.sweep();
        for commit in self.kept() {
            if !named.contains(&commit) {
                self.unmark(commit)?;
            }
        }
        let kept = self.kept();
        if kept.is_empty() {
            self.remove();
            return Ok(());
        }
        if self.size() <= limits.spare_bytes {
            return Ok(());
        }
        let Some(repository) = self.open() else {
            return Ok(());
        };
        let check = || deadline.check(&self.url, "pruning the mirror");
        let mut live = BTreeSet::new();
        for commit in kept {
            match mirror::contents(&repository, commit, limits, &check) {
                Ok(contents) => live.extend(contents.objects),
                Err(super::tree::Problem::Source(error)) => return Err(error),
                Err(super::tree::Problem::Git(error)) => {
                    self.discard(error.message());
                    return Ok(());
                }
            }
        }
        if self.is_worth_it(&repository, &live, limits)? {
            self.repack(&repository, &live)?;
        }
        Ok(())
    }

    /// Size on disk in bytes.
    fn size(&self) -> u64 {
        let packs = self.packs();
        let sizes = packs.iter().map(|pack| fs::metadata(pack).map(|data| data.len()));
        // Unreadable files are counted the next time.
        sizes.flatten().sum()
    }

    fn packs(&self) -> Vec<PathBuf> {
        [Part::Commits, Part::History]
            .into_iter()
            .flat_map(|part| files(&self.part(part).join(PACKS)))
            .collect()
    }

    /// Whether repacking is worthwhile: not if most objects are in use, or if a file is so large that it should not be
    /// held in memory, which writing needs.
    fn is_worth_it(
        &self,
        repository: &Repository,
        live: &BTreeSet<Oid>,
        limits: &Limits,
    ) -> Result<bool, SourceError> {
        let storage = |error: git2::Error| self.storage(&error);
        let odb = repository.odb().map_err(storage)?;
        let mut all = 0_usize;
        odb.foreach(|_| {
            all += 1;
            true
        })
        .map_err(storage)?;
        for object in live {
            let (size, _) = odb.read_header(*object).map_err(storage)?;
            if size as u64 > limits.object_bytes {
                return Ok(false);
            }
        }
        Ok(all >= live.len().saturating_mul(WORTH))
    }

    /// Writes the live objects into one pack, then removes all other packs and the history.
    fn repack(&self, repository: &Repository, live: &BTreeSet<Oid>) -> Result<(), SourceError> {
        let storage = |error: git2::Error| self.storage(&error);
        let old = self.packs();
        let scratch = self.scratch()?;
        let packs = scratch.path().join("packs");
        fs::create_dir(&packs).map_err(writing)?;
        let mut pack = repository.packbuilder().map_err(storage)?;
        pack.set_threads(1);
        for object in live {
            pack.insert_object(*object, None).map_err(storage)?;
        }
        pack.write(&packs, PACK_MODE).map_err(storage)?;
        let new: BTreeSet<_> = files(&packs)
            .iter()
            .filter_map(|path| path.file_name().map(ToOwned::to_owned))
            .collect();
        let into = self.path.join(PACKS);
        move_packs(&packs, &into).map_err(writing)?;
        let history = self.part(Part::History);
        if history.exists() {
            point("before the history is removed");
            fs::rename(history, scratch.path().join("history")).map_err(writing)?;
        }
        for file in old {
            let is_new = file.file_name().is_some_and(|name| new.contains(name));
            if file.starts_with(&into) && !is_new {
                point("before an old pack is removed");
                fs::remove_file(file).map_err(writing)?;
            }
        }
        sync_directory(&into).map_err(writing)
    }

    fn storage(&self, error: &git2::Error) -> SourceError {
        tracing::warn!(url = self.url, why = error.message(), "a mirror was not pruned");
        SourceError::Storage {
            what: "writing a mirror",
            why: error.message().to_owned(),
        }
    }
}

/// The files of a directory, each index before its pack: a pack without an index is ignored, an index without a pack is
/// damage.
fn files(directory: &Path) -> Vec<PathBuf> {
    // A missing directory has none.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

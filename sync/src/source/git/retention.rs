//! What is kept in the data directory: commits in use, and those that were used recently.

use std::collections::{BTreeMap, BTreeSet};

use git2::Oid;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::super::deadline::Deadline;
use super::super::limits::RECENT;
use super::super::url::GitUrl;
use super::super::{CommitId, SourceError};
use super::GitSource;
use super::mirror::{self, Mirror};

/// Number of hex digits in the name of a mirror's directory.
const DIRECTORY_DIGITS: usize = 64;

/// When each commit was last used, by mirror.
#[derive(Default)]
pub(super) struct Recent(Mutex<BTreeMap<(String, CommitId), Timestamp>>);

impl Recent {
    pub(super) fn used(&self, directory: &str, commit: &CommitId, at: Timestamp) {
        self.0.lock().insert((directory.to_owned(), commit.clone()), at);
    }

    /// The commits used within the last hour; older records are dropped.
    fn since(&self, now: Timestamp) -> BTreeSet<(String, CommitId)> {
        let mut recent = self.0.lock();
        recent.retain(|_, at| now.duration_since(*at) < RECENT);
        recent.keys().cloned().collect()
    }
}

impl GitSource {
    /// Prunes each mirror of the data directory, one after the other.
    pub(super) async fn retain_named(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError> {
        let mut stays: BTreeMap<String, BTreeSet<Oid>> = BTreeMap::new();
        let named = named.iter().filter_map(|(url, commit)| {
            // An invalid URL has no mirror.
            let url = GitUrl::parse(url, self.options.allow_insecure).ok()?;
            Some((url.directory(), commit.clone()))
        });
        for (directory, commit) in named.chain(self.recent.since(self.clock.now())) {
            // Commits of SHA-256 repositories are never stored.
            if let Ok(commit) = mirror::oid(&commit) {
                stays.entry(directory).or_default().insert(commit);
            }
        }
        for directory in self.directories()? {
            let named = stays.remove(&directory).unwrap_or_default();
            if let Some(turn) = self.gate.idle_turn(&directory) {
                let mirror = Mirror::at(&self.options.data_dir, &directory, &directory);
                let limits = self.options.limits.clone();
                let deadline = Deadline::after(limits.timeout);
                let pruned = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    mirror.prune(&named, &limits, deadline)
                });
                pruned.await.map_err(|error| SourceError::Storage {
                    what: "pruning the mirror",
                    why: error.to_string(),
                })??;
            }
        }
        Ok(())
    }

    /// The directories of mirrors; anything else in the data directory is left alone.
    fn directories(&self) -> Result<Vec<String>, SourceError> {
        let entries = std::fs::read_dir(&self.options.data_dir).map_err(|error| SourceError::Storage {
            what: "listing it",
            why: error.to_string(),
        })?;
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut directories: Vec<String> = names
            .filter(|name| {
                name.len() == DIRECTORY_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
            .collect();
        directories.sort();
        Ok(directories)
    }
}

//! The bare repository of one URL.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository, RepositoryInitOptions};
use tempfile::TempDir;

use super::super::url::GitUrl;
use super::super::{CommitId, Files, Limits, Remote, SourceError};
use super::tree;

/// Permissions of packs: the owner's only.
const PACK_MODE: u32 = 0o400;

/// Where the commits of one URL are kept.
#[derive(Debug, Clone)]
pub(super) struct Mirror {
    /// Of the repository.
    pub url: String,
    data_dir: PathBuf,
    path: PathBuf,
}

impl Mirror {
    pub(super) fn new(data_dir: &Path, url: &GitUrl) -> Self {
        Self {
            url: url.text.clone(),
            data_dir: data_dir.to_owned(),
            path: data_dir.join(url.folder()),
        }
    }

    /// The digest of a commit that is here, which is that of its tree.
    pub(super) fn digest(&self, commit: Oid) -> Option<String> {
        let repository = self.open()?;
        let tree = repository.find_commit(commit).ok()?.tree_id();
        Some(format!("sha1:{tree}"))
    }

    /// The manifests below a path.
    pub(super) fn read(
        &self,
        remote: &Remote,
        commit: &CommitId,
        path: &str,
        limits: &Limits,
    ) -> Result<Files, SourceError> {
        let not_fetched = || SourceError::NotFetched {
            url: self.url.clone(),
            commit: commit.to_string(),
        };
        let repository = self.open().ok_or_else(not_fetched)?;
        let found = repository.find_commit(oid(commit)?).map_err(|error| {
            if error.code() != ErrorCode::NotFound {
                self.discard(error.message());
            }
            not_fetched()
        })?;
        // A commit is here with all that it consists of: what of it cannot be read is damage.
        let read = found.tree().map_err(tree::Problem::Git);
        read.and_then(|root| tree::read(&repository, &root, remote, commit, path, limits))
            .map_err(|problem| match problem {
                tree::Problem::Source(error) => error,
                tree::Problem::Git(error) => {
                    self.discard(error.message());
                    not_fetched()
                }
            })
    }

    /// Takes a commit over, with what of its tree is not here yet. `objects` is all that it consists of.
    pub(super) fn adopt(&self, from: &Repository, objects: &[Oid]) -> Result<(), SourceError> {
        let into = self.open();
        let held = into.as_ref().and_then(|repository| repository.odb().ok());
        let storage = |error: git2::Error| SourceError::Storage {
            what: "writing a mirror",
            why: error.message().to_owned(),
        };
        let mut pack = from.packbuilder().map_err(storage)?;
        pack.set_threads(1);
        for object in objects
            .iter()
            .filter(|object| !held.as_ref().is_some_and(|odb| odb.exists(**object)))
        {
            pack.insert_object(*object, None).map_err(storage)?;
        }
        if into.is_some() {
            return pack
                .write(&self.path.join("objects/pack"), PACK_MODE)
                .map_err(storage);
        }
        let fresh = self.scratch()?;
        init(fresh.path())?;
        pack.write(&fresh.path().join("objects/pack"), PACK_MODE)
            .map_err(storage)?;
        std::fs::rename(fresh.path(), &self.path).map_err(|error| SourceError::Storage {
            what: "naming a mirror",
            why: error.to_string(),
        })
    }

    /// A folder to work in, removed when it is dropped. What a killed process left is removed first.
    pub(super) fn scratch(&self) -> Result<TempDir, SourceError> {
        let prefix = self.scratch_prefix();
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.data_dir)
            .map_err(|error| SourceError::Storage {
                what: "making a folder",
                why: error.to_string(),
            })
    }

    /// Removes what a killed process left for this URL. The caller has the URL's turn, so that nobody works there.
    pub(super) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.data_dir) else {
            return;
        };
        for entry in entries.flatten() {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(&self.scratch_prefix())
            {
                // What cannot be removed now is tried again at the next fetch, and is never read.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    fn scratch_prefix(&self) -> String {
        let name = self
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        format!("fetch-{name}-")
    }

    /// None if there is none, or none that can be used: that one is removed, so that the next fetch makes a new one.
    fn open(&self) -> Option<Repository> {
        match Repository::open_bare(&self.path) {
            Ok(repository) => Some(repository),
            Err(error) if error.code() == ErrorCode::NotFound && !self.path.exists() => None,
            Err(error) => {
                self.discard(error.message());
                None
            }
        }
    }

    /// Moves the mirror out of the way, so that the next fetch makes a new one.
    fn discard(&self, why: &str) {
        tracing::warn!(url = self.url, why, "the mirror is damaged and is fetched anew");
        if let Ok(aside) = self.scratch() {
            // If it cannot be moved it stays, and the next use comes here again.
            let _ = std::fs::rename(&self.path, aside.path().join("damaged"));
        }
    }
}

/// A bare repository without templates or hooks.
pub(super) fn init(path: &Path) -> Result<Repository, SourceError> {
    let mut options = RepositoryInitOptions::new();
    options.bare(true).mkpath(true).external_template(false);
    Repository::init_opts(path, &options).map_err(|error| SourceError::Storage {
        what: "making a repository",
        why: error.message().to_owned(),
    })
}

/// libgit2's form of a commit id. SHA-256 repositories are beyond it.
pub(super) fn oid(commit: &CommitId) -> Result<Oid, SourceError> {
    Oid::from_str(commit.as_str())
        .ok()
        .filter(|_| commit.as_str().len() == 40)
        .ok_or_else(|| SourceError::Unsupported {
            what: format!("commit {commit} of a SHA-256 repository"),
            next: "run Flux in this cluster for it",
        })
}

/// Everything that a commit consists of: itself, its trees, its blobs; an error if something is missing or too much.
pub(super) fn contents(
    repository: &Repository,
    commit: Oid,
    limits: &Limits,
) -> Result<Vec<Oid>, tree::Problem> {
    let odb = repository.odb()?;
    let mut objects = vec![commit];
    let mut seen = std::collections::BTreeSet::new();
    let mut pending = vec![(repository.find_commit(commit)?.tree_id(), 0)];
    while let Some((id, depth)) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        super::super::entries::check_depth("the tree", depth, limits)?;
        objects.push(id);
        for entry in &repository.find_tree(id)? {
            match entry.kind() {
                Some(ObjectType::Tree) => pending.push((entry.id(), depth + 1)),
                Some(ObjectType::Blob) if seen.insert(entry.id()) => {
                    odb.read_header(entry.id())?;
                    objects.push(entry.id());
                }
                _ => {}
            }
            if objects.len() + pending.len() > limits.objects {
                return Err(tree::Problem::Source(SourceError::LimitExceeded {
                    what: format!("the number of objects in commit {commit}"),
                    limit: limits.objects as u64,
                    option: "--git-max-objects",
                }));
            }
        }
    }
    Ok(objects)
}

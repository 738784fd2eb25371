//! Commits one file, without any other change in the work tree.

use std::{fs, io, path::Path};

use git2::{ErrorCode, Oid, Repository, RepositoryState, Status, build::TreeUpdateBuilder};
use muster_dashboard::Past;
use muster_fleet::name::ModuleName;
use thiserror::Error;

use crate::steps::Cause;

/// Why the commit is refused.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The file has uncommitted changes.
    #[error(
        "{path} has changes that are not committed; next: commit or stash them (git stash), or use the patch (without --commit)"
    )]
    Dirty {
        /// Path of the file.
        path: String,
    },
    /// A merge, a rebase or the like is in progress.
    #[error(
        "the work tree has another operation in progress ({state:?}): finish it first, or use the patch (without --commit)"
    )]
    Busy {
        /// State of the repository.
        state: RepositoryState,
    },
    /// git has no author configured.
    #[error("git does not know who you are; next: git config user.name '…' and git config user.email '…'")]
    NoAuthor,
    /// git failed.
    #[error("git: {0}")]
    Git(#[from] git2::Error),
    /// The file could not be written.
    #[error("{path} cannot be written")]
    Write {
        /// Path of the file.
        path: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

impl CommitError {
    /// Whether it is refused because of other work in progress, or could not be found out.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Dirty { .. } | Self::Busy { .. } => Cause::Failed,
            Self::NoAuthor | Self::Git(_) | Self::Write { .. } => Cause::Unknown,
        }
    }
}

/// The commit message.
pub(crate) struct Message<'a> {
    pub module: &'a ModuleName,
    /// The current version.
    pub now: &'a str,
    /// The revision that it goes back to.
    pub past: &'a Past,
    pub reason: Option<&'a str>,
}

impl Message<'_> {
    /// The subject line.
    pub(crate) fn subject(&self) -> String {
        format!(
            "{}: back from {} to {}",
            self.module.name, self.now, self.past.version
        )
    }

    fn text(&self) -> String {
        let Past {
            version,
            commit,
            finished,
            counts,
            verdict,
            ..
        } = self.past;
        let reason = self
            .reason
            .map_or_else(String::new, |reason| format!("{reason}\n\n"));
        let on = counts
            .as_ref()
            .map_or_else(String::new, |counts| format!(" on {} clusters", counts.clusters));
        let at = finished.map_or_else(String::new, |at| format!(", {at}"));
        format!(
            "{}\n\n{reason}{version} (revision {}, commit {commit}) was {}{on}{at}.\n",
            self.subject(),
            self.past.short_hash(),
            verdict.as_str()
        )
    }
}

/// Commits this text of a file on top of HEAD. Other staged or changed files stay as they are, and are not part of the
/// commit.
pub(crate) fn commit(
    repository: &Repository,
    path: &str,
    text: &str,
    message: &Message<'_>,
) -> Result<Oid, CommitError> {
    if repository.state() != RepositoryState::Clean {
        return Err(CommitError::Busy {
            state: repository.state(),
        });
    }
    let status = repository.status_file(Path::new(path))?;
    if status != Status::CURRENT {
        return Err(CommitError::Dirty {
            path: path.to_owned(),
        });
    }
    let author = repository.signature().map_err(|error| match error.code() {
        ErrorCode::NotFound => CommitError::NoAuthor,
        _ => CommitError::Git(error),
    })?;
    let parent = repository.head()?.peel_to_commit()?;
    let before = parent.tree()?;
    let mode = before.get_path(Path::new(path))?.filemode();
    let written = |source| CommitError::Write {
        path: path.to_owned(),
        source,
    };
    let file = repository
        .workdir()
        .unwrap_or_else(|| repository.path())
        .join(path);
    fs::write(file, text).map_err(written)?;
    // Through the index, so that line endings are converted as git does.
    let mut index = repository.index()?;
    index.add_path(Path::new(path))?;
    let entry = index.get_path(Path::new(path), 0);
    let blob = entry
        .ok_or_else(|| CommitError::Dirty {
            path: path.to_owned(),
        })?
        .id;
    let mode = if mode == 0o100_755 {
        git2::FileMode::BlobExecutable
    } else {
        git2::FileMode::Blob
    };
    let tree = TreeUpdateBuilder::new()
        .upsert(path, blob, mode)
        .create_updated(repository, &before)?;
    let tree = repository.find_tree(tree)?;
    let commit = repository.commit(Some("HEAD"), &author, &author, &message.text(), &tree, &[&parent])?;
    index.write()?;
    Ok(commit)
}

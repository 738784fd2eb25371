//! The bare repository of one URL.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, RepositoryInitOptions};
use tempfile::TempDir;

use super::super::deadline::Deadline;
use super::super::url::GitUrl;
use super::super::{CommitId, Files, Limits, Remote, SourceError};
use super::crash::point;
use super::tree;

/// Directory of a mirror with one file per complete commit, named by its id; it contains the total size of the commit's
/// files.
const KEPT: &str = "kept";

/// Directory of a mirror with what was fetched including history. It is separate because a server that knows we have a
/// commit from it assumes that we have all its ancestors, which is wrong for commits that were fetched alone.
const HISTORY: &str = "history";

/// The commits that the server's references pointed to when the history was last fetched.
const TIPS: &str = "tips";

/// Marks a repository that can be read without credentials, so that its content is available to everyone.
const PUBLIC: &str = "public";

/// Directory of the packs in a repository.
pub(super) const PACKS: &str = "objects/pack";

/// The maximum number of commits announced to a server. libgit2 itself announces at most 256.
const MAX_HAVES: usize = 64;

/// The directory with the commits of one URL.
#[derive(Debug, Clone)]
pub(super) struct Mirror {
    /// URL of the repository, for messages.
    pub url: String,
    data_dir: PathBuf,
    pub(super) path: PathBuf,
}

/// A commit that is stored with all its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredCommit {
    /// Digest of its tree.
    pub digest: String,
    /// Total size of its files in bytes.
    pub size: u64,
}

/// All objects of a commit.
pub(super) struct Contents {
    /// The commit, its trees and its blobs, each once.
    pub objects: Vec<Oid>,
    /// Total size of the blobs in bytes.
    pub size: u64,
}

/// Which part of a mirror a fetch adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Commits without their history.
    Commits,
    /// Commits with their history.
    History,
}

impl Mirror {
    pub(super) fn new(data_dir: &Path, url: &GitUrl) -> Self {
        Self::at(data_dir, &url.directory(), &url.text)
    }

    /// The mirror in a directory of the data directory.
    pub(super) fn at(data_dir: &Path, directory: &str, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            data_dir: data_dir.to_owned(),
            path: data_dir.join(directory),
        }
    }

    /// A commit, if it is complete.
    pub(super) fn stored_commit(&self, commit: Oid) -> Option<StoredCommit> {
        let size = self.marked(commit)?;
        let tree = self.sound(|repository| Ok(repository.find_commit(commit)?.tree_id()));
        // Nothing here is refused by a rule, so an error means damage.
        let tree = tree.ok().flatten()?;
        Some(StoredCommit {
            digest: format!("sha1:{tree}"),
            size,
        })
    }

    /// The size in the mark of a commit. A truncated mark, left by a killed process, does not count.
    fn marked(&self, commit: Oid) -> Option<u64> {
        let text = fs::read_to_string(self.mark(commit)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    }

    /// Reads from the mirror: if that fails twice it is damaged, as a single failure may come from concurrent pruning.
    /// A damaged mirror is removed.
    fn sound<T>(
        &self,
        read: impl Fn(&Repository) -> Result<T, tree::Problem>,
    ) -> Result<Option<T>, SourceError> {
        let mut damage = None;
        for _ in 0..2 {
            let Some(repository) = self.open() else {
                return Ok(None);
            };
            match read(&repository) {
                Ok(read) => return Ok(Some(read)),
                Err(tree::Problem::Source(error)) => return Err(error),
                Err(tree::Problem::Git(error)) => damage = Some(error),
            }
        }
        if let Some(error) = damage {
            self.discard(error.message());
        }
        Ok(None)
    }

    /// Marks a commit as complete that was fetched as part of another one, or whose mark is missing because the process
    /// was killed.
    pub(super) fn find_stored_commit(
        &self,
        commit: Oid,
        limits: &Limits,
        deadline: Deadline,
    ) -> Result<Option<StoredCommit>, SourceError> {
        if let Some(whole) = self.stored_commit(commit) {
            return Ok(Some(whole));
        }
        let Some(repository) = self.open() else {
            return Ok(None);
        };
        match contents(&repository, commit, limits, &|| {
            deadline.check(&self.url, "checking a commit")
        }) {
            Ok(contents) => {
                self.keep(commit, contents.size)?;
                Ok(self.stored_commit(commit))
            }
            Err(tree::Problem::Source(error)) => Err(error),
            // Missing or incomplete: it must be fetched.
            Err(tree::Problem::Git(_)) => Ok(None),
        }
    }

    /// The manifests below a path.
    pub(super) fn read(
        &self,
        remote: &Remote,
        commit: &CommitId,
        path: &str,
        limits: &Limits,
        deadline: Deadline,
    ) -> Result<Files, SourceError> {
        let not_fetched = || SourceError::NotFetched {
            url: self.url.clone(),
            commit: commit.to_string(),
        };
        let id = oid(commit)?;
        self.marked(id).ok_or_else(not_fetched)?;
        let check = || deadline.check(&self.url, "reading");
        let read = self.sound(|repository| {
            let root = repository.find_commit(id)?.tree()?;
            tree::read(repository, &root, remote, commit, path, limits, &check)
        });
        read?.ok_or_else(not_fetched)
    }

    /// The commits to announce to the server in a fetch for this part.
    pub(super) fn haves(&self, part: Part) -> Vec<Oid> {
        let mut haves = match part {
            Part::Commits => self.kept(),
            // Without the list, the next fetch is a full one.
            Part::History => fs::read_to_string(self.path.join(HISTORY).join(TIPS))
                .unwrap_or_default()
                .lines()
                .filter_map(|line| Oid::from_str(line).ok())
                .collect(),
        };
        haves.truncate(MAX_HAVES);
        haves
    }

    /// The object databases that a fetch for this part may use as alternates.
    pub(super) fn objects(&self, part: Part) -> Vec<PathBuf> {
        let parts: &[Part] = match part {
            Part::Commits => &[Part::Commits, Part::History],
            Part::History => &[Part::History],
        };
        let directories = parts.iter().map(|part| self.part(*part).join("objects"));
        directories.filter(|directory| directory.exists()).collect()
    }

    /// Moves the result of a fetch into the mirror: its packs, then the mark of the commit. Each step is synced to disk
    /// before the next.
    pub(super) fn adopt(
        &self,
        from: &Path,
        part: Part,
        (commit, size): (Oid, u64),
        tips: &[Oid],
    ) -> Result<(), SourceError> {
        self.make()?;
        let here = self.part(part);
        if part == Part::History && !here.exists() {
            self.create_repository(&here, &[])?;
        }
        move_packs(&from.join(PACKS), &here.join(PACKS)).map_err(writing)?;
        if part == Part::History {
            self.put(&here.join(TIPS), lines(tips).as_bytes())?;
        }
        self.keep(commit, size)
    }

    /// Marks a commit as complete.
    fn keep(&self, commit: Oid, size: u64) -> Result<(), SourceError> {
        if self.marked(commit).is_some() {
            return Ok(());
        }
        point("before a mark");
        File::create(self.mark(commit))
            .and_then(|mut file| {
                point("within a mark");
                writeln!(file, "{size}")?;
                file.sync_all()
            })
            .and_then(|()| sync_directory(&self.path.join(KEPT)))
            .map_err(writing)
    }

    /// The complete commits.
    pub(super) fn kept(&self) -> Vec<Oid> {
        // An unreadable mirror counts as empty.
        let entries = fs::read_dir(self.path.join(KEPT)).into_iter().flatten();
        let mut kept: Vec<Oid> = entries
            .flatten()
            .filter_map(|entry| Oid::from_str(entry.file_name().to_str()?).ok())
            .collect();
        kept.sort();
        kept
    }

    /// Removes the mark; the objects stay until the mirror is pruned.
    pub(super) fn unmark(&self, commit: Oid) -> Result<(), SourceError> {
        fs::remove_file(self.mark(commit)).map_err(writing)
    }

    pub(super) fn is_public(&self) -> bool {
        self.path.join(PUBLIC).exists()
    }

    /// Records that no credentials are needed. Does not create the mirror if it does not exist yet.
    pub(super) fn set_public(&self) {
        if self.path.exists() {
            // If the write fails, the check is repeated after a restart.
            let _ = File::create(self.path.join(PUBLIC));
        }
    }

    fn mark(&self, commit: Oid) -> PathBuf {
        self.path.join(KEPT).join(commit.to_string())
    }

    pub(super) fn part(&self, part: Part) -> PathBuf {
        match part {
            Part::Commits => self.path.clone(),
            Part::History => self.path.join(HISTORY),
        }
    }

    /// Creates the mirror if it does not exist: in a temporary directory that is then renamed.
    fn make(&self) -> Result<(), SourceError> {
        if self.path.exists() {
            return Ok(());
        }
        self.create_repository(&self.path, &[KEPT])
    }

    /// Creates a bare repository with these directories in a temporary place, then renames it.
    fn create_repository(&self, at: &Path, directories: &[&str]) -> Result<(), SourceError> {
        let fresh = self.scratch()?;
        let made = fresh.path().join("made");
        init(&made)?;
        for directory in directories {
            fs::create_dir(made.join(directory)).map_err(writing)?;
        }
        point("before a repository has its name");
        fs::rename(&made, at).map_err(writing)?;
        point("after a repository has its name");
        at.parent().map_or(Ok(()), sync_directory).map_err(writing)
    }

    /// Writes a temporary file, then renames it.
    fn put(&self, at: &Path, bytes: &[u8]) -> Result<(), SourceError> {
        let fresh = self.scratch()?;
        let aside = fresh.path().join("file");
        fs::write(&aside, bytes)
            .and_then(|()| File::open(&aside)?.sync_all())
            .and_then(|()| {
                point("before a file has its name");
                fs::rename(&aside, at)
            })
            .and_then(|()| at.parent().map_or(Ok(()), sync_directory))
            .map_err(writing)
    }

    /// A temporary working directory, removed when it is dropped.
    pub(super) fn scratch(&self) -> Result<TempDir, SourceError> {
        let prefix = self.scratch_prefix();
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.data_dir)
            .map_err(|error| SourceError::Storage {
                what: "making a directory",
                why: error.to_string(),
            })
    }

    /// Removes what a killed process left for this URL. The caller holds the turn of the URL, so nothing else is using
    /// the directory.
    pub(super) fn sweep(&self) {
        // Errors are ignored: the next fetch tries again, and leftovers are never read as a mirror.
        let entries = fs::read_dir(&self.data_dir).into_iter().flatten().flatten();
        for entry in entries {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(&self.scratch_prefix())
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        for part in [Part::Commits, Part::History] {
            for stray in strays(&self.part(part).join(PACKS)) {
                let _ = fs::remove_file(stray);
            }
        }
    }

    fn scratch_prefix(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("fetch-{name}-")
    }

    /// Opens the mirror; `None` if it does not exist or is unusable. An unusable one is removed, so that the next fetch
    /// creates a new one.
    pub(super) fn open(&self) -> Option<Repository> {
        if !self.path.exists() {
            return None;
        }
        let opened = Repository::open_bare(&self.path).and_then(|repository| {
            for history in self.objects(Part::History) {
                let history = history
                    .to_str()
                    .ok_or_else(|| git2::Error::from_str("the path of the data directory is not UTF-8"))?;
                repository.odb()?.add_disk_alternate(history)?;
            }
            Ok(repository)
        });
        opened.inspect_err(|error| self.discard(error.message())).ok()
    }

    /// Moves the mirror away, so that the next fetch creates a new one.
    pub(super) fn discard(&self, why: &str) {
        tracing::warn!(url = self.url, why, "the mirror is damaged and is fetched again");
        self.remove();
    }

    /// Removes the mirror atomically; nothing in it is read after that.
    pub(super) fn remove(&self) {
        if let Ok(aside) = self.scratch() {
            // If the rename fails, the mirror stays, and the next use tries again.
            let _ = fs::rename(&self.path, aside.path().join("old"));
        }
    }
}

/// A bare repository without templates or hooks.
fn init(path: &Path) -> Result<Repository, SourceError> {
    Repository::init_opts(path, &init_options()).map_err(|error| SourceError::Storage {
        what: "making a repository",
        why: error.message().to_owned(),
    })
}

/// Options for creating a repository.
pub(super) fn init_options() -> RepositoryInitOptions {
    let mut options = RepositoryInitOptions::new();
    options.bare(true).mkpath(true).external_template(false);
    options
}

/// One id per line.
pub(super) fn lines(ids: &[Oid]) -> String {
    let lines: Vec<String> = ids.iter().map(|id| format!("{id}\n")).collect();
    lines.concat()
}

/// A commit id as libgit2's type. SHA-256 repositories are not supported.
pub(super) fn oid(commit: &CommitId) -> Result<Oid, SourceError> {
    // An error means a different length: a CommitId consists of hex digits.
    Oid::from_str(commit.as_str())
        .ok()
        .filter(|_| commit.as_str().len() == 40)
        .ok_or_else(|| SourceError::Unsupported {
            what: format!("commit {commit} of a SHA-256 repository"),
            next: "run Flux in this cluster for it",
        })
}

/// All objects of a commit: itself, its trees, its blobs; an error if one is missing or a limit is exceeded. `check` is
/// called repeatedly to test the deadline.
pub(super) fn contents(
    repository: &Repository,
    commit: Oid,
    limits: &Limits,
    check: &dyn Fn() -> Result<(), SourceError>,
) -> Result<Contents, tree::Problem> {
    let odb = repository.odb()?;
    let mut size = 0_u64;
    let mut objects = vec![commit];
    let mut visited = std::collections::BTreeSet::new();
    let mut pending = vec![(repository.find_commit(commit)?.tree_id(), 0)];
    while let Some((id, depth)) = pending.pop() {
        check()?;
        if !visited.insert(id) {
            continue;
        }
        super::super::entries::check_depth("the tree", depth, limits)?;
        objects.push(id);
        for entry in &repository.find_tree(id)? {
            match entry.kind() {
                Some(ObjectType::Tree) => pending.push((entry.id(), depth + 1)),
                Some(ObjectType::Blob) if visited.insert(entry.id()) => {
                    size = size.saturating_add(odb.read_header(entry.id())?.0 as u64);
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
    Ok(Contents { objects, size })
}

/// Moves packs: the pack first, then its index, which makes it visible.
pub(super) fn move_packs(from: &Path, to: &Path) -> io::Result<()> {
    let mut packs: Vec<PathBuf> = fs::read_dir(from)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "idx"));
    packs.sort();
    for index in packs {
        for file in [index.with_extension("pack"), index] {
            File::open(&file)?.sync_all()?;
            point("before a pack is moved");
            fs::rename(&file, to.join(file.file_name().unwrap_or_default()))?;
        }
    }
    point("after the packs were moved");
    sync_directory(to)
}

/// Files in the pack directory that no index refers to: left by a killed process.
fn strays(packs: &Path) -> Vec<PathBuf> {
    // A missing directory has none.
    let entries = fs::read_dir(packs).into_iter().flatten().flatten();
    let is = |path: &Path, extension: &str| path.extension() == Some(OsStr::new(extension));
    entries
        .map(|entry| entry.path())
        .filter(|path| !is(path, "idx"))
        .filter(|path| !is(path, "pack") || !path.with_extension("idx").exists())
        .collect()
}

/// Syncs a directory to disk.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(super) fn writing(error: io::Error) -> SourceError {
    SourceError::Storage {
        what: "writing a mirror",
        why: error.to_string(),
    }
}

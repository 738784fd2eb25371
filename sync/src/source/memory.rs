//! In-memory repositories: for tests and simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::commit::hex;
use super::entries::{self, Collector};
use super::ignored::{FILE_NAME, Ignored};
use super::limits::RECENT;
use super::types::unsupported;
use super::{
    Clock, CommitId, Fetched, Files, Limits, Remote, Resolved, Source, SourceError, Unverified, Want,
    verify_commit, verify_tag,
};

/// A [`Source`] without git. Clones share the same repositories.
///
/// As with a real source, a commit must be fetched before it can be read, and stays readable while the remote is down.
#[derive(Clone)]
pub struct MemorySource {
    state: Arc<Mutex<State>>,
    fault_cleared: Arc<Notify>,
    clock: Clock,
}

/// A simulated failure of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Each call fails with this error.
    Fail(SourceError),
    /// No call returns until [`MemorySource::clear_fault`].
    Hang,
}

/// Number of calls for a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `resolve` that went to the remote.
    pub resolves: u64,
    /// Calls of `fetch` that went to the remote.
    pub fetches: u64,
    /// Calls of `read`.
    pub reads: u64,
}

#[derive(Default)]
struct State {
    repositories: BTreeMap<String, Repository>,
}

#[derive(Default)]
struct Repository {
    commits: BTreeMap<CommitId, BTreeMap<String, Bytes>>,
    branches: BTreeMap<String, CommitId>,
    tags: BTreeMap<String, CommitId>,
    /// The raw annotated tag objects, by tag name.
    tag_objects: BTreeMap<String, Bytes>,
    /// The raw commit objects, if signatures are checked.
    commit_objects: BTreeMap<CommitId, Bytes>,
    /// Fetched commits, with the time of their last use.
    fetched: BTreeMap<CommitId, Timestamp>,
    fault: Option<Fault>,
    counts: Counts,
}

impl MemorySource {
    /// Creates a source without repositories.
    pub fn new(clock: Clock) -> Self {
        Self {
            state: Arc::default(),
            fault_cleared: Arc::default(),
            clock,
        }
    }

    /// Adds a commit with exactly these files to the head of `branch`. Its id is a pure function of branch, parent and
    /// content.
    pub fn commit<P: Into<String>, B: Into<Bytes>>(
        &self,
        url: &str,
        branch: &str,
        files: impl IntoIterator<Item = (P, B)>,
    ) -> CommitId {
        let files: BTreeMap<String, Bytes> = files
            .into_iter()
            .map(|(path, bytes)| (path.into(), bytes.into()))
            .collect();
        let mut state = self.state.lock();
        let repository = state.repositories.entry(url.to_owned()).or_default();
        let parent = repository
            .branches
            .get(branch)
            .map(CommitId::as_str)
            .unwrap_or_default();
        let id = commit_id(branch, parent, &files);
        repository.commits.insert(id.clone(), files);
        repository.branches.insert(branch.to_owned(), id.clone());
        id
    }

    /// Creates or moves a lightweight tag.
    pub fn tag(&self, url: &str, tag: &str, commit: &CommitId) {
        let mut state = self.state.lock();
        let repository = state.repositories.entry(url.to_owned()).or_default();
        repository.tags.insert(tag.to_owned(), commit.clone());
        repository.tag_objects.remove(tag);
    }

    /// Creates or moves an annotated tag: `object` is the raw git object, including the signature. It is not checked
    /// until it is verified.
    pub fn annotated_tag(&self, url: &str, tag: &str, commit: &CommitId, object: impl Into<Bytes>) {
        self.tag(url, tag, commit);
        let mut state = self.state.lock();
        let repository = state.repositories.entry(url.to_owned()).or_default();
        repository.tag_objects.insert(tag.to_owned(), object.into());
    }

    /// Sets the raw git object of a commit, including the signature. Without it a commit counts as unsigned.
    pub fn commit_object(&self, url: &str, commit: &CommitId, object: impl Into<Bytes>) {
        let mut state = self.state.lock();
        let repository = state.repositories.entry(url.to_owned()).or_default();
        repository.commit_objects.insert(commit.clone(), object.into());
    }

    /// Removes a tag; the commit remains.
    pub fn untag(&self, url: &str, tag: &str) {
        if let Some(repository) = self.state.lock().repositories.get_mut(url) {
            repository.tags.remove(tag);
            repository.tag_objects.remove(tag);
        }
    }

    /// Makes all calls to the remote fail or hang like this, until [`Self::clear_fault`].
    pub fn break_with(&self, url: &str, fault: Fault) {
        self.state
            .lock()
            .repositories
            .entry(url.to_owned())
            .or_default()
            .fault = Some(fault);
    }

    /// Clears the failure; calls that hang continue.
    pub fn clear_fault(&self, url: &str) {
        if let Some(repository) = self.state.lock().repositories.get_mut(url) {
            repository.fault = None;
        }
        self.fault_cleared.notify_waiters();
    }

    /// Number of calls for a repository.
    pub fn counts(&self, url: &str) -> Counts {
        self.state
            .lock()
            .repositories
            .get(url)
            .map(|r| r.counts)
            .unwrap_or_default()
    }

    /// Counts a call, then waits or fails according to the fault.
    async fn call(&self, remote: &Remote, count: impl Fn(&mut Counts)) -> Result<(), SourceError> {
        if let Some(repository) = self.state.lock().repositories.get_mut(&remote.url) {
            count(&mut repository.counts);
        }
        loop {
            let mut fault_cleared = std::pin::pin!(self.fault_cleared.notified());
            fault_cleared.as_mut().enable();
            match self
                .state
                .lock()
                .repositories
                .get(&remote.url)
                .and_then(|r| r.fault.clone())
            {
                None => return Ok(()),
                Some(Fault::Fail(error)) => return Err(error),
                Some(Fault::Hang) => {}
            }
            fault_cleared.await;
        }
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError> {
        let (commit, verified) = match want {
            Want::Commit(id) if remote.verify.is_none() => (id.clone(), None),
            _ => {
                self.call(remote, |counts| counts.resolves += 1).await?;
                let state = self.state.lock();
                let commit = find(&state, remote, want)?;
                let verified = state.verified(remote, want, &commit, self.clock.now())?;
                (commit, verified)
            }
        };
        Ok(Resolved {
            commit,
            reference: want.reference().map(str::to_owned),
            at: self.clock.now(),
            verified,
        })
    }

    async fn fetch(&self, remote: &Remote, want: &Want) -> Result<Fetched, SourceError> {
        let here = matches!(want, Want::Commit(id) if self.state.lock().holds(&remote.url, id));
        if !here {
            self.call(remote, |counts| counts.fetches += 1).await?;
        }
        let mut state = self.state.lock();
        let commit = find(&state, remote, want)?;
        let verified = state.verified(remote, want, &commit, self.clock.now())?;
        let (digest, size) = state.fetch(remote, &commit, self.clock.now())?;
        Ok(Fetched {
            commit,
            reference: want.reference().map(str::to_owned),
            digest,
            size,
            at: self.clock.now(),
            verified,
        })
    }

    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError> {
        let mut state = self.state.lock();
        let repository = state
            .repositories
            .get_mut(&remote.url)
            .filter(|r| r.fetched.contains_key(commit));
        let Some(repository) = repository else {
            return Err(SourceError::NotFetched {
                url: remote.url.clone(),
                commit: commit.to_string(),
            });
        };
        repository.counts.reads += 1;
        repository.fetched.insert(commit.clone(), self.clock.now());
        read(&repository.commits[commit], remote, commit, path)
    }

    /// Drops commits that are not in use, as a real source does.
    async fn retain(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError> {
        let now = self.clock.now();
        for (url, repository) in &mut self.state.lock().repositories {
            repository.fetched.retain(|commit, used| {
                now.duration_since(*used) < RECENT || named.contains(&(url.clone(), commit.clone()))
            });
        }
        Ok(())
    }
}

impl State {
    fn holds(&self, url: &str, commit: &CommitId) -> bool {
        self.repositories
            .get(url)
            .is_some_and(|r| r.fetched.contains_key(commit))
    }

    /// Verifies what must be signed, as a real source does; returns the keys that signed it.
    fn verified(
        &self,
        remote: &Remote,
        want: &Want,
        commit: &CommitId,
        now: Timestamp,
    ) -> Result<Option<String>, SourceError> {
        let Some((verify, repository)) = remote.verify.as_ref().zip(self.repositories.get(&remote.url))
        else {
            return Ok(None);
        };
        let failed = |what: String| {
            move |why: Unverified| SourceError::VerificationFailed {
                url: remote.url.clone(),
                what,
                why,
            }
        };
        let mut signers = Vec::new();
        if verify.mode.tag() {
            let signer = match want {
                Want::Tag(tag) => {
                    let object = repository.tag_objects.get(tag).ok_or(Unverified::Lightweight);
                    object.and_then(|object| verify_tag(object, tag, commit, &verify.keys, now))
                }
                _ => Err(Unverified::NoTag),
            };
            signers.push(signer.map_err(failed(want.to_string()))?.to_string());
        }
        if verify.mode.commit() {
            let object = repository.commit_objects.get(commit).ok_or(Unverified::Unsigned);
            let signer = object.and_then(|object| verify_commit(object, &verify.keys, now));
            signers.push(signer.map_err(failed(format!("commit {commit}")))?.to_string());
        }
        signers.dedup();
        Ok(Some(signers.join(" and ")))
    }

    /// Marks a commit as fetched; returns its digest and size.
    fn fetch(
        &mut self,
        remote: &Remote,
        commit: &CommitId,
        now: Timestamp,
    ) -> Result<(String, u64), SourceError> {
        let unknown = || SourceError::UnknownCommit {
            url: remote.url.clone(),
            commit: commit.to_string(),
        };
        let repository = self.repositories.get_mut(&remote.url).ok_or_else(unknown)?;
        let files = repository.commits.get(commit).ok_or_else(unknown)?;
        repository.fetched.insert(commit.clone(), now);
        let size = files.values().map(|bytes| bytes.len() as u64).sum();
        Ok((format!("sha256:{}", tree_digest(files)), size))
    }
}

/// The requested commit, according to the remote's references.
fn find(state: &State, remote: &Remote, want: &Want) -> Result<CommitId, SourceError> {
    let url = remote.url.clone();
    let Some(repository) = state.repositories.get(&remote.url) else {
        return Err(SourceError::RepositoryNotFound { url });
    };
    match want {
        Want::Commit(id) => Ok(id.clone()),
        Want::Tag(tag) => repository
            .tags
            .get(tag)
            .cloned()
            .ok_or_else(|| SourceError::UnknownTag {
                url,
                tag: tag.clone(),
            }),
        Want::Branch(branch) => {
            repository
                .branches
                .get(branch)
                .cloned()
                .ok_or_else(|| SourceError::UnknownBranch {
                    url,
                    branch: branch.clone(),
                })
        }
        Want::Semver(_) => Err(unsupported(want)),
    }
}

fn read(
    tree: &BTreeMap<String, Bytes>,
    remote: &Remote,
    commit: &CommitId,
    path: &str,
) -> Result<Files, SourceError> {
    let directory = entries::components(path)?.join("/");
    let prefix = if directory.is_empty() {
        String::new()
    } else {
        format!("{directory}/")
    };
    if !tree.keys().any(|name| name.starts_with(&prefix)) {
        return Err(SourceError::PathNotFound {
            commit: commit.to_string(),
            path: path.to_owned(),
        });
    }
    let mut ignored = Ignored::new(remote)?;
    let mut pattern_files: Vec<(&str, &Bytes)> = tree
        .iter()
        .filter_map(|(path, bytes)| match path.rsplit_once('/') {
            Some((directory, FILE_NAME)) => Some((directory, bytes)),
            None if path == FILE_NAME => Some(("", bytes)),
            _ => None,
        })
        .collect();
    pattern_files.sort_by_key(|(directory, _)| directory.len());
    for (directory, bytes) in pattern_files {
        ignored = ignored.with_file(directory, bytes)?;
    }
    let limits = Limits::default();
    let mut collector = Collector::new(&limits);
    for (path, bytes) in tree.iter().filter(|(path, _)| path.starts_with(&prefix)) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        entries::entry_name(directory, name.as_bytes())?;
        if !ignored.is_ignored(path, false) && Collector::wants(path, name)? {
            collector.admit(path, bytes.len() as u64)?;
            collector.push(path.clone(), bytes.clone())?;
        }
    }
    Ok(collector.finish())
}

fn commit_id(branch: &str, parent: &str, files: &BTreeMap<String, Bytes>) -> CommitId {
    let mut hash = Sha256::new();
    for part in [branch, parent, &tree_digest(files)] {
        hash.update(part);
        hash.update([0]);
    }
    let hex = hex(&hash.finalize());
    CommitId::from_digest(&hex)
}

fn tree_digest(files: &BTreeMap<String, Bytes>) -> String {
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(path);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    hex(&hash.finalize())
}

//! Real repositories, by libgit2.
//!
//! ```text
//! data dir/<hash of url>/      a bare repository that only grows; read from its object database, never checked out
//! data dir/fetch-<random>/     where one fetch works; gone when it ends, left behind by a kill, swept by the next fetch
//! ```
//!
//! Invariant: a commit that is in a mirror is there with its whole tree. A fetch works in a place of its own, its content is
//! verified, and what is new goes into the mirror as one pack, which libgit2 writes aside and renames.
//! Invariant: the data directory belongs to one process.

mod fetch;
mod gate;
mod mirror;
mod objects;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::fetch::Job;
use self::gate::Gate;
use self::mirror::Mirror;
#[doc(hidden)]
pub use self::objects::Objects;
use super::clock::Deadline;
use super::memory::unsupported;
use super::transport;
use super::url::GitUrl;
use super::{Clock, CommitId, Fetched, Files, Limits, Remote, Resolved, Source, SourceError, Want};

/// What libgit2 gets beyond the deadline to notice it and to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// How repositories are reached and kept.
#[derive(Debug, Clone)]
pub struct GitOptions {
    /// Where mirrors are kept; made if it is not there.
    pub data_dir: PathBuf,
    /// Whether `http` and `file` may be used: for demos and tests.
    pub allow_insecure: bool,
    /// What a repository may cost.
    pub limits: Limits,
}

/// A [`Source`] of real repositories.
#[derive(Debug)]
pub struct GitSource {
    options: Arc<GitOptions>,
    gate: Gate,
    clock: Clock,
}

impl GitSource {
    /// Makes the data directory and prepares libgit2.
    pub fn new(options: GitOptions, clock: Clock) -> Result<Self, SourceError> {
        transport::ready()?;
        std::fs::create_dir_all(&options.data_dir).map_err(|error| SourceError::Storage {
            what: "making it",
            why: error.to_string(),
        })?;
        let gate = Gate::new(options.limits.per_host);
        Ok(Self {
            options: Arc::new(options),
            gate,
            clock,
        })
    }

    fn url(&self, remote: &Remote) -> Result<GitUrl, SourceError> {
        GitUrl::parse(&remote.url, self.options.allow_insecure)
    }

    fn mirror(&self, url: &GitUrl) -> Mirror {
        Mirror::new(&self.options.data_dir, url)
    }

    fn job(&self, remote: &Remote, url: GitUrl, want: &Want, deadline: Deadline) -> Job {
        Job {
            mirror: self.mirror(&url),
            url,
            credentials: remote.credentials.clone(),
            want: want.clone(),
            options: Arc::clone(&self.options),
            deadline,
        }
    }

    /// A pinned commit that is here already, with its digest.
    async fn held(&self, url: &GitUrl, want: &Want) -> Result<Option<(CommitId, String)>, SourceError> {
        let Want::Commit(commit) = want else {
            return Ok(None);
        };
        let (mirror, commit) = (self.mirror(url), commit.clone());
        let deadline = Deadline::after(self.options.limits.timeout);
        blocking(url, deadline, move || {
            let digest = mirror.digest(mirror::oid(&commit)?);
            Ok(digest.map(|digest| (commit, digest)))
        })
        .await
    }
}

#[async_trait]
impl Source for GitSource {
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError> {
        let deadline = Deadline::after(self.options.limits.timeout);
        let url = self.url(remote)?;
        let commit = if let Want::Commit(commit) = check_want(want)? {
            commit.clone()
        } else {
            let turn = self.gate.host_turn(&url, deadline).await?;
            let job = self.job(remote, url.clone(), want, deadline);
            blocking(&url, deadline, move || {
                let _turn = turn;
                job.resolve()
            })
            .await?
        };
        Ok(Resolved {
            commit,
            reference: want.reference().map(str::to_owned),
            at: self.clock.now(),
        })
    }

    async fn fetch(&self, remote: &Remote, want: &Want) -> Result<Fetched, SourceError> {
        let deadline = Deadline::after(self.options.limits.timeout);
        let url = self.url(remote)?;
        check_want(want)?;
        let (commit, digest) = if let Some(held) = self.held(&url, want).await? {
            held
        } else {
            let turn = self.gate.turn(&url, deadline).await?;
            let job = self.job(remote, url.clone(), want, deadline);
            blocking(&url, deadline, move || {
                let _turn = turn;
                job.fetch()
            })
            .await?
        };
        Ok(Fetched {
            commit,
            reference: want.reference().map(str::to_owned),
            digest,
            at: self.clock.now(),
        })
    }

    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError> {
        let deadline = Deadline::after(self.options.limits.timeout);
        let url = self.url(remote)?;
        let mirror = self.mirror(&url);
        let (remote, commit, path) = (remote.clone(), commit.clone(), path.to_owned());
        let options = Arc::clone(&self.options);
        blocking(&url, deadline, move || {
            mirror.read(&remote, &commit, &path, &options.limits)
        })
        .await
    }
}

/// Refuses what no server is asked for.
fn check_want(want: &Want) -> Result<&Want, SourceError> {
    match want {
        Want::Semver(_) => Err(unsupported(want)),
        Want::Commit(commit) => mirror::oid(commit).map(|_| want),
        Want::Tag(_) | Want::Branch(_) => Ok(want),
    }
}

/// Runs work of libgit2 where it may block. It ends by itself at the deadline; if it does not, it is left to itself.
async fn blocking<T: Send + 'static>(
    url: &GitUrl,
    deadline: Deadline,
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let work = tokio::task::spawn_blocking(work);
    match tokio::time::timeout(deadline.remaining() + GRACE, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(SourceError::Storage {
            what: "running libgit2",
            why: error.to_string(),
        }),
        Err(_) => Err(SourceError::Timeout {
            url: url.text.clone(),
            after: deadline.total,
            phase: "working on what came",
        }),
    }
}

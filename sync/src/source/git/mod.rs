//! Real repositories, using libgit2.
//!
//! ```text
//! data dir/<hash of url>/            a bare repository, read from its object database and never checked out
//!                       /kept/<id>   the size of a commit's files: it is here as a whole
//!                       /history/    a bare repository of what came with all that was before it; exists if there is
//!                       such /public      an empty file: no credentials are needed
//! data dir/fetch-<hash>-<random>/    where one fetch works; gone when it ends, left behind by a kill, swept by the
//! next fetch
//! ```
//!
//! Invariant: a commit that is marked in `kept` is stored with its whole tree. A fetch downloads into a temporary
//! repository, its content is verified, its packs are moved, and the mark is written last; each step is synced to disk
//! before the next.
//! Invariant: what was fetched with credentials is only given to callers whose credentials open the repository.
//! Invariant: the data directory is used by one process only.

mod crash;
mod fetch;
mod gate;
mod job;
mod mirror;
mod objects;
mod prune;
mod retention;
mod signed;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::proxy::Proxies;

use self::gate::Gate;
use self::job::{Job, Remembered};
use self::mirror::{Mirror, StoredCommit};
#[doc(hidden)]
pub use self::objects::Objects;
use self::retention::Recent;
use super::deadline::Deadline;
use super::github::Tokens;
use super::transport;
use super::types::unsupported;
use super::url::GitUrl;
use super::{
    Clock, CommitId, Credentials, Fetched, Files, Limits, Remote, Resolved, Source, SourceError, Want,
};

/// Extra time for libgit2 to notice the deadline and return on its own.
const GRACE: Duration = Duration::from_secs(1);

/// The maximum number of remembered proofs of access; beyond it all are dropped, which costs one request for each.
const MAX_PROVEN: usize = 10_000;

/// How repositories are reached and stored.
#[derive(Debug, Clone)]
pub struct GitOptions {
    /// Directory for the mirrors; created if it does not exist.
    pub data_dir: PathBuf,
    /// Whether `http` and `file` URLs are allowed: for demos and tests.
    pub allow_insecure: bool,
    /// Limits of a read or fetch.
    pub limits: Limits,
}

/// A [`Source`] of real repositories.
pub struct GitSource {
    options: Arc<GitOptions>,
    gate: Gate,
    clock: Clock,
    proxies: Proxies,
    /// Tokens of GitHub Apps.
    tokens: Arc<Tokens>,
    /// Mirrors, with fingerprints of credentials that have opened their repositories.
    proven: Mutex<BTreeSet<(String, String)>>,
    recent: Recent,
    remembered: Arc<Remembered>,
}

impl fmt::Debug for GitSource {
    /// Omits everything derived from credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitSource")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl GitSource {
    /// Creates the data directory and initializes libgit2.
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
            proxies: Proxies::default(),
            tokens: Arc::default(),
            proven: Mutex::default(),
            recent: Recent::default(),
            remembered: Arc::default(),
        })
    }

    /// Sets the proxies to use, unless a repository's Secret names one.
    #[must_use]
    pub fn with_proxies(self, proxies: Proxies) -> Self {
        Self { proxies, ..self }
    }

    fn url(&self, remote: &Remote) -> Result<GitUrl, SourceError> {
        let url = GitUrl::parse(&remote.url, self.options.allow_insecure)?;
        if remote.proxy.is_some() && url.ssh_address().is_some() {
            return Err(SourceError::Unsupported {
                what: format!("proxySecretRef for {}", url.text),
                next: "remove it, or use the https address",
            });
        }
        Ok(url)
    }

    fn deadline(&self, remote: &Remote) -> Deadline {
        let most = self.options.limits.timeout;
        Deadline::after(remote.timeout.map_or(most, |timeout| timeout.min(most)))
    }

    fn mirror(&self, url: &GitUrl) -> Mirror {
        Mirror::new(&self.options.data_dir, url)
    }

    fn job(&self, remote: &Remote, url: GitUrl, want: &Want, deadline: Deadline) -> Job {
        Job {
            mirror: self.mirror(&url),
            proven: self.is_proven(remote, &url),
            url,
            credentials: remote.credentials.clone(),
            proxies: match &remote.proxy {
                Some(proxy) => Proxies::through(proxy.clone()),
                None => self.proxies.clone(),
            },
            tokens: Arc::clone(&self.tokens),
            clock: self.clock.clone(),
            want: want.clone(),
            options: Arc::clone(&self.options),
            deadline,
            verify: remote.verify.clone(),
            now: self.clock.now(),
            remembered: Arc::clone(&self.remembered),
        }
    }

    /// A pinned commit that is stored already and may be given to this caller.
    async fn held(
        &self,
        remote: &Remote,
        url: &GitUrl,
        want: &Want,
        deadline: Deadline,
    ) -> Result<Option<(CommitId, StoredCommit)>, SourceError> {
        let Want::Commit(commit) = want else {
            return Ok(None);
        };
        if !self.is_proven(remote, url) || remote.verify.is_some() {
            return Ok(None);
        }
        let (mirror, commit) = (self.mirror(url), commit.clone());
        blocking(url, deadline, move || {
            let whole = mirror.stored_commit(mirror::oid(&commit)?);
            Ok(whole.map(|whole| (commit, whole)))
        })
        .await
    }

    /// Whether the caller is known to have access: without credentials, or with these.
    fn is_proven(&self, remote: &Remote, url: &GitUrl) -> bool {
        self.mirror(url).is_public() || self.proven.lock().contains(&opening(remote, url))
    }

    /// Records that the repository was opened.
    fn prove(&self, remote: &Remote, url: &GitUrl) {
        if identifying(remote).is_none() {
            self.mirror(url).set_public();
        }
        let mut proven = self.proven.lock();
        if proven.len() >= MAX_PROVEN {
            proven.clear();
        }
        proven.insert(opening(remote, url));
    }

    async fn fetch_within(
        &self,
        remote: &Remote,
        want: &Want,
        url: &GitUrl,
        deadline: Deadline,
    ) -> Result<(CommitId, StoredCommit, Option<String>), SourceError> {
        if let Some((commit, whole)) = self.held(remote, url, want, deadline).await? {
            return Ok((commit, whole, None));
        }
        let turn = self.gate.turn(url, deadline).await?;
        let job = self.job(remote, url.clone(), want, deadline);
        let fetched = blocking(url, deadline, move || {
            let _turn = turn;
            job.fetch()
        })
        .await?;
        self.prove(remote, url);
        Ok(fetched)
    }
}

#[async_trait]
impl Source for GitSource {
    async fn resolve(&self, remote: &Remote, want: &Want) -> Result<Resolved, SourceError> {
        let deadline = self.deadline(remote);
        let url = self.url(remote)?;
        let (commit, verified) = match check_want(want)? {
            Want::Commit(commit) if remote.verify.is_none() => (commit.clone(), None),
            _ => {
                // Signed objects are transferred into a temporary directory of the mirror, which the next fetch of the
                // URL removes.
                let turn = if remote.verify.is_some() {
                    self.gate.turn(&url, deadline).await?
                } else {
                    self.gate.host_turn(&url, deadline).await?
                };
                let job = self.job(remote, url.clone(), want, deadline);
                blocking(&url, deadline, move || {
                    let _turn = turn;
                    job.resolve()
                })
                .await?
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
        let deadline = self.deadline(remote);
        let url = self.url(remote)?;
        check_want(want)?;
        let (commit, StoredCommit { digest, size }, verified) =
            self.fetch_within(remote, want, &url, deadline).await?;
        let at = self.clock.now();
        self.recent.used(&url.directory(), &commit, at);
        Ok(Fetched {
            commit,
            reference: want.reference().map(str::to_owned),
            digest,
            size,
            at,
            verified,
        })
    }

    async fn read(&self, remote: &Remote, commit: &CommitId, path: &str) -> Result<Files, SourceError> {
        let deadline = self.deadline(remote);
        let url = self.url(remote)?;
        self.recent.used(&url.directory(), commit, self.clock.now());
        let mirror = self.mirror(&url);
        let (remote, commit, path) = (remote.clone(), commit.clone(), path.to_owned());
        let options = Arc::clone(&self.options);
        blocking(&url, deadline, move || {
            mirror.read(&remote, &commit, &path, &options.limits, deadline)
        })
        .await
    }

    async fn retain(&self, named: &BTreeSet<(String, CommitId)>) -> Result<(), SourceError> {
        self.retain_named(named).await
    }
}

/// The key of a proof of access: a repository, and the caller's credentials.
fn opening(remote: &Remote, url: &GitUrl) -> (String, String) {
    let who = identifying(remote).map_or_else(String::new, Credentials::fingerprint);
    (url.directory(), who)
}

fn identifying(remote: &Remote) -> Option<&Credentials> {
    remote
        .credentials
        .as_ref()
        .filter(|credentials| credentials.identify())
}

/// Refuses requests that no server can answer.
fn check_want(want: &Want) -> Result<&Want, SourceError> {
    match want {
        Want::Semver(_) => Err(unsupported(want)),
        Want::Commit(commit) => mirror::oid(commit).map(|_| want),
        Want::Tag(_) | Want::Branch(_) => Ok(want),
    }
}

/// Runs libgit2 on a blocking thread. It returns on its own at the deadline; if it does not, the thread is abandoned.
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
        Err(_) => Err(deadline.timeout(&url.text, "processing what was received")),
    }
}

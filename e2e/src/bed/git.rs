//! The git host: in memory, or a real repository behind `git http-backend`.

use std::{collections::BTreeMap, sync::Arc};

use muster_controllers::runtime::Clock;
use muster_sync::source::{CommitId, Fault, MemorySource, Source, SourceError};
use parking_lot::Mutex;

use super::{Ground, sources::Signer};
use crate::{
    git_server::{Door, GitServer},
    repo::Repo,
};

/// The address on paused time.
const URL: &str = "https://git.test/fleet.git";
/// The branch that is committed to.
const BRANCH: &str = "main";

/// A repository that can be read anonymously.
pub struct Git {
    url: String,
    host: Host,
}

#[allow(clippy::large_enum_variant, reason = "there is one of it for each bed")]
enum Host {
    Memory {
        source: MemorySource,
        files: Mutex<BTreeMap<String, String>>,
        head: Mutex<Option<CommitId>>,
    },
    Http {
        repo: Repo,
        _server: GitServer,
    },
}

impl Git {
    /// An empty repository.
    pub(super) async fn new(ground: Ground, clock: &Clock) -> Self {
        match ground {
            Ground::Virtual => {
                let now = clock.clone();
                let source = MemorySource::new(now);
                Self {
                    url: URL.to_owned(),
                    host: Host::Memory {
                        source,
                        files: Mutex::default(),
                        head: Mutex::default(),
                    },
                }
            }
            Ground::Wire | Ground::Real | Ground::Flux => {
                let repo = Repo::new();
                let server = GitServer::start(repo.path(), Door::Plain, None).await;
                Self {
                    url: server.url(".git"),
                    host: Host::Http {
                        repo,
                        _server: server,
                    },
                }
            }
        }
    }

    /// The URL, as in a module's spec.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `git commit` on branch main after these files were written. Returns the commit.
    pub fn commit(&self, changes: &[(&str, &str)]) -> String {
        match &self.host {
            Host::Http { repo, .. } => repo.commit(changes),
            Host::Memory { source, files, head } => {
                let mut files = files.lock();
                files.extend(
                    changes
                        .iter()
                        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned())),
                );
                let commit = source.commit(&self.url, BRANCH, files.clone());
                *head.lock() = Some(commit.clone());
                commit.to_string()
            }
        }
    }

    /// `git tag` of the last commit.
    pub fn tag(&self, tag: &str) {
        match &self.host {
            Host::Http { repo, .. } => {
                repo.git(&["tag", tag]);
            }
            Host::Memory { source, head, .. } => {
                source.tag(&self.url, tag, head.lock().as_ref().expect("a commit to tag"));
            }
        }
    }

    /// `git tag --sign` of the last commit; on real sockets only.
    pub fn tag_signed(&self, signer: &Signer, tag: &str) {
        signer.sign_tag(self.repo(), tag);
    }

    /// The repository, which exists on real sockets only.
    pub(super) fn repo(&self) -> &Repo {
        match &self.host {
            Host::Http { repo, .. } => repo,
            Host::Memory { .. } => panic!("on paused time git is a map in memory"),
        }
    }

    /// The host drops all connections after this call (on paused time).
    pub fn go_away(&self) {
        let gone = SourceError::Unreachable {
            url: self.url.clone(),
            why: "connection refused".to_owned(),
        };
        self.memory().break_with(&self.url, Fault::Fail(gone));
    }

    /// The host answers again.
    pub fn come_back(&self) {
        self.memory().clear_fault(&self.url);
    }

    fn memory(&self) -> &MemorySource {
        match &self.host {
            Host::Memory { source, .. } => source,
            Host::Http { .. } => panic!("on the wire processes read for themselves"),
        }
    }

    /// The source of git content for processes on paused time.
    pub(super) fn source(&self) -> Arc<dyn Source> {
        Arc::new(self.memory().clone())
    }
}

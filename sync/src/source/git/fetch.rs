//! One fetch: in a place of its own, as little as the server allows, verified before it is kept.

use std::sync::Arc;

use git2::{AutotagOption, Direction, ErrorCode, FetchOptions, Oid, RemoteCallbacks, Repository};

use super::super::clock::Deadline;
use super::super::transport::Context;
use super::super::url::GitUrl;
use super::super::{CommitId, Credentials, SourceError, Want};
use super::mirror::{self, Mirror};
use super::tree::Problem;
use super::{GitOptions, check_want};

/// Everything that a fetch needs; it runs where it may block.
pub(super) struct Job {
    pub url: GitUrl,
    pub credentials: Option<Credentials>,
    pub want: Want,
    pub mirror: Mirror,
    pub options: Arc<GitOptions>,
    pub deadline: Deadline,
}

/// What a server offers under a name.
struct Head {
    name: String,
    id: Oid,
}

/// Ways to a commit, the cheapest first; a server that refuses one may allow the next.
#[derive(Clone, Copy)]
enum Way {
    /// By its hash, if the server gives what is no tip.
    Hash,
    /// By a reference that points at it.
    Reference,
    /// By all references, with their history.
    Everything,
}

/// What is asked for.
struct Plan {
    refspecs: Vec<String>,
    /// 1: the commit without its history; 0: all of it.
    depth: i32,
}

impl Job {
    /// The commit that is wanted, by the references of the server.
    pub(super) fn resolve(&self) -> Result<CommitId, SourceError> {
        let (_, commit) = self.find(&self.heads(&self.context()?)?)?;
        to_commit_id(commit)
    }

    /// Has the commit in the mirror, and returns it with its digest.
    pub(super) fn fetch(&self) -> Result<(CommitId, String), SourceError> {
        let context = self.context()?;
        self.mirror.sweep();
        let (name, commit) = match check_want(&self.want)? {
            Want::Commit(commit) => (None, mirror::oid(commit)?),
            _ => self
                .find(&self.heads(&context)?)
                .map(|(name, commit)| (Some(name), commit))?,
        };
        if let Some(digest) = self.mirror.digest(commit) {
            return Ok((to_commit_id(commit)?, digest));
        }
        let mut refusal = self.unknown(commit);
        for way in [Way::Hash, Way::Reference, Way::Everything] {
            if let Some(plan) = self.plan(way, name.as_deref(), commit, &context)? {
                match self.attempt(&context, &plan, commit)? {
                    Ok(digest) => return Ok((to_commit_id(commit)?, digest)),
                    Err(error) => refusal = error,
                }
            }
        }
        Err(refusal)
    }

    /// How to go this way, if it can be gone: `name` is the reference that was asked for.
    fn plan(
        &self,
        way: Way,
        name: Option<&str>,
        commit: Oid,
        context: &Arc<Context>,
    ) -> Result<Option<Plan>, SourceError> {
        Ok(match (way, name) {
            (Way::Everything, _) => Some(Plan::all()),
            // libgit2 cannot leave out history on this machine.
            _ if !self.url.is_web() => None,
            (Way::Hash, None) => Some(Plan::one(&commit.to_string())),
            (Way::Hash, Some(_)) => None,
            (Way::Reference, Some(name)) => Some(Plan::one(name)),
            (Way::Reference, None) => {
                let heads = self.heads(context)?;
                let tip = heads.iter().find(|head| head.id == commit);
                tip.map(|head| Plan::one(head.name.trim_end_matches("^{}")))
            }
        })
    }

    fn context(&self) -> Result<Arc<Context>, SourceError> {
        Context::new(
            self.url.clone(),
            self.credentials.clone(),
            self.options.limits.clone(),
            self.deadline,
        )
    }

    /// What the server offers.
    fn heads(&self, context: &Arc<Context>) -> Result<Vec<Head>, SourceError> {
        let listed = context.enter(|| {
            let mut remote = git2::Remote::create_detached(self.url.text.as_str())?;
            let connection = remote.connect_auth(Direction::Fetch, None, None)?;
            let heads = connection.list()?.iter();
            Ok(heads
                .map(|head| Head {
                    name: head.name().to_owned(),
                    id: head.oid(),
                })
                .collect())
        })?;
        listed.map_err(|error| self.failed(&error))
    }

    /// The reference that is wanted, and its commit: an annotated tag is peeled by the server.
    fn find(&self, heads: &[Head]) -> Result<(String, Oid), SourceError> {
        let url = self.url.text.clone();
        let (name, missing) = match &self.want {
            Want::Tag(tag) => (
                format!("refs/tags/{tag}"),
                SourceError::UnknownTag {
                    url,
                    tag: tag.clone(),
                },
            ),
            Want::Branch(branch) => (
                format!("refs/heads/{branch}"),
                SourceError::UnknownBranch {
                    url,
                    branch: branch.clone(),
                },
            ),
            Want::Commit(_) | Want::Semver(_) => return Err(super::unsupported(&self.want)),
        };
        let named = |name: &str| heads.iter().find(|head| head.name == name).map(|head| head.id);
        let commit = named(&format!("{name}^{{}}")).or_else(|| named(&name));
        commit.map(|commit| (name, commit)).ok_or(missing)
    }

    /// Carries out one plan. The inner error is a refusal after which another plan may do.
    fn attempt(
        &self,
        context: &Arc<Context>,
        plan: &Plan,
        commit: Oid,
    ) -> Result<Result<String, SourceError>, SourceError> {
        let scratch = self.mirror.scratch()?;
        let repository = mirror::init(scratch.path())?;
        let downloaded = context.enter(|| {
            let mut remote = repository.remote_anonymous(&self.url.text)?;
            remote.download(&plan.refspecs, Some(&mut options(context, plan.depth)))
        })?;
        if let Err(error) = downloaded {
            return Ok(Err(self.failed(&error)));
        }
        self.keep(&repository, commit)
    }

    /// Verifies what came and takes it over.
    fn keep(&self, repository: &Repository, commit: Oid) -> Result<Result<String, SourceError>, SourceError> {
        let kind = match repository.find_object(commit, None) {
            Ok(object) => object.kind(),
            Err(_) => return Ok(Err(self.unknown(commit))),
        };
        if kind != Some(git2::ObjectType::Commit) {
            let kind = kind.map_or("object", |kind| kind.str()).to_owned();
            return Err(SourceError::NotACommit {
                url: self.url.text.clone(),
                what: self.want.to_string(),
                kind,
            });
        }
        let objects = match mirror::contents(repository, commit, &self.options.limits) {
            Ok(objects) => objects,
            Err(Problem::Source(error)) => return Err(error),
            Err(Problem::Git(error)) => return Err(self.failed(&error)),
        };
        self.mirror.adopt(repository, &objects)?;
        Ok(self.mirror.digest(commit).ok_or_else(|| SourceError::Storage {
            what: "reading a mirror back",
            why: format!("commit {commit} is not in it"),
        }))
    }

    fn unknown(&self, commit: Oid) -> SourceError {
        SourceError::UnknownCommit {
            url: self.url.text.clone(),
            commit: commit.to_string(),
        }
    }

    /// What libgit2 says where we know no better.
    fn failed(&self, error: &git2::Error) -> SourceError {
        let url = self.url.text.clone();
        if !self.url.is_web() && error.code() == ErrorCode::NotFound {
            return SourceError::RepositoryNotFound { url };
        }
        let missing = self.url.file_path().is_some_and(|path| !path.exists());
        if missing {
            SourceError::RepositoryNotFound { url }
        } else {
            SourceError::Protocol {
                url,
                why: error.message().to_owned(),
            }
        }
    }
}

impl Plan {
    /// One hash or reference, without history.
    fn one(name: &str) -> Self {
        Self {
            refspecs: vec![format!("+{name}:refs/wanted")],
            depth: 1,
        }
    }

    /// All branches and tags, with their history.
    fn all() -> Self {
        let refspecs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        Self {
            refspecs: refspecs.map(str::to_owned).to_vec(),
            depth: 0,
        }
    }
}

fn options(context: &Arc<Context>, depth: i32) -> FetchOptions<'static> {
    let mut callbacks = RemoteCallbacks::new();
    let receiving = Arc::clone(context);
    callbacks.transfer_progress(move |progress| {
        receiving.goes_on(progress.total_objects(), progress.received_bytes() as u64)
    });
    let waiting = Arc::clone(context);
    callbacks.sideband_progress(move |_| waiting.goes_on(0, 0));
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks)
        .download_tags(AutotagOption::None)
        .depth(depth);
    options
}

fn to_commit_id(id: Oid) -> Result<CommitId, SourceError> {
    // libgit2 writes 40 hex digits: what fails here is a repository of a kind that we do not know.
    id.to_string().parse().map_err(|_| SourceError::Unsupported {
        what: "this kind of repository".to_owned(),
        next: "run Flux in this cluster for it",
    })
}

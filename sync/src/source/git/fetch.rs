//! A fetch: downloads into a temporary repository, as little as the server allows, and verifies the content before it
//! is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{AutotagOption, Direction, ErrorCode, FetchOptions, Oid, RemoteCallbacks, Repository};

use super::super::transport::Context;
use super::super::{CommitId, SourceError, Want};
use super::check_want;
use super::job::{Head, Job, ResolvedRef, Session};
use super::mirror::{self, Part, StoredCommit};
use super::tree::Problem;

/// A way to fetch a commit; if a server refuses one, it may allow the next.
pub(super) struct Plan {
    pub refspecs: Vec<String>,
    /// What is fetched: only the commit, or its history too.
    part: Part,
}

/// Why a plan did not fetch the commit.
enum Miss {
    /// Another plan may work.
    Refused(SourceError),
    /// Objects are missing that the server believes we have: the same plan may work if we announce no commits.
    Incomplete(SourceError),
}

impl Job {
    /// Resolves the requested commit from the server's references; also returns the keys that signed it.
    pub(super) fn resolve(&self) -> Result<(CommitId, Option<String>), SourceError> {
        // A process that only resolves has no other opportunity to do this.
        self.mirror.sweep();
        let session = self.session()?;
        let commit = session.found.commit;
        Ok((to_commit_id(commit)?, self.verified(commit, Some(&session))?))
    }

    /// Fetches the commit into the mirror, if needed; also returns the keys that signed it.
    pub(super) fn fetch(&self) -> Result<(CommitId, StoredCommit, Option<String>), SourceError> {
        self.mirror.sweep();
        if let Some(commit) = self.pinned()?.filter(|_| self.proven)
            && let Some(whole) = self.here(commit)?
        {
            return Ok((to_commit_id(commit)?, whole, self.verified(commit, None)?));
        }
        let session = self.session()?;
        let commit = session.found.commit;
        let whole = match self.here(commit)? {
            Some(whole) => whole,
            None => self.transfer(&session)?,
        };
        Ok((
            to_commit_id(commit)?,
            whole,
            self.verified(commit, Some(&session))?,
        ))
    }

    /// The requested commit, if it is requested by id.
    fn pinned(&self) -> Result<Option<Oid>, SourceError> {
        match check_want(&self.want)? {
            Want::Commit(commit) => mirror::oid(commit).map(Some),
            _ => Ok(None),
        }
    }

    /// Lists the references of the server.
    fn session(&self) -> Result<Session, SourceError> {
        let context = self.context()?;
        let heads = self.heads(&context)?;
        let found = match self.pinned()? {
            Some(commit) => ResolvedRef {
                name: None,
                tag: None,
                commit,
            },
            None => self.find(&heads)?,
        };
        Ok(Session {
            context,
            heads,
            found,
        })
    }

    /// Transfers the commit into the mirror.
    fn transfer(&self, session: &Session) -> Result<StoredCommit, SourceError> {
        let Session {
            context,
            heads,
            found,
        } = session;
        let commit = found.commit;
        let mut refusal = self.unknown(commit);
        for plan in self.plans(found.name.clone(), commit, heads, context.gives_hashes()) {
            match self.attempt(context, &plan, commit, heads)? {
                Ok(whole) => return Ok(whole),
                Err(Miss::Refused(error) | Miss::Incomplete(error)) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// A commit that is in the mirror already, perhaps as part of another fetch.
    fn here(&self, commit: Oid) -> Result<Option<StoredCommit>, SourceError> {
        self.mirror
            .find_stored_commit(commit, &self.options.limits, self.deadline)
    }

    /// The ways to fetch a commit, the cheapest first: `name` is the requested reference, if any.
    pub(super) fn plans(
        &self,
        name: Option<String>,
        commit: Oid,
        heads: &[Head],
        gives_hashes: bool,
    ) -> Vec<Plan> {
        let mut plans = Vec::new();
        // libgit2 cannot do a shallow fetch from the local file system.
        if !self.url.is_file() {
            let tip = heads.iter().find(|head| head.id == commit);
            if name.is_none() && gives_hashes {
                plans.push(Plan::alone(&commit.to_string()));
            }
            if let Some(name) = name.or_else(|| tip.map(|tip| tip.name.clone())) {
                plans.push(Plan::alone(name.trim_end_matches("^{}")));
            }
        }
        plans.push(Plan::everything());
        plans
    }

    fn context(&self) -> Result<Arc<Context>, SourceError> {
        Context::new(
            self.url.clone(),
            self.credentials.clone(),
            self.proxies.clone(),
            (Arc::clone(&self.tokens), self.clock.clone()),
            self.options.limits.clone(),
            self.deadline,
        )
    }

    /// The references of the server.
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
        let heads: Vec<Head> = listed.map_err(|error| self.failed(&error))?;
        if heads.is_empty() {
            return Err(SourceError::Empty {
                url: self.url.text.clone(),
            });
        }
        Ok(heads)
    }

    /// The requested reference, and its commit: the server peels annotated tags.
    fn find(&self, heads: &[Head]) -> Result<ResolvedRef, SourceError> {
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
        let direct = named(&name).ok_or(missing)?;
        let peeled = named(&format!("{name}^{{}}"));
        Ok(ResolvedRef {
            name: Some(name),
            tag: peeled.map(|_| direct),
            commit: peeled.unwrap_or(direct),
        })
    }

    /// Runs a plan, announcing the commits that we have; if objects are missing then, runs it again without announcing
    /// any.
    fn attempt(
        &self,
        context: &Arc<Context>,
        plan: &Plan,
        commit: Oid,
        heads: &[Head],
    ) -> Result<Result<StoredCommit, Miss>, SourceError> {
        let haves = self.mirror.haves(plan.part);
        let first = self.download(context, plan, commit, heads, &haves)?;
        if haves.is_empty() || !matches!(first, Err(Miss::Incomplete(_))) {
            return Ok(first);
        }
        self.download(context, plan, commit, heads, &[])
    }

    fn download(
        &self,
        context: &Arc<Context>,
        plan: &Plan,
        commit: Oid,
        heads: &[Head],
        haves: &[Oid],
    ) -> Result<Result<StoredCommit, Miss>, SourceError> {
        let scratch = self.mirror.scratch()?;
        let built_on = if haves.is_empty() {
            Vec::new()
        } else {
            self.mirror.objects(plan.part)
        };
        let shallow = plan.part == Part::Commits;
        let repository = match workshop(scratch.path(), &built_on, haves, shallow) {
            Ok(repository) => repository,
            // The mirror is damaged: the next read detects that.
            Err(error) => return Ok(Err(Miss::Incomplete(self.failed(&error)))),
        };
        let downloaded = context.enter(|| {
            let mut remote = repository.remote_anonymous(&self.url.text)?;
            remote.download(&plan.refspecs, Some(&mut options(context, plan.depth())))
        })?;
        if let Err(error) = downloaded {
            return Ok(Err(Miss::Incomplete(self.failed(&error))));
        }
        self.deadline
            .check(&self.url.text, "checking what was received")?;
        let size = match self.verify(&repository, commit)? {
            Ok(size) => size,
            Err(miss) => return Ok(Err(miss)),
        };
        let tips: Vec<Oid> = heads.iter().map(|head| head.id).collect();
        self.mirror
            .adopt(scratch.path(), plan.part, (commit, size), &tips)?;
        let whole = self.mirror.stored_commit(commit);
        whole.map(Ok).ok_or_else(|| SourceError::Storage {
            what: "reading the mirror",
            why: format!("commit {commit} is not in it"),
        })
    }

    /// Checks that the commit arrived with all its objects; returns the size of its files.
    fn verify(&self, repository: &Repository, commit: Oid) -> Result<Result<u64, Miss>, SourceError> {
        let kind = match repository.find_object(commit, None) {
            Ok(object) => object.kind(),
            Err(_) => return Ok(Err(Miss::Refused(self.unknown(commit)))),
        };
        if kind != Some(git2::ObjectType::Commit) {
            let kind = kind.map_or("object", |kind| kind.str()).to_owned();
            return Err(SourceError::NotACommit {
                url: self.url.text.clone(),
                what: self.want.to_string(),
                kind,
            });
        }
        let check = || self.deadline.check(&self.url.text, "checking what was received");
        match mirror::contents(repository, commit, &self.options.limits, &check) {
            Ok(contents) => Ok(Ok(contents.size)),
            Err(Problem::Source(error)) => Err(error),
            Err(Problem::Git(error)) => Ok(Err(Miss::Incomplete(self.failed(&error)))),
        }
    }

    pub(super) fn unknown(&self, commit: Oid) -> SourceError {
        SourceError::UnknownCommit {
            url: self.url.text.clone(),
            commit: commit.to_string(),
        }
    }

    /// Converts libgit2's error if there is no better one.
    pub(super) fn failed(&self, error: &git2::Error) -> SourceError {
        let url = self.url.text.clone();
        if self.url.is_file() && error.code() == ErrorCode::NotFound {
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
    /// One commit id or reference, without history.
    fn alone(name: &str) -> Self {
        Self {
            refspecs: vec![format!("+{name}:refs/wanted")],
            part: Part::Commits,
        }
    }

    /// All branches and tags, with their history.
    fn everything() -> Self {
        let refspecs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        Self {
            refspecs: refspecs.map(str::to_owned).to_vec(),
            part: Part::History,
        }
    }

    /// The depth of the fetch, including the commit itself; 0 fetches the whole history.
    pub(super) fn depth(&self) -> i32 {
        match self.part {
            Part::Commits => 1,
            Part::History => 0,
        }
    }
}

/// A temporary repository to download into: it uses the objects of the mirror as alternates, and announces its commits
/// to the server. `shallow`: their history is missing, which the server must know.
pub(super) fn workshop(
    path: &Path,
    built_on: &[PathBuf],
    haves: &[Oid],
    shallow: bool,
) -> Result<Repository, git2::Error> {
    let storage = |error: std::io::Error| git2::Error::from_str(&error.to_string());
    let mut repository = Repository::init_opts(path, &mirror::init_options())?;
    if built_on.is_empty() {
        return Ok(repository);
    }
    let mut alternates = String::new();
    for directory in built_on {
        let directory = std::path::absolute(directory).map_err(storage)?;
        writeln!(alternates, "{}", directory.display())
            .map_err(|_| git2::Error::from_str("a path is not UTF-8"))?;
    }
    std::fs::create_dir_all(path.join("objects/info")).map_err(storage)?;
    std::fs::write(path.join("objects/info/alternates"), alternates).map_err(storage)?;
    if shallow {
        std::fs::write(path.join("shallow"), mirror::lines(haves)).map_err(storage)?;
    }
    // Open it again, because alternates and shallow commits are read when a repository is opened.
    repository = Repository::open_bare(path)?;
    for have in haves {
        // Skip a tip that is not a commit, or is missing.
        if repository.find_commit(*have).is_ok() {
            repository.reference(&format!("refs/haves/{have}"), *have, true, "")?;
        }
    }
    Ok(repository)
}

pub(super) fn options(context: &Arc<Context>, depth: i32) -> FetchOptions<'static> {
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

pub(super) fn to_commit_id(id: Oid) -> Result<CommitId, SourceError> {
    // libgit2 writes 40 hex digits: an error means an unknown type of repository.
    id.to_string().parse().map_err(|_| SourceError::Unsupported {
        what: "this kind of repository".to_owned(),
        next: "run Flux in this cluster for it",
    })
}

//! One fetch: in a place of its own, as little as the server allows, verified before it is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{AutotagOption, Direction, ErrorCode, FetchOptions, Oid, RemoteCallbacks, Repository};

use super::super::transport::Context;
use super::super::{CommitId, SourceError, Want};
use super::check_want;
use super::job::{Found, Head, Job, Session};
use super::mirror::{self, Part, Whole};
use super::tree::Problem;

/// A way to a commit; a server that refuses one may allow the next.
pub(super) struct Plan {
    pub refspecs: Vec<String>,
    /// What comes: the commit alone, or all that was before it too.
    part: Part,
}

/// Why a plan did not lead to the commit.
enum Miss {
    /// Another plan may.
    Refused(SourceError),
    /// Something is missing that the server takes for known: the same plan may do, if we say that we have nothing.
    Incomplete(SourceError),
}

impl Job {
    /// The commit that is wanted, by the references of the server, and by whose keys it is signed.
    pub(super) fn resolve(&self) -> Result<(CommitId, Option<String>), SourceError> {
        // A process that only resolves has no other occasion.
        self.mirror.sweep();
        let session = self.session()?;
        let commit = session.found.commit;
        Ok((to_commit_id(commit)?, self.verified(commit, Some(&session))?))
    }

    /// Has the commit in the mirror; returns by whose keys it is signed as well.
    pub(super) fn fetch(&self) -> Result<(CommitId, Whole, Option<String>), SourceError> {
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

    /// The commit that is wanted by its own name.
    fn pinned(&self) -> Result<Option<Oid>, SourceError> {
        match check_want(&self.want)? {
            Want::Commit(commit) => mirror::oid(commit).map(Some),
            _ => Ok(None),
        }
    }

    /// Asks the server what it offers.
    fn session(&self) -> Result<Session, SourceError> {
        let context = self.context()?;
        let heads = self.heads(&context)?;
        let found = match self.pinned()? {
            Some(commit) => Found {
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

    /// Brings the commit into the mirror.
    fn transfer(&self, session: &Session) -> Result<Whole, SourceError> {
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

    /// A commit that is here, or came with another one.
    fn here(&self, commit: Oid) -> Result<Option<Whole>, SourceError> {
        self.mirror
            .find_whole(commit, &self.options.limits, self.deadline)
    }

    /// The ways to a commit, the cheapest first: `name` is the reference that was asked for, if one was.
    pub(super) fn plans(
        &self,
        name: Option<String>,
        commit: Oid,
        heads: &[Head],
        gives_hashes: bool,
    ) -> Vec<Plan> {
        let mut plans = Vec::new();
        // libgit2 cannot leave out history on this machine.
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
        let heads: Vec<Head> = listed.map_err(|error| self.failed(&error))?;
        if heads.is_empty() {
            return Err(SourceError::Empty {
                url: self.url.text.clone(),
            });
        }
        Ok(heads)
    }

    /// The reference that is wanted, and its commit: an annotated tag is peeled by the server.
    fn find(&self, heads: &[Head]) -> Result<Found, SourceError> {
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
        Ok(Found {
            name: Some(name),
            tag: peeled.map(|_| direct),
            commit: peeled.unwrap_or(direct),
        })
    }

    /// Carries out one plan, telling the server what is here; once more without that, if too little came.
    fn attempt(
        &self,
        context: &Arc<Context>,
        plan: &Plan,
        commit: Oid,
        heads: &[Head],
    ) -> Result<Result<Whole, Miss>, SourceError> {
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
    ) -> Result<Result<Whole, Miss>, SourceError> {
        let scratch = self.mirror.scratch()?;
        let built_on = if haves.is_empty() {
            Vec::new()
        } else {
            self.mirror.objects(plan.part)
        };
        let shallow = plan.part == Part::Commits;
        let repository = match workshop(scratch.path(), &built_on, haves, shallow) {
            Ok(repository) => repository,
            // What we have is damaged: whoever reads it next finds that.
            Err(error) => return Ok(Err(Miss::Incomplete(self.failed(&error)))),
        };
        let downloaded = context.enter(|| {
            let mut remote = repository.remote_anonymous(&self.url.text)?;
            remote.download(&plan.refspecs, Some(&mut options(context, plan.depth())))
        })?;
        if let Err(error) = downloaded {
            return Ok(Err(Miss::Incomplete(self.failed(&error))));
        }
        self.deadline.check(&self.url.text, "looking through what came")?;
        let size = match self.verify(&repository, commit)? {
            Ok(size) => size,
            Err(miss) => return Ok(Err(miss)),
        };
        let tips: Vec<Oid> = heads.iter().map(|head| head.id).collect();
        self.mirror
            .adopt(scratch.path(), plan.part, (commit, size), &tips)?;
        let whole = self.mirror.whole(commit);
        whole.map(Ok).ok_or_else(|| SourceError::Storage {
            what: "reading a mirror back",
            why: format!("commit {commit} is not in it"),
        })
    }

    /// Whether the commit came, with all that it consists of; the size of its files.
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
        let check = || self.deadline.check(&self.url.text, "looking through what came");
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

    /// What libgit2 says where we know no better.
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
    /// One hash or reference, without what was before it.
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

    /// Commits before the wanted one, itself included; 0 is all of them.
    pub(super) fn depth(&self) -> i32 {
        match self.part {
            Part::Commits => 1,
            Part::History => 0,
        }
    }
}

/// A repository to download into: it builds on objects that are here, and tells the server of commits that are. `shallow`: they
/// are here without what was before them, which the server must know.
pub(super) fn workshop(
    path: &Path,
    built_on: &[PathBuf],
    haves: &[Oid],
    shallow: bool,
) -> Result<Repository, git2::Error> {
    let storage = |error: std::io::Error| git2::Error::from_str(&error.to_string());
    let mut repository = Repository::init_opts(path, &mirror::plain())?;
    if built_on.is_empty() {
        return Ok(repository);
    }
    let mut alternates = String::new();
    for folder in built_on {
        let folder = std::path::absolute(folder).map_err(storage)?;
        writeln!(alternates, "{}", folder.display())
            .map_err(|_| git2::Error::from_str("a path is no text"))?;
    }
    std::fs::create_dir_all(path.join("objects/info")).map_err(storage)?;
    std::fs::write(path.join("objects/info/alternates"), alternates).map_err(storage)?;
    if shallow {
        std::fs::write(path.join("shallow"), mirror::lines(haves)).map_err(storage)?;
    }
    // Anew, because alternates and shallow commits are read when a repository is opened.
    repository = Repository::open_bare(path)?;
    for have in haves {
        // A tip that is a tag of something else, or lost, is no commit to speak of.
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
    // libgit2 writes 40 hex digits: what fails here is a repository of a kind that we do not know.
    id.to_string().parse().map_err(|_| SourceError::Unsupported {
        what: "this kind of repository".to_owned(),
        next: "run Flux in this cluster for it",
    })
}

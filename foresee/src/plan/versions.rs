//! Resolves the commit of a version: as the controller pinned it, from a local clone, or from the remote.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use git2::{ErrorClass, ErrorCode, Repository};
use muster_api::{
    module::ModuleObject,
    sync::{FluxSource, GitSource as Wanted, GitVersion, Source},
    validate::git,
};
use muster_controllers::{module, runtime::call::error_chain};
use muster_fleet::connect;
use muster_sync::source::{Clock, GitOptions, GitSource, Limits, Remote, Source as _, SourceError, Want};

/// A local clone of a repository that modules use: `URL=DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clone {
    /// The URL, as in modules.
    pub url: String,
    /// Directory of the clone.
    pub directory: PathBuf,
}

impl FromStr for Clone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A URL may contain =, a directory usually does not.
        match text.rsplit_once('=') {
            Some((url, directory)) if !url.is_empty() && !directory.is_empty() => Ok(Self {
                url: url.to_owned(),
                directory: directory.into(),
            }),
            _ => Err("write URL=DIR, such as https://github.com/acme/fleet.git=../fleet".to_owned()),
        }
    }
}

/// Why a commit is unknown, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tag that only Flux resolves is known once the controller has pinned it.
fn read_by_flux(source: &FluxSource) -> Unknown {
    Unknown(format!(
        "{} is read by Flux in the management cluster, and not for a plan; next: write its commit or digest instead of the tag, or plan again when the controller has pinned it",
        source.url()
    ))
}

/// Resolves commits.
pub(crate) struct Versions {
    clones: BTreeMap<String, PathBuf>,
    insecure: bool,
    /// Answers of repositories, by URL and tag.
    answers: BTreeMap<(String, String), Result<String, Unknown>>,
}

impl Versions {
    /// Creates it with these clones, and the repository of the directory itself under the URLs of its remotes.
    pub(crate) fn new(clones: &[Clone], directory: &Path, insecure: bool) -> Self {
        let mut all = remotes(directory);
        all.extend(clones.iter().cloned().map(|clone| (clone.url, clone.directory)));
        Self {
            clones: all,
            insecure,
            answers: BTreeMap::new(),
        }
    }

    /// The local clones, by URL.
    pub(crate) const fn clones(&self) -> &BTreeMap<String, PathBuf> {
        &self.clones
    }

    /// The commit of a module's version; from its status, if that is about the same version of the same repository.
    pub(crate) async fn commit<K: ModuleObject>(&mut self, module: &K) -> Result<String, Unknown> {
        if let Some(known) = self.known(module) {
            return known;
        }
        let git = match &module.spec().sync.source {
            Source::Git(git) => git,
            Source::Flux(flux) => return Err(read_by_flux(flux)),
        };
        let tag = git.version.tag.clone().unwrap_or_default();
        let asked = (git.url.clone(), tag.clone());
        if let Some(answer) = self.answers.get(&asked) {
            return answer.clone();
        }
        let answer = self.resolve_tag(git, tag).await;
        self.answers.insert(asked, answer.clone());
        answer
    }

    /// The commit if it is known without a request to the repository, else `None`.
    pub(crate) fn known<K: ModuleObject>(&self, module: &K) -> Option<Result<String, Unknown>> {
        let source = &module.spec().sync.source;
        if let Some(commit) = module::resolved(module) {
            return Some(Ok(commit));
        }
        match &source.version() {
            GitVersion {
                tag: None,
                commit: Some(commit),
            } => Some(Ok(commit.clone())),
            GitVersion { tag: Some(tag), .. } => {
                let directory = self.clones.get(source.url())?;
                Some(tagged(directory, tag))
            }
            GitVersion { .. } => None,
        }
    }

    async fn resolve_tag(&self, git: &Wanted, tag: String) -> Result<String, Unknown> {
        let clone = format!("name a clone of it with --source {}=DIR", git.url);
        if git.secret_ref.is_some() {
            return Err(Unknown(format!(
                "its repository needs a Secret, which is not read for a plan; next: {clone}"
            )));
        }
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Unknown(format!("{}; next: {clone}", error_chain(error)))
        };
        let directory = tempfile::tempdir().map_err(|error| failed(&error))?;
        let options = GitOptions {
            data_dir: directory.path().to_owned(),
            allow_insecure: self.insecure,
            limits: Limits::default(),
        };
        let proxies = connect::proxies().map_err(|error| failed(&error))?;
        let source = GitSource::new(options, Clock::system()).map_err(|error| failed(&error))?;
        let source = source.with_proxies(proxies);
        let found = source
            .resolve(&Remote::new(git.url.clone()), &Want::Tag(tag.clone()))
            .await;
        found
            .map(|found| found.commit.to_string())
            .map_err(|error| match error {
                SourceError::UnknownTag { url, .. } => Unknown(format!(
                    "no tag {tag} yet in {url}: git tag {tag}, and push it; or {clone}"
                )),
                error => failed(&error),
            })
    }
}

/// The commit of a tag, in a clone.
fn tagged(directory: &Path, tag: &str) -> Result<String, Unknown> {
    let found = Repository::discover(directory).and_then(|repository| {
        let object = repository.revparse_single(&format!("refs/tags/{tag}"))?;
        Ok(object.peel_to_commit()?.id().to_string())
    });
    found.map_err(|error| {
        let directory = directory.display();
        Unknown(
            if error.code() == ErrorCode::NotFound && error.class() == ErrorClass::Reference {
                format!("no tag {tag} yet in {directory}: git tag {tag}, or fetch it (git fetch --tags)")
            } else {
                format!("{directory}: {}; next: git fetch --tags there", error.message())
            },
        )
    })
}

/// The repository of a directory, by the URLs of its remotes.
fn remotes(directory: &Path) -> BTreeMap<String, PathBuf> {
    let Ok(repository) = Repository::discover(directory) else {
        return BTreeMap::new();
    };
    let root = repository.workdir().and_then(|root| root.canonicalize().ok());
    let itself = root
        .clone()
        .map(|root| (format!("file://{}", root.display()), root));
    let root = root.unwrap_or_else(|| directory.to_owned());
    // A remote that cannot be read has no usable name.
    let names = repository.remotes().map(|names| {
        let names = names.iter().flatten().flatten().map(str::to_owned);
        names.collect::<Vec<String>>()
    });
    let urls = names.unwrap_or_default().into_iter().filter_map(|name| {
        let remote = repository.find_remote(&name).ok()?; // as above
        Some(remote.url().ok()?.to_owned())
    });
    // Many clones have git's short form of ssh URLs, modules never do.
    let urls = urls.flat_map(|url| [git::long_form(&url), Some(url)]).flatten();
    urls.map(|url| (url, root.clone())).chain(itself).collect()
}

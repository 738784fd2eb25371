//! Drift of a module's clusters: builds the Kustomization of each cluster from exactly the commit that is assigned to
//! it, and compares it with the cluster. Nothing is written.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use futures::{StreamExt as _, stream};
use git2::{Oid, Repository};
use kube::Client;
use muster_api::{
    flux::{GitRepository, Kustomization},
    labels::SYSTEM_NAMESPACE,
    module::ModuleKind,
    names,
    sync::{PACKAGE_FIELDS, SOURCE_FIELDS},
};
use muster_controllers::{expand::flux_object::SourceKind, runtime::Api};
use muster_dashboard::{ModuleView, Shape, insecure_scheme, listed, shell_word};
use muster_fleet as fleet;
use muster_fleet::{connect, name::ModuleName, near};
use muster_sync::{
    apply::Cluster,
    build::{self, BuildOptions, Plans},
    source::{Clock, Files, GitOptions, GitSource, Limits, Remote, Source as _, Want},
};

use super::{
    Compared, Differs,
    how::{CALL, How},
    print,
};
use crate::plan::{self, objects::RENDERED_BY_FLUX, read};

/// How many clusters are compared concurrently.
const AT_ONCE: usize = 8;
/// The most names listed above a shared difference.
const LISTED: usize = 3;

/// The assignment of a cluster, and a client for the cluster.
struct Assigned {
    there: Client,
    how: How,
    origin: Origin,
    path: String,
}

/// A commit of a repository.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Origin {
    url: String,
    commit: String,
    needs_secret: bool,
}

/// The result for a cluster.
struct ClusterDrift {
    text: String,
    differs: Differs,
}

/// Which clusters are compared, and where commits are read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these clusters; if empty, all that have the module.
    pub clusters: Vec<String>,
    /// Local clones that are read instead of the remotes.
    pub clones: Vec<plan::Clone>,
    /// Whether repositories over http and file are fetched, too.
    pub allow_insecure_sources: bool,
}

/// The drift of each cluster that has the module; a difference that several share is printed once.
pub async fn module(
    (client, namespace): (&Client, &str),
    module: &ModuleName,
    options: &Options,
) -> anyhow::Result<Compared> {
    let fleet = fleet::read(client, namespace).await?;
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| fleet::missing(&fleet, module, namespace))?;
    let clusters = chosen(view, &options.clusters, namespace)?;
    if clusters.is_empty() {
        return Ok(Compared {
            differs: Differs::No,
            errors: Vec::new(),
            texts: Vec::new(),
            note: Some(format!("No cluster has {module} yet.")),
        });
    }
    let requests = clusters
        .iter()
        .map(|name| assigned(client, namespace, module, name));
    let assigned: Vec<anyhow::Result<Assigned>> = stream::iter(requests).buffered(AT_ONCE).collect().await;
    let allow = format!(
        "muster diff {module} -n {} --allow-insecure-sources",
        shell_word(namespace)
    );
    let mut sources = Sources::new(options, allow);
    for origin in assigned.iter().flatten().map(|assigned| &assigned.origin) {
        sources.fetch(origin).await;
    }
    let compared = assigned.into_iter().map(|assigned| async {
        match assigned {
            Ok(assigned) => compare(assigned, &sources).await,
            Err(error) => Err(error),
        }
    });
    let results: Vec<anyhow::Result<ClusterDrift>> = stream::iter(compared).buffered(AT_ONCE).collect().await;
    let cell = |name: &str| view.cells.iter().find(|cell| cell.cluster == name);
    let version = |name: &str| {
        cell(name)
            .and_then(|cell| cell.version.clone())
            .unwrap_or_default()
    };
    let (mut alike, mut wrong) = (BTreeMap::new(), BTreeMap::new());
    let mut differs = Differs::No;
    for (name, result) in clusters.iter().zip(results) {
        let name = name.as_str();
        match result {
            Ok(drift) => {
                differs = differs.max(drift.differs);
                alike
                    .entry((version(name), drift.text))
                    .or_insert_with(Vec::new)
                    .push(name);
            }
            Err(error) => {
                differs = Differs::Unknown;
                wrong
                    .entry(format!("{error:#}"))
                    .or_insert_with(Vec::new)
                    .push(name);
            }
        }
    }
    let errors = wrong.into_iter();
    let errors = errors.map(|(why, names)| format!("{}: {why}", listed(names, LISTED)));
    let texts = alike.into_iter();
    let texts =
        texts.map(|((version, text), names)| format!("{} at {version}:\n{text}", listed(names, LISTED)));
    let names = clusters.iter().map(String::as_str);
    let failed: Vec<&str> = names
        .filter(|name| cell(name).is_some_and(|cell| cell.shape == Shape::Failed))
        .collect();
    let note = (!failed.is_empty()).then(|| {
        format!(
            "This compares content, not health; {} failed: muster why {module}",
            listed(failed, LISTED)
        )
    });
    Ok(Compared {
        differs,
        errors: errors.collect(),
        texts: texts.collect(),
        note,
    })
}

/// The clusters that have the module, limited to the given ones.
fn chosen(view: &ModuleView, named: &[String], namespace: &str) -> anyhow::Result<Vec<String>> {
    let has = |name: &str| {
        let mut cells = view.cells.iter();
        cells.any(|cell| cell.cluster == name && cell.version.is_some())
    };
    if let Some(name) = named.iter().find(|name| !has(name)) {
        let all = view.cells.iter().filter(|cell| cell.shape != Shape::NotSelected);
        bail!(
            "{name} does not have {}{}: see muster tree module/{} -n {namespace}",
            view.name,
            near::offer(name, all.map(|cell| cell.cluster.as_str())),
            view.name
        );
    }
    let all = view.cells.iter().filter(|cell| cell.version.is_some());
    Ok(all
        .map(|cell| cell.cluster.clone())
        .filter(|name| named.is_empty() || named.contains(name))
        .collect())
}

async fn assigned(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    cluster: &str,
) -> anyhow::Result<Assigned> {
    let there = fleet::cluster_client(client, namespace, cluster).await?;
    // A Module is applied by the agent in the cluster, a BootstrapModule by the management cluster.
    let (home, at) = match module.kind_of_modules() {
        ModuleKind::Module => (there.clone(), SYSTEM_NAMESPACE),
        ModuleKind::BootstrapModule => (client.clone(), namespace),
    };
    let name = names::kustomization(at, cluster, &module.name);
    let kustomizations: Api<Kustomization> = Api::namespaced(home.clone(), at);
    let kustomization = kustomizations
        .get_opt(&name)
        .await
        .with_context(|| format!("reading Kustomization {at}/{name}"))?
        .with_context(|| format!("there is no Kustomization {at}/{name} yet"))?;
    let source = &kustomization.spec.source_ref;
    let is_made_by_flux = |field: &String| PACKAGE_FIELDS.contains(&field.as_str());
    if source.kind != GitRepository::KIND || kustomization.spec.other.keys().any(is_made_by_flux) {
        bail!("objects unknown: {RENDERED_BY_FLUX}");
    }
    let source = &source.name;
    let repositories: Api<GitRepository> = Api::namespaced(home.clone(), at);
    let repository = repositories
        .get(source)
        .await
        .with_context(|| format!("reading GitRepository {at}/{source}"))?
        .spec;
    let is_read_by_flux = |field: &String| SOURCE_FIELDS.contains(&field.as_str());
    if repository.verify.is_some()
        || repository.ignore.is_some()
        || repository.other.keys().any(is_read_by_flux)
    {
        bail!("objects unknown: {RENDERED_BY_FLUX}");
    }
    let commit = repository.reference.and_then(|reference| reference.commit);
    Ok(Assigned {
        origin: Origin {
            url: repository.url,
            commit: commit.with_context(|| format!("GitRepository {at}/{source} names no commit"))?,
            needs_secret: repository.secret_ref.is_some(),
        },
        path: kustomization.spec.path.clone().unwrap_or_default(),
        how: How::of(&home, kustomization).await?,
        there,
    })
}

async fn compare(assigned: Assigned, sources: &Sources<'_>) -> anyhow::Result<ClusterDrift> {
    let Assigned {
        there,
        how,
        origin,
        path,
    } = assigned;
    if !how.withheld.is_empty() {
        bail!(
            "variables of {} are not read for a diff: the objects cannot be compared",
            how.withheld.join(", ")
        );
    }
    let files = sources.read(&origin, &path).await?;
    let options = BuildOptions {
        substitute: how.variables.clone(),
        plans: Plans::LeftOut,
    };
    let manifests =
        build::build(&files, &options).map_err(|errors| anyhow!("commit {}: {errors}", origin.commit))?;
    let preview = how.preview(&Cluster::new(there, CALL), &manifests).await?;
    let failures = preview.failures.iter();
    let failures = failures.map(|failure| {
        format!(
            "error: {}{failure}\n",
            print::position_prefix(&manifests, &failure.id)
        )
    });
    let text = failures.collect::<String>() + &print::diff_text(&preview, &manifests, "wanted");
    Ok(ClusterDrift {
        differs: Differs::of(&preview),
        text,
    })
}

/// Where commits are read: from local clones, or fetched into a temporary directory.
struct Sources<'a> {
    options: &'a Options,
    /// The command that also reads repositories over http and file.
    allow: String,
    fetched: HashMap<Origin, Result<Fetched, String>>,
}

/// A fetched commit.
struct Fetched {
    source: GitSource,
    remote: Remote,
    /// The temporary directory, removed on drop.
    _directory: tempfile::TempDir,
}

impl<'a> Sources<'a> {
    fn new(options: &'a Options, allow: String) -> Self {
        Self {
            options,
            allow,
            fetched: HashMap::new(),
        }
    }

    fn clone_of(&self, url: &str) -> Option<&PathBuf> {
        let found = self.options.clones.iter().find(|clone| clone.url == url)?;
        Some(&found.directory)
    }

    /// Makes a commit readable; each once.
    async fn fetch(&mut self, origin: &Origin) {
        if self.clone_of(&origin.url).is_some() || self.fetched.contains_key(origin) {
            return;
        }
        let mut next = format!("next: name a clone of it with --source {}=DIR", origin.url);
        // A module alone must never make this command read a directory of this machine.
        let insecure = insecure_scheme(&origin.url).filter(|_| !self.options.allow_insecure_sources);
        let fetched = if let Some(scheme) = insecure {
            next = format!("next: {}", self.allow);
            Err(anyhow!(
                "its repository is a {scheme} URL, which is read only if you allow it"
            ))
        } else if origin.needs_secret {
            Err(anyhow!(
                "its repository needs a Secret, which is not read for a diff"
            ))
        } else {
            fetch(origin, self.options.allow_insecure_sources).await
        };
        let fetched = fetched.map_err(|error| format!("{error:#}; {next}"));
        self.fetched.insert(origin.clone(), fetched);
    }

    async fn read(&self, origin: &Origin, path: &str) -> anyhow::Result<Files> {
        if let Some(directory) = self.clone_of(&origin.url) {
            return in_clone(directory, &origin.commit, path)
                .with_context(|| format!("{}; next: git fetch there", directory.display()));
        }
        match self.fetched.get(origin) {
            Some(Ok(fetched)) => {
                let commit = origin.commit.parse()?;
                Ok(fetched.source.read(&fetched.remote, &commit, path).await?)
            }
            Some(Err(why)) => bail!("{why}"),
            None => bail!("commit {} was not fetched", origin.commit),
        }
    }
}

async fn fetch(origin: &Origin, allow_insecure: bool) -> anyhow::Result<Fetched> {
    let directory = tempfile::tempdir().context("creating a temporary directory")?;
    let options = GitOptions {
        data_dir: directory.path().to_owned(),
        allow_insecure,
        limits: Limits::default(),
    };
    let source = GitSource::new(options, Clock::system())?.with_proxies(connect::proxies()?);
    let remote = Remote::new(origin.url.clone());
    source
        .fetch(&remote, &Want::Commit(origin.commit.parse()?))
        .await?;
    Ok(Fetched {
        source,
        remote,
        _directory: directory,
    })
}

fn in_clone(directory: &Path, commit: &str, path: &str) -> anyhow::Result<Files> {
    let repository = Repository::discover(directory)?;
    let tree = repository.find_commit(Oid::from_str(commit)?)?.tree()?;
    let below = path.trim_start_matches("./").trim_matches('/');
    let below = if below == "." { "" } else { below };
    Ok(read::files(&repository, &tree, Path::new(below))?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository in a directory, and its only commit.
    fn repository() -> (tempfile::TempDir, Origin) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.yaml"), "a: b\n").unwrap();
        let repository = Repository::init(directory.path()).unwrap();
        let mut index = repository.index().unwrap();
        index.add_path(Path::new("a.yaml")).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let author = git2::Signature::now("Ann", "ann@example.com").unwrap();
        let commit = repository.commit(Some("HEAD"), &author, &author, "first", &tree, &[]);
        let origin = Origin {
            url: format!("file://{}", directory.path().display()),
            commit: commit.unwrap().to_string(),
            needs_secret: false,
        };
        drop(tree);
        (directory, origin)
    }

    /// Its content, or the error.
    async fn read(origin: &Origin, allow_insecure_sources: bool) -> Result<usize, String> {
        let options = Options {
            allow_insecure_sources,
            ..Options::default()
        };
        let mut sources = Sources::new(&options, "muster diff module/web -n fleet --allow".to_owned());
        sources.fetch(origin).await;
        let files = sources.read(origin, "").await;
        files.map(|files| files.len()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_directory_of_this_machine_is_read_only_if_that_is_allowed() {
        let (_directory, origin) = repository();
        assert_eq!(
            read(&origin, false).await.unwrap_err(),
            "its repository is a file URL, which is read only if you allow it; next: muster diff module/web -n fleet --allow"
        );
        assert_eq!(read(&origin, true).await, Ok(1));
    }
}

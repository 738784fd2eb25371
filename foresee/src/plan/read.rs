//! Reads the modules of a directory, or of a commit: the same manifests that would be applied from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use git2::{Commit, ErrorCode, ObjectType, Repository, TreeWalkMode, TreeWalkResult};
use kube::ResourceExt;
use muster_api::{
    BootstrapModule, Module, cluster,
    kind::GROUP,
    module::{ModuleKind, ModuleObject},
    node::{self as nodes, NodeModule},
    validate::{self, InsecureSources},
};
use muster_controllers::bindings::ObjectId;
use muster_inspect::lint::{Code, Lens, Problem, Refused};
use muster_sync::{
    build::{self, BuildErrors, BuildOptions, Manifest, Origin, Plans},
    source::{self, DirectoryErrors, File, Files, Limits},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// The file extensions of manifests, as in the sync.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// The location of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// This path in a repository.
    Repository(PathBuf),
    /// This path on disk, outside of any work tree.
    Disk(PathBuf),
}

/// Why the manifests cannot be planned, where, and what to do.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryErrors),
    /// A file cannot be read.
    #[error(
        "{errors}; next: fix it, or name the directory that has the modules with -f (variables: --substitute NAME=VALUE)"
    )]
    Build {
        /// The errors of the files.
        errors: BuildErrors,
    },
    /// The directory has no module.
    #[error(
        "{place} has no Module and no BootstrapModule{skipped}; next: name the directory that has them with -f"
    )]
    NoModules {
        /// The directory, or the directory of a commit.
        place: String,
        /// Text about manifests of other namespaces; may be empty.
        skipped: String,
    },
    /// A module is invalid.
    #[error("{origin}: {module}: {what}")]
    Invalid {
        /// Source position of the module.
        origin: Origin,
        /// Kind and name of the module.
        module: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A module is written twice.
    #[error("{second}: {module} is already written at {first}; remove one of them")]
    Twice {
        /// Kind and name of the module.
        module: String,
        /// Source position of the first one.
        first: Origin,
        /// Source position of the second one.
        second: Origin,
    },
    /// The range is not of the form A..B.
    #[error("--git {range}: write A..B or A...B, two commits, branches or tags, such as origin/main...HEAD")]
    Range {
        /// The argument as given.
        range: String,
    },
    /// The commit does not exist.
    #[error("--git: {revision} is not a commit of the repository of {}; next: git fetch, or name another", directory.display())]
    NoCommit {
        /// The argument as given.
        revision: String,
        /// The directory that was given.
        directory: PathBuf,
    },
    /// The directory is not in a git repository.
    #[error("{} is not in a git work tree; next: name a directory of it with -f", directory.display())]
    NoRepository {
        /// The directory that was given.
        directory: PathBuf,
    },
    /// A file is too large.
    #[error(
        "{path} has {bytes} bytes, more than {most}; next: name the directory that has the modules with -f"
    )]
    TooLarge {
        /// Path of the file.
        path: String,
        /// Size in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: u64,
    },
    /// git failed.
    #[error("git: {0}")]
    Git(#[from] git2::Error),
}

/// A module with its source position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WithOrigin<K> {
    /// The object.
    pub object: K,
    /// Source position.
    pub origin: Origin,
}

/// The objects of a directory that matter for a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// Modules, by name.
    pub modules: BTreeMap<String, WithOrigin<Module>>,
    /// NodeModules, by name: which nodes they change is known only in their clusters.
    pub node_modules: BTreeMap<String, WithOrigin<NodeModule>>,
    /// BootstrapModules, by name.
    pub bootstrap_modules: BTreeMap<String, WithOrigin<BootstrapModule>>,
    /// Clusters, by name.
    pub clusters: BTreeMap<String, Value>,
    /// Other objects that bindings may read.
    pub objects: BTreeMap<ObjectId, Value>,
    /// How many manifests are of other namespaces, and skipped.
    pub elsewhere: BTreeMap<String, usize>,
    /// The modules among the skipped manifests.
    pub modules_elsewhere: BTreeSet<String>,
}

impl Directory {
    /// The notice about NodeModules: they are validated here, and rolled out in the clusters that get them.
    pub(crate) fn of_nodes(&self) -> Option<String> {
        let names: Vec<String> = self
            .node_modules
            .keys()
            .map(|name| format!("nodemodule/{name}"))
            .collect();
        let first = names.first()?;
        let all = names.join(", ");
        Some(format!(
            "nothing is wrong with {all}; which nodes change is known only in the clusters that have them: muster diff {first} --context CONTEXT"
        ))
    }

    /// The notice about manifests of other namespaces, if there are any.
    pub(crate) fn skipped(&self) -> Option<String> {
        let count: usize = self.elsewhere.values().sum();
        let namespaces: Vec<&str> = self.elsewhere.keys().map(String::as_str).collect();
        let (all, are) = match (count, &namespaces[..]) {
            (0, _) => return None,
            (1, [only]) => (format!("1 manifest of namespace {only}"), "was"),
            (_, [only]) => (format!("{count} manifests of namespace {only}"), "were"),
            (_, several) => (
                format!("{count} manifests of namespaces {}", several.join(", ")),
                "were",
            ),
        };
        Some(format!("{all} {are} skipped: name another namespace with -n"))
    }
}

/// The files of a directory on disk.
pub(crate) fn on_disk(directory: &Path) -> Result<Files, ReadError> {
    Ok(source::read_directory(directory, &Limits::default())?)
}

/// The files of both sides of a range, in the repository of the directory; only those below the directory. `A..B`
/// compares the two, `A...B` what B changed since it diverged from A.
pub(crate) fn in_range(directory: &Path, range: &str) -> Result<(Files, Files), ReadError> {
    let (from, to) = range.split_once("..").ok_or_else(|| ReadError::Range {
        range: range.to_owned(),
    })?;
    let (to, since) = match to.strip_prefix('.') {
        Some(to) => (to, true),
        None => (to, false),
    };
    let is_named = |name: &str| !name.is_empty() && !name.contains("..");
    if !is_named(from) || !is_named(to) {
        return Err(ReadError::Range {
            range: range.to_owned(),
        });
    }
    let repository = Repository::discover(directory).map_err(|_none| ReadError::NoRepository {
        directory: directory.to_owned(),
    })?;
    let (from, to) = (
        find_commit(&repository, directory, from)?,
        find_commit(&repository, directory, to)?,
    );
    let from = if since {
        repository.find_commit(repository.merge_base(from.id(), to.id())?)?
    } else {
        from
    };
    let below = below(&repository, directory);
    Ok((
        files(&repository, &from.tree()?, &below)?,
        files(&repository, &to.tree()?, &below)?,
    ))
}

fn find_commit<'a>(
    repository: &'a Repository,
    directory: &Path,
    revision: &str,
) -> Result<Commit<'a>, ReadError> {
    let found = repository
        .revparse_single(revision)
        .and_then(|object| object.peel_to_commit());
    found.map_err(|error| match error.code() {
        ErrorCode::NotFound | ErrorCode::Ambiguous | ErrorCode::InvalidSpec | ErrorCode::Peel => {
            ReadError::NoCommit {
                revision: revision.to_owned(),
                directory: directory.to_owned(),
            }
        }
        _ => ReadError::Git(error),
    })
}

/// The location of a directory: in a git work tree, or just on disk.
pub(crate) fn location(directory: &Path) -> Location {
    match Repository::discover(directory) {
        Ok(repository) if repository.workdir().is_some() => {
            Location::Repository(below(&repository, directory))
        }
        // If the path cannot be resolved, it is used as given.
        _ => Location::Disk(directory.canonicalize().unwrap_or_else(|_| directory.to_owned())),
    }
}

/// The path of a directory relative to the root of its repository; empty for the root itself.
fn below(repository: &Repository, directory: &Path) -> PathBuf {
    let root = repository.workdir().and_then(|root| root.canonicalize().ok());
    let directory = directory.canonicalize().ok();
    let below = root.zip(directory).and_then(|(root, directory)| {
        let below = directory.strip_prefix(root).ok()?;
        Some(below.to_owned())
    });
    // A bare repository has no directories on disk: all of it is read.
    below.unwrap_or_default()
}

/// The manifests of a tree below a path.
pub(crate) fn files(
    repository: &Repository,
    tree: &git2::Tree<'_>,
    below: &Path,
) -> Result<Files, ReadError> {
    let (tree, prefix) = if below.as_os_str().is_empty() {
        (tree.clone(), String::new())
    } else {
        match tree.get_path(below).and_then(|entry| entry.to_object(repository)) {
            Ok(object) => (object.peel_to_tree()?, format!("{}/", below.display())),
            // It was created by a later commit, or removed by an earlier one.
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(Files::default()),
            Err(error) => return Err(error.into()),
        }
    };
    let most = Limits::default().file_bytes;
    let mut files = Vec::new();
    let mut wrong = None;
    tree.walk(TreeWalkMode::PreOrder, |directory, entry| {
        // A name that is not UTF-8 has none of the extensions.
        let name = entry.name().unwrap_or_default();
        let is_manifest = EXTENSIONS
            .iter()
            .any(|end| Path::new(name).extension().is_some_and(|found| found == *end));
        if entry.kind() != Some(ObjectType::Blob) || !is_manifest {
            return TreeWalkResult::Ok;
        }
        let path = format!("{prefix}{directory}{name}");
        match repository.find_blob(entry.id()) {
            Ok(blob) if u64::try_from(blob.size()).is_ok_and(|size| size <= most) => {
                files.push(File {
                    path,
                    bytes: blob.content().to_vec().into(),
                });
                return TreeWalkResult::Ok;
            }
            Ok(blob) => {
                wrong = Some(ReadError::TooLarge {
                    path,
                    bytes: blob.size(),
                    most,
                });
            }
            Err(error) => wrong = Some(error.into()),
        }
        TreeWalkResult::Abort
    })
    .or_else(|error| if wrong.is_some() { Ok(()) } else { Err(error) })?;
    wrong.map_or_else(|| Ok(Files::new(files)), Err)
}

/// The modules, Clusters and binding objects of the files. Objects that are of another namespace are skipped.
pub(crate) fn read_directory(
    files: &Files,
    variables: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<Directory, ReadError> {
    let options = BuildOptions {
        substitute: variables.clone(),
        plans: Plans::LeftOut,
    };
    let manifests = build::build(files, &options).map_err(|errors| ReadError::Build { errors })?;
    let definitions = Lens::new();
    let mut directory = Directory::default();
    for manifest in manifests {
        if let Some(other) = manifest.namespace().filter(|named| *named != namespace) {
            *directory.elsewhere.entry(other.to_owned()).or_default() += 1;
            if let Some(kind) = module_kind(&manifest) {
                let module = address(kind, manifest.name());
                directory.modules_elsewhere.insert(module);
            }
            continue;
        }
        let gvk = manifest.gvk();
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            (GROUP, "NodeModule") => put_nodes(&mut directory.node_modules, &manifest, &definitions)?,
            (GROUP, "Module") => put(&mut directory.modules, &manifest, namespace, &definitions)?,
            (GROUP, "BootstrapModule") => {
                put(
                    &mut directory.bootstrap_modules,
                    &manifest,
                    namespace,
                    &definitions,
                )?;
            }
            (cluster::GROUP, "Cluster") => {
                directory
                    .clusters
                    .insert(manifest.name().to_owned(), manifest.object);
            }
            _ => {
                let id = ObjectId {
                    namespace: None,
                    api_version: gvk.api_version(),
                    kind: gvk.kind.clone(),
                    name: manifest.name().to_owned(),
                };
                directory.objects.insert(id, manifest.object);
            }
        }
    }
    Ok(directory)
}

/// The kind of module of a manifest; `None` if it is not a module.
fn module_kind(manifest: &Manifest) -> Option<ModuleKind> {
    let gvk = manifest.gvk();
    let kinds = [ModuleKind::Module, ModuleKind::BootstrapModule];
    let is = |kind: &ModuleKind| gvk.group == GROUP && gvk.kind == kind.as_str();
    kinds.into_iter().find(is)
}

fn put<K: ModuleObject>(
    all: &mut BTreeMap<String, WithOrigin<K>>,
    manifest: &Manifest,
    namespace: &str,
    definitions: &Lens,
) -> Result<(), ReadError> {
    let written = module::<K>(manifest, namespace, definitions)?;
    let name = written.object.name_any();
    if let Some(first) = all.get(&name) {
        return Err(ReadError::Twice {
            module: address(K::KIND, &name),
            first: first.origin.clone(),
            second: written.origin,
        });
    }
    all.insert(name, written);
    Ok(())
}

/// The validation errors of a NodeModule, on its own and with the others.
fn put_nodes(
    all: &mut BTreeMap<String, WithOrigin<NodeModule>>,
    manifest: &Manifest,
    definitions: &Lens,
) -> Result<(), ReadError> {
    let name = manifest.name().to_owned();
    let module = format!("nodemodule/{name}");
    let (object, missing) = accepted::<NodeModule>(manifest, &module, definitions)?;
    let origin = manifest.origin.clone();
    let invalid = |what: String| ReadError::Invalid {
        origin: origin.clone(),
        module: module.clone(),
        what,
    };
    let problems = nodes::validate::validate_node_module(&name, &object.spec);
    if !problems.is_empty() {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(invalid(if missing.is_empty() {
            words.join("; ")
        } else {
            not_given(&missing)
        }));
    }
    for (other, written) in &*all {
        if let Some((path, theirs)) = nodes::overlap::overlap(&object.spec, &written.object.spec) {
            return Err(invalid(format!(
                "{path} conflicts with {theirs} of nodemodule/{other} ({}) on nodes that both may select; next: {}",
                written.origin,
                Code::PathConflict.remedy()
            )));
        }
    }
    all.insert(name, WithOrigin { object, origin });
    Ok(())
}

/// Parses a module, and validates what can be validated without a cluster.
fn module<K: ModuleObject>(
    manifest: &Manifest,
    namespace: &str,
    definitions: &Lens,
) -> Result<WithOrigin<K>, ReadError> {
    let module = address(K::KIND, manifest.name());
    let (mut object, missing) = accepted::<K>(manifest, &module, definitions)?;
    // Only the controller knows whether addresses without TLS are allowed.
    let problems = validate::validate_module(&object.name_any(), object.spec(), InsecureSources::Allowed);
    if !problems.is_empty() {
        return Err(ReadError::Invalid {
            origin: manifest.origin.clone(),
            module,
            what: if missing.is_empty() {
                validate::message(&problems)
            } else {
                not_given(&missing)
            },
        });
    }
    object.meta_mut().namespace = Some(namespace.to_owned());
    Ok(WithOrigin {
        object,
        origin: manifest.origin.clone(),
    })
}

/// A manifest as an API server would store it, and the variables that were not substituted.
fn accepted<K: DeserializeOwned>(
    manifest: &Manifest,
    module: &str,
    definitions: &Lens,
) -> Result<(K, BTreeSet<String>), ReadError> {
    let invalid = |what: String| ReadError::Invalid {
        origin: manifest.origin.clone(),
        module: module.to_owned(),
        what,
    };
    let missing = variables(&manifest.object.get("spec").unwrap_or(&Value::Null).to_string());
    let gvk = manifest.gvk();
    let refused = definitions.refused(&gvk.api_version(), &gvk.kind, &mut manifest.object.clone());
    let Some(Refused { unknown, causes }) = refused else {
        return Err(invalid(format!("{} is not a version of it", gvk.api_version())));
    };
    let words = |problems: &[Problem]| {
        let words = problems.iter().map(ToString::to_string);
        words.collect::<Vec<_>>().join("; ")
    };
    if !unknown.is_empty() {
        let words = words(&unknown);
        return Err(invalid(format!("{words}; next: {}", Code::UnknownField.remedy())));
    }
    if !causes.is_empty() && !missing.is_empty() {
        return Err(invalid(not_given(&missing)));
    }
    let parsed = serde_json::from_value::<K>(manifest.object.clone());
    let object = parsed.map_err(|error| {
        if causes.iter().any(|cause| cause.is_advice) {
            return invalid(words(&causes));
        }
        // For a parse error, its own message is better, and the definition has the position.
        let field = causes.first().map(|cause| format!("{}: ", cause.field));
        invalid(field.unwrap_or_default() + &error.to_string())
    })?;
    if !causes.is_empty() {
        return Err(invalid(words(&causes)));
    }
    Ok((object, missing))
}

/// The variables that were not substituted.
fn variables(text: &str) -> BTreeSet<String> {
    let starts = text.split("${").skip(1);
    let names = starts.map(|rest| rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()));
    names
        .filter_map(|mut parts| parts.next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn not_given(variables: &BTreeSet<String>) -> String {
    let each = |write: fn(&String) -> String| variables.iter().map(write).collect::<Vec<_>>();
    let names = each(|name| format!("${{{name}}}")).join(", ");
    let flags = each(|name| format!("--substitute {name}=VALUE")).join(" ");
    format!("{names}: no Kustomization that applies this directory gives a value; next: give it with {flags}")
}

/// The name as commands take it: `module/podinfo`.
pub(crate) fn address(kind: ModuleKind, name: &str) -> String {
    format!("{}/{name}", kind.as_str().to_lowercase())
}

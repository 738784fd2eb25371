//! Finds the file of a work tree that has a module, and the position of its version.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use git2::Repository;
use muster_api::{
    kind::GROUP,
    module::ModuleKind,
    sync::{FluxSource, Source},
};
use muster_sync::yaml::{self, Kind, Node};
use thiserror::Error;

/// File extensions of manifests.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The size in bytes above which a file is skipped.
const LARGEST: u64 = 4 << 20;
/// The most unreadable files that are listed.
const NAMED: usize = 3;

/// The module to find.
pub(crate) struct Wanted<'a> {
    pub kind: ModuleKind,
    pub name: &'a str,
    pub namespace: &'a str,
}

/// The kind of source, which decides the field of the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionField {
    /// A repository that muster reads.
    Git,
    /// A repository that Flux reads.
    FluxGit,
    /// An OCI artifact that Flux reads.
    FluxOci,
}

impl VersionField {
    const ALL: [Self; 3] = [Self::Git, Self::FluxGit, Self::FluxOci];

    const fn of_flux(source: &FluxSource) -> Self {
        match source {
            FluxSource::GitRepository(_) => Self::FluxGit,
            FluxSource::OciRepository(_) => Self::FluxOci,
        }
    }

    /// The version field of a source.
    pub(crate) fn of(source: &Source) -> Self {
        match source {
            Source::Git(_) => Self::Git,
            Source::Flux(flux) => Self::of_flux(flux),
        }
    }

    /// The path of the version, relative to `spec.sync.source`.
    pub(crate) const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Git => &["git", "version"],
            Self::FluxGit => &["flux", "gitRepository", "ref"],
            Self::FluxOci => &["flux", "ociRepository", "ref"],
        }
    }
}

/// The module that was found.
#[derive(Debug)]
pub(crate) struct VersionLocation {
    /// Path of the file, relative to the root of the work tree.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// Which version field the source has.
    pub field: VersionField,
    /// Key of the version's only field.
    pub key: Arc<Node>,
    /// Value of the version's only field.
    pub value: Arc<Node>,
}

/// Why the version is not found.
#[derive(Debug, Error)]
pub enum NotFound {
    /// The directory is not in a work tree.
    #[error("{directory} is not in a git work tree")]
    NoRepository {
        /// The directory that was given.
        directory: PathBuf,
        /// The error of git.
        #[source]
        source: git2::Error,
    },
    /// The index cannot be read.
    #[error("the index of the git repository cannot be read")]
    Index(#[from] git2::Error),
    /// No file has the module.
    #[error(
        "no file tracked by git below {directory} has {kind} {name}{unread}; next: name the repository that has it with --repo"
    )]
    Nowhere {
        /// The directory that was searched.
        directory: PathBuf,
        /// Module or BootstrapModule.
        kind: ModuleKind,
        /// Name of the module.
        name: String,
        /// Text about unreadable files; may be empty.
        unread: String,
    },
    /// Several files have the module.
    #[error("{kind} {name} is defined more than once: {}; next: choose the directory with --repo", places.join(", "))]
    Twice {
        /// Module or BootstrapModule.
        kind: ModuleKind,
        /// Name of the module.
        name: String,
        /// Positions, `file:line`.
        places: Vec<String>,
    },
    /// The manifest does not have a literal version.
    #[error(
        "{place}: {kind} {name} has no literal tag, commit or digest in spec.sync.source: change the version where it is set"
    )]
    NoVersion {
        /// Module or BootstrapModule.
        kind: ModuleKind,
        /// Name of the module.
        name: String,
        /// Position, `file:line`.
        place: String,
    },
}

/// Opens the repository of a directory.
pub(crate) fn repository(directory: &Path) -> Result<Repository, NotFound> {
    Repository::discover(directory).map_err(|source| NotFound::NoRepository {
        directory: directory.to_owned(),
        source,
    })
}

/// Searches the tracked files below a directory.
pub(crate) fn find(
    repository: &Repository,
    directory: &Path,
    wanted: &Wanted<'_>,
) -> Result<VersionLocation, NotFound> {
    let nowhere = |unread: String| NotFound::Nowhere {
        directory: directory.to_owned(),
        kind: wanted.kind,
        name: wanted.name.to_owned(),
        unread,
    };
    let (Some(root), Ok(below)) = (repository.workdir(), directory.canonicalize()) else {
        return Err(nowhere(String::new()));
    };
    // A path that does not exist has no files.
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for entry in repository.index()?.iter() {
        let Ok(path) = String::from_utf8(entry.path) else {
            continue;
        };
        let file = root.join(&path);
        let named = file
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        let small = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        if !named || !small || !file.starts_with(&below) {
            continue;
        }
        match fs::read_to_string(&file)
            .ok()
            .and_then(|text| Some((modules(&path, &text, wanted)?, text)))
        {
            Some((found, text)) => {
                all.extend(found.into_iter().map(|root| (path.clone(), text.clone(), root)));
            }
            None => unread.push(path),
        }
    }
    let place = |path: &str, root: &Node| format!("{path}:{}", root.at.line);
    let twice = |places: Vec<String>| NotFound::Twice {
        kind: wanted.kind,
        name: wanted.name.to_owned(),
        places,
    };
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (None, _) => Err(nowhere(not_read(&unread))),
        (Some(first), Some(second)) => {
            let more = [first, second].into_iter().chain(all);
            Err(twice(more.map(|(path, _, root)| place(&path, &root)).collect()))
        }
        (Some((path, text, root)), None) => {
            let (field, key, value) = version(&root).ok_or_else(|| NotFound::NoVersion {
                kind: wanted.kind,
                name: wanted.name.to_owned(),
                place: place(&path, &root),
            })?;
            Ok(VersionLocation {
                path,
                text,
                field,
                key,
                value,
            })
        }
    }
}

fn not_read(unread: &[String]) -> String {
    let named = unread
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match unread.len() {
        0 => String::new(),
        count if count > NAMED => format!(" ({named} and {} more cannot be read as YAML)", count - NAMED),
        _ => format!(" ({named} cannot be read as YAML)"),
    }
}

/// The objects of a file that are this module; `None` if it cannot be parsed, such as a template.
fn modules(path: &str, text: &str, wanted: &Wanted<'_>) -> Option<Vec<Arc<Node>>> {
    let documents = yaml::documents(path, text.as_bytes()).ok()?; // an unreadable file is listed by name
    let items =
        documents.iter().flat_map(
            |document| match document.root.get("items").map(|items| &items.kind) {
                Some(Kind::Sequence(items)) => items.clone(),
                _ => vec![Arc::clone(&document.root)],
            },
        );
    Some(items.filter(|root| is_it(root, wanted)).collect())
}

fn is_it(root: &Node, wanted: &Wanted<'_>) -> bool {
    let text = |node: Option<&Arc<Node>>| node.and_then(|node| node.text()).map(str::to_owned);
    let metadata = |field: &str| text(root.get("metadata").and_then(|metadata| metadata.get(field)));
    let group = text(root.get("apiVersion"));
    let ours = group.is_some_and(|version| version.split('/').next() == Some(GROUP));
    ours && text(root.get("kind")).as_deref() == Some(wanted.kind.as_str())
        && metadata("name").as_deref() == Some(wanted.name)
        // A manifest without a namespace is applied to a namespace that is set elsewhere.
        && metadata("namespace").is_none_or(|namespace| namespace == wanted.namespace)
}

/// The only field of the version of its source.
fn version(root: &Node) -> Option<(VersionField, Arc<Node>, Arc<Node>)> {
    let source = root.get("spec")?.get("sync")?.get("source")?;
    let at = |field: VersionField| {
        let mut node = source;
        for name in field.path() {
            node = node.get(name)?;
        }
        Some((field, node))
    };
    let (field, node) = VersionField::ALL.into_iter().find_map(at)?;
    let Kind::Mapping(pairs) = &node.kind else {
        return None;
    };
    let [(key, value)] = &pairs[..] else {
        return None;
    };
    let known = matches!(key.text(), Some("tag" | "commit" | "digest"))
        && value.text().is_some_and(|text| !text.contains("${"));
    known.then(|| (field, Arc::clone(key), Arc::clone(value)))
}

//! The Kustomizations that apply a directory of modules: what they prune, and which variables they substitute.
//!
//! They are found by the labels that Flux and the built-in sync set on the live modules. Invariant: a module is planned
//! as removed only if its Kustomization prunes and is known to apply the directory; otherwise the plan says that the
//! module is live and not in the directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Component, Path, PathBuf},
};

use anyhow::Context as _;
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::{
    flux::Kustomization,
    labels::{annotation, label},
    module::ModuleObject,
};
use muster_controllers::runtime::Api;
use muster_fleet::lists::Live;

use super::{
    read::{self, Directory, Location},
    words,
};

/// The value of a label or annotation that disables pruning of an object.
const DISABLED: &str = "disabled";

/// Namespace and name of a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// Namespace of the Kustomization.
    pub namespace: String,
    /// Name of the Kustomization.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kustomization {}/{}", self.namespace, self.name)
    }
}

impl Id {
    /// The Kustomization of this cluster that applied a module.
    pub(crate) fn of<K: ModuleObject>(module: &K) -> Option<Self> {
        let labels = module.labels();
        // Its Kustomization is in another cluster.
        if labels.contains_key(label::APPLIED_FROM) {
            return None;
        }
        Some(Self {
            namespace: labels.get(label::KUSTOMIZE_NAMESPACE)?.clone(),
            name: labels.get(label::KUSTOMIZE_NAME)?.clone(),
        })
    }
}

/// The Kustomizations of the live modules, or the reason why one is unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Appliers(pub BTreeMap<Id, Result<Kustomization, String>>);

/// The planned directory, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// The Kustomizations of live modules that are in the directory.
    pub appliers: BTreeSet<Id>,
    /// Location of the directory.
    pub path: Location,
    /// Modules in the directory that are of another namespace.
    pub elsewhere: BTreeSet<String>,
}

/// What happens to a module that is live and not in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its Kustomization prunes it.
    Pruned(Id),
    /// It stays, or that is unknown: the reason, to follow "is live but not in this directory".
    Left(String),
    /// It is already being deleted.
    Deleted,
}

impl Appliers {
    /// Reads the Kustomizations of the live modules.
    pub(crate) async fn read(client: &Client, live: &Live) -> anyhow::Result<Self> {
        let modules = live.modules.iter().filter_map(Id::of);
        let all: BTreeSet<Id> = modules
            .chain(live.bootstrap_modules.iter().filter_map(Id::of))
            .collect();
        let mut read = BTreeMap::new();
        for id in all {
            let api: Api<Kustomization> = Api::namespaced(client.clone(), &id.namespace);
            let found = match api.get_opt(&id.name).await {
                Ok(Some(found)) if found.spec.kube_config.is_some() => {
                    Err("applies to another cluster".to_owned())
                }
                Ok(Some(found)) => Ok(found),
                Ok(None) => Err("does not exist".to_owned()),
                Err(kube::Error::Api(status)) if status.is_forbidden() => {
                    Err("may not be read with these rights".to_owned())
                }
                Err(kube::Error::SerdeError(_)) => Err("cannot be read by this version of muster".to_owned()),
                Err(error) => return Err(error).with_context(|| format!("reading {id}")),
            };
            read.insert(id, found);
        }
        // Other Kustomizations of this namespace matter only until the first module of a directory is live: without the
        // right to list them, the variables must be given.
        let own: Api<Kustomization> = Api::namespaced(client.clone(), &live.namespace);
        let own = own.list(&ListParams::default()).await;
        for kustomization in own.map(|list| list.items).unwrap_or_default() {
            let id = Id {
                namespace: live.namespace.clone(),
                name: kustomization.name_any(),
            };
            if kustomization.spec.kube_config.is_none() {
                read.entry(id).or_insert(Ok(kustomization));
            }
        }
        Ok(Self(read))
    }

    /// The only Kustomization that applies the directory at this location; `None` if there are several, or the location
    /// is unknown.
    pub(crate) fn at(&self, location: &Location) -> Option<&Kustomization> {
        let Location::Repository(directory) = location else {
            return None;
        };
        let applies = |kustomization: &&Kustomization| {
            let path = kustomization.spec.path.as_deref().unwrap_or(".");
            normal(Path::new(path)) == normal(directory)
        };
        let known = self.0.values().filter_map(|read| read.as_ref().ok());
        let mut all = known.filter(applies);
        match (all.next(), all.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// What happens to a live module that the directory does not have.
    pub(crate) fn missing<K: ModuleObject>(&self, module: &K, planned: &Planned) -> Missing {
        let left = Missing::Left;
        if module.meta().deletion_timestamp.is_some() {
            return Missing::Deleted;
        }
        let disables = |values: &BTreeMap<String, String>| {
            values
                .get(annotation::KUSTOMIZE_PRUNE)
                .is_some_and(|value| value == DISABLED)
        };
        if disables(module.labels()) || disables(module.annotations()) {
            let key = annotation::KUSTOMIZE_PRUNE;
            return left(format!(", and {key} is {DISABLED} on it"));
        }
        let Some(id) = Id::of(module) else {
            return left(String::new());
        };
        let kustomization = match self.0.get(&id) {
            Some(Ok(kustomization)) => kustomization,
            Some(Err(why)) => return left(format!(", and {id} {why}")),
            None => return left(String::new()),
        };
        if planned
            .elsewhere
            .contains(&read::address(K::KIND, &module.name_any()))
        {
            return left(" for this namespace".to_owned());
        }
        if !kustomization.spec.prune {
            return left(format!(", and {id} does not prune"));
        }
        let path = kustomization.spec.path.as_deref().unwrap_or(".");
        if !planned.appliers.contains(&id) || !planned.covers(path) {
            return left(format!(", and {id} applies the directory {path}"));
        }
        Missing::Pruned(id)
    }
}

impl Planned {
    /// The directory at a location, with these live modules in it.
    pub(crate) fn new(live: &Live, directory: &Directory, path: Location) -> Self {
        let modules = live.modules.iter();
        let modules = modules.filter(|module| directory.modules.contains_key(&module.name_any()));
        let bootstrap = live.bootstrap_modules.iter();
        let bootstrap =
            bootstrap.filter(|module| directory.bootstrap_modules.contains_key(&module.name_any()));
        let appliers = modules.filter_map(Id::of).chain(bootstrap.filter_map(Id::of));
        Self {
            appliers: appliers.collect(),
            path,
            elsewhere: directory.modules_elsewhere.clone(),
        }
    }

    /// Whether everything that a Kustomization applies from this path of its repository is in the directory.
    fn covers(&self, path: &str) -> bool {
        let path = normal(Path::new(path));
        match &self.path {
            Location::Repository(directory) => path.starts_with(normal(directory)),
            // A copy of the directory has the same name.
            Location::Disk(directory) => !path.as_os_str().is_empty() && directory.ends_with(&path),
        }
    }
}

/// A path relative to the root of a repository: `./modules/` is `modules`.
fn normal(path: &Path) -> PathBuf {
    let parts = path.components();
    parts
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

/// The notices of a plan about live modules that are not in its directory and not planned as removed: a line per
/// reason.
pub(crate) fn left(missing: &BTreeMap<String, Missing>) -> Vec<String> {
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut deleted = Vec::new();
    for (module, missing) in missing {
        match missing {
            Missing::Left(why) => alike.entry(why.clone()).or_default().push(module.clone()),
            Missing::Deleted => deleted.push(module.clone()),
            Missing::Pruned(_) => {}
        }
    }
    let one = |modules: &[String]| modules.len() == 1;
    let mut lines: Vec<String> = alike
        .into_iter()
        .map(|(why, modules)| {
            let (is, its) = if one(&modules) {
                ("is", "its")
            } else {
                ("are", "their")
            };
            format!(
                "{} {is} live but not in this directory{why}: --prune plans {its} removal",
                words::who(&modules)
            )
        })
        .collect();
    if !deleted.is_empty() {
        let is = if one(&deleted) { "is" } else { "are" };
        lines.push(format!("{} {is} being deleted", words::who(&deleted)));
    }
    lines
}

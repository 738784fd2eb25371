//! Changes of objects in clusters, if a local clone of their repository is given: builds the current and the new row of
//! each cluster as the sync does, and compares them. Of Secrets only that they change.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use git2::{Oid, Repository};
use muster_api::{assemblage::SyncRow, sync::Package};
use muster_controllers::bindings;
use muster_sync::build::{self, BuildOptions, Identity, Plans};
use serde_json::Value;

use super::{
    fields,
    model::{Fate, Field, ObjectChange},
    read,
};

/// The reason why the objects of a Flux row are unknown.
pub(crate) const RENDERED_BY_FLUX: &str = "rendered by Flux in the cluster";

/// The prefix of a chart release, whose objects are not in the directory.
const HELM_RELEASE: &str = "HelmRelease.helm.toolkit.fluxcd.io ";

/// The objects of one row.
pub(crate) type Objects = BTreeMap<Identity, Value>;
/// The objects, or why they are unknown.
type Built = Result<Arc<Objects>, String>;

/// Builds rows; equal ones are built once.
pub(crate) struct Builder<'a> {
    clones: &'a BTreeMap<String, PathBuf>,
    built: BTreeMap<(String, String, String), Built>,
}

/// The changes of objects in the clusters of a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// The changes; equal ones of several clusters are reported once.
    pub changes: Vec<ObjectChange>,
    /// Why some changes are unknown.
    pub unknown: Vec<String>,
}

impl<'a> Builder<'a> {
    /// Creates it with clones by URL.
    pub(crate) fn new(clones: &'a BTreeMap<String, PathBuf>) -> Self {
        Self {
            clones,
            built: BTreeMap::new(),
        }
    }

    /// The changes of objects in these clusters, from their rows before and after.
    pub(crate) fn difference<'r>(
        &mut self,
        clusters: impl Iterator<Item = (&'r str, Option<&'r SyncRow>, &'r SyncRow)>,
    ) -> Difference {
        let mut all = Difference::default();
        for (cluster, before, after) in clusters {
            let before = before.filter(|row| row.source.is_some());
            let Some(built) = self.built(after) else { continue };
            let before = before.map_or_else(|| Some(Ok(Arc::default())), |row| self.built(row));
            let prunes = after.package.as_ref().is_none_or(|package| package.prune);
            match (before, built) {
                (Some(Ok(before)), Ok(after)) => {
                    for change in between(&before, &after, prunes) {
                        if change.object.starts_with(HELM_RELEASE) {
                            let why = format!("those of {} are {RENDERED_BY_FLUX}", change.object);
                            if !all.unknown.contains(&why) {
                                all.unknown.push(why);
                            }
                        }
                        merge_change(&mut all.changes, change, cluster);
                    }
                }
                (Some(Err(why)), _) | (_, Err(why)) => {
                    if !all.unknown.contains(&why) {
                        all.unknown.push(why);
                    }
                }
                // It is from another repository, without a clone.
                (None, Ok(_)) => {}
            }
        }
        all
    }

    /// The changes of objects in these clusters, whose rows are `before` and are withdrawn once another module has
    /// `after`.
    pub(crate) fn moved<'r>(
        &mut self,
        clusters: impl Iterator<Item = (&'r str, &'r SyncRow, &'r SyncRow)>,
        removes: bool,
    ) -> Difference {
        let mut all = Difference::default();
        for (cluster, before, after) in clusters {
            let (Some(before), Some(after)) = (self.built(before), self.built(after)) else {
                continue;
            };
            match (before, after) {
                (Ok(before), Ok(after)) => {
                    for id in before.keys() {
                        let fate = if after.contains_key(id) {
                            Fate::Moved
                        } else if removes {
                            Fate::Removed
                        } else {
                            continue;
                        };
                        merge_change(&mut all.changes, change(fate, id, Vec::new()), cluster);
                    }
                }
                (Err(why), _) | (_, Err(why)) => {
                    if !all.unknown.contains(&why) {
                        all.unknown.push(why);
                    }
                }
            }
        }
        all
    }

    /// The objects of a row, if they are known.
    pub(crate) fn objects(&mut self, row: &SyncRow) -> Option<Arc<Objects>> {
        self.built(row)?.ok()
    }

    /// The objects of a row; `None` without a clone of its repository.
    fn built(&mut self, row: &SyncRow) -> Option<Built> {
        let (source, package, commit) = (row.source.as_ref()?, row.package.as_ref()?, row.commit.as_ref()?);
        if source.flux().is_some() || package.flux.is_some() {
            return Some(Err(RENDERED_BY_FLUX.to_owned()));
        }
        let clone = self.clones.get(source.url())?;
        let mut values = row.values.clone();
        // What the cluster itself evaluates is unknown here, and equal on both sides.
        let own = row.bindings.iter();
        values.extend(own.map(|binding| (binding.name.clone(), format!("$({})", binding.name))));
        let package = match bindings::substitute_package(package, &values) {
            Ok(package) => package,
            Err(error) => return Some(Err(error.to_string())),
        };
        // A package always serializes to JSON.
        let text = serde_json::to_string(&package).unwrap_or_default();
        let key = (source.url().to_owned(), commit.clone(), text);
        let built = self.built.entry(key);
        Some(built.or_insert_with(|| objects(clone, commit, &package)).clone())
    }
}

fn objects(clone: &Path, commit: &str, package: &Package) -> Built {
    let place = clone.display();
    let git = |error: git2::Error| format!("{place}: {}; next: git fetch there", error.message());
    let repository = Repository::discover(clone).map_err(git)?;
    let id = Oid::from_str(commit).map_err(git)?;
    let found = repository.find_commit(id).map_err(git)?;
    let tree = found.tree().map_err(git)?;
    let below = package.path.trim_start_matches("./").trim_matches('/');
    let below = if below == "." { "" } else { below };
    let files = read::files(&repository, &tree, Path::new(below)).map_err(|error| error.to_string())?;
    let options = BuildOptions {
        substitute: package.substitute.clone(),
        plans: Plans::LeftOut,
    };
    let short = commit.get(..8).unwrap_or(commit);
    let manifests = build::build(&files, &options).map_err(|errors| format!("commit {short}: {errors}"))?;
    let objects = manifests
        .into_iter()
        .map(|manifest| (manifest.identity(), manifest.object));
    Ok(Arc::new(objects.collect()))
}

fn between(before: &Objects, after: &Objects, prunes: bool) -> Vec<ObjectChange> {
    let written = after.iter().filter_map(|(id, object)| match before.get(id) {
        None => Some(change(Fate::Created, id, Vec::new())),
        Some(old) if old == object => None,
        Some(_) if is_secret(id) => Some(change(Fate::Changed, id, Vec::new())),
        Some(old) => Some(change(Fate::Changed, id, fields::between(old, object))),
    });
    let gone = before.keys().filter(|id| prunes && !after.contains_key(*id));
    written
        .chain(gone.map(|id| change(Fate::Removed, id, Vec::new())))
        .collect()
}

fn change(fate: Fate, id: &Identity, fields: Vec<Field>) -> ObjectChange {
    ObjectChange {
        fate,
        object: id.to_string(),
        fields,
        clusters: Vec::new(),
    }
}

fn is_secret(id: &Identity) -> bool {
    id.group.is_empty() && id.kind == "Secret"
}

fn merge_change(all: &mut Vec<ObjectChange>, change: ObjectChange, cluster: &str) {
    let alike = |known: &&mut ObjectChange| {
        (known.fate, &known.object, &known.fields) == (change.fate, &change.object, &change.fields)
    };
    match all.iter_mut().find(alike) {
        Some(known) => known.clusters.push(cluster.to_owned()),
        None => all.push(ObjectChange {
            clusters: vec![cluster.to_owned()],
            ..change
        }),
    }
}

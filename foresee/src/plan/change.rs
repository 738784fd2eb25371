//! Matches the modules of both sides, ordered by dependency. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use muster_api::module::{ModuleKind, ModuleObject, ModuleSpec};
use muster_sync::build::Origin;

use super::{model::Change, read::WithOrigin};

/// One module on both sides.
#[derive(Clone, Debug)]
pub(crate) struct Subject<K> {
    /// The module before; `None` if it does not exist yet.
    pub before: Option<K>,
    /// The module as it would be in the cluster, with its status; marked as deleted if it is removed.
    pub after: K,
    /// Its source position; `None` if it is removed, or only needed for other modules.
    pub origin: Option<Origin>,
    /// The change of the module, if any.
    pub change: Option<Change>,
}

/// The two sides of a comparison.
pub(crate) struct Sides<'a, K> {
    /// The live modules.
    pub live: &'a [K],
    /// The base of the comparison; `None` to compare with the live modules.
    pub base: Option<&'a BTreeMap<String, WithOrigin<K>>>,
    /// The modules that would be applied.
    pub wanted: &'a BTreeMap<String, WithOrigin<K>>,
    /// The live modules that are removed if they are no longer written.
    pub removed: &'a BTreeSet<String>,
}

impl<K: ModuleObject> Sides<'_, K> {
    /// All modules of the kind: written, removed, and merely live.
    pub(crate) fn subjects(&self, now: Timestamp) -> Vec<Subject<K>> {
        let live: BTreeMap<String, &K> = self
            .live
            .iter()
            .map(|module| (module.name_any(), module))
            .collect();
        let based = self.base.iter().flat_map(|base| base.keys());
        let names: BTreeSet<&String> = live.keys().chain(based).chain(self.wanted.keys()).collect();
        let subjects = names
            .into_iter()
            .filter_map(|name| self.subject(name, live.get(name).copied(), now));
        subjects.collect()
    }

    fn subject(&self, name: &str, live: Option<&K>, now: Timestamp) -> Option<Subject<K>> {
        let before = match self.base {
            Some(base) => base.get(name).map(|written| based(live, &written.object)),
            None => live.cloned(),
        };
        let Some(written) = self.wanted.get(name) else {
            let gone = before.is_some() && (self.base.is_some() || self.removed.contains(name));
            // A module that only the base of a range has, and not the cluster, cannot be removed.
            let after = live.cloned()?;
            return Some(Subject {
                change: gone.then_some(Change::Removed),
                after: if gone { deleted(after, now) } else { after },
                before,
                origin: None,
            });
        };
        let after = based(live, &written.object);
        let change = match &before {
            None => Some(Change::Added),
            Some(before) if before.spec() != after.spec() => Some(Change::Changed),
            Some(_) => None,
        };
        Some(Subject {
            change,
            after,
            before,
            origin: Some(written.origin.clone()),
        })
    }
}

/// A module after an apply: fields that git does not set stay.
fn based<K: ModuleObject>(live: Option<&K>, written: &K) -> K {
    let Some(live) = live else {
        return written.clone();
    };
    let mut module = live.clone();
    module.spec_mut().clone_from(written.spec());
    module.annotations_mut().extend(
        written
            .annotations()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    module
}

fn deleted<K: ModuleObject>(mut module: K, now: Timestamp) -> K {
    module.meta_mut().deletion_timestamp = Some(Time(now));
    module
}

/// A module of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Any<M, B> {
    /// A Module.
    Module(M),
    /// A BootstrapModule.
    Bootstrap(B),
}

/// Orders modules by dependency, else by kind and name. Modules in a dependency cycle are last; the controller refuses
/// them.
pub(crate) fn ordered<T>(mut all: Vec<T>, of: impl Fn(&T) -> (ModuleKind, String, ModuleSpec)) -> Vec<T> {
    let mut placed: BTreeSet<(ModuleKind, String)> = BTreeSet::new();
    let mut ordered = Vec::new();
    loop {
        let here: BTreeSet<(ModuleKind, String)> = all
            .iter()
            .map(|item| {
                let (kind, name, _) = of(item);
                (kind, name)
            })
            .collect();
        let next = all.iter().position(|item| {
            let (_, _, spec) = of(item);
            let mut needs = spec.depends_on.iter().map(|need| (need.kind, need.name.clone()));
            needs.all(|need| placed.contains(&need) || !here.contains(&need))
        });
        let Some(next) = next else { break };
        let item = all.remove(next);
        let (kind, name, _) = of(&item);
        placed.insert((kind, name));
        ordered.push(item);
    }
    ordered.extend(all);
    ordered
}

/// The version for display: the tag, or the first digits of the commit.
pub(crate) fn version(spec: &ModuleSpec) -> String {
    spec.sync.source.version().display_version(Some("?"))
}

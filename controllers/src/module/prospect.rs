//! A module as its controller would find it, from lists: for `muster plan`, which asks what would become of it.
//!
//! Invariant: it runs the reading that a reconcile runs (`reading`); only what is gathered comes from elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    ModuleRevision,
    assemblage::SyncRow,
    module::SourceStatus,
    reasons::Reason,
    selector::{Matcher, SelectorError},
    validate::InsecureSources,
};
use muster_rollout as engine;
use serde_json::Value;

use super::{
    decide,
    dependencies::Dependencies,
    facts::Definition,
    history,
    instants::millis,
    kind::{Carrier, Rolled},
    observation::Observation,
    reading::{self, Known, Reader},
    reasons::Explained,
    rows::{self, AssemblageRow},
    sight::{self, Sight},
    target, units, windows,
};
use crate::{
    bindings::{Kinds, ObjectId},
    registry::ClusterRow,
    rolloutwindow::Windows,
};

/// What stands in the management cluster.
#[derive(Debug)]
pub struct Lists<'a, K: Rolled> {
    /// The clusters, each with its state, in the order of their names.
    pub clusters: &'a [Arc<ClusterRow>],
    /// The assemblages of this kind of module.
    pub assemblages: &'a [K::Assemblage],
    /// The revisions of all modules.
    pub revisions: &'a [ModuleRevision],
    /// All modules, and how they stand.
    pub dependencies: &'a Dependencies,
    /// All change windows.
    pub windows: &'a Windows,
    /// Which kinds bindings may read.
    pub kinds: &'a Kinds,
    /// Whether gates may ask by http.
    pub insecure: InsecureSources,
}

/// What a decision about a module would rest on.
#[derive(Clone, Debug)]
pub struct Prospect {
    /// Why nothing would be decided.
    pub wrong: Option<String>,
    /// The revision: what approvals and the like name.
    pub revision: Option<String>,
    /// The selected clusters.
    pub selected: BTreeSet<String>,
    /// What people wish.
    pub spec: engine::Spec,
    /// What is remembered.
    pub memory: engine::Memory,
    /// The clusters.
    pub units: Vec<engine::Unit>,
    /// What the row of each selected cluster is to hold, as far as that is known; without name and token.
    pub rows: BTreeMap<String, SyncRow>,
    /// What would be said of each cluster at first.
    pub told: Vec<Told>,
    /// When clusters open that change windows close now, in this order; those that wait for nothing else.
    pub openings: Vec<Opening>,
}

/// Clusters whose change windows open at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// When.
    pub at: Timestamp,
    /// The same as people there read it: `Sun 2026-11-29 03:00 Europe/Berlin`.
    pub local: String,
    /// The window that is named.
    pub window: String,
    /// Which clusters.
    pub clusters: Vec<String>,
}

impl Opening {
    /// How the instant is written.
    pub const FORMAT: &str = "%a %Y-%m-%d %H:%M";
}

/// What is said of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The cluster.
    pub cluster: String,
    /// The one word.
    pub reason: Reason,
    /// The rest, for people.
    pub message: String,
}

impl From<&Explained<'_>> for Told {
    fn from(told: &Explained<'_>) -> Self {
        Self {
            cluster: told.cluster.to_owned(),
            reason: told.reason,
            message: told.message(),
        }
    }
}

impl Prospect {
    /// How a module stands once it has this spec, and its version is this commit. `read` gives the objects that bindings need: none,
    /// where there is no such object.
    pub async fn of<K: Rolled, E: From<SelectorError>>(
        module: &K,
        commit: &str,
        lists: &Lists<'_, K>,
        mut read: impl AsyncFnMut(&ObjectId) -> Result<Option<Arc<Value>>, E>,
        now: Timestamp,
    ) -> Result<Self, E> {
        let mut seen = observed(module, commit, lists, now);
        if seen.invalid.is_some() {
            return Ok(prospect(module, seen, now));
        }
        let selector = (!seen.deleting)
            .then(|| Matcher::new(module.spec().selector.as_ref()))
            .transpose()?;
        let reader = Reader::new(module, selector.as_ref(), &seen, lists.kinds)?;
        let mut sight = Sight::default();
        for pair in sight::pairs(lists.clusters.to_vec(), rows(lists.assemblages), &sight) {
            let mut known = Known::default();
            let cluster = loop {
                let needs = match reader.cluster(&pair, &known) {
                    Ok(cluster) => break cluster,
                    Err(needs) => needs,
                };
                for revision in needs.revisions {
                    let definition = definition(lists.revisions, module, &revision);
                    known.revisions.insert(revision, definition);
                }
                for object in needs.objects {
                    let value = read(&object).await?;
                    known.objects.insert(object, value);
                }
                known.rounds += 1;
            };
            sight.push(pair, cluster);
        }
        reader.units(&mut sight, None);
        seen.sight = sight;
        seen.invalid = reading::empty_stage(module, &seen);
        Ok(prospect(module, seen, now))
    }
}

/// All but the clusters.
fn observed<K: Rolled>(module: &K, commit: &str, lists: &Lists<'_, K>, now: Timestamp) -> Observation {
    let ties = lists.dependencies.look(module);
    let mut seen = reading::observation(module, ties, lists.windows.clone(), lists.insecure, now);
    if seen.has_target() {
        let wanted = &module.spec().sync.source;
        let source = SourceStatus {
            url: Some(wanted.url().to_owned()),
            tag: wanted.version().tag,
            commit: commit.to_owned(),
            fetched_at: None,
            verified: None,
            request: None,
        };
        seen.target = target::known(module, source, None);
    }
    let last_good = seen.memory.memory.last_good.filter(|_| !seen.deleting);
    seen.last_good = last_good.and_then(|good| definition(lists.revisions, module, &good.to_string()));
    seen.revisions = own(lists.revisions, module)
        .map(|revision| (revision.name_any(), history::row(revision)))
        .collect();
    seen
}

/// The assemblages in the order of their names.
fn rows<A: Carrier>(assemblages: &[A]) -> Vec<Arc<AssemblageRow>> {
    let mut rows: Vec<_> = assemblages
        .iter()
        .map(|assemblage| Arc::new(rows::row(assemblage, None)))
        .collect();
    rows.sort_by(|one, other| one.head.name.cmp(&other.head.name));
    rows
}

/// The revisions of one module.
fn own<'a, K: Rolled>(
    revisions: &'a [ModuleRevision],
    module: &K,
) -> impl Iterator<Item = &'a ModuleRevision> {
    let name = module.name_any();
    revisions.iter().filter(move |revision| {
        let module = &revision.spec.module_ref;
        module.kind == K::KIND && module.name == name
    })
}

fn definition<K: Rolled>(revisions: &[ModuleRevision], module: &K, revision: &str) -> Option<Definition> {
    let found = own(revisions, module).find(|own| own.spec.revision.starts_with(revision))?;
    Some(Definition::from(found.spec.clone()))
}

fn prospect<K: Rolled>(module: &K, seen: Observation, now: Timestamp) -> Prospect {
    let units = &seen.sight.units;
    let memory = seen.remembered(&units.all, millis(now));
    let spec = units::spec(module.spec(), &seen, now);
    let decision = engine::plan(&spec, &memory, &units.all, millis(now));
    let background = decide::background(module, &seen, &decision, now);
    let told = decide::explain(&decision, &background)
        .iter()
        .map(Told::from)
        .collect();
    let row = |unit: &engine::Unit| {
        let engine::Desired::Content { digest, .. } = unit.desired else {
            return None;
        };
        let content = units.contents.get(unit.id.as_str(), digest)?;
        Some((unit.id.to_string(), content.row.clone()))
    };
    let selected = seen.clusters().iter().filter(|cluster| cluster.selected);
    Prospect {
        revision: seen.target.definition().map(|target| target.revision.clone()),
        selected: selected.map(|cluster| cluster.name.clone()).collect(),
        rows: units.all.iter().filter_map(row).collect(),
        wrong: seen.invalid.map(|invalid| invalid.message),
        spec,
        memory,
        told,
        openings: openings(&seen.sight),
        units: seen.sight.units.all,
    }
}

fn openings(sight: &Sight) -> Vec<Opening> {
    let mut all: BTreeMap<(Timestamp, String, String), Vec<String>> = BTreeMap::new();
    for (cluster, unit) in sight.clusters.iter().zip(&sight.units.all) {
        let Some(closed) = windows::closing(cluster, unit).filter(|_| cluster.not_yet.is_none()) else {
            continue;
        };
        let local = closed.local_opening(Opening::FORMAT);
        if let (Some(at), Some(local)) = (closed.until, local) {
            let together = all.entry((at, local, closed.window.clone())).or_default();
            together.push(cluster.name.clone());
        }
    }
    let opening = |((at, local, window), clusters)| Opening {
        at,
        local,
        window,
        clusters,
    };
    all.into_iter().map(opening).collect()
}

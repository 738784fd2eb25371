//! The observation of a module as its controller would make it, but from lists: for `muster plan`, which predicts a
//! rollout.
//!
//! Invariant: it uses the same code as a reconcile (`reading`); only the gathered inputs come from elsewhere.

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
    cluster_view::{self, ClusterView},
    decide,
    dependencies::Dependencies,
    facts::Definition,
    history,
    instants::millis,
    kind::{Carrier, Rolled},
    observation::Observation,
    reading::{self, Gathered, Reader},
    reasons::Explained,
    rows::{self, AssemblageRow},
    target, units, windows,
};
use crate::{
    bindings::{Kinds, ObjectId},
    registry::ClusterRow,
    rolloutwindow::Windows,
};

/// The objects of the management cluster.
#[derive(Debug)]
pub struct Lists<'a, K: Rolled> {
    /// The clusters with their states, sorted by name.
    pub clusters: &'a [Arc<ClusterRow>],
    /// The assemblages of this kind of module.
    pub assemblages: &'a [K::Assemblage],
    /// The ModuleRevisions of all modules.
    pub revisions: &'a [ModuleRevision],
    /// The dependencies between all modules.
    pub dependencies: &'a Dependencies,
    /// All change windows.
    pub windows: &'a Windows,
    /// The kinds that bindings may read.
    pub kinds: &'a Kinds,
    /// Whether gates may query by plain HTTP.
    pub insecure: InsecureSources,
}

/// The input of a decision about a module, and its first messages.
#[derive(Clone, Debug)]
pub struct Prospect {
    /// Why nothing would be decided, if so.
    pub wrong: Option<String>,
    /// The hash of the revision, as approvals and other controls name it.
    pub revision: Option<String>,
    /// The selected clusters.
    pub selected: BTreeSet<String>,
    /// The rollout settings in the engine's form.
    pub spec: engine::Spec,
    /// The engine's memory.
    pub memory: engine::Memory,
    /// The clusters in the engine's form.
    pub units: Vec<engine::Unit>,
    /// The content of each selected cluster's row, as far as known; without name and token.
    pub rows: BTreeMap<String, SyncRow>,
    /// The first message for each cluster.
    pub messages: Vec<ClusterMessage>,
    /// When clusters that only wait for a change window will open, in order of time.
    pub openings: Vec<Opening>,
}

/// Clusters whose change windows open at the same instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The instant.
    pub at: Timestamp,
    /// The instant in the window's time zone: `Sun 2026-11-29 03:00 Europe/Berlin`.
    pub local: String,
    /// The name of the window.
    pub window: String,
    /// Names of the clusters.
    pub clusters: Vec<String>,
}

impl Opening {
    /// The format of local times.
    pub const FORMAT: &str = "%a %Y-%m-%d %H:%M";
}

/// The message for one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMessage {
    /// Name of the cluster.
    pub cluster: String,
    /// The reason code.
    pub reason: Reason,
    /// The message that explains it.
    pub message: String,
}

impl From<&Explained<'_>> for ClusterMessage {
    fn from(explained: &Explained<'_>) -> Self {
        Self {
            cluster: explained.cluster.to_owned(),
            reason: explained.reason,
            message: explained.message(),
        }
    }
}

impl Prospect {
    /// Predicts the state of a module with this spec, whose version resolved to this commit. `read` returns the objects
    /// that bindings need; `None` for an object that does not exist.
    pub async fn of<K: Rolled, E: From<SelectorError>>(
        module: &K,
        commit: &str,
        lists: &Lists<'_, K>,
        mut read: impl AsyncFnMut(&ObjectId) -> Result<Option<Arc<Value>>, E>,
        now: Timestamp,
    ) -> Result<Self, E> {
        let mut observation = observed(module, commit, lists, now);
        if observation.invalid.is_some() {
            return Ok(prospect(module, observation, now));
        }
        let selector = (!observation.deleting)
            .then(|| Matcher::new(module.spec().selector.as_ref()))
            .transpose()?;
        let reader = Reader::new(module, selector.as_ref(), &observation, lists.kinds)?;
        let mut view = ClusterView::default();
        for pair in cluster_view::pairs(lists.clusters.to_vec(), rows(lists.assemblages), &view) {
            let mut known = Gathered::default();
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
            view.push(pair, cluster);
        }
        reader.units(&mut view, None);
        observation.view = view;
        observation.invalid = reading::empty_stage(module, &observation);
        Ok(prospect(module, observation, now))
    }
}

/// The observation without its clusters.
fn observed<K: Rolled>(module: &K, commit: &str, lists: &Lists<'_, K>, now: Timestamp) -> Observation {
    let ties = lists.dependencies.ties_of(module);
    let mut observation = reading::observation(module, ties, lists.windows.clone(), lists.insecure, now);
    if observation.has_target() {
        let wanted = &module.spec().sync.source;
        let source = SourceStatus {
            url: Some(wanted.url().to_owned()),
            tag: wanted.version().tag,
            commit: commit.to_owned(),
            fetched_at: None,
            verified: None,
            request: None,
        };
        observation.target = target::known(module, source, None);
    }
    let last_good = observation
        .memory
        .memory
        .last_good
        .filter(|_| !observation.deleting);
    observation.last_good = last_good.and_then(|good| definition(lists.revisions, module, &good.to_string()));
    observation.revisions = own(lists.revisions, module)
        .map(|revision| (revision.name_any(), history::revision_row(revision)))
        .collect();
    observation
}

/// The assemblages as rows, sorted by name.
fn rows<A: Carrier>(assemblages: &[A]) -> Vec<Arc<AssemblageRow>> {
    let mut rows: Vec<_> = assemblages
        .iter()
        .map(|assemblage| Arc::new(rows::assemblage_row(assemblage, None)))
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

fn prospect<K: Rolled>(module: &K, observation: Observation, now: Timestamp) -> Prospect {
    let units = &observation.view.units;
    let memory = observation.remembered(&units.all, millis(now));
    let spec = units::engine_spec(module.spec(), &observation, now);
    let decision = engine::plan(&spec, &memory, &units.all, millis(now));
    let background = decide::background(module, &observation, &decision, now);
    let messages = decide::explain_reasons(&decision, &background)
        .iter()
        .map(ClusterMessage::from)
        .collect();
    let row = |unit: &engine::Unit| {
        let engine::Desired::Content { digest, .. } = unit.desired else {
            return None;
        };
        let content = units.contents.get(unit.id.as_str(), digest)?;
        Some((unit.id.to_string(), content.row.clone()))
    };
    let selected = observation.clusters().iter().filter(|cluster| cluster.selected);
    Prospect {
        revision: observation
            .target
            .definition()
            .map(|target| target.revision.clone()),
        selected: selected.map(|cluster| cluster.name.clone()).collect(),
        rows: units.all.iter().filter_map(row).collect(),
        wrong: observation.invalid.map(|invalid| invalid.message),
        spec,
        memory,
        messages,
        openings: openings(&observation.view),
        units: observation.view.units.all,
    }
}

fn openings(view: &ClusterView) -> Vec<Opening> {
    let mut all: BTreeMap<(Timestamp, String, String), Vec<String>> = BTreeMap::new();
    for (cluster, unit) in view.clusters.iter().zip(&view.units.all) {
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

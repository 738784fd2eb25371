//! A module as its controller would see it, from lists: for who asks what would become of it, before it is so. Pure.
//!
//! ```text
//!   a module, with the spec that it would have ─┐
//!   lists of the management cluster ────────────┴─► outlook ─┬─► Needs: objects of bindings, to be read first
//!                                                            └─► Prospect: what `muster_rollout::plan` takes, and what it says now
//! ```
//!
//! Invariant: it goes through the same steps as a reconcile; only what those read over the network is given.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
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

use super::{
    command::Address,
    concern::{self, Candidate, Concern, Concerns, Found, Said},
    decide,
    dependencies::Dependencies,
    facts::{ClusterSeen, Definition, RevisionRow, Target, Values},
    gates::Answers,
    history,
    instants::millis,
    kind::Rolled,
    memory,
    observation::Observation,
    observe,
    reasons::Explained,
    rows::{self, AssemblageRow},
    sight::{self, Seen, Sight},
    source, status, units,
    windows::{self, ModuleWindows},
};
use crate::{
    bindings::{self, Evaluation, Kinds, ObjectId},
    registry::ClusterRow,
    rolloutwindow::Windows,
    runtime::Key,
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
    /// What was read for them so far.
    pub objects: &'a bindings::Known,
    /// Whether gates may ask by http.
    pub insecure: InsecureSources,
}

/// What is known about a module.
#[derive(Clone, Debug)]
pub enum Outlook {
    /// These objects must be read first; there may be more after them.
    Needs(BTreeSet<ObjectId>),
    /// All of it.
    Seen(Box<Prospect>),
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

/// How a module stands once it has this spec, and its version is this commit.
pub fn outlook<K: Rolled>(
    module: &K,
    commit: &str,
    lists: &Lists<'_, K>,
    now: Timestamp,
) -> Result<Outlook, SelectorError> {
    let mut seen = observed(module, commit, lists, now);
    let mut needs = BTreeSet::new();
    if seen.invalid.is_none() {
        seen.sight = clusters(module, lists, &seen, &mut needs, now)?;
        seen.invalid = observe::empty_stage(module, &seen);
    }
    if !needs.is_empty() {
        return Ok(Outlook::Needs(needs));
    }
    Ok(Outlook::Seen(Box::new(prospect(module, seen, now))))
}

/// All but the clusters.
fn observed<K: Rolled>(module: &K, commit: &str, lists: &Lists<'_, K>, now: Timestamp) -> Observation {
    let name = module.name_any();
    let deleting = module.meta().deletion_timestamp.is_some();
    let memory = memory::recall(module);
    let ties = lists.dependencies.look(module);
    let (controls, invalid) = observe::said(module, &ties, lists.insecure, now);
    let last_good = memory.memory.last_good.filter(|_| !deleting);
    let target = if deleting || invalid.is_some() {
        Target::Nothing
    } else {
        let git = &module.spec().sync.source.git;
        let source = SourceStatus {
            url: Some(git.url.clone()),
            tag: git.version.tag.clone(),
            commit: commit.to_owned(),
            fetched_at: None,
        };
        source::known(module, source, None)
    };
    let own = own(lists.revisions, K::KIND, &name);
    Observation {
        invalid,
        deleting,
        controls,
        target,
        last_good: last_good.and_then(|good| definition(own.clone(), &good.to_string())),
        ties,
        memory,
        gap: Duration::ZERO,
        reported_at: None,
        refused: BTreeMap::new(),
        windows: ModuleWindows::new(module, lists.windows.clone(), now),
        sight: Sight::default(),
        revisions: own
            .map(|revision| (revision.name_any(), history::row(revision)))
            .collect::<BTreeMap<String, RevisionRow>>(),
        gates: Answers::new(),
    }
}

/// The revisions of one module.
fn own<'a>(
    revisions: &'a [ModuleRevision],
    kind: muster_api::module::ModuleKind,
    name: &'a str,
) -> impl Iterator<Item = &'a ModuleRevision> + Clone {
    revisions.iter().filter(move |revision| {
        let module = &revision.spec.module_ref;
        module.kind == kind && module.name == name
    })
}

fn definition<'a>(mut own: impl Iterator<Item = &'a ModuleRevision>, revision: &str) -> Option<Definition> {
    let found = own.find(|own| own.spec.revision.starts_with(revision))?;
    Some(Definition::from(found.spec.clone()))
}

fn clusters<K: Rolled>(
    module: &K,
    lists: &Lists<'_, K>,
    seen: &Observation,
    needs: &mut BTreeSet<ObjectId>,
    now: Timestamp,
) -> Result<Sight, SelectorError> {
    let rows: BTreeMap<String, Arc<AssemblageRow>> = lists
        .assemblages
        .iter()
        .map(|assemblage| (assemblage.name_any(), Arc::new(rows::row(assemblage))))
        .collect();
    let selector = (!seen.deleting)
        .then(|| Matcher::new(module.spec().selector.as_ref()))
        .transpose()?;
    let concerns = Concerns::of(module, selector.as_ref(), &seen.memory.memory)?;
    let mut sight = Sight::new(seen.basis(module));
    for pair in sight::pairs(lists.clusters.to_vec(), rows.into_values().collect(), &sight) {
        let cluster = match concerns.about(&pair) {
            Concern::None => None,
            Concern::Orphan(orphan) => Some(*orphan),
            Concern::Candidate(candidate) => Some(one(module, *candidate, lists, seen, needs, now)),
        };
        let fleeting = true;
        sight.push(pair, Seen { cluster, fleeting });
    }
    let rollout = &module.spec().rollout;
    sight.units = units::units(&sight.clusters, seen, &module.name_any(), rollout);
    observe::apply_windows(&mut sight, seen, rollout);
    Ok(sight)
}

fn one<K: Rolled>(
    module: &K,
    candidate: Candidate,
    lists: &Lists<'_, K>,
    seen: &Observation,
    needs: &mut BTreeSet<ObjectId>,
    now: Timestamp,
) -> ClusterSeen {
    let key = Key::of(module);
    let address = Address {
        namespace: &key.namespace,
        module: &status::address(module),
    };
    let said = Said::of(&candidate, &address, seen, now);
    let pinned_to = said.pinned_to(candidate.selected);
    let pinned =
        pinned_to.and_then(|revision| definition(own(lists.revisions, K::KIND, &key.name), revision));
    let pinned = said.pinned(pinned);
    let mut values = |definition: Option<&Definition>| {
        let definition = definition.filter(|_| candidate.selected)?;
        Some(evaluated(&candidate.cluster, definition, lists, needs))
    };
    let found = Found {
        values: values(seen.shall_have(pinned.as_ref())),
        last_good_values: values(seen.comes_from(pinned.as_ref())),
        pinned,
    };
    concern::seen::<K>(candidate, said, found, &key, seen)
}

fn evaluated<K: Rolled>(
    cluster: &ClusterRow,
    definition: &Definition,
    lists: &Lists<'_, K>,
    needs: &mut BTreeSet<ObjectId>,
) -> Result<Values, String> {
    let given = bindings::given(&cluster.name, &cluster.labels);
    let bindings = &definition.control_plane_bindings;
    match bindings::evaluate(bindings, &given, lists.kinds, lists.objects) {
        Ok(Evaluation::Values(values)) => Ok(concern::with_given(values, given, definition)),
        Ok(Evaluation::Needs(objects)) => {
            needs.extend(objects);
            Err("what it reads was not read yet".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
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
        let local = closed.local_opening("%a %Y-%m-%d %H:%M");
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

//! Plans the change from the live state to the written one: module by module, in dependency order.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use muster_api::{
    BootstrapModule, Module,
    assemblage::SyncRow,
    module::{ModuleKind, ModuleObject, OnDelete},
    validate::InsecureSources,
};
use muster_controllers::{
    bindings::BindingKind,
    bindings::{Kinds, KnownObjects, ObjectId, Objects},
    module::{Carrier, Dependencies, Lists, ModuleState, Name, Prospect, Rolled, Successors},
    registry::ClusterRow,
};
use muster_fleet::lists::Live;
use muster_rollout::{Content, Millis, Unit};
use serde_json::Value;

use super::{
    applier::{self, Appliers, Missing, Planned},
    assemble::{self, Findings},
    change::{self, Any, Sides, Subject},
    model::{self, Change, ModulePlan, Move, Plan, SCHEMA},
    objects::{Builder, Difference},
    order::{self, Course, OrderError},
    read::{self, Directory, Location},
    shared::{self, Rows},
    versions::Versions,
};

/// Replaces an unknown commit: the order of a new revision does not depend on its value.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// The input of a plan.
pub(crate) struct Foresight {
    /// Client of the management cluster.
    pub client: Client,
    /// The live objects.
    pub live: Live,
    /// The base of the comparison; `None` to compare with the live objects.
    pub base: Option<Directory>,
    /// The objects that would be applied.
    pub wanted: Directory,
    /// Whether everything that is no longer written is removed, whatever applies the directory.
    pub prune: bool,
    /// The Kustomizations of the live modules.
    pub appliers: Appliers,
    /// Location of the directory.
    pub path: Location,
    /// The kinds that bindings may read.
    pub kinds: Kinds,
    /// The current time.
    pub now: Timestamp,
}

/// The clusters, and the objects that bindings read, on one side.
struct Surroundings {
    clusters: Vec<Arc<ClusterRow>>,
    /// Those of the objects that are in the directory.
    written: BTreeMap<ObjectId, Value>,
    known: KnownObjects,
}

type AnySubject = Any<Subject<Module>, Subject<BootstrapModule>>;

/// The kinds of `--binding-kinds`.
pub(crate) fn kinds(given: &[String]) -> anyhow::Result<Kinds> {
    let kind = |text: &String| {
        let (api_version, kind) = text.rsplit_once('/').with_context(|| {
            format!("--binding-kinds {text}: write APIVERSION/KIND, such as apps/v1/Deployment")
        })?;
        Ok(BindingKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    };
    let kinds: anyhow::Result<BTreeSet<BindingKind>> = given.iter().map(kind).collect();
    Ok(Kinds::new(&kinds?))
}

impl Foresight {
    /// Plans the fleet.
    pub(crate) async fn plan(&self, versions: &mut Versions) -> anyhow::Result<Plan> {
        let nothing = BTreeMap::new();
        let based = self.base.as_ref().map(|base| &base.objects);
        let mut before = self.environment(&BTreeMap::new(), based.unwrap_or(&nothing));
        let mut after = self.environment(&self.wanted.clusters, &self.wanted.objects);
        let missing = self.missing();
        let subjects = self.subjects(&missing);
        let dependencies = dependencies(&subjects, &after.clusters);
        let taken = taken(&subjects, &dependencies, &after.clusters);
        // A module that moves is withdrawn from clusters that have its successor by then.
        let (subjects, moving): (Vec<_>, Vec<_>) = subjects
            .into_iter()
            .partition(|any| successors(any, &dependencies).is_empty());
        let subjects: Vec<AnySubject> = subjects.into_iter().chain(moving).collect();
        let changing: BTreeSet<String> = subjects.iter().filter(|any| changes(any)).map(name).collect();
        let mut plan = Plan {
            schema: SCHEMA,
            modules: Vec::new(),
            unchanged: 0,
            unmentioned: unmentioned(&subjects),
            notes: self.notes(&missing),
        };
        let mut rows = self.rows(&subjects);
        for subject in &subjects {
            let mut ground = Ground {
                versions: &mut *versions,
                dependencies: &dependencies,
                changing: &changing,
                taken: &taken,
                missing: &missing,
                before: &mut before,
                after: &mut after,
                rows: &mut rows,
            };
            let one = match subject {
                Any::Module(subject) => self.module(subject, &self.live.proxies, &mut ground).await?,
                Any::Bootstrap(subject) => self.module(subject, &self.live.remotes, &mut ground).await?,
            };
            match one {
                Some(one) => plan.modules.push(one),
                None => plan.unchanged += 1,
            }
        }
        let mut builder = Builder::new(versions.clones());
        shared::warn(&mut plan.modules, &rows, |row| builder.objects(row));
        Ok(plan)
    }

    fn environment(
        &self,
        clusters: &BTreeMap<String, Value>,
        objects: &BTreeMap<ObjectId, Value>,
    ) -> Surroundings {
        let mut written = objects.clone();
        written.retain(|id, _| self.kinds.allow(&id.api_version, &id.kind));
        Surroundings {
            clusters: self.live.rows(clusters, self.now),
            written,
            known: KnownObjects::new(),
        }
    }

    /// The live modules that the directory does not have, and what happens to them.
    fn missing(&self) -> BTreeMap<String, Missing> {
        let planned = Planned::new(&self.live, &self.wanted, self.path.clone());
        let mut missing = BTreeMap::new();
        for module in &self.live.modules {
            let name = module.name_any();
            if !self.wanted.modules.contains_key(&name) {
                let address = read::address(ModuleKind::Module, &name);
                missing.insert(address, self.appliers.missing(module, &planned));
            }
        }
        for module in &self.live.bootstrap_modules {
            let name = module.name_any();
            if !self.wanted.bootstrap_modules.contains_key(&name) {
                let address = read::address(ModuleKind::BootstrapModule, &name);
                missing.insert(address, self.appliers.missing(module, &planned));
            }
        }
        missing
    }

    /// The names of live modules of a kind that are removed if they are no longer written.
    fn removed(&self, kind: ModuleKind, missing: &BTreeMap<String, Missing>) -> BTreeSet<String> {
        let prefix = read::address(kind, "");
        let removed = missing
            .iter()
            .filter(|(_, missing)| self.prune || matches!(missing, Missing::Pruned(_)));
        let names = removed.filter_map(|(module, _)| module.strip_prefix(&prefix));
        names.map(str::to_owned).collect()
    }

    fn subjects(&self, missing: &BTreeMap<String, Missing>) -> Vec<AnySubject> {
        let base = self.base.as_ref();
        let removed = |kind| self.removed(kind, missing);
        let (gone, bootstrap_gone) = (removed(ModuleKind::Module), removed(ModuleKind::BootstrapModule));
        let modules = Sides {
            live: &self.live.modules,
            base: base.map(|base| &base.modules),
            wanted: &self.wanted.modules,
            removed: &gone,
        };
        let bootstrap = Sides {
            live: &self.live.bootstrap_modules,
            base: base.map(|base| &base.bootstrap_modules),
            wanted: &self.wanted.bootstrap_modules,
            removed: &bootstrap_gone,
        };
        let modules = modules.subjects(self.now).into_iter().map(Any::Module);
        let bootstrap = bootstrap.subjects(self.now).into_iter().map(Any::Bootstrap);
        change::ordered(modules.chain(bootstrap).collect(), |any| match any {
            Any::Module(subject) => identity(&subject.after),
            Any::Bootstrap(subject) => identity(&subject.after),
        })
    }

    /// The rows of clusters for modules that are not removed.
    fn rows(&self, subjects: &[AnySubject]) -> Rows {
        let removed = |any: &&AnySubject| match any {
            Any::Module(subject) => subject.change == Some(Change::Removed),
            Any::Bootstrap(subject) => subject.change == Some(Change::Removed),
        };
        let removed: BTreeSet<String> = subjects.iter().filter(removed).map(name).collect();
        let proxies = self.live.proxies.iter();
        let proxies = proxies.map(|proxy| (ModuleKind::Module, proxy.name_any(), &proxy.spec.syncs));
        let remotes = self.live.remotes.iter();
        let remotes =
            remotes.map(|remote| (ModuleKind::BootstrapModule, remote.name_any(), &remote.spec.syncs));
        let mut rows = Rows::new();
        for (kind, cluster, syncs) in proxies.chain(remotes) {
            for row in syncs {
                let module = read::address(kind, &row.name);
                if row.withdraw.is_none() && !removed.contains(&module) {
                    rows.entry(cluster.clone())
                        .or_default()
                        .insert(module, SyncRow::clone(row));
                }
            }
        }
        rows
    }

    fn notes(&self, missing: &BTreeMap<String, Missing>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.base.is_none() && !self.prune {
            notes.extend(applier::left(missing));
        }
        notes.extend(self.wanted.skipped());
        notes.extend(self.wanted.of_nodes());
        if self.live.enrolled.is_none() {
            notes.push(
                "Secrets may not be listed: a cluster without a kubeconfig is known only where muster reported it"
                    .to_owned(),
            );
        }
        if self.live.windows.is_none() {
            notes.push(
                "RolloutWindows may not be listed: clusters whose change window is closed are shown as if it were open"
                    .to_owned(),
            );
        }
        notes
    }

    /// The plan of one module; `None` if nothing changes.
    async fn module<K: Rolled>(
        &self,
        subject: &Subject<K>,
        assemblages: &[K::Assemblage],
        ground: &mut Ground<'_>,
    ) -> anyhow::Result<Option<ModulePlan>> {
        let (before, after) = (&ground.before, &ground.after);
        let moves_around = after.clusters != before.clusters || after.written != before.written;
        let address = read::address(K::KIND, &subject.after.name_any());
        let is_needed =
            ground.dependencies.is_needed(&Name::of(&subject.after)) || ground.taken.contains_key(&address);
        if subject.change.is_none() && !moves_around && !is_needed {
            return Ok(None);
        }
        let removed = subject.change == Some(Change::Removed);
        let after = if removed {
            Ok(NO_COMMIT.to_owned())
        } else {
            ground.versions.commit(&subject.after).await
        };
        let commit = after.as_deref().unwrap_or(NO_COMMIT);
        let dependencies = ground.dependencies;
        let prospect = self.prospect(&subject.after, commit, assemblages, dependencies, ground.after);
        let prospect = prospect.await?;
        if !removed {
            ground.take(&read::address(K::KIND, &subject.after.name_any()), &prospect.rows);
        }
        let course = if subject.after.spec().suspend && !removed {
            Course::default()
        } else {
            self.course(&subject.after, &prospect)?
        };
        dependencies.record_state(
            &Name::of(&subject.after),
            Some(ModuleState {
                generation: subject.after.meta().generation,
                confirmed: course.confirmed(),
                present: prospect.selected.clone(),
                shared: BTreeSet::new(),
            }),
        );
        // Values that are read in another place may differ.
        let rows_before = match (&subject.before, subject.change, moves_around) {
            (Some(module), None, true) => {
                let prospect = self.prospect(module, commit, assemblages, dependencies, ground.before);
                Some(prospect.await?.rows)
            }
            _ => None,
        };
        let moves = moves(dependencies, &subject.after, &prospect, &ground.after.clusters);
        let now = rows_now(assemblages, &subject.after.name_any(), ground.taken.get(&address));
        let difference = match &after {
            Ok(_) if !moves.is_empty() => moved(ground.versions, &now, &subject.after, &moves, ground.rows),
            Ok(_) => difference(ground.versions, &now, &prospect, &course),
            Err(_) => Difference::default(),
        };
        let known = subject.before.as_ref();
        let known = known.and_then(|before| ground.versions.known(before)?.ok());
        let pruned = match ground.missing.get(&address) {
            Some(Missing::Pruned(id)) if removed && self.base.is_none() => Some(id),
            _ => None,
        };
        Ok(assemble::assemble(&Findings {
            namespace: &self.live.namespace,
            pruned,
            subject,
            before: known,
            clusters_before: &ground.before.clusters,
            clusters_after: &ground.after.clusters,
            prospect: &prospect,
            course: &course,
            rows_before: rows_before.as_ref(),
            difference,
            moves,
            after,
            after_modules: &needed(&subject.after, ground.changing),
            revisions: &self.live.revisions,
        }))
    }

    /// The predicted steps; empty if the controller would not decide anything.
    fn course<K: Rolled>(&self, module: &K, prospect: &Prospect) -> Result<Course, OrderError> {
        if prospect.wrong.is_some() {
            return Ok(Course::default());
        }
        let address = read::address(K::KIND, &module.name_any());
        order::foretell(&address, prospect, &module.spec().rollout, millis(self.now))
    }

    /// The input of the rollout decision. An object that bindings need is read once.
    async fn prospect<K: Rolled>(
        &self,
        module: &K,
        commit: &str,
        assemblages: &[K::Assemblage],
        dependencies: &Dependencies,
        around: &mut Surroundings,
    ) -> anyhow::Result<Prospect> {
        let objects = Objects::new(self.client.clone(), &*self.live.namespace, self.kinds.clone());
        let windows = self.live.windows.clone().unwrap_or_default();
        let Surroundings {
            clusters,
            written,
            known,
        } = around;
        let lists = Lists {
            clusters,
            assemblages,
            revisions: &self.live.revisions,
            dependencies,
            windows: &windows,
            kinds: &self.kinds,
            insecure: InsecureSources::Allowed,
        };
        let read = async |id: &ObjectId| -> anyhow::Result<_> {
            if let Some(value) = known.get(id) {
                return Ok(value.clone());
            }
            let value = match written.get(id) {
                Some(written) => Some(written.clone()),
                None => objects.read_live(id).await?,
            };
            let value = value.map(Arc::new);
            known.insert(id.clone(), value.clone());
            Ok(value)
        };
        Prospect::of(module, commit, &lists, read, self.now).await
    }
}

/// What the plans of modules share.
struct Ground<'a> {
    versions: &'a mut Versions,
    dependencies: &'a Dependencies,
    /// The modules whose manifests change.
    changing: &'a BTreeSet<String>,
    taken: &'a Taken,
    /// The live modules that the directory does not have.
    missing: &'a BTreeMap<String, Missing>,
    before: &'a mut Surroundings,
    after: &'a mut Surroundings,
    /// The rows that each cluster would have.
    rows: &'a mut Rows,
}

impl Ground<'_> {
    /// Replaces the rows of a module in all clusters.
    fn take(&mut self, module: &str, rows: &BTreeMap<String, SyncRow>) {
        for known in self.rows.values_mut() {
            known.remove(module);
        }
        for (cluster, row) in rows {
            let known = self.rows.entry(cluster.clone()).or_default();
            known.insert(module.to_owned(), row.clone());
        }
    }
}

/// The modules that exist only in the cluster.
fn unmentioned(subjects: &[AnySubject]) -> Vec<String> {
    let alone = |any: &&AnySubject| match any {
        Any::Module(subject) => subject.origin.is_none() && subject.change.is_none(),
        Any::Bootstrap(subject) => subject.origin.is_none() && subject.change.is_none(),
    };
    subjects.iter().filter(alone).map(name).collect()
}

/// All modules as they would be. One that is not simulated yet is taken to be on every selected cluster, and confirmed
/// on none.
fn dependencies(subjects: &[AnySubject], clusters: &[Arc<ClusterRow>]) -> Dependencies {
    let (mut modules, mut bootstrap) = (Vec::new(), Vec::new());
    for any in subjects {
        match any {
            // A module that is being removed cannot be depended on.
            Any::Module(subject) if subject.change != Some(Change::Removed) => {
                modules.push(subject.after.clone());
            }
            Any::Bootstrap(subject) if subject.change != Some(Change::Removed) => {
                bootstrap.push(subject.after.clone());
            }
            Any::Module(_) | Any::Bootstrap(_) => {}
        }
    }
    let all = Dependencies::among(&modules, &bootstrap);
    for module in &modules {
        expect(module, clusters, &all);
    }
    for module in &bootstrap {
        expect(module, clusters, &all);
    }
    all
}

fn expect<K: ModuleObject>(module: &K, clusters: &[Arc<ClusterRow>], all: &Dependencies) {
    let standing = ModuleState {
        generation: module.meta().generation,
        confirmed: BTreeSet::new(),
        present: assemble::selected(Some(module), clusters),
        shared: BTreeSet::new(),
    };
    all.record_state(&Name::of(module), Some(standing));
}

/// The changed modules that this one depends on.
fn needed<K: ModuleObject>(module: &K, changing: &BTreeSet<String>) -> Vec<String> {
    let needs = module.spec().depends_on.iter();
    let needs = needs.map(|need| read::address(need.kind, &need.name));
    needs.filter(|need| changing.contains(need)).collect()
}

/// The takeovers: by successor and cluster, the name of the removed module.
type Taken = BTreeMap<String, BTreeMap<String, String>>;

fn taken(subjects: &[AnySubject], dependencies: &Dependencies, clusters: &[Arc<ClusterRow>]) -> Taken {
    let mut taken = Taken::new();
    for any in subjects {
        let removed = match any {
            Any::Module(subject) => subject.after.name_any(),
            Any::Bootstrap(subject) => subject.after.name_any(),
        };
        let by_cluster = successors(any, dependencies).by_cluster(labelled(clusters));
        for (successor, clusters) in by_cluster {
            let clusters = clusters.into_iter().map(|cluster| (cluster, removed.clone()));
            taken.entry(successor).or_default().extend(clusters);
        }
    }
    taken
}

fn successors(any: &AnySubject, dependencies: &Dependencies) -> Successors {
    match any {
        Any::Module(subject) => dependencies.successors(&subject.after),
        Any::Bootstrap(subject) => dependencies.successors(&subject.after),
    }
}

fn labelled(clusters: &[Arc<ClusterRow>]) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
    clusters
        .iter()
        .map(|cluster| (cluster.name.as_str(), &cluster.labels))
}

/// The modules that take over from a removed one, in the clusters that have something of it.
fn moves<K: ModuleObject>(
    dependencies: &Dependencies,
    module: &K,
    prospect: &Prospect,
    clusters: &[Arc<ClusterRow>],
) -> Vec<Move> {
    let carries = |unit: &&Unit| {
        unit.assigned
            .is_some_and(|row| matches!(row.content, Content::Carries { .. }))
    };
    let carrying = prospect.units.iter().filter(carries);
    let carrying: BTreeSet<&str> = carrying.map(|unit| unit.id.as_str()).collect();
    let left = labelled(clusters).filter(|(cluster, _)| carrying.contains(cluster));
    let by_successor = dependencies.successors(module).by_cluster(left);
    by_successor
        .into_iter()
        .map(|(to, clusters)| Move {
            to,
            clusters: clusters.into_iter().collect(),
        })
        .collect()
}

/// The current rows of a module; where it has none, the row of the module that it takes over from.
fn rows_now<'a, A: Carrier>(
    assemblages: &'a [A],
    name: &str,
    taken: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, &'a SyncRow> {
    let row = |assemblage: &'a A| {
        let cluster = assemblage.name_any();
        let of = |name: &str| assemblage.spec().syncs.iter().find(|row| row.name == name);
        let row = of(name).or_else(|| of(taken?.get(&cluster)?))?;
        Some((cluster, &**row))
    };
    assemblages.iter().filter_map(row).collect()
}

/// The changes of objects of a removed module, in the clusters where others take over.
fn moved<K: ModuleObject>(
    versions: &Versions,
    now: &BTreeMap<String, &SyncRow>,
    module: &K,
    moves: &[Move],
    rows: &Rows,
) -> Difference {
    let mut all = Vec::new();
    for Move { to, clusters } in moves {
        for cluster in clusters {
            let after = rows.get(cluster).and_then(|rows| rows.get(to));
            if let (Some(before), Some(after)) = (now.get(cluster), after) {
                all.push((cluster.as_str(), *before, after));
            }
        }
    }
    let removes = module.spec().on_delete != Some(OnDelete::Orphan);
    Builder::new(versions.clones()).moved(all.into_iter(), removes)
}

/// The changes of objects in the changed clusters.
fn difference(
    versions: &Versions,
    now: &BTreeMap<String, &SyncRow>,
    prospect: &Prospect,
    course: &Course,
) -> Difference {
    let touched = model::touched(&course.steps);
    let changed = prospect
        .rows
        .iter()
        .filter(|(cluster, _)| touched.contains(cluster.as_str()));
    let rows = changed.map(|(cluster, row)| (cluster.as_str(), now.get(cluster).copied(), row));
    Builder::new(versions.clones()).difference(rows)
}

fn identity<K: ModuleObject>(module: &K) -> (ModuleKind, String, muster_api::module::ModuleSpec) {
    (K::KIND, module.name_any(), module.spec().clone())
}

fn name(any: &AnySubject) -> String {
    match any {
        Any::Module(subject) => read::address(ModuleKind::Module, &subject.after.name_any()),
        Any::Bootstrap(subject) => read::address(ModuleKind::BootstrapModule, &subject.after.name_any()),
    }
}

fn changes(any: &AnySubject) -> bool {
    match any {
        Any::Module(subject) => subject.change.is_some(),
        Any::Bootstrap(subject) => subject.change.is_some(),
    }
}

fn millis(at: Timestamp) -> Millis {
    // Negative only on a host whose clock is before 1970.
    Millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

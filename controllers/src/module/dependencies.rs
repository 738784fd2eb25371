//! Dependencies between modules: a cluster waits because a module that it depends on is not ready there, or because a
//! dependent module is still there.
//!
//! ```text
//!   Modules, BootstrapModules ─► nodes (generation, version, dependsOn) ─┐
//!   each decision ─► standing (where it is confirmed, where it is) ──────┴─► look ─► behind, needed, cycle, unknown
//!                        └─► related modules decide again
//! ```
//!
//! A module that is being deleted is related in the same way to its successors, which apply the same content
//! ([`super::succession`]).
//!
//! Invariant: a cluster waits unless the last decision about each dependency, at its present generation, says that it
//! is confirmed there. Without a decision, as after a restart, it counts as not ready.
//! Invariant: a module is withdrawn only after every module that depends on it; without a decision, those count as
//! present.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{Stream, StreamExt, future, stream};
use kube::{ResourceExt, api::ListParams, core::PartialObjectMeta, runtime::watcher};
use muster_api::{
    module::{BootstrapModule, Dependency, Module, ModuleKind, ModuleObject},
    reasons::ObjectReason,
    selector::Matcher,
};
use parking_lot::Mutex;

use super::{
    facts::{Invalid, ModuleState},
    succession::{Content, Successor, Successors},
};
use crate::{
    reconcile::Context,
    runtime::{Api, CallError, Changes, Index, Key, call, watch},
};

/// A module of either kind, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    kind: ModuleKind,
    key: Key,
}

/// What other modules need to know of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    generation: Option<i64>,
    /// The desired tag or commit.
    version: String,
    needs: Vec<Name>,
    deleting: bool,
    content: Arc<Content>,
    /// The selector; `None` if it is invalid.
    selector: Option<Matcher>,
}

/// Modules per page of a metadata list.
const PAGE: u32 = 500;

/// The modules of a namespace, and the state of each by its last decision.
#[derive(Default)]
pub struct Dependencies {
    nodes: Nodes,
    standings: Mutex<Standings>,
    concerned: Changes<Name>,
}

type Standings = BTreeMap<Name, Arc<ModuleState>>;

struct Nodes {
    modules: Arc<Index<Module, Node>>,
    bootstrap_modules: Arc<Index<BootstrapModule, Node>>,
}

/// A module's dependencies, dependents and successors.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// Why nothing can be decided: a cycle, or a dependency that does not exist.
    pub wrong: Option<Invalid>,
    needs: Vec<Need>,
    needed_by: Vec<NeededBy>,
    /// The modules that take over from this one while it is being deleted.
    successors: Successors,
    /// Whether this module takes over from one that is being deleted.
    succeeds: bool,
}

#[derive(Clone, Debug)]
struct Need {
    name: Name,
    generation: Option<i64>,
    version: String,
    /// The state by the last decision; `None` if nothing was decided at this generation yet.
    standing: Option<Arc<ModuleState>>,
}

#[derive(Clone, Debug)]
struct NeededBy {
    name: Name,
    /// The state by the last decision; `None` if unknown, so it may be on any cluster.
    standing: Option<Arc<ModuleState>>,
}

impl Name {
    /// Of an object.
    pub fn of<K: ModuleObject>(module: &K) -> Self {
        Self {
            kind: K::KIND,
            key: Key::of(module),
        }
    }

    fn needed(dependency: &Dependency, namespace: &str) -> Self {
        Self {
            kind: dependency.kind,
            key: Key::new(namespace, &dependency.name),
        }
    }

    /// As in commands and messages: `module/web`.
    fn address(&self) -> String {
        format!("{}/{}", self.kind.as_str().to_lowercase(), self.key.name)
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            modules: Arc::new(nodes()),
            bootstrap_modules: Arc::new(nodes()),
        }
    }
}

impl Nodes {
    fn get(&self, name: &Name) -> Option<Node> {
        match name.kind {
            ModuleKind::Module => self.modules.get(&name.key),
            ModuleKind::BootstrapModule => self.bootstrap_modules.get(&name.key),
        }
    }

    fn needing(&self, name: &Name) -> Vec<Name> {
        let among = |kind, rows: &BTreeMap<Key, Node>| -> Vec<Name> {
            let needing = rows.iter().filter(|(_, node)| node.needs.contains(name));
            needing
                .map(|(key, _)| Name {
                    kind,
                    key: key.clone(),
                })
                .collect()
        };
        let mut all = self.modules.with(|rows| among(ModuleKind::Module, rows));
        all.extend(
            self.bootstrap_modules
                .with(|rows| among(ModuleKind::BootstrapModule, rows)),
        );
        all
    }

    /// The modules that take over from this one, or from which this one takes over.
    fn related(&self, name: &Name, own: &Node) -> Vec<(Name, Node)> {
        let among = |rows: &BTreeMap<Key, Node>| -> Vec<(Name, Node)> {
            let others = rows.iter().filter(|(key, node)| {
                **key != name.key
                    && key.namespace == name.key.namespace
                    && node.deleting != own.deleting
                    && node.content == own.content
            });
            let kind = name.kind;
            others
                .map(|(key, node)| {
                    let key = key.clone();
                    (Name { kind, key }, node.clone())
                })
                .collect()
        };
        match name.kind {
            ModuleKind::Module => self.modules.with(among),
            ModuleKind::BootstrapModule => self.bootstrap_modules.with(among),
        }
    }

    /// The modules of a kind that are being deleted.
    fn deleting(&self, kind: ModuleKind) -> Vec<Name> {
        let among = |rows: &BTreeMap<Key, Node>| -> Vec<Name> {
            let deleting = rows.iter().filter(|(_, node)| node.deleting);
            let keys = deleting.map(|(key, _)| key.clone());
            keys.map(|key| Name { kind, key }).collect()
        };
        match kind {
            ModuleKind::Module => self.modules.with(among),
            ModuleKind::BootstrapModule => self.bootstrap_modules.with(among),
        }
    }

    /// A path along dependencies from `start`, which needs `needs`, to `goal`.
    fn way(&self, start: &Name, needs: &[Name], goal: &Name) -> Option<Vec<Name>> {
        let first = |need: &Name| vec![start.clone(), need.clone()];
        let mut ways: Vec<Vec<Name>> = needs.iter().rev().map(first).collect();
        let mut visited = BTreeSet::new();
        while let Some(way) = ways.pop() {
            let last = way.last().filter(|last| visited.insert((*last).clone()));
            match last {
                Some(last) if last == goal => return Some(way),
                Some(last) => {
                    let needs = self.get(last).map(|node| node.needs).unwrap_or_default();
                    let further = |need: &Name| way.iter().chain([need]).cloned().collect();
                    ways.extend(needs.iter().rev().map(further));
                }
                None => {}
            }
        }
        None
    }
}

fn nodes<K: ModuleObject>() -> Index<K, Node> {
    Index::new(|module: &K| Some(node(module)), |key, _| vec![key.clone()])
}

fn node<K: ModuleObject>(module: &K) -> Node {
    let namespace = module.namespace().unwrap_or_default();
    let spec = module.spec();
    let needs = spec.depends_on.iter();
    Node {
        generation: module.meta().generation,
        version: spec.sync.source.version().display_version(None),
        needs: needs.map(|needed| Name::needed(needed, &namespace)).collect(),
        deleting: module.meta().deletion_timestamp.is_some(),
        content: Arc::new(Content::of(spec)),
        selector: Matcher::new(spec.selector.as_ref()).ok(),
    }
}

impl std::fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dependencies")
            .field("standings", &self.standings)
            .finish_non_exhaustive()
    }
}

impl Dependencies {
    /// Dependencies among these modules, without any decision yet.
    pub fn among(modules: &[Module], bootstrap_modules: &[BootstrapModule]) -> Self {
        let all = Self::default();
        for module in modules {
            all.nodes.modules.apply(module);
        }
        for module in bootstrap_modules {
            all.nodes.bootstrap_modules.apply(module);
        }
        all
    }

    /// Watches the modules of the context's namespace until shutdown.
    pub async fn run(self: Arc<Self>, context: Context) {
        let modules = watch_names(&context, ModuleKind::Module, &self.nodes.modules);
        let bootstrap = watch_names(
            &context,
            ModuleKind::BootstrapModule,
            &self.nodes.bootstrap_modules,
        );
        let watched = stream::select(modules, bootstrap).for_each(|name| {
            self.announce(&name);
            // A former successor that is gone or has other content is no longer related to any module.
            for deleting in self.nodes.deleting(name.kind) {
                self.concerned.announce(&deleting);
            }
            future::ready(())
        });
        // Ends on shutdown; the watches themselves never end.
        let _ = context.shutdown.run_until_cancelled(watched).await;
    }

    /// Waits until all modules are listed.
    pub async fn synced(self: Arc<Self>) {
        self.nodes.modules.synced().await;
        self.nodes.bootstrap_modules.synced().await;
    }

    /// The modules of a kind that must decide again because another module changed.
    pub fn changes(&self, kind: ModuleKind) -> impl Stream<Item = Key> + Send + 'static + use<> {
        self.concerned
            .subscribe(BTreeSet::new())
            .filter_map(move |name| future::ready((name.kind == kind).then_some(name.key)))
    }

    /// Records a module's state; `None` if it is unknown or not needed. Related modules decide again if it changed.
    pub fn record_state(&self, name: &Name, standing: Option<ModuleState>) {
        let mut standings = self.standings.lock();
        if standings.get(name).map(|before| &**before) == standing.as_ref() {
            return;
        }
        match standing {
            Some(standing) => standings.insert(name.clone(), Arc::new(standing)),
            None => standings.remove(name),
        };
        drop(standings);
        self.announce(name);
    }

    /// Whether some module depends on this one.
    pub fn is_needed(&self, name: &Name) -> bool {
        !self.nodes.needing(name).is_empty()
    }

    /// The modules that take over from this one, if it is being deleted.
    pub fn successors<K: ModuleObject>(&self, module: &K) -> Successors {
        self.successors_of(&Name::of(module), &node(module), &self.standings.lock())
    }

    fn successors_of(&self, name: &Name, own: &Node, standings: &Standings) -> Successors {
        if !own.deleting {
            return Successors::default();
        }
        let related = self.nodes.related(name, own).into_iter();
        let successors = related.map(|(name, node)| {
            let standing = standings.get(&name);
            Successor {
                address: name.address(),
                standing: standing
                    .filter(|standing| standing.generation == node.generation)
                    .cloned(),
                selector: node.selector,
            }
        });
        Successors::new(successors.collect())
    }

    /// Whether all modules of the kind are known in their present state. The watch may lag behind the one that showed
    /// the deletion, and a single commit can add one module and remove another: so they are listed again before a
    /// deleted module is withdrawn.
    pub async fn are_current<K: ModuleObject>(&self, context: &Context) -> Result<bool, CallError> {
        let modules: Api<K> = Api::namespaced(context.client.clone(), &context.namespace);
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let what = format!("listing {} in {}", K::plural(&()), context.namespace);
            let list = call(what, modules.list_metadata(&page)).await?;
            for module in list.items.iter().filter(|module| !self.is_known(*module)) {
                if is_there(&modules, module).await? {
                    return Ok(false);
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(true),
            }
        }
    }

    fn is_known<K: ModuleObject>(&self, module: &PartialObjectMeta<K>) -> bool {
        let name = Name {
            kind: K::KIND,
            key: Key::of(module),
        };
        let meta = &module.metadata;
        self.nodes.get(&name).is_some_and(|node| {
            node.generation == meta.generation && node.deleting == meta.deletion_timestamp.is_some()
        })
    }

    /// Looks up a module's dependencies, dependents and successors.
    pub fn ties_of<K: ModuleObject>(&self, module: &K) -> Ties {
        let (name, own) = (Name::of(module), node(module));
        let standings = self.standings.lock();
        let needed_by = self.nodes.needing(&name).into_iter();
        let need = |name: &Name| {
            let node = self.nodes.get(name)?;
            let standing = standings.get(name);
            Some(Need {
                name: name.clone(),
                standing: standing
                    .filter(|standing| standing.generation == node.generation)
                    .cloned(),
                generation: node.generation,
                version: node.version,
            })
        };
        Ties {
            successors: self.successors_of(&name, &own, &standings),
            succeeds: !own.deleting && !self.nodes.related(&name, &own).is_empty(),
            wrong: self.wrong(&name, &own.needs),
            needs: own.needs.iter().filter_map(need).collect(),
            needed_by: needed_by
                // Modules in a dependency cycle have no order for withdrawal: they are withdrawn in any order.
                .filter(|by| self.nodes.way(&name, &own.needs, by).is_none())
                .map(|name| NeededBy {
                    standing: standings.get(&name).cloned(),
                    name,
                })
                .collect(),
        }
    }

    fn wrong(&self, name: &Name, needs: &[Name]) -> Option<Invalid> {
        if let Some(circle) = self.nodes.way(name, needs, name) {
            let way: Vec<String> = circle.iter().map(Name::address).collect();
            return Some(Invalid {
                reason: ObjectReason::DependencyCycle,
                message: format!(
                    "spec.dependsOn: {} depends on itself ({}): remove one of these; nothing is rolled out until then",
                    name.address(),
                    way.join(" needs ")
                ),
            });
        }
        let unknown = needs.iter().position(|needed| self.nodes.get(needed).is_none())?;
        let needed = &needs[unknown];
        Some(Invalid {
            reason: ObjectReason::InvalidSpec,
            message: format!(
                "spec.dependsOn[{unknown}]: there is no {} {} in namespace {}: create it, or remove the dependency; nothing is rolled out until then",
                needed.kind, needed.key.name, needed.key.namespace
            ),
        })
    }

    /// Notifies the modules that may decide differently now: dependents, dependencies, successors and predecessors.
    fn announce(&self, name: &Name) {
        let node = self.nodes.get(name);
        let related = node.iter().flat_map(|node| self.nodes.related(name, node));
        for (concerned, _) in related {
            self.concerned.announce(&concerned);
        }
        let needs = node.map(|node| node.needs).unwrap_or_default();
        for concerned in self.nodes.needing(name).iter().chain(&needs) {
            self.concerned.announce(concerned);
        }
    }
}

fn watch_names<K: ModuleObject>(
    context: &Context,
    kind: ModuleKind,
    index: &Arc<Index<K, Node>>,
) -> impl Stream<Item = Name> + Send + use<K> {
    let events = watch::watch::<K>(
        context.client.clone(),
        &context.namespace,
        watcher::Config::default(),
    );
    watch::watch_rows(events, Arc::clone(index)).map(move |key| Name { kind, key })
}

impl Ties {
    /// Whether each dependency still has the generation that was used. The watch may lag, and a single commit can
    /// change a dependency together with its dependent: so it is read again before anything is assigned.
    pub async fn are_current(&self, context: &Context) -> Result<bool, CallError> {
        for need in &self.needs {
            let generation = match need.name.kind {
                ModuleKind::Module => generation::<Module>(context, &need.name).await?,
                ModuleKind::BootstrapModule => generation::<BootstrapModule>(context, &need.name).await?,
            };
            if generation != need.generation {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the module has any relations.
    pub fn any(&self) -> bool {
        !self.needs.is_empty() || !self.needed_by.is_empty() || !self.successors.is_empty() || self.succeeds
    }

    /// Why a cluster must wait: before it gets content, or before the module is withdrawn from it.
    pub fn not_yet(
        &self,
        cluster: &str,
        labels: &BTreeMap<String, String>,
        selected: bool,
    ) -> Option<String> {
        if selected {
            return self.behind(cluster);
        }
        self.needed(cluster)
            .or_else(|| self.successors.not_yet(cluster, labels))
    }

    /// Whether what a cluster has of this module moves to another module.
    pub fn moves(&self, labels: &BTreeMap<String, String>) -> bool {
        self.successors.take_over(labels)
    }

    fn behind(&self, cluster: &str) -> Option<String> {
        let confirmed = |standing: &Arc<ModuleState>| standing.confirmed.contains(cluster);
        let mut needs = self.needs.iter();
        let need = needs.find(|need| !need.standing.as_ref().is_some_and(confirmed))?;
        let address = need.name.address();
        Some(format!(
            "waiting for {address}, which is not ready at {} here; next: muster why {address} --cluster {cluster}",
            need.version
        ))
    }

    fn needed(&self, cluster: &str) -> Option<String> {
        let present = |standing: &Arc<ModuleState>| standing.present.contains(cluster);
        let mut needed_by = self.needed_by.iter();
        let by = needed_by.find(|by| by.standing.as_ref().is_none_or(present))?;
        let by = by.name.address();
        Some(format!(
            "{by} depends on it and is still here; next: withdraw {by} from here too, or remove the dependency"
        ))
    }
}

/// Whether a module exists. One that cannot be parsed takes over nothing, and no watch ever shows it.
async fn is_there<K: ModuleObject>(
    modules: &Api<K>,
    module: &PartialObjectMeta<K>,
) -> Result<bool, CallError> {
    let name = module.name_any();
    match call(format!("reading {} {name}", K::KIND), modules.get_opt(&name)).await {
        Ok(found) => Ok(found.is_some()),
        Err(CallError::Api { source, .. }) if matches!(*source, kube::Error::SerdeError(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn generation<K: ModuleObject>(context: &Context, name: &Name) -> Result<Option<i64>, CallError> {
    let modules: Api<K> = Api::namespaced(context.client.clone(), &name.key.namespace);
    let found = call(
        format!("reading {} {}", name.kind, name.key),
        modules.get_metadata_opt(&name.key.name),
    )
    .await?;
    Ok(found.and_then(|found| found.metadata.generation))
}

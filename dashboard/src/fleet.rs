//! The fleet as one value: every module on every cluster.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use kube::{ResourceExt, core::DynamicObject};
use muster_api::{
    ClusterUpgrade, ModuleRevision, UpdatePlan, ZoneRollout,
    assemblage::{
        AssemblageStatus, ProxyAssemblage, RemoteAssemblage, SyncPhase, SyncRow, SyncState,
        TargetedAssemblageSpec,
    },
    conditions::{PAUSED, READY, STALLED, TAG_MOVED, find, is_true},
    module::{BootstrapModule, Module, ModuleObject, ModuleSpec, ModuleStatus, Summary},
    reasons::{ObjectReason, Reason},
    rollout::Rollout,
    selector::Matcher,
    sync::GitVersion,
};
use muster_rollout::StageId;
use serde::Serialize;

use crate::{
    ConditionView, Happened, Kind, ModuleRef, NodeObjects, Shape,
    group::natural,
    reasons::{Known, Reasons, Says},
    recall,
    upgrades::Upgradable,
    verbs::with_verbs,
    words::one_line,
};

/// The word for a cluster of which a status says nothing.
const UNKNOWN: &str = "Unknown";

/// The objects that a view is computed from, as read.
#[derive(Debug, Default)]
pub struct Objects {
    /// Modules.
    pub modules: Vec<Arc<Module>>,
    /// BootstrapModules.
    pub bootstrap_modules: Vec<Arc<BootstrapModule>>,
    /// ClusterUpgrades, where they are served.
    pub upgrades: Vec<Arc<ClusterUpgrade>>,
    /// ProxyAssemblages.
    pub proxies: Vec<Arc<ProxyAssemblage>>,
    /// RemoteAssemblages.
    pub remotes: Vec<Arc<RemoteAssemblage>>,
    /// Clusters, of whichever version is served.
    pub clusters: Vec<Arc<DynamicObject>>,
    /// ModuleRevisions; read where they are shown.
    pub revisions: Vec<Arc<ModuleRevision>>,
    /// ZoneRollouts, where they are served; read where they are shown.
    pub zones: Vec<Arc<ZoneRollout>>,
    /// UpdatePlans, where they are served; read where they are shown, without the objects that they were decided on.
    pub update_plans: Vec<Arc<UpdatePlan>>,
    /// What happened, newest first; read where it is shown.
    pub events: Vec<Arc<Happened>>,
    /// What rolls over the nodes of this cluster.
    pub nodes: NodeObjects,
}

/// What was assigned to a cluster, and what is known of that.
type Assigned<'a> = (&'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>);

impl Objects {
    /// A module as pages tell it.
    pub fn module(&self, module: &ModuleRef) -> Option<Rolling<'_>> {
        fn find<'a, K: ModuleObject>(all: &'a [Arc<K>], name: &str) -> Option<Rolling<'a>> {
            let found = all.iter().find(|module| module.name_any() == name)?;
            Some(Rolling::of(&**found))
        }
        match module.kind {
            Kind::Module => find(&self.modules, &module.name),
            Kind::BootstrapModule => find(&self.bootstrap_modules, &module.name),
            Kind::ClusterUpgrade => {
                let mut all = self.upgrades.iter();
                let found = all.find(|upgrade| upgrade.name_any() == module.name)?;
                Some(Rolling::of_upgrade(found))
            }
            Kind::NodeModule => self.nodes.module(&module.name).map(Rolling::of_nodes),
        }
    }

    /// What was assigned to a cluster of modules of a kind.
    pub(crate) fn assemblage(&self, kind: Kind, cluster: &str) -> Option<Assigned<'_>> {
        match kind {
            Kind::Module => {
                let mut all = self.proxies.iter();
                let found = all.find(|proxy| proxy.name_any() == cluster)?;
                Some((&found.spec, found.status.as_ref()))
            }
            Kind::BootstrapModule => {
                let mut all = self.remotes.iter();
                let found = all.find(|remote| remote.name_any() == cluster)?;
                Some((&found.spec, found.status.as_ref()))
            }
            Kind::ClusterUpgrade | Kind::NodeModule => None,
        }
    }
}

/// Every module on every cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// What rolls here: modules over clusters, or NodeModules over the nodes of a cluster.
    pub kind: Kind,
    /// The clusters, by name.
    pub clusters: Vec<Member>,
    /// The modules, by kind and name.
    pub modules: Vec<ModuleView>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A module, and where it stands on each cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleView {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The version that is wanted.
    pub version: String,
    /// The status of the condition Ready: True, False, or Unknown.
    pub ready: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Since when: of a failure its own time, though the rollout is older.
    pub since: Option<Timestamp>,
    /// It is being deleted: nothing of it is to stay in any cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// The controller has seen the spec as it is now.
    pub observed: bool,
    /// Nothing goes on without a change by someone.
    pub stalled: bool,
    /// That its tag names another commit than it did, in the words of the condition TagMoved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_moved: Option<String>,
    /// Flux reads its source, and says of it what can be said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_by_flux: bool,
    /// That it is paused, in the words of the condition Paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The stage whose approval or gates are waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<String>,
    /// The clusters in numbers.
    pub summary: Summary,
    /// By cluster, in the order of [`Fleet::clusters`].
    pub cells: Vec<Cell>,
}

/// One module on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The cluster.
    pub cluster: String,
    /// How it stands.
    pub shape: Shape,
    /// The one word.
    pub reason: String,
    /// The version that it carries; none if nothing was assigned yet.
    pub version: Option<String>,
    /// Since when the reason holds, where that is known.
    pub since: Option<Timestamp>,
    /// For people.
    pub message: String,
}

impl Cell {
    /// The word for the legend and for counts: a pin is kept at a version, and is no hold.
    pub fn word(&self) -> &'static str {
        if self.reason == Reason::Pinned.as_str() {
            "pinned"
        } else {
            self.shape.word()
        }
    }
}

impl ModuleView {
    /// Kind and name, as commands take them: `module/web`.
    pub fn address(&self) -> String {
        self.kind.address(&self.name)
    }

    /// The flag that names its namespace, with a blank before it; empty of a kind that has none.
    pub fn within(&self) -> String {
        self.kind.within(&self.namespace)
    }

    /// The message of one of its cells, without the evidence of a failure that another of its cells has in full.
    pub fn message_of<'a>(&self, cell: &'a Cell) -> &'a str {
        const STOPPED: &str = " and is rolled out no further";
        let is_shown = self.cells.iter().any(|cell| cell.shape == Shape::Failed);
        let is_stopped = cell.reason == Reason::Halted.as_str();
        let end = cell.message.find(STOPPED).filter(|_| is_stopped && is_shown);
        let short = end.and_then(|end| cell.message.get(..end + STOPPED.len()));
        short.unwrap_or(&cell.message)
    }

    /// No cluster of it is confirmed, and none is on the way.
    pub fn is_all_skipped(&self) -> bool {
        self.reason == ObjectReason::AllSkipped.as_str()
    }

    /// How the module stands as a whole, by its own word.
    pub fn shape(&self) -> Shape {
        match (self.ready.as_str(), self.stalled) {
            ("True", _) => Shape::Ready,
            (_, true) => Shape::Failed,
            _ if self.is_all_skipped() => Shape::Unreachable,
            // A word that is no cluster's, such as `Progressing`, is about something that goes on.
            (_, false) => self.reason.parse().map_or(Shape::Updating, Shape::of),
        }
    }
}

impl Fleet {
    /// Computes the view.
    pub fn of(objects: &Objects) -> Self {
        let Objects {
            modules,
            bootstrap_modules,
            upgrades,
            proxies,
            remotes,
            clusters,
            ..
        } = objects;
        let mut members: Vec<Member> = clusters
            .iter()
            .map(|cluster| Member {
                name: cluster.name_any(),
                labels: cluster.labels().clone(),
            })
            .collect();
        members.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        let proxied = rows(
            proxies
                .iter()
                .map(|proxy| (proxy.name_any(), &proxy.spec, proxy.status.as_ref())),
        );
        let remote = rows(
            remotes
                .iter()
                .map(|remote| (remote.name_any(), &remote.spec, remote.status.as_ref())),
        );
        let mut views: Vec<ModuleView> = modules
            .iter()
            .map(|module| module_view(&**module, &members, &proxied))
            .collect();
        views.extend(
            bootstrap_modules
                .iter()
                .map(|module| module_view(&**module, &members, &remote)),
        );
        if !upgrades.is_empty() {
            let by_name: BTreeMap<String, &DynamicObject> = clusters
                .iter()
                .map(|cluster| (cluster.name_any(), &**cluster))
                .collect();
            views.extend(upgrades.iter().map(|upgrade| {
                let rows = members
                    .iter()
                    .map(|member| Upgradable::of(by_name.get(&member.name)?, upgrade));
                Rolling::of_upgrade(upgrade).view(&members, rows.collect())
            }));
        }
        views.sort_by(|a, b| (a.kind, natural(&a.name)).cmp(&(b.kind, natural(&b.name))));
        Self {
            kind: Kind::Module,
            clusters: members,
            modules: views,
        }
    }

    /// A module of the view.
    pub fn module(&self, kind: impl Into<Kind>, name: &str) -> Option<&ModuleView> {
        let kind = kind.into();
        self.modules
            .iter()
            .find(|module| module.kind == kind && module.name == name)
    }

    /// How many selected cells there are of each shape, those that are pinned apart.
    pub fn counts(&self) -> BTreeMap<(Shape, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for cell in self
            .modules
            .iter()
            .flat_map(|module| &module.cells)
            .filter(|cell| cell.shape != Shape::NotSelected)
        {
            *counts.entry((cell.shape, cell.word())).or_default() += 1;
        }
        if let Some(several) = counts.remove(&(Shape::WaitsForYou, Shape::WaitsForYou.word())) {
            let word = if several == 1 {
                "waits for you"
            } else {
                "wait for you"
            };
            counts.insert((Shape::WaitsForYou, word), several);
        }
        counts
    }
}

/// What was assigned to a unit of something that rolls, and what is reported of it.
pub trait Carries: Clone {
    /// The version that it carries.
    fn version(&self) -> Option<String>;
    /// It is to carry something.
    fn is_concerned(&self) -> bool;
    /// The revision that it is to carry.
    fn revision(&self) -> Option<&str>;
    /// Whether success is reported about it as it is; none if nothing is reported about it as it is.
    fn succeeded(&self) -> Option<bool>;
    /// What is to be known of it although it is up to date.
    fn note(&self) -> Option<String>;

    /// Success is reported about it as it is, and it is of this revision.
    fn is_confirmed(&self, target: Option<&str>) -> bool {
        let revision = self.revision();
        revision.is_some() && revision == target && self.succeeded() == Some(true)
    }
}

/// A row and its echo.
#[derive(Clone, Copy)]
pub struct Row<'a>(&'a SyncRow, Option<&'a SyncState>);
/// Rows by cluster and sync.
type Rows<'a> = BTreeMap<(String, &'a str), Row<'a>>;

impl<'a> Row<'a> {
    /// The row of a module in an assemblage.
    pub fn of(
        spec: &'a TargetedAssemblageSpec,
        status: Option<&'a AssemblageStatus>,
        module: &str,
    ) -> Option<Self> {
        let row = spec.syncs.iter().find(|row| row.name == module)?;
        Some(Self::echoed(row, status))
    }

    fn echoed(row: &'a SyncRow, status: Option<&'a AssemblageStatus>) -> Self {
        let mut syncs = status.into_iter().flat_map(|status| &status.syncs);
        let echo = syncs.find(|state| state.name == row.name);
        Self(row, echo.map(|state| &**state))
    }
}

impl Carries for Row<'_> {
    fn version(&self) -> Option<String> {
        let source = self.0.source.as_ref()?;
        Some(version(&source.version(), self.0.commit.as_deref()))
    }

    fn is_concerned(&self) -> bool {
        self.0.source.is_some()
    }

    fn revision(&self) -> Option<&str> {
        self.0.revision.as_deref()
    }

    fn succeeded(&self) -> Option<bool> {
        let Self(row, echo) = self;
        let answer = echo.filter(|echo| echo.token == row.token && echo.digest == row.digest)?;
        Some(answer.state == SyncPhase::Succeeded)
    }

    fn note(&self) -> Option<String> {
        self.1?.note()
    }
}

fn rows<'a>(
    assemblages: impl Iterator<Item = (String, &'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>)>,
) -> Rows<'a> {
    let mut rows = Rows::new();
    for (name, spec, status) in assemblages {
        for row in &spec.syncs {
            rows.insert((name.clone(), &row.name), Row::echoed(row, status));
        }
    }
    rows
}

/// Something that rolls, as far as views tell it, in the words of modules.
pub struct Rolling<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// The version that is wanted.
    pub version: String,
    /// Which units it selects.
    pub selector: Option<&'a LabelSelector>,
    /// How it rolls.
    pub rollout: Cow<'a, Rollout>,
    /// What a module asks for; none of a NodeModule.
    pub spec: Option<&'a ModuleSpec>,
    /// Its status.
    pub status: Cow<'a, ModuleStatus>,
}

impl<'a> Rolling<'a> {
    /// A module.
    pub fn of<K: ModuleObject>(module: &'a K) -> Self {
        let spec = module.spec();
        Self {
            kind: K::KIND.into(),
            meta: module.meta(),
            version: version(&spec.sync.source.version(), None),
            selector: spec.selector.as_ref(),
            rollout: Cow::Borrowed(&spec.rollout),
            spec: Some(spec),
            status: module.status().map_or_else(Cow::default, Cow::Borrowed),
        }
    }

    /// The repository that it comes from, if it comes from one.
    pub fn url(&self) -> Option<&'a str> {
        self.spec.map(|spec| spec.sync.source.url())
    }

    /// Its conditions.
    pub fn conditions(&self) -> Vec<ConditionView> {
        ConditionView::all(&self.status.conditions)
    }

    fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// What it says, or says about a unit, on one line and in our verbs.
    fn in_verbs(&self, unit: Option<&str>, message: &str) -> String {
        with_verbs(&one_line(message), &self.kind.address(self.name()), unit)
    }

    /// As it is shown. `rows`: what each member carries of it.
    pub fn view<R: Carries>(&self, members: &[Member], rows: Vec<Option<R>>) -> ModuleView {
        let status = &self.status;
        let ready = find(&status.conditions, READY);
        // A selector that cannot be read selects nothing; the module's own condition says what is wrong with it.
        let matcher = Matcher::new(self.selector).ok();
        // What is being deleted selects nothing any more.
        let deleting = self.meta.deletion_timestamp.is_some();
        let matcher = matcher.filter(|_| !deleting);
        let observed =
            status.observed_generation.is_some() && status.observed_generation == self.meta.generation;
        let known = members.iter().zip(&rows).map(|(member, row)| {
            // A Cluster that does not ask for ClusterUpgrades is none of theirs, whatever its labels.
            let is_left_out = self.kind == Kind::ClusterUpgrade && row.is_none();
            let selected = !is_left_out
                && matcher
                    .as_ref()
                    .is_some_and(|matcher| matcher.matches(&member.labels));
            let known = Known {
                is_concerned: selected || row.as_ref().is_some_and(R::is_concerned),
                is_confirmed: row
                    .as_ref()
                    .is_some_and(|row| row.is_confirmed(status.revision.as_deref())),
            };
            (member.name.as_str(), known)
        });
        let says = Reasons::of(status, observed).each(known);
        let cells = members.iter().zip(rows).zip(says);
        let cells = cells.map(|((member, row), says)| self.cell(member, row.as_ref(), says));
        let mut view = ModuleView {
            kind: self.kind,
            name: self.name().to_owned(),
            namespace: self.meta.namespace.clone().unwrap_or_default(),
            version: self.version.clone(),
            ready: ready.map_or("Unknown", |ready| &ready.status).to_owned(),
            reason: ready.map_or("Pending", |ready| &ready.reason).to_owned(),
            message: ready.map_or_else(
                || "the controller has not looked at it yet".to_owned(),
                |ready| self.in_verbs(None, &ready.message),
            ),
            since: ready.map(|ready| ready.last_transition_time.0),
            deleting,
            observed,
            stalled: is_true(&status.conditions, STALLED),
            tag_moved: said(&status.conditions, TAG_MOVED),
            read_by_flux: self.spec.is_some_and(|spec| spec.sync.source.flux().is_some()),
            paused: said(&status.conditions, PAUSED).map(|message| self.in_verbs(None, &message)),
            waits_at: self.waits_at(),
            summary: status.summary.clone().unwrap_or_default(),
            cells: cells.collect(),
        };
        view.since = failed_since(&view).or(view.since);
        view
    }

    /// The stage whose approval or gates are waited for, if some are: the first that was not passed.
    fn waits_at(&self) -> Option<String> {
        let waits = |reason: &str| {
            [Reason::WaitingApproval, Reason::WaitingGate]
                .iter()
                .any(|word| word.as_str() == reason)
        };
        let status = &self.status;
        if !status.attention.iter().any(|told| waits(&told.reason)) {
            return None;
        }
        let passed = recall::memory(status)?.course.passed;
        let mut stages = self.rollout.stages.iter();
        let open = stages.find(|stage| !passed.contains(&StageId::of(&stage.name)))?;
        Some(open.name.clone())
    }

    fn cell<R: Carries>(&self, member: &Member, row: Option<&R>, says: Says<'_>) -> Cell {
        let shape = |reason: &str| reason.parse().map_or(Shape::Unknown, Shape::of); // a word of a newer controller
        let in_verbs = |message: &str| self.in_verbs(Some(&member.name), message);
        let base = Cell {
            cluster: member.name.clone(),
            shape: Shape::NotSelected,
            reason: Reason::Excluded.into(),
            version: row.and_then(R::version),
            since: None,
            message: String::new(),
        };
        match says {
            Says::NotSelected => base,
            Says::Unknown => Cell {
                shape: Shape::Unknown,
                reason: UNKNOWN.to_owned(),
                message: "its status does not say".to_owned(),
                ..base
            },
            Says::Attention(said) => Cell {
                shape: shape(&said.reason),
                reason: said.reason.clone(),
                since: said.since.as_ref().map(|since| since.0),
                message: in_verbs(&said.message),
                ..base
            },
            Says::Group(group) => {
                // What a unit that is up to date says is a note.
                let is_note = group.reason == Reason::UpToDate.as_str();
                let note = row.filter(|_| is_note).and_then(R::note);
                let note = note.as_deref().map(one_line);
                Cell {
                    shape: shape(&group.reason),
                    reason: group.reason.clone(),
                    message: note
                        .or_else(|| group.message.as_deref().map(in_verbs))
                        .unwrap_or_default(),
                    ..base
                }
            }
        }
    }
}

fn module_view<K: ModuleObject>(module: &K, members: &[Member], rows: &Rows<'_>) -> ModuleView {
    let name = module.name_any();
    let rows = members
        .iter()
        .map(|member| rows.get(&(member.name.clone(), &*name)).copied());
    Rolling::of(module).view(members, rows.collect())
}

/// When the failure was that keeps a module from being ready. The condition Ready is false from the start of its rollout on.
fn failed_since(view: &ModuleView) -> Option<Timestamp> {
    let is_failure = |cell: &&Cell| cell.shape == Shape::Failed;
    let is_why = |cell: &&Cell| view.stalled && cell.reason == view.reason;
    let first = |cells: &dyn Fn(&&Cell) -> bool| {
        let since = view.cells.iter().filter(cells).filter_map(|cell| cell.since);
        since.min()
    };
    first(&is_failure).or_else(|| first(&is_why))
}

/// What a condition says that is there only while something is so.
fn said(conditions: &[Condition], type_: &str) -> Option<String> {
    let condition = find(conditions, type_).filter(|condition| condition.status == "True")?;
    Some(one_line(&condition.message))
}

/// A version for people: the tag, or the first digits of the commit.
fn version(version: &GitVersion, commit: Option<&str>) -> String {
    version.short(commit.or(Some("?")))
}

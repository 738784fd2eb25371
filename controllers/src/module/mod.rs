//! The Module and BootstrapModule controllers: one implementation for both.
//!
//! ```text
//!   Module ──────────────────────┐
//!   registry (clusters as rows) ─┤                         ┌─► status and memory, by compare-and-swap (first)
//!   assemblages as rows ─────────┼─► observe ─► decide ─► act ─► rows of assemblages, each with a test
//!   ModuleRevisions as rows ─────┤   (reads)    (pure)   └─► revisions, events
//!   tag, objects of bindings ────┤
//!   modules that it depends on ──┤            └─► record, if enabled
//!   change windows ──────────────┘
//! ```
//!
//! The files form layers, and none uses one above it:
//!
//! ```text
//!   steps         observe (gathers) ─► decide ─► act, writers
//!   reading       reading ─► concern, source (flux_source), target, units, status, events, intent   (`prospect`: the same, for `muster plan`)
//!   observation   observation ─► sight, windows, dependencies, gates, controls, memory, history
//!   data          facts, contents, rows, reasons, command, instants
//! ```
//!
//! Invariant: nothing of a revision is assigned before its content is recorded and the memory names the intent (W2).
//! Invariant: a row is written only by a patch that tests what was observed, and its token never decreases (W3).
//! Invariant: a pinned tag is never resolved again for a rollout; a tag that moves is reported.
//! Invariant: an object that cannot be read causes no write except to the status.
//! Invariant: a lost memory is rebuilt from a list of all rows, not from what a watch has shown so far (W7).

mod act;
mod by_hand;
mod carriers;
mod cluster_view;
pub(crate) mod command;
mod contents;
pub(crate) mod control_effects;
pub(crate) mod controls;
mod decide;
mod dependencies;
pub(crate) mod events;
pub(crate) mod facts;
mod flux_source;
pub(crate) mod gates;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod holds;
pub(crate) mod instants;
mod intent;
mod kind;
pub(crate) mod memory;
mod missing_clusters;
mod observation;
mod observe;
pub(crate) mod pins;
mod prospect;
mod reading;
pub(crate) mod reasons;
mod refusals;
mod relevance;
mod reports;
mod rows;
mod source;
pub(crate) mod status;
mod succession;
mod target;
pub(crate) mod unit;
pub(crate) mod units;
pub(crate) mod windows;
mod writers;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{labels::finalizer, reasons::Reason, selector::SelectorError};
use thiserror::Error;

pub use self::{
    carriers::Carriers,
    dependencies::{Dependencies, Name},
    facts::ModuleState,
    kind::{Carrier, Rolled},
    prospect::{Lists, Opening, Prospect},
    reasons::{Explained, absence, few, ineligible, word},
    source::resolved,
    succession::Successors,
    units::rollout_settings,
};
use self::{
    cluster_view::ClusterViews, facts::ObservedCluster, flux_source::FluxSources, history::History,
    memory::Gaps, observation::Observation, refusals::Refusals, reports::Reports, rows::AssemblageRow,
    source::Tags, writers::Writers,
};
use crate::{
    bindings::Objects,
    gates::{Evaluator, Readings},
    reconcile::{Context, Runner},
    record::Decisions,
    rolloutwindow::WatchedWindows,
    runtime::{Action, CallError, Index, Key, Retry, Retryable, status::StatusError},
};

/// How soon to observe again what no event reports.
const UNTOLD: Duration = Duration::from_secs(30);

/// How soon to check again for the first report of a new agent.
const INTRODUCED: Duration = Duration::from_secs(1);

/// Shared by all reconciles of one kind of module.
pub struct Modules<K: Rolled> {
    context: Context,
    bindings: Arc<Objects>,
    dependencies: Arc<Dependencies>,
    windows: Arc<WatchedWindows>,
    rows: Arc<Index<K::Assemblage, Arc<AssemblageRow>>>,
    sights: ClusterViews,
    history: History,
    gaps: Gaps,
    reports: Reports,
    refusals: Refusals,
    tags: Tags,
    flux_sources: FluxSources,
    gates: Readings,
    writers: Writers,
    decisions: Decisions,
}

/// Why a reconcile of a module failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The memory cannot be encoded as JSON: a bug in muster.
    #[error("the memory of the rollout cannot be encoded as JSON")]
    Encode(#[from] serde_json::Error),
    /// The object was changed by another writer: observe again.
    #[error("{what}: another writer changed it meanwhile")]
    Overtaken {
        /// The write that failed.
        what: String,
    },
    /// A Cluster that the memory refers to exists, but the watch does not show it yet: observe again.
    #[error("Cluster {cluster} exists but is not observed yet: nothing is decided until the watch shows it")]
    Unseen {
        /// Name of the Cluster.
        cluster: String,
    },
    /// The change windows have not been listed yet, so a cluster's windows may be closed.
    #[error("the change windows have not been read yet: nothing is decided before")]
    UnreadWindows,
    /// A status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Error {
    /// The API server's message, if it rejects a write permanently.
    fn refusal(&self) -> Option<&str> {
        match self {
            Self::Call(error) => error.refusal(),
            _ => None,
        }
    }
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Selector(_) | Self::Encode(_) => Retry::AwaitChange,
            Self::Overtaken { .. } | Self::Unseen { .. } | Self::Status(_) | Self::UnreadWindows => {
                Retry::Soon
            }
            Self::Call(error) => error.retry(),
        }
    }
}

/// Runs the controller of one kind of module until shutdown.
pub async fn run<K: Rolled>(
    context: Context,
    bindings: Arc<Objects>,
    dependencies: Arc<Dependencies>,
    windows: Arc<WatchedWindows>,
    gates: Arc<Evaluator>,
    decisions: Decisions,
    carriers: Arc<Carriers<K::Assemblage>>,
) {
    let modules = Arc::new(Modules::<K> {
        bindings: Arc::clone(&bindings),
        dependencies: Arc::clone(&dependencies),
        windows: Arc::clone(&windows),
        rows: carriers.rows(),
        sights: ClusterViews::default(),
        history: History::of::<K>(),
        gaps: Gaps::new(context.gap),
        reports: Reports::default(),
        refusals: Refusals::default(),
        tags: Tags::default(),
        flux_sources: FluxSources::of::<K>(),
        gates: Readings::new(gates),
        writers: Writers::default(),
        decisions,
        context: context.clone(),
    });
    let runner = Runner::<K>::new(K::KIND.as_str(), &context);
    context.metrics.modules(runner.store(), context.clock.clone());
    let store = runner.store();
    let everyone = move || {
        store
            .state()
            .iter()
            .map(|module| Key::of(&**module))
            .collect::<Vec<Key>>()
    };
    let (of_clusters, of_bindings, of_windows) = (everyone.clone(), everyone.clone(), everyone);
    let registry = Arc::clone(&context.registry);
    let clusters = registry
        .subscribe()
        .flat_map(move |_| futures::stream::iter(of_clusters()));
    let objects = bindings
        .changes()
        .flat_map(move |()| futures::stream::iter(of_bindings()));
    let changed = windows
        .changes()
        .flat_map(move |()| futures::stream::iter(of_windows()));
    modules
        .flux_sources
        .follow(runner, &context)
        .after(async move { registry.synced().await })
        .after(windows.synced())
        .on(changed)
        .on(dependencies.changes(K::KIND))
        .after(dependencies.synced())
        .on(carriers.concerned())
        .after(async move { carriers.rows().synced().await })
        .rows(modules.history.rows())
        .on(clusters)
        .on(objects)
        .on(modules.gates.changes())
        .run(modules, reconcile)
        .await;
}

async fn reconcile<K: Rolled>(module: Arc<K>, modules: Arc<Modules<K>>) -> Result<Action, Error> {
    if module.meta().deletion_timestamp.is_some() {
        let ours = module
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == finalizer::MODULE);
        if !ours || act::is_swept_away(&*module, &modules).await? {
            return act::release(&*module, &modules)
                .await
                .map(|()| Action::await_change());
        }
    }
    let observed = observe::observe(&*module, &modules).await?;
    let mut plan = decide::decide(&*module, &observed, modules.context.clock.now())?;
    // Recorded even if the plan fails.
    if let Some(engine_call) = plan.engine_call.take() {
        let case = || Box::new(engine_call.case(&observed.view.units.all));
        modules.decisions.record(K::KIND, &Key::of(&*module), case);
    }
    if plan.assigns() && !observed.ties.are_current(&modules.context).await? {
        let what = format!("what {} depends on", module.name_any());
        return Err(Error::Overtaken { what });
    }
    if observed.deleting
        && plan.withdraws()
        && !modules.dependencies.are_current::<K>(&modules.context).await?
    {
        let what = format!("the modules that may take over from {}", module.name_any());
        return Err(Error::Overtaken { what });
    }
    modules
        .dependencies
        .record_state(&Name::of(&*module), plan.standing.take());
    let (wake_at, over) = (plan.wake_at, plan.release);
    let untold = untold(&observed, plan.lacks_features(), &modules);
    let acted = act::act(&*module, &observed, plan, &modules).await;
    // The observation is valid even if the plan failed.
    if !over {
        modules.sights.keep(Key::of(&*module), observed.view);
    }
    let again = acted?;
    let wakes = wake_at.into_iter().chain(untold).chain(again);
    Ok(next(&*module, &modules, wakes))
}

/// When to check again whether a name is free, or an agent reports its features: an object without a row of this module
/// triggers no reconcile of it.
fn untold<K: Rolled>(observed: &Observation, unsupported: bool, modules: &Modules<K>) -> Option<Timestamp> {
    let now = modules.context.clock.now();
    let mut clusters = observed.clusters().iter();
    if unsupported && clusters.any(|cluster| cluster.carrier.is_new(now)) {
        return Some(now + INTRODUCED);
    }
    let taken = |cluster: &ObservedCluster| matches!(cluster.obstacle, Some((Reason::NameConflict, _)));
    let any = unsupported || observed.clusters().iter().any(taken);
    any.then(|| now + UNTOLD)
}

/// When to reconcile if nothing changes before: a deadline of the engine, or the next check of the tag.
fn next<K: Rolled>(module: &K, modules: &Modules<K>, wakes: impl Iterator<Item = Timestamp>) -> Action {
    let now = modules.context.clock.now();
    // A check that is overdue is not needed: a suspended or deleted module does not read its tag.
    let tag_check = modules
        .tags
        .next(&Key::of(module), module.spec().sync.package.interval.to_std())
        .filter(|at| *at > now);
    let Some(at) = wakes.chain(tag_check).min() else {
        return Action::await_change();
    };
    // A time in the past means: at once.
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    Action::requeue(wait.max(Duration::from_millis(1)))
}

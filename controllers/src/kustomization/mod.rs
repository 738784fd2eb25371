//! The Kustomization controller, for clusters without Flux: applies a path of a source, prunes, and watches health.
//!
//! ```text
//!   Kustomization ─┐            ┌─► finalize: by deletionPolicy
//!   GitRepository ─┼► observe ─► decide ─► apply: read, build, record ids, apply in stages, prune ─► check health
//!   its last run ──┘            └─► check health and pruning again, until done or timed out
//! ```
//!
//! A run is one attempt at one generation of the spec and one revision of the source. It is kept in memory: after a
//! restart everything is applied again, which changes nothing that is up to date.
//!
//! If several Kustomizations declare an object in one cluster, one of them manages it: the one whose labels it has and
//! whose inventory lists it. That one applies it, the others compare. What one of them prunes is handed over to another
//! one, and is deleted only by the last ([`declarers`]).
//!
//! Invariant: an id is in `status.inventory` before its object is created, and is removed after a read shows that the
//! object is gone. Invariant: objects are pruned only after a complete read, build and apply of the revision, and
//! deleted only after a fresh read of the Kustomization. Invariant: if Flux runs, nothing is done here; if Flux is
//! configured to, [`hand_over`] makes Flux the owner of what was applied here. Invariant: waiting for health occupies
//! no worker: an unfinished check is resumed later, and a new revision ends it.

mod act;
mod apply;
mod confirm;
mod decide;
mod declarers;
mod dependencies;
mod error;
mod finalize;
mod handover;
mod health;
mod manifests;
mod observe;
pub(crate) mod outcome;
mod plan;
mod prune;
mod recorder;
mod runs;
mod settings;
mod source;
mod status;
mod targets;
mod variables;
mod work;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use kube::runtime::{reflector::Store, watcher};
use muster_api::flux::{GitRepository, Kustomization};
use muster_sync::apply::Owner;

use self::{declarers::Inventories, runs::Runs, source::Sources, targets::Targets};
pub use self::{error::Error, handover::hand_over};
use crate::{
    reconcile::{Context, Runner, flux_presence::Presence},
    runtime::{Action, Key, store_keys, watch},
};

/// Concurrent reconciles of Kustomizations: all. Each is one waiting future; calls and turns are limited per cluster,
/// so a cluster that hangs does not delay Kustomizations of other clusters.
const WORKERS: u16 = u16::MAX;

/// The wait before an object is reconciled again whose last write the watch has not delivered yet.
const BEHIND: Duration = Duration::from_millis(100);

/// The dependencies of a reconcile of a Kustomization.
struct Kustomizations {
    context: Context,
    store: Store<Kustomization>,
    sources: Arc<Sources>,
    flux: Arc<Presence>,
    runs: Runs,
    targets: Targets,
    inventories: Arc<Inventories>,
}

/// Reconciles Kustomizations until the context's shutdown.
pub async fn run(context: Context) {
    let runner = Runner::<Kustomization>::new("kustomization", &context).workers(WORKERS);
    let (store, sources) = (runner.store(), Arc::new(source::sources()));
    let events = watch::watch::<GitRepository>(
        context.client.clone(),
        &context.namespace,
        watcher::Config::default(),
    );
    let dependents = store.clone();
    let concerned = watch::watch_rows(events, Arc::clone(&sources))
        .flat_map(move |key| stream::iter(source::dependents(&dependents, &key)));
    let synced = Arc::clone(&sources);
    let flux = Presence::new();
    let all = store.clone();
    let everyone = flux
        .changes(&context)
        .flat_map(move |()| stream::iter(store_keys(&all)));
    let inventories = Arc::new(Inventories::new(store.clone(), runner.unreadable()));
    let runner = runner
        .on(inventories.heirs())
        .on(concerned)
        .after(async move { synced.synced().await })
        .on(everyone)
        .after(Arc::clone(&flux).known());
    let kustomizations = Arc::new(Kustomizations {
        runs: Runs::new(store.clone()),
        targets: Targets::new(&context),
        inventories,
        context,
        store,
        sources,
        flux,
    });
    runner.run(kustomizations, reconcile).await;
}

impl Kustomizations {
    /// Triggers Kustomizations that objects were handed over to, so that they apply them now.
    fn wake(&self, heirs: &[Owner]) {
        for heir in heirs {
            let key = Key::new(&heir.namespace, &heir.name);
            self.runs.remove(&key);
            self.inventories.hand_over(&key);
        }
    }
}

async fn reconcile(object: Arc<Kustomization>, kustomizations: Arc<Kustomizations>) -> Result<Action, Error> {
    let _turn = kustomizations.targets.turn(&object).await;
    // It may have waited long for its turn.
    let object = kustomizations
        .store
        .get(&Key::of(&*object).object_ref())
        .unwrap_or(object);
    if kustomizations.inventories.is_newer_than(&object) {
        return Ok(Action::requeue(BEHIND));
    }
    let observed = observe::observe(&object, &kustomizations);
    let decision = decide::decide(&observed);
    let mut writer = status::Writer::new(&object, &kustomizations);
    let outcome = act::act(&mut writer, decision, &kustomizations).await?;
    status::conclude(&mut writer, outcome, &kustomizations).await
}

//! `RemoteAssemblage`: the syncs of one cluster, expanded here into Kustomizations with `spec.kubeConfig`.
//!
//! Control-plane bindings are read from this cluster, bindings from the other one through the registry's client;
//! everything else is done by [`crate::expand`].
//!
//! Invariant: while the cluster is in one of the states a to f nothing is written for it, and no failure is attributed
//! to a revision; but if the Secret leads to another cluster its Kustomizations are suspended, so that no controller
//! applies them there.

mod target;

use std::sync::Arc;

use futures::{StreamExt, stream};
use muster_api::{
    RemoteAssemblage, Shared,
    assemblage::{AssemblageStatus, SyncRow},
    labels::manager,
};
use tokio::sync::Semaphore;

use crate::{
    bindings::{Kinds, Objects},
    expand::{Assembled, ExpandError, Expander},
    module::Carriers,
    reconcile::{Base, Context, Runner},
    runtime::{Action, Key},
    targeted,
};

impl Assembled for RemoteAssemblage {
    fn rows(&self) -> &[Shared<SyncRow>] {
        &self.spec.syncs
    }

    fn state(&self) -> Option<&AssemblageStatus> {
        self.status.as_ref()
    }
}

/// Concurrent reconciles of assemblages: most wait for the cluster that their bindings are read from. Clusters that
/// hang do not delay others.
const WORKERS: u16 = 1_024;
/// Assemblages that are expanded concurrently, each with a few calls.
const EXPANDED: usize = 8;

/// The shared state of expanding all RemoteAssemblages.
struct Remotes {
    /// Limits concurrent expansions.
    turns: Semaphore,
    context: Context,
    expander: Expander,
    objects: Arc<Objects>,
    kinds: Kinds,
}

/// Expands the RemoteAssemblages of the context's namespace until its shutdown. Control-plane bindings read `objects`;
/// the controller of BootstrapModules uses the same watch through `carriers`.
pub async fn run(context: Context, objects: Arc<Objects>, carriers: Arc<Carriers<RemoteAssemblage>>) {
    let registry = Arc::clone(&context.registry);
    let kinds = Kinds::new(&context.options.binding_kinds);
    let base = Base::from(&context);
    let watched = carriers.watch(&base);
    let runner = Runner::watching("remoteassemblage", base, watched).workers(WORKERS);
    context.metrics.conditions(runner.store());
    let store = runner.store();
    let (bound, placed) = (store.clone(), store.clone());
    let of_objects = objects
        .changes()
        .flat_map(move |()| stream::iter(targeted::with_bindings(&bound)));
    let of_clusters = registry
        .subscribe()
        .flat_map(move |cluster| stream::iter(targeted::of_cluster(&placed, &cluster)));
    let expander = Expander::new(context.clone(), "RemoteAssemblage", manager::CONTROLLER);
    let runner = expander
        .follow_sources(runner)
        .rows(expander.kustomizations())
        .on(of_objects)
        .on(of_clusters)
        .after(async move { registry.synced().await });
    let remotes = Arc::new(Remotes {
        turns: Semaphore::new(EXPANDED),
        context,
        expander,
        objects,
        kinds,
    });
    let lives = |key: &Key| store.get(&key.object_ref()).is_some();
    tokio::select! {
        () = runner.run(Arc::clone(&remotes), reconcile) => {}
        () = remotes.expander.collect_sources::<RemoteAssemblage>(lives) => {}
    }
}

async fn reconcile(remote: Arc<RemoteAssemblage>, remotes: Arc<Remotes>) -> Result<Action, ExpandError> {
    let setting = remotes.setting(&remote).await;
    // The semaphore is never closed, so a permit always arrives.
    let _turn = remotes.turns.acquire().await.ok();
    remotes.expander.expand(&*remote, &setting).await
}

//! `Assemblage`: the syncs of this cluster, expanded in this cluster.
//!
//! The bindings of its rows are read from this cluster; everything else is done by [`crate::expand`].

use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::runtime::reflector::Store;
use muster_api::{
    Assemblage, Shared,
    assemblage::{AssemblageStatus, SyncRow},
    labels::manager,
};

use crate::{
    bindings::Objects,
    expand::{
        Assembled, ExpandError, Expander, Setting,
        values::{RowValues, bind, carried, requeue_after},
    },
    reconcile::{Context, Runner},
    runtime::{Action, Key},
};

impl Assembled for Assemblage {
    fn rows(&self) -> &[Shared<SyncRow>] {
        &self.spec.syncs
    }

    fn state(&self) -> Option<&AssemblageStatus> {
        self.status.as_ref()
    }
}

/// The expander shared by all Assemblages.
struct Assemblages {
    expander: Expander,
    objects: Arc<Objects>,
}

/// Expands the Assemblages of the context's namespace until its shutdown. Bindings read `objects`.
pub async fn run(context: Context, objects: Arc<Objects>) {
    let runner = Runner::<Assemblage>::new("assemblage", &context);
    context.metrics.conditions(runner.store());
    let store = runner.store();
    let (changes, bound) = (objects.changes(), store.clone());
    let expander = Expander::new(context, "Assemblage", manager::AGENT);
    let runner = expander
        .follow_sources(runner)
        .rows(expander.kustomizations())
        .on(changes.flat_map(move |()| stream::iter(with_bindings(&bound))));
    let assemblages = Arc::new(Assemblages { expander, objects });
    let lives = |key: &Key| store.get(&key.object_ref()).is_some();
    tokio::select! {
        () = runner.run(Arc::clone(&assemblages), reconcile) => {}
        () = assemblages.expander.collect_sources::<Assemblage>(lives) => {}
    }
}

async fn reconcile(
    assemblage: Arc<Assemblage>,
    assemblages: Arc<Assemblages>,
) -> Result<Action, ExpandError> {
    let mut values = RowValues::new();
    for row in carried(&assemblage.spec.syncs) {
        values.insert(
            row.name.clone(),
            bind(&assemblages.objects, &row.bindings, row.values.clone()).await,
        );
    }
    let setting = Setting {
        again: requeue_after(&values),
        values,
        ..Setting::default()
    };
    assemblages.expander.expand(&*assemblage, &setting).await
}

/// The assemblages that a change of a bound object may affect.
fn with_bindings(store: &Store<Assemblage>) -> Vec<Key> {
    let bound = |row: &Shared<SyncRow>| !row.bindings.is_empty();
    store
        .state()
        .iter()
        .filter(|assemblage| assemblage.spec.syncs.iter().any(bound))
        .map(|assemblage| Key::of(&**assemblage))
        .collect()
}

//! The observe step: gathers everything that a decision about one module depends on; `reading` interprets it.

use std::{collections::BTreeMap, sync::Arc};

use kube::{Resource as _, ResourceExt, api::ListParams};
use muster_api::selector::Matcher;
use muster_rollout::UnitId;

use super::{
    Error, Modules,
    cluster_view::{self, Again, ClusterView, Moved, ObservedPair, Pair},
    flux_source, gates,
    kind::Rolled,
    missing_clusters,
    observation::Observation,
    reading::{self, Gathered, Needs, Reader},
    rows::{self, AssemblageRow},
    source, status,
    windows::ModuleWindows,
};
use crate::{
    bindings::BindingError,
    runtime::{Api, Key, call},
};

/// Assemblages per page of a list: a few hundred KiB each at most, and responses are limited.
const PAGE: u32 = 100;

/// Gathers the input of a decision about `module`. Only the version of the source, the named revisions and the objects
/// of bindings are read over the network; everything else is in indexes kept by watches.
pub(crate) async fn observe<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<Observation, Error> {
    let key = Key::of(module);
    let now = || modules.context.clock.now();
    let windows = || modules.windows.current().ok_or(Error::UnreadWindows);
    let ties = modules.dependencies.ties_of(module);
    let mut observed = reading::observation(module, ties, windows()?, modules.gates.insecure(), now());
    let selector = observed
        .has_target()
        .then(|| Matcher::new(module.spec().selector.as_ref()))
        .transpose()?;
    if observed.has_target() {
        // The only write of this step: Flux reads the source by an object, which must exist first.
        let kept = flux_source::apply_source_object(module, modules).await;
        observed.target = source::resolve_target(module, kept, modules).await;
    }
    if let Some(last_good) = observed.memory.memory.last_good.filter(|_| !observed.deleting) {
        observed.last_good = modules
            .history
            .definition(&key, &last_good.to_string(), &modules.context)
            .await?;
    }
    // Evaluated after the source was read, which may take a while: a window may have closed meanwhile.
    observed.windows = ModuleWindows::new(module, windows()?, now());
    observed.gap = modules.gaps.before(&key, status::stored(module));
    observed.reported_at = modules.reports.last(&key);
    observed.refused = modules.refusals.of(&key);
    observed.gates = gates::current(module, &observed.memory.memory, modules.gates.of(&key));
    observed.revisions = modules.history.about(&key);
    if observed.invalid.is_none() {
        observed.view = clusters(module, modules, selector.as_ref(), &observed).await?;
        observed.invalid = reading::empty_stage(module, &observed);
    }
    Ok(observed)
}

/// Every cluster of the registry that is selected, has a row or is in flight, and rows whose Cluster is gone. Clusters
/// that did not change since the last decision are reused.
async fn clusters<K: Rolled>(
    module: &K,
    modules: &Modules<K>,
    selector: Option<&Matcher>,
    observed: &Observation,
) -> Result<ClusterView, Error> {
    let key = Key::of(module);
    let rows = if observed.memory.lost {
        listed(modules, &key.namespace).await?
    } else {
        modules.rows.all()
    };
    let registered = modules.context.registry.list();
    missing_clusters::check_missing(&key.name, &observed.memory, &rows, &registered, modules).await?;
    let mut view = modules.sights.take(&key);
    let pairs = cluster_view::pairs(registered, rows, &view);
    let mut new = ClusterView::new(observed.basis(module));
    let reader = Reader::new(module, selector, observed, modules.bindings.kinds())?;
    let gatherer = Gatherer {
        key: &key,
        reader,
        modules,
    };
    let in_flight = observed.memory.memory.in_flight.keys().map(UnitId::as_str);
    if let Again::These(places) = view.again(&key.name, &pairs, &new, in_flight, observed.windows.now)
        && let Ok(changed) = gatherer.replace(&mut view, &pairs, &places).await?
    {
        gatherer.reader.units(&mut view, Some(&changed));
        view.adopt(pairs);
        return Ok(view);
    }
    for pair in pairs {
        let cluster = gatherer.cluster(&pair).await?;
        new.push(pair, cluster);
    }
    gatherer.reader.units(&mut new, None);
    Ok(new)
}

/// Gathers the inputs of single clusters.
struct Gatherer<'a, K: Rolled> {
    key: &'a Key,
    reader: Reader<'a, K>,
    modules: &'a Modules<K>,
}

impl<K: Rolled> Gatherer<'_, K> {
    /// Reads these pairs again and returns the indexes of their clusters.
    async fn replace(
        &self,
        view: &mut ClusterView,
        pairs: &[Pair],
        places: &[usize],
    ) -> Result<Result<Vec<usize>, Moved>, Error> {
        let mut changed = Vec::with_capacity(places.len());
        for place in places {
            let Some(pair) = pairs.get(*place) else {
                return Ok(Err(Moved));
            };
            match view.replace(*place, pair.clone(), self.cluster(pair).await?) {
                Ok(cluster) => changed.extend(cluster),
                Err(moved) => return Ok(Err(moved)),
            }
        }
        Ok(Ok(changed))
    }

    async fn cluster(&self, pair: &Pair) -> Result<ObservedPair, Error> {
        let mut known = Gathered::default();
        loop {
            match self.reader.cluster(pair, &known) {
                Ok(cluster) => return Ok(cluster),
                // Boxed: otherwise each cluster's future would reserve memory for this rare case.
                Err(needs) => Box::pin(self.gather(needs, &mut known)).await?,
            }
        }
    }

    /// An unreadable object is recorded: it affects only the clusters that need it.
    async fn gather(&self, needs: Needs, known: &mut Gathered) -> Result<(), Error> {
        let Modules {
            history,
            bindings,
            context,
            ..
        } = self.modules;
        for revision in needs.revisions {
            let definition = history.definition(self.key, &revision, context).await?;
            known.revisions.insert(revision, definition);
        }
        for object in needs.objects {
            match bindings.get(&object).await {
                Ok(value) => drop(known.objects.insert(object, value)),
                Err(error) => drop(
                    known
                        .unreadable
                        .insert(object, BindingError::from(error).to_string()),
                ),
            }
        }
        known.rounds += 1;
        Ok(())
    }
}

/// Lists all assemblages. Without a memory it is unknown how far the watch lags behind, and a row that it has not shown
/// yet may already be in flight in a cluster (W7).
async fn listed<K: Rolled>(modules: &Modules<K>, namespace: &str) -> Result<Vec<Arc<AssemblageRow>>, Error> {
    let assemblages: Api<K::Assemblage> = Api::namespaced(modules.context.client.clone(), namespace);
    let what = format!("listing {} in {namespace}", K::Assemblage::plural(&()));
    let mut page = ListParams::default().limit(PAGE);
    let mut all = BTreeMap::new();
    loop {
        let list = call(&what, assemblages.list(&page)).await?;
        let rows = list
            .items
            .iter()
            .map(|item| (item.name_any(), Arc::new(rows::assemblage_row(item, None))));
        all.extend(rows);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all.into_values().collect()),
        }
    }
}

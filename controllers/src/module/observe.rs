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
    let mut seen = reading::observation(module, ties, windows()?, modules.gates.insecure(), now());
    let selector = seen
        .has_target()
        .then(|| Matcher::new(module.spec().selector.as_ref()))
        .transpose()?;
    if seen.has_target() {
        // The only write of this step: Flux reads the source by an object, which must exist first.
        let kept = flux_source::apply_source_object(module, modules).await;
        seen.target = source::resolve_target(module, kept, modules).await;
    }
    if let Some(last_good) = seen.memory.memory.last_good.filter(|_| !seen.deleting) {
        seen.last_good = modules
            .history
            .definition(&key, &last_good.to_string(), &modules.context)
            .await?;
    }
    // Evaluated after the source was read, which may take a while: a window may have closed meanwhile.
    seen.windows = ModuleWindows::new(module, windows()?, now());
    seen.gap = modules.gaps.before(&key, status::stored(module));
    seen.reported_at = modules.reports.last(&key);
    seen.refused = modules.refusals.of(&key);
    seen.gates = gates::current(module, &seen.memory.memory, modules.gates.of(&key));
    seen.revisions = modules.history.about(&key);
    if seen.invalid.is_none() {
        seen.sight = clusters(module, modules, selector.as_ref(), &seen).await?;
        seen.invalid = reading::empty_stage(module, &seen);
    }
    Ok(seen)
}

/// Every cluster of the registry that is selected, has a row or is in flight, and rows whose Cluster is gone. Clusters
/// that did not change since the last decision are reused.
async fn clusters<K: Rolled>(
    module: &K,
    modules: &Modules<K>,
    selector: Option<&Matcher>,
    seen: &Observation,
) -> Result<ClusterView, Error> {
    let key = Key::of(module);
    let rows = if seen.memory.lost {
        listed(modules, &key.namespace).await?
    } else {
        modules.rows.all()
    };
    let registered = modules.context.registry.list();
    missing_clusters::check_missing(&key.name, &seen.memory, &rows, &registered, modules).await?;
    let mut sight = modules.sights.take(&key);
    let pairs = cluster_view::pairs(registered, rows, &sight);
    let mut new = ClusterView::new(seen.basis(module));
    let reader = Reader::new(module, selector, seen, modules.bindings.kinds())?;
    let gatherer = Gatherer {
        key: &key,
        reader,
        modules,
    };
    let in_flight = seen.memory.memory.in_flight.keys().map(UnitId::as_str);
    if let Again::These(places) = sight.again(&key.name, &pairs, &new, in_flight, seen.windows.now)
        && let Ok(changed) = gatherer.replace(&mut sight, &pairs, &places).await?
    {
        gatherer.reader.units(&mut sight, Some(&changed));
        sight.adopt(pairs);
        return Ok(sight);
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
        sight: &mut ClusterView,
        pairs: &[Pair],
        places: &[usize],
    ) -> Result<Result<Vec<usize>, Moved>, Error> {
        let mut changed = Vec::with_capacity(places.len());
        for place in places {
            let Some(pair) = pairs.get(*place) else {
                return Ok(Err(Moved));
            };
            match sight.replace(*place, pair.clone(), self.cluster(pair).await?) {
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

//! The observer of the limit: at every moment, a version of a module may be changing only as many clusters as its limit
//! allows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt;
use kube::{Client, ResourceExt};
use muster_api::assemblage::{Intent, ProxyAssemblage, SyncPhase};
use tokio_util::task::AbortOnDropHandle;

use crate::fleet::watch_objects;

/// Watches the assemblages of the fleet. A single watch delivers them in the order of their writes, so that every
/// counted state did exist, as long as the watch does not break; a break is printed.
pub(crate) struct Observer {
    client: Client,
    namespace: &'static str,
    most: Arc<Mutex<usize>>,
    task: AbortOnDropHandle<()>,
}

impl Observer {
    pub(crate) fn begin(client: Client, namespace: &'static str) -> Self {
        let most = Arc::<Mutex<usize>>::default();
        let task = AbortOnDropHandle::new(tokio::spawn(observe(
            client.clone(),
            namespace,
            Arc::clone(&most),
        )));
        Self {
            client,
            namespace,
            most,
            task,
        }
    }

    /// Stops observing until [`Self::resume`]: reading whole assemblages takes processor time from what is measured.
    pub(crate) fn pause(&self) {
        self.task.abort();
    }

    /// Observes again. What changed since [`Self::pause`] was not observed.
    pub(crate) fn resume(&mut self) {
        let observe = observe(self.client.clone(), self.namespace, Arc::clone(&self.most));
        self.task = AbortOnDropHandle::new(tokio::spawn(observe));
    }

    /// The most clusters of one module at once, so far.
    pub(crate) fn most(&self) -> usize {
        *self.most.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn observe(client: Client, namespace: &'static str, most: Arc<Mutex<usize>>) {
    let mut assemblages = watch_objects::<ProxyAssemblage>(client, namespace);
    let mut open: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut clusters: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(assemblage) = assemblages.next().await {
        let now = unconfirmed(&assemblage);
        let before = open
            .insert(assemblage.name_any(), now.clone())
            .unwrap_or_default();
        for module in before.difference(&now) {
            clusters.entry(module.clone()).and_modify(|count| *count -= 1);
        }
        for module in now.difference(&before) {
            let count = clusters.entry(module.clone()).or_default();
            *count += 1;
            let mut most = most.lock().unwrap_or_else(PoisonError::into_inner);
            *most = (*most).max(*count);
        }
    }
}

/// The modules with an assignment in this cluster that is not reported as succeeded.
fn unconfirmed(assemblage: &ProxyAssemblage) -> BTreeSet<String> {
    let states = assemblage.status.iter().flat_map(|status| &status.syncs);
    let states: BTreeMap<&str, _> = states.map(|state| (state.name.as_str(), state)).collect();
    let rows = assemblage.spec.syncs.iter();
    let carried = rows.filter(|row| matches!(row.intent(), Intent::Carry { .. }));
    let open = carried.filter(|row| {
        states.get(row.name.as_str()).is_none_or(|state| {
            state.state != SyncPhase::Succeeded || state.token != row.token || state.digest != row.digest
        })
    });
    open.map(|row| row.name.clone()).collect()
}

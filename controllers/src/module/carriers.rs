//! The assemblages that carry a kind of module. One watch serves two readers: the controller of these assemblages gets
//! objects, the module controller gets rows.

use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, StreamExt};
use kube::runtime::watcher;

use super::{
    kind::Carrier,
    rows::{self, AssemblageRow},
};
use crate::{
    reconcile::Base,
    runtime::{
        Changes, Index, Key,
        watch::{self, Watched},
    },
};

/// The assemblages of one kind as rows, and the modules that a change of them affects.
pub struct Carriers<A: Carrier> {
    rows: Arc<Index<A, Arc<AssemblageRow>>>,
    concerned: Changes<Key>,
}

impl<A: Carrier> Default for Carriers<A> {
    fn default() -> Self {
        Self {
            rows: Arc::new(rows::index()),
            concerned: Changes::default(),
        }
    }
}

impl<A: Carrier> Carriers<A> {
    /// Watches the assemblages of the namespace. The rows are updated as the stream is read, before each event is
    /// passed on.
    pub fn watch(self: &Arc<Self>, base: &Base) -> impl Stream<Item = Watched<A>> + Send + 'static + use<A> {
        let carriers = Arc::clone(self);
        watch::watch(base.client.clone(), &base.namespace, watcher::Config::default()).inspect(move |event| {
            for module in carriers.rows.event(event) {
                carriers.concerned.announce(&module);
            }
        })
    }

    pub(super) fn rows(&self) -> Arc<Index<A, Arc<AssemblageRow>>> {
        Arc::clone(&self.rows)
    }

    /// The modules that a change of an assemblage affects.
    pub(super) fn concerned(&self) -> impl Stream<Item = Key> + Send + 'static + use<A> {
        self.concerned.subscribe(BTreeSet::new())
    }
}

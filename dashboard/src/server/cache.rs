//! Pages that several windows look at are made once for each state of the fleet.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Snapshot,
    page::{self, Page, Request},
};

/// Pages kept of one state; more are made again when they are asked for.
const KEPT: usize = 64;

/// The pages of the last state that was asked for.
#[derive(Default)]
pub(super) struct Cache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    snapshot: Option<Arc<Snapshot>>,
    pages: HashMap<Request, Arc<Page>>,
}

impl Cache {
    /// The page of a request at a state.
    pub(super) fn page(&self, snapshot: &Arc<Snapshot>, request: &Request) -> Arc<Page> {
        {
            let mut kept = self.0.lock();
            if !kept
                .snapshot
                .as_ref()
                .is_some_and(|old| Arc::ptr_eq(old, snapshot))
            {
                *kept = Kept {
                    snapshot: Some(Arc::clone(snapshot)),
                    pages: HashMap::new(),
                };
            }
            if let Some(page) = kept.pages.get(request) {
                return Arc::clone(page);
            }
        }
        // Not under the lock: a large page takes a while, and others need not wait for it.
        let page = Arc::new(page::page(snapshot, request));
        let mut kept = self.0.lock();
        let is_current = kept
            .snapshot
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, snapshot));
        if is_current && kept.pages.len() < KEPT {
            kept.pages.insert(request.clone(), Arc::clone(&page));
        }
        page
    }
}

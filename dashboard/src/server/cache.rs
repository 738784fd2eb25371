//! Page cache: a page that several windows show is rendered once per snapshot.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Snapshot,
    page::{self, Page, Request},
};

/// Maximum number of cached pages per snapshot; others are rendered on each request.
const KEPT: usize = 64;

/// The pages of the last requested snapshot.
#[derive(Default)]
pub(super) struct Cache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    snapshot: Option<Arc<Snapshot>>,
    pages: HashMap<Request, Arc<Page>>,
}

impl Cache {
    /// The page for a request and snapshot.
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
        // Rendered without the lock: a large page takes a while and must not block other requests.
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

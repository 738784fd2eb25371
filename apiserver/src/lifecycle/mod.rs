//! Work of the control plane after a write: owners and dependents, namespaces, definitions.
//!
//! ```text
//! store commit ─► WorkQueue (objects that may need attention, deduplicated) ─► worker ─► collector │ namespaces │ crd
//! ```
//!
//! - Invariant: work items only name an object; what to do is decided from the current state of the store.

pub(crate) mod collector;
pub(crate) mod metadata;
pub(crate) mod namespaces;

use std::sync::Arc;

use crate::core::Core;
use crate::crd;
use crate::work::Work;

/// Processes the queue forever.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        let work = core.work.next().await;
        process(&core, work);
        // One item, then yield: a burst of work must not starve requests.
        tokio::task::yield_now().await;
    }
}

/// Processes the queue until it is empty, before anything else runs.
pub(crate) fn process_queue(core: &Arc<Core>) {
    while let Some(work) = core.work.due() {
        process(core, work);
    }
}

fn process(core: &Arc<Core>, work: Work) {
    match work {
        Work::Dependent(id) => collector::dependent(core, &id),
        Work::OwnerGone(uid) => collector::owner_gone(core, &uid),
        Work::OwnerWaiting(uid) => collector::owner_waiting(core, &uid),
        Work::Namespace(name) => namespaces::reconcile_namespace(core, &name),
        Work::Definition(name) => crd::reconcile_definition(core, &name),
        Work::DefinitionEnd(name) => crd::end(core, &name),
    }
}

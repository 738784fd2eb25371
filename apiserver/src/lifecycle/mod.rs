//! What the control plane does after a write: owners and dependents, namespaces, definitions.
//!
//! ```text
//! store commit ─► WorkQueue (what may need care, each once) ─► worker ─► collector │ namespaces │ crd
//! ```
//!
//! - Invariant: work items only say where to look; what is done is decided by what the store says then.

pub(crate) mod collector;
pub(crate) mod metadata;
pub(crate) mod namespaces;

use std::sync::Arc;

use crate::core::Core;
use crate::crd;
use crate::work::Work;

/// Does what the queue asks for, for ever.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        let work = core.work.next().await;
        carry_out(&core, work);
        // One item, then the others' turn: a storm of work must not starve requests.
        tokio::task::yield_now().await;
    }
}

/// Does what the queue asks for now, until it asks for nothing more: before anything else runs.
pub(crate) fn settle(core: &Arc<Core>) {
    while let Some(work) = core.work.due() {
        carry_out(core, work);
    }
}

fn carry_out(core: &Arc<Core>, work: Work) {
    match work {
        Work::Dependent(id) => collector::dependent(core, &id),
        Work::OwnerGone(uid) => collector::owner_gone(core, &uid),
        Work::OwnerWaiting(uid) => collector::owner_waiting(core, &uid),
        Work::Namespace(name) => namespaces::look(core, &name),
        Work::Definition(name) => crd::look(core, &name),
        Work::DefinitionEnd(name) => crd::end(core, &name),
    }
}

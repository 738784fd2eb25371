//! What the control plane does after a write: owners and dependents, namespaces, definitions.
//!
//! ```text
//! store commit ─► WorkQueue (what may need care, each once) ─► worker ─► collector │ namespaces │ crd
//! ```
//!
//! - Invariant: work items only say where to look; what is done is decided by what the store says then.

pub mod collector;
pub mod metadata;
pub mod namespaces;
mod queue;
pub mod removal;

use std::sync::Arc;

use serde_json::Value;

pub use queue::{Work, WorkQueue};

use crate::crd;
use crate::meta;
use crate::server::{Core, Step};
use crate::status::{ApiError, GroupResource};
use crate::store::{Object, ObjectId, ObjectKey, Write};

/// Does what the queue asks for, for ever.
pub async fn run(core: Arc<Core>) {
    loop {
        match core.work.next().await {
            Work::Dependent(id) => collector::dependent(&core, &id),
            Work::OwnerGone(uid) => collector::owner_gone(&core, &uid),
            Work::OwnerWaiting(uid) => collector::owner_waiting(&core, &uid),
            Work::Namespace(name) => namespaces::look(&core, &name),
            Work::Definition(name) => crd::look(&core, &name),
            Work::DefinitionEnd(name) => crd::end(&core, &name),
        }
        // One item, then the others' turn: a storm of work must not starve requests.
        tokio::task::yield_now().await;
    }
}

impl Core {
    /// Changes an object from inside; `edit` answers `None` to leave it alone.
    pub(crate) fn edit(
        &self,
        id: &ObjectId,
        mut edit: impl FnMut(&Value) -> Option<Value>,
    ) -> Option<Object> {
        let resource = self.registry.catalog().of_store(&id.resource).cloned()?;
        let changed = self.replace(&id.resource, &id.key, |live| {
            let live = live.ok_or_else(|| ApiError::not_found(&id.resource, &id.key.name))?;
            let Some(new) = edit(&live.value).filter(|new| *new != live.value) else {
                return Ok(Step::Keep(live.object.clone(), ()));
            };
            let write = if removal::is_due(&resource, &new) {
                Write::Remove(new)
            } else {
                Write::Put(new)
            };
            Ok(Step::Commit(write, ()))
        });
        changed.ok().map(|(object, ())| object) // gone meanwhile: nothing to change
    }

    /// Deletes an object from inside, if it still has this uid.
    pub(crate) fn remove(&self, id: &ObjectId, uid: &str, propagation: removal::Propagation) {
        let catalog = self.registry.catalog();
        let Some(resource) = catalog.of_store(&id.resource).cloned() else {
            return;
        };
        let now = self.clock.now();
        let outcome = self.replace(&id.resource, &id.key, |live| {
            let live = live.ok_or_else(|| ApiError::not_found(&id.resource, &id.key.name))?;
            if meta::uid(&live.value) != uid {
                return Ok(Step::Keep(live.object.clone(), ()));
            }
            let Some(doomed) = removal::doomed(&resource, &live.value, propagation, None, now) else {
                return Ok(Step::Keep(live.object.clone(), ()));
            };
            let write = match (
                removal::is_due(&resource, &doomed),
                meta::is_terminating(&live.value),
            ) {
                (true, true) => Write::Remove(doomed),
                (true, false) => Write::Remove(live.value.clone()),
                (false, _) => Write::Put(doomed),
            };
            Ok(Step::Commit(write, ()))
        });
        if let Err(error) = outcome
            && error.code != 404
        {
            tracing::debug!(%error, name = id.key.name, "an object could not be deleted and will be looked at again");
        }
    }

    /// Makes an object from inside; it is as well if somebody else made it.
    pub(crate) fn make(&self, resource: &GroupResource, mut object: Value) {
        meta::set(&mut object, "uid", self.uid().into());
        meta::set(&mut object, "creationTimestamp", self.clock.stamp().into());
        let key = ObjectKey::of(&object);
        if self
            .store
            .commit(resource, &key, None, &Write::Put(object))
            .is_err()
        {
            tracing::debug!(name = key.name, "the object is there already");
        }
    }
}

//! The record of what was sent: an annotation of the ModuleRevision for each receiver.

use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    ModuleRevision,
    labels::{annotation, manager},
};
use serde_json::json;
use tracing::warn;

use super::{Error, Kept, Notifier, Recipient, config::Receiver, decide::NotificationRecord};
use crate::runtime::{Api, Key, call};

impl Notifier {
    /// What was sent and is not in the watched object yet.
    pub(super) fn kept(&self, concern: &Recipient, on_record: Option<&NotificationRecord>) -> Option<Kept> {
        let mut all = self.kept.lock();
        let kept = all.get(concern).cloned()?;
        if on_record == Some(&kept.sent) {
            all.remove(concern);
            return None;
        }
        Some(kept)
    }

    /// Records what was sent, on the ModuleRevision with this uid.
    pub(super) async fn record(
        &self,
        revision: &ModuleRevision,
        receiver: &Receiver,
        sent: NotificationRecord,
    ) -> Result<(), Error> {
        let concern = (Key::of(revision), receiver.name.clone());
        let text = serde_json::to_string(&sent)?;
        self.keep(&concern, sent, false);
        let (namespace, name) = (revision.namespace().unwrap_or_default(), revision.name_any());
        let revisions: Api<ModuleRevision> = Api::namespaced(self.context.client.clone(), &namespace);
        let body = json!({"metadata": {
            "uid": revision.meta().uid,
            "annotations": {key(receiver): text},
        }});
        let parameters = PatchParams {
            field_manager: Some(manager::NOTIFY.to_owned()),
            ..PatchParams::default()
        };
        let what = format!(
            "recording on ModuleRevision {namespace}/{name} what was sent to {}",
            receiver.name
        );
        match call(what, revisions.patch(&name, &parameters, &Patch::Merge(&body))).await {
            Ok(_) => {
                if let Some(kept) = self.kept.lock().get_mut(&concern) {
                    kept.written = true;
                }
                Ok(())
            }
            // It is gone, or another one has its name: there is nothing to record any more.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                self.remove_revision(&concern.0);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers what was sent; entries of deleted ModuleRevisions are dropped.
    fn keep(&self, concern: &Recipient, sent: NotificationRecord, written: bool) {
        let is_there = |key: &Key| self.revisions.get(&key.object_ref()).is_some();
        let mut kept = self.kept.lock();
        kept.retain(|(key, _), _| is_there(key));
        kept.insert(concern.clone(), Kept { sent, written });
        self.rounds.lock().retain(|(key, _), _| is_there(key));
    }
}

/// The annotation with a receiver's record.
fn key(receiver: &Receiver) -> String {
    format!("{}{}", annotation::NOTIFIED_PREFIX, receiver.name)
}

/// What was sent to a receiver, from the annotation; an invalid value counts as absent.
pub(super) fn on_record(revision: &ModuleRevision, receiver: &Receiver) -> Option<NotificationRecord> {
    let text = revision.annotations().get(&key(receiver))?;
    serde_json::from_str(text)
        .inspect_err(|error| warn!(revision = revision.name_any(), receiver = receiver.name, %error, "the record of a notification cannot be parsed"))
        .ok()
}

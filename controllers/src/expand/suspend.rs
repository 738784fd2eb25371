//! Suspends Kustomizations whose kubeconfig leads to another cluster: controllers such as Flux apply them without
//! checking the registry.
//!
//! Resuming is not a separate step: when a row may be written again it is corrected, and a suspension by muster is then
//! a difference.

use std::sync::Arc;

use kube::{ResourceExt, api::PostParams};
use muster_api::flux::Kustomization;
use tracing::warn;

use super::{
    drift::{self, Claim},
    expander::{Assembled, ExpandError, Expander},
    observed::KustomizationRow,
    rows::Entry,
    view::DesiredRow,
};
use crate::runtime::{Api, Key, call};

impl Expander {
    /// Suspends the Kustomizations of an assemblage. Returns whether all of them are suspended now.
    pub(super) async fn suspend<K: Assembled>(
        &self,
        object: &K,
        rows: &[(Entry, Arc<DesiredRow>)],
    ) -> Result<bool, ExpandError> {
        let mut all = true;
        for (entry, _) in rows {
            let name = self.kustomization_name(object, &entry.row);
            let key = Key::new(self.context.namespace.clone(), name);
            // One that is being deleted is left to finish: suspended, it would only orphan what it installed.
            let current = self.kustomizations.get(&key);
            if current.is_some_and(|row| !row.suspended && !row.deleting) {
                all &= self.suspend_one(object, &key).await?;
            }
        }
        Ok(all)
    }

    async fn suspend_one<K: Assembled>(&self, object: &K, key: &Key) -> Result<bool, ExpandError> {
        let api: Api<Kustomization> = self.api();
        let what = format!("reading Kustomization {key}");
        let Some(mut live) = call(what, api.get_opt(&key.name)).await? else {
            return Ok(true);
        };
        let claim = drift::claim(&live, self.kind, &object.name_any(), self.manager);
        if claim != Claim::Ours || live.spec.suspend == Some(true) {
            return Ok(true);
        }
        warn!(
            kustomization = key.name,
            "suspending a Kustomization: its kubeconfig leads to another cluster"
        );
        live.status = None;
        live.spec.suspend = Some(true);
        let by = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let what = format!("suspending Kustomization {key}");
        match call(what, api.replace(&key.name, &by, &live)).await {
            Ok(written) => {
                self.memory.read(&key.name, &KustomizationRow::of(&written));
                self.kustomizations.apply(&written);
                Ok(true)
            }
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

//! What is there: from the index where it shows an object as derived, else from a live read.

use muster_api::flux::{GitRepository, Kustomization};

use super::{
    decide::Live,
    expander::{ExpandError, Expander},
    print::{Print, kustomization_print, source_print},
    seen::{KustomizationRow, SourceRow},
};
use crate::runtime::{Api, Key, call};

impl Expander {
    /// The Kustomization of that name; read whole unless it is exactly `wanted`.
    pub(super) async fn look_at_kustomization(
        &self,
        name: &str,
        wanted: Option<&Kustomization>,
    ) -> Result<Live<KustomizationRow, Kustomization>, ExpandError> {
        let Some(row) = self.kustomizations.get(&self.key(name)) else {
            self.memory.forget(name);
            return Ok(Live::Absent);
        };
        let wanted: Option<Print> = wanted.map(kustomization_print);
        if wanted.as_ref() == Some(&row.print) && !row.suspended && self.memory.is_current(name, &row) {
            return Ok(Live::AsDerived(row));
        }
        let api: Api<Kustomization> = self.api();
        let live = call(
            format!("reading Kustomization {}", self.key(name)),
            api.get_opt(name),
        )
        .await?;
        Ok(live.map_or(Live::Absent, |live| {
            let row = KustomizationRow::of(&live);
            self.memory.read(name, &row);
            Live::Differs(row, Box::new(live))
        }))
    }

    /// The source of that name; read whole unless it is exactly `wanted`.
    pub(super) async fn look_at_source(
        &self,
        wanted: &GitRepository,
    ) -> Result<Live<SourceRow, GitRepository>, ExpandError> {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let Some(row) = self.sources.get(&self.key(name)) else {
            return Ok(Live::Absent);
        };
        if row.print == source_print(wanted) {
            return Ok(Live::AsDerived(row));
        }
        let api: Api<GitRepository> = self.api();
        let live = call(
            format!("reading GitRepository {}", self.key(name)),
            api.get_opt(name),
        )
        .await?;
        Ok(live.map_or(Live::Absent, |live| {
            Live::Differs(SourceRow::of(&live), Box::new(live))
        }))
    }

    /// The Kustomization of that name, as the index has it.
    pub(super) fn glance(&self, name: &str) -> Live<KustomizationRow, Kustomization> {
        self.kustomizations
            .get(&self.key(name))
            .map_or(Live::Absent, Live::AsDerived)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.context.namespace.clone(), name)
    }
}

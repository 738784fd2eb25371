//! The live objects: from the index if it shows an object as derived, otherwise from the API server.

use muster_api::flux::Kustomization;

use super::{
    derive::Derived,
    expander::{ExpandError, Expander},
    flux_object::{FluxObject, SourceKind},
    observed::{KustomizationRow, SourceRow},
    print::Print,
    view::Live,
};
use crate::runtime::{Api, Index, Key, call};

impl Expander {
    /// The Kustomization with this name; read in full unless it has the `wanted` fingerprint.
    pub(super) async fn observe_kustomization(
        &self,
        name: &str,
        wanted: Option<&Print>,
    ) -> Result<Live<KustomizationRow, Kustomization>, ExpandError> {
        let Some(row) = self.kustomizations.get(&self.key(name)) else {
            self.memory.remove(name);
            return Ok(Live::Absent);
        };
        if wanted == Some(&row.print) && !row.suspended && self.memory.is_current(name, &row) {
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

    /// The source of a row; read in full unless it is as derived.
    pub(super) async fn observe_source(
        &self,
        wanted: &Derived,
    ) -> Result<Live<SourceRow, FluxObject>, ExpandError> {
        let (name, print) = (wanted.source.name(), &wanted.source_print);
        match wanted.source {
            FluxObject::Git(_) => self.source_of_kind(&self.sources, name, print).await,
            FluxObject::Oci(_) => self.source_of_kind(&self.artifacts, name, print).await,
        }
    }

    async fn source_of_kind<S: SourceKind + Into<FluxObject>>(
        &self,
        index: &Index<S, SourceRow>,
        name: &str,
        wanted: &Print,
    ) -> Result<Live<SourceRow, FluxObject>, ExpandError> {
        match index.get(&self.key(name)) {
            Some(row) if row.print == *wanted => return Ok(Live::AsDerived(row)),
            // Nothing waits for the first list of OCIRepositories: clusters may not serve the kind.
            None if index.is_synced() => return Ok(Live::Absent),
            Some(_) | None => {}
        }
        let api: Api<S> = self.api();
        let reading = format!("reading {} {}", S::KIND, self.key(name));
        let live = call(reading, api.get_opt(name)).await?;
        Ok(live.map_or(Live::Absent, |live| {
            Live::Differs(SourceRow::of(&live), Box::new(live.into()))
        }))
    }

    /// The Kustomization with this name, from the index.
    pub(super) fn glance(&self, name: &str) -> Live<KustomizationRow, Kustomization> {
        self.kustomizations
            .get(&self.key(name))
            .map_or(Live::Absent, Live::AsDerived)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.context.namespace.clone(), name)
    }
}

//! The proxy's rows as they are to be downstream: with the values of what only this cluster knows.

use std::collections::BTreeMap;

use muster_api::{
    ProxyAssemblage,
    assemblage::{Intent, SyncRow},
};

use super::Mirroring;
use crate::{
    bindings::{Values, given, used_by},
    expand::{decide::Refusal, values::bind},
};

/// The rows of a proxy.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Those that can be brought downstream.
    pub resolved: Vec<SyncRow>,
    /// Those that cannot, by name: what is there of them stays.
    pub refused: BTreeMap<String, Refusal>,
}

impl Mirroring {
    /// The rows of a proxy with their control-plane bindings evaluated.
    pub(super) async fn rows(&self, proxy: &ProxyAssemblage) -> Rows {
        let given = self.given(proxy);
        let mut rows = Rows::default();
        for row in &proxy.spec.syncs {
            match self.resolved(row, &given).await {
                Ok(row) => rows.resolved.push(row),
                Err(refusal) => {
                    rows.refused.insert(row.name.clone(), refusal);
                }
            }
        }
        rows
    }

    async fn resolved(&self, row: &SyncRow, given: &Values) -> Result<SyncRow, Refusal> {
        if !matches!(row.intent(), Intent::Carry { .. }) {
            return Ok(row.clone());
        }
        let mut known = given.clone();
        known.extend(row.values.clone());
        let mut values = row.values.clone();
        let bound = bind(&self.objects, &row.control_plane_bindings, known).await?;
        let used = used_by(&row.package.clone().unwrap_or_default(), &row.bindings);
        // The cluster does not know its name and labels here: what the row uses of them goes along.
        values.extend(bound.into_iter().filter(|(name, _)| !given.contains_key(name) || used.contains(name)));
        Ok(SyncRow { values, control_plane_bindings: Vec::new(), ..row.clone() })
    }

    fn given(&self, proxy: &ProxyAssemblage) -> Values {
        let Some(cluster) = &proxy.spec.cluster_ref else {
            return Values::new();
        };
        let labels = self.context.registry.get(&cluster.name).map(|row| row.labels.clone()).unwrap_or_default();
        given(&cluster.name, &labels)
    }
}

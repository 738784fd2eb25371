//! Deletes sources ten minutes after their last reference is gone.
//!
//! Invariant: a source is deleted only after complete, fresh lists of assemblages and Kustomizations show that nothing
//! refers to it, and only the version that was read. After an error nothing is deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::{
    Resource,
    api::{DeleteParams, ListParams, Preconditions},
};
use muster_api::{
    assemblage::{Intent, SyncRow},
    flux::{GitRepository, Kustomization, OciRepository},
    names,
};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use super::{
    derive::commit,
    expander::{Assembled, Expander},
    flux_object::SourceKind,
    observed::SourceRow,
};
use crate::runtime::{Api, CallError, Key, call, call::error_chain};

/// How long a source outlives its last reference: long enough for a row that is rolled back.
pub(crate) const LINGER: SignedDuration = SignedDuration::from_mins(10);
/// How often unreferenced sources are looked up, in memory: a tenth of [`LINGER`].
const PERIOD: Duration = Duration::from_mins(1);
/// Objects per page of a list.
const PAGE: u32 = 100;

impl Expander {
    /// Collects unreferenced sources until shutdown. `lives` tells which assemblages exist.
    pub async fn collect_sources<K: Assembled>(&self, lives: impl Fn(&Key) -> bool) {
        let mut idle = BTreeMap::new();
        loop {
            tokio::time::sleep(PERIOD).await;
            if !(self.sources.is_synced() && self.kustomizations.is_synced()) {
                continue;
            }
            self.needs.retain(&lives);
            self.reports.retain(&lives);
            let due = due(&mut idle, &self.unreferenced(), self.context.clock.now());
            if due.is_empty() {
                continue;
            }
            if let Err(error) = self.collect::<K>(&due).await {
                warn!(
                    error = error_chain(&error),
                    "unreferenced sources are not deleted for now"
                );
            }
        }
    }

    /// muster's sources that neither an assemblage nor a Kustomization refers to, according to the caches.
    fn unreferenced(&self) -> BTreeSet<String> {
        let referred: BTreeSet<String> = self
            .kustomizations
            .with(|rows| rows.values().map(|row| row.source.clone()).collect());
        let ours = |rows: &BTreeMap<Key, SourceRow>| -> Vec<String> {
            let ours = rows.iter().filter(|(_, row)| row.ours && !row.deleting);
            ours.map(|(key, _)| key.name.clone()).collect()
        };
        let ours = self
            .sources
            .with(ours)
            .into_iter()
            .chain(self.artifacts.with(ours));
        ours.filter(|name| !referred.contains(name) && self.needs.of_source(name).is_empty())
            .collect()
    }

    async fn collect<K: Assembled>(&self, due: &BTreeSet<String>) -> Result<(), CallError> {
        let mut referred = BTreeSet::new();
        let assemblages: Api<K> = self.api();
        pages(&assemblages, |object| {
            referred.extend(object.rows().iter().filter_map(|row| source_of(row)));
        })
        .await?;
        let kustomizations: Api<Kustomization> = self.api();
        pages(&kustomizations, |object| {
            referred.insert(object.spec.source_ref.name.clone());
        })
        .await?;
        for name in due.difference(&referred) {
            let key = Key::new(self.context.namespace.clone(), name.clone());
            if let Some(row) = self.sources.get(&key) {
                self.delete_source::<GitRepository>(name, row).await?;
            }
            if let Some(row) = self.artifacts.get(&key) {
                self.delete_source::<OciRepository>(name, row).await?;
            }
        }
        Ok(())
    }

    async fn delete_source<S: SourceKind>(&self, name: &str, row: SourceRow) -> Result<(), CallError> {
        let exactly = Preconditions {
            uid: Some(row.uid),
            resource_version: Some(row.resource_version),
        };
        let parameters = DeleteParams {
            preconditions: Some(exactly),
            ..DeleteParams::background()
        };
        let api: Api<S> = self.api();
        match call(
            format!("deleting {} {name}", S::KIND),
            api.delete(name, &parameters),
        )
        .await
        {
            Ok(()) => info!(source = name, "deleted an unreferenced source"),
            // Deleted, or changed since: the next round checks again.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The sources that have been unreferenced for [`LINGER`]; remembers since when the others are.
pub(crate) fn due(
    idle: &mut BTreeMap<String, Timestamp>,
    unreferenced: &BTreeSet<String>,
    now: Timestamp,
) -> BTreeSet<String> {
    idle.retain(|name, _| unreferenced.contains(name));
    for name in unreferenced {
        idle.entry(name.clone()).or_insert(now);
    }
    idle.iter()
        .filter(|(_, since)| now.duration_since(**since) >= LINGER)
        .map(|(name, _)| name.clone())
        .collect()
}

/// The name of the source that a row refers to, if the row is applied.
fn source_of(row: &SyncRow) -> Option<String> {
    let Intent::Carry { source } = row.intent() else {
        return None;
    };
    Some(names::source_of(source, &commit(row, source)?))
}

/// Reads a complete list from the API server's store, page by page.
async fn pages<K>(api: &Api<K>, mut take: impl FnMut(&K)) -> Result<(), CallError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = call(format!("listing {}", K::plural(&())), api.list(&parameters)).await?;
        page.items.iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(()),
        }
    }
}

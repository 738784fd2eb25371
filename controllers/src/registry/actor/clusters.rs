//! Clusters: the watched version, the ones that exist, and the ones that are gone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use muster_api::cluster::Version;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::{
    super::{entry::Entry, owners, watching},
    Actor, Clusters, Done, SETTLE,
};
use crate::runtime::{CallError, Key, call::error_chain};

/// How soon to look for Cluster API again while it is missing or discovery fails.
const DISCOVER_AGAIN: Duration = Duration::from_secs(5);
/// How often discovery of the Cluster versions is repeated: an upgrade of Cluster API may remove the one that is read.
const DISCOVER_EVERY: Duration = Duration::from_mins(5);
/// The pause after owner references could not be updated.
const RENEW_AGAIN: Duration = Duration::from_secs(30);

impl Actor<'_> {
    pub(super) fn discover_in(&self, pause: Duration) {
        let client = self.registry.setup.client.clone();
        self.work.push(
            async move {
                sleep(pause).await;
                Done::Discovered(watching::discover(&client).await)
            }
            .boxed(),
        );
    }

    pub(super) fn discovered(&mut self, answer: Result<Option<Version>, CallError>) {
        let known = self.clusters.as_ref().map(|clusters| clusters.version);
        match answer {
            Ok(Some(version)) if known == Some(version) => {}
            Ok(Some(version)) => self.watch_clusters(version),
            // After a watch that once worked, a missing kind does not prove that there are no Clusters.
            Ok(None) if known.is_some() => {
                warn!("the kind Cluster is no longer served; the known clusters are kept");
            }
            Ok(None) => {
                debug!("Cluster API is not installed");
                self.complete();
            }
            Err(error) => warn!(
                error = error_chain(&error),
                "the served versions of Cluster are not known"
            ),
        }
        self.discover_in(if self.clusters.is_some() {
            DISCOVER_EVERY
        } else {
            DISCOVER_AGAIN
        });
    }

    fn watch_clusters(&mut self, version: Version) {
        let setup = &self.registry.setup;
        info!(version = version.as_str(), "watching Clusters");
        let index = Arc::new(watching::cluster_index(version));
        let names = watching::clusters(
            setup.client.clone(),
            &setup.namespace,
            version,
            Arc::clone(&index),
        )
        .boxed();
        let listing = Arc::clone(&index);
        self.clusters = Some(Clusters {
            version,
            index,
            names,
        });
        self.work.push(
            async move {
                listing.synced().await;
                Done::Listed(version)
            }
            .boxed(),
        );
    }

    /// A watch has listed all Clusters: those not in the list are gone (they were known from a watch of another
    /// version).
    pub(super) fn clusters_listed(&mut self, version: Version) {
        let Some(clusters) = self
            .clusters
            .as_ref()
            .filter(|clusters| clusters.version == version)
        else {
            return;
        };
        let names: Vec<String> = clusters
            .index
            .with(|rows| rows.keys().map(|key| key.name.clone()).collect());
        let mut known: BTreeSet<String> = self.entries.keys().cloned().collect();
        // Published before the former actor ended by a panic.
        known.extend(self.registry.clusters.read().keys().cloned());
        for name in names.iter().chain(&known) {
            self.isolated(name, |actor| actor.cluster_changed(name));
        }
        self.complete();
        self.settle_all();
        self.renew_owners_in(version, Duration::ZERO);
    }

    fn renew_owners_in(&self, version: Version, pause: Duration) {
        let setup = &self.registry.setup;
        let (client, namespace) = (setup.client.clone(), setup.namespace.clone());
        let known: BTreeSet<String> = self.clusters.iter().flat_map(uids).collect();
        self.work.push(
            async move {
                sleep(pause).await;
                Done::Renewed(version, owners::renew(client, &namespace, version, &known).await)
            }
            .boxed(),
        );
    }

    /// A record of an identity that was updated here has a new resourceVersion that is not known yet: its next write
    /// conflicts once, and then reads it.
    pub(super) fn owners_renewed(&self, version: Version, result: Result<(), CallError>) {
        let is_read = self
            .clusters
            .as_ref()
            .is_some_and(|clusters| clusters.version == version);
        // If another version is being read by now, it is updated separately.
        if let (Err(error), true) = (result, is_read) {
            warn!(
                error = error_chain(&error),
                version = version.as_str(),
                "some owner references still name a Cluster at another version than the one that is read"
            );
            self.renew_owners_in(version, RENEW_AGAIN);
        }
    }

    fn complete(&mut self) {
        if self.listed.is_none() {
            self.listed = Some(Instant::now());
            self.work.push(sleep(SETTLE).map(|()| Done::Settled).boxed());
        }
    }

    pub(super) fn cluster_changed(&mut self, name: &str) {
        let Some(clusters) = &self.clusters else { return };
        let key = Key::new(self.registry.setup.namespace.clone(), name);
        let Some(facts) = clusters.index.get(&key) else {
            if clusters.index.is_synced() {
                self.remove_cluster(name);
            }
            return;
        };
        match self.entries.get_mut(name) {
            Some(entry) if entry.facts.uid == facts.uid => entry.facts = facts,
            // Re-created under the same name: another cluster.
            Some(_) | None => {
                let generation = self.fresh_generation();
                let setup = &self.registry.setup;
                let entry = Entry::new(facts, setup.clock.now(), generation, &setup.jitter);
                self.entries.insert(name.to_owned(), entry);
            }
        }
        if self.entries.get(name).is_some_and(Entry::needs_kubeconfig) {
            self.load_kubeconfig(name);
        }
        self.keep_probing(name, Duration::ZERO);
        // The annotation that accepts an identity may have changed.
        self.settle(name);
        self.publish(name);
    }

    fn remove_cluster(&mut self, name: &str) {
        let entry = self.entries.remove(name);
        let published = self.registry.clusters.write().remove(name);
        if entry.is_some() || published.is_some() {
            info!(cluster = name, "the Cluster is gone");
            self.registry.changes.announce(&name.to_owned());
        }
        if let Some(entry) = entry {
            self.release_identity(&entry.facts.uid);
        }
    }
}

/// The uids of all Clusters.
fn uids(clusters: &Clusters) -> Vec<String> {
    clusters
        .index
        .with(|rows| rows.values().map(|facts| facts.uid.clone()).collect())
}

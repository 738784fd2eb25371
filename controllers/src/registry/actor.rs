//! The one task that owns what is known of the clusters: it takes watch events and the outcomes of calls in, one at a time, and publishes
//! rows. It never awaits a call itself, so that no cluster waits for another.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream,
    stream::{BoxStream, FuturesUnordered},
};
use muster_api::{
    cluster::{Version, kubeconfig_secret},
    labels::KUBECONFIG_KEY,
};
use tokio::time::{Instant, MissedTickBehavior, sleep};
use tracing::{debug, info, warn};

use super::{
    Published, Registry,
    entry::{Entry, Found},
    probe::{self, Probe},
    watching::{self, ClusterIndex, SecretIndex},
};
use crate::runtime::{CallError, Key, call::explain};

/// How often Secrets that no watch shows are read.
const READ_EVERY: Duration = Duration::from_secs(30);
/// After a failed read of a Secret of which nothing is known yet.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// While Cluster API is not there, or could not be asked for.
const DISCOVER_AGAIN: Duration = Duration::from_secs(5);
/// How often the versions of Cluster are looked up again: an upgrade of Cluster API may end the one that is read.
const DISCOVER_EVERY: Duration = Duration::from_mins(5);
/// So long the first answers of clusters are waited for before the registry counts as synced.
const SETTLE: Duration = Duration::from_secs(5);
/// ± 10 %: clusters are not probed in step.
const JITTER: f64 = 0.1;

/// The owner of all entries.
pub(super) struct Actor<'a> {
    registry: &'a Registry,
    entries: BTreeMap<String, Entry>,
    clusters: Option<Clusters>,
    typed: Arc<SecretIndex>,
    labelled: Arc<SecretIndex>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// When the list of clusters (or their absence) was complete.
    listed: Option<Instant>,
    generation: u64,
}

/// The watch of Clusters.
struct Clusters {
    version: Version,
    index: Arc<ClusterIndex>,
    names: BoxStream<'static, String>,
}

/// Something that was waited for.
enum Done {
    Discovered(Result<Option<Version>, CallError>),
    /// The first complete list of Clusters of a version.
    Listed(Version),
    /// The first complete lists of both kinds of Secrets.
    SecretsListed,
    Probed {
        cluster: String,
        generation: u64,
        probe: Probe,
        identity: Option<String>,
    },
    Read {
        cluster: String,
        found: Result<Found, CallError>,
        /// The refusal that made the Secret be read, and the generation that it was of.
        refusal: Option<(String, u64)>,
    },
    /// The time of [`SETTLE`] is over.
    Settled,
}

impl<'a> Actor<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            entries: BTreeMap::new(),
            clusters: None,
            typed: Arc::new(watching::secret_index()),
            labelled: Arc::new(watching::secret_index()),
            work: FuturesUnordered::new(),
            listed: None,
            generation: 0,
        }
    }

    /// Never ends.
    pub(super) async fn run(mut self) {
        let mut secrets = self.watch_secrets();
        let mut read = tokio::time::interval(READ_EVERY);
        read.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.discover_in(Duration::ZERO);
        loop {
            tokio::select! {
                name = next(&mut self.clusters) => self.cluster_changed(&name),
                Some(name) = secrets.next() => self.look_for_kubeconfig(&name),
                Some(done) = self.work.next() => self.take(done),
                _ = read.tick() => self.read_unwatched(),
            }
            self.check_synced();
        }
    }

    fn watch_secrets(&self) -> impl Stream<Item = String> + Send + use<> {
        let (client, namespace) = (&self.registry.setup.client, &self.registry.setup.namespace);
        let typed = watching::typed_secrets(client.clone(), namespace, Arc::clone(&self.typed));
        let labelled = watching::labelled_secrets(client.clone(), namespace, Arc::clone(&self.labelled));
        let (typed_index, labelled_index) = (Arc::clone(&self.typed), Arc::clone(&self.labelled));
        self.work.push(
            async move {
                typed_index.synced().await;
                labelled_index.synced().await;
                Done::SecretsListed
            }
            .boxed(),
        );
        stream::select(typed.boxed(), labelled.boxed())
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Discovered(answer) => self.discovered(answer),
            Done::Listed(version) => self.clusters_listed(version),
            Done::SecretsListed => self.read_unwatched(),
            Done::Probed {
                cluster,
                generation,
                probe,
                identity,
            } => self.probed(&cluster, generation, probe, identity),
            Done::Read {
                cluster,
                found,
                refusal,
            } => self.secret_read(&cluster, found, refusal),
            Done::Settled => {}
        }
    }

    // Clusters

    fn discover_in(&self, pause: Duration) {
        let client = self.registry.setup.client.clone();
        self.work.push(
            async move {
                sleep(pause).await;
                Done::Discovered(watching::discover(&client).await)
            }
            .boxed(),
        );
    }

    fn discovered(&mut self, answer: Result<Option<Version>, CallError>) {
        let known = self.clusters.as_ref().map(|clusters| clusters.version);
        match answer {
            Ok(Some(version)) if known == Some(version) => {}
            Ok(Some(version)) => self.watch_clusters(version),
            // With a watch that once worked, the absence of the kind is no proof of the absence of clusters.
            Ok(None) if known.is_some() => {
                warn!("the kind Cluster is no longer served; what is known of clusters stands");
            }
            Ok(None) => {
                debug!("Cluster API is not installed");
                self.complete();
            }
            Err(error) => warn!(error = explain(&error), "the versions of Cluster are not known"),
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

    /// A watch has seen all clusters: those that it does not have are gone (they were known from a watch of another version).
    fn clusters_listed(&mut self, version: Version) {
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
        let known: Vec<String> = self.entries.keys().cloned().collect();
        for name in names.iter().chain(&known) {
            self.cluster_changed(name);
        }
        self.complete();
    }

    fn complete(&mut self) {
        if self.listed.is_none() {
            self.listed = Some(Instant::now());
            self.work.push(sleep(SETTLE).map(|()| Done::Settled).boxed());
        }
    }

    fn cluster_changed(&mut self, name: &str) {
        let Some(clusters) = &self.clusters else { return };
        let key = Key::new(self.registry.setup.namespace.clone(), name);
        let Some(facts) = clusters.index.get(&key) else {
            if clusters.index.is_synced() {
                self.forget(name);
            }
            return;
        };
        match self.entries.get_mut(name) {
            Some(entry) if entry.facts.uid == facts.uid => entry.facts = facts,
            // Made anew under the same name: another cluster.
            Some(_) | None => {
                let generation = self.fresh_generation();
                let entry = Entry::new(facts, self.registry.setup.clock.now(), generation);
                self.entries.insert(name.to_owned(), entry);
            }
        }
        if self.entries.get(name).is_some_and(Entry::needs_kubeconfig) {
            self.look_for_kubeconfig(name);
        }
        self.keep_probing(name, Duration::ZERO);
        self.publish(name);
    }

    fn forget(&mut self, name: &str) {
        if self.entries.remove(name).is_some() {
            info!(cluster = name, "the Cluster is gone");
            self.registry.clusters.write().remove(name);
            self.registry.changes.announce(name);
        }
    }

    // Kubeconfigs

    /// Takes the kubeconfig from a watch, or has the Secret read.
    fn look_for_kubeconfig(&mut self, name: &str) {
        if !self.entries.contains_key(name) {
            return;
        }
        match self.watched_kubeconfig(name) {
            Some(found) => self.take_kubeconfig(name, found),
            None if self.typed.is_synced() && self.labelled.is_synced() => {
                self.read_secret(name, Duration::ZERO, None);
            }
            // The first lists are under way.
            None => {}
        }
    }

    fn watched_kubeconfig(&self, name: &str) -> Option<Found> {
        let key = watching::secret_key(&self.registry.setup.namespace, name);
        self.typed.get(&key).or_else(|| self.labelled.get(&key))
    }

    /// Secrets that neither watch shows are read from time to time.
    fn read_unwatched(&mut self) {
        let names: Vec<String> = self
            .entries
            .keys()
            .filter(|name| self.watched_kubeconfig(name).is_none())
            .cloned()
            .collect();
        for name in names {
            self.look_for_kubeconfig(&name);
        }
    }

    fn read_secret(&self, name: &str, pause: Duration, refusal: Option<(String, u64)>) {
        let setup = &self.registry.setup;
        let (client, namespace, cluster) = (setup.client.clone(), setup.namespace.clone(), name.to_owned());
        self.work.push(
            async move {
                sleep(pause).await;
                let found = watching::read_secret(
                    client,
                    &namespace,
                    &kubeconfig_secret(&cluster),
                    &[KUBECONFIG_KEY],
                )
                .await;
                Done::Read {
                    cluster,
                    found,
                    refusal,
                }
            }
            .boxed(),
        );
    }

    fn secret_read(&mut self, name: &str, found: Result<Found, CallError>, refusal: Option<(String, u64)>) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        match found {
            Ok(found) => self.take_kubeconfig(name, found),
            Err(error) => {
                warn!(
                    cluster = name,
                    error = explain(&error),
                    "the kubeconfig could not be read; what is known stands"
                );
                if entry.needs_kubeconfig() {
                    self.read_secret(name, READ_AGAIN, None);
                }
            }
        }
        if let Some((error, generation)) = refusal {
            self.refused(name, generation, error);
        }
    }

    /// The credential was refused and the Secret read once more: if it still says the same, it is the credential.
    fn refused(&mut self, name: &str, generation: u64, error: String) {
        let Some(entry) = self
            .entries
            .get_mut(name)
            .filter(|entry| entry.generation == generation)
        else {
            return;
        };
        entry.contact.record(Probe::Refused(error));
        self.publish(name);
        self.probe_again(name);
    }

    fn take_kubeconfig(&mut self, name: &str, found: Found) {
        let generation = self.fresh_generation();
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if entry.take_kubeconfig(&self.registry.setup.connect, found) {
            entry.generation = generation;
            self.keep_probing(name, Duration::ZERO);
        }
        self.publish(name);
    }

    // Probes

    /// Sees to it that a probe is under way for the present generation, if probes are of use.
    fn keep_probing(&mut self, name: &str, pause: Duration) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if !entry.is_to_be_probed() || entry.probing == Some(entry.generation) {
            return;
        }
        let Some(client) = entry.connection().map(|connection| connection.client()) else {
            return;
        };
        let (cluster, generation, poke) = (name.to_owned(), entry.generation, Arc::clone(&entry.poke));
        let (looks_for_kind, knows_identity) = (entry.contact.looks_for_kind(), entry.identity.is_some());
        // A cluster that fails is asked at its own pace, whoever suspects it.
        let pokes = entry.contact.failures == 0;
        entry.probing = Some(generation);
        self.work.push(
            async move {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = poke.notified(), if pokes => {}
                }
                let probe = probe::probe(&client, looks_for_kind).await;
                let identity = match &probe {
                    // A failure to read it is seen by the next probe, which tries again.
                    Probe::Answered { .. } if !knows_identity => {
                        probe::identity(&client).await.unwrap_or_default()
                    }
                    Probe::Answered { .. } | Probe::Refused(_) | Probe::Failed(_) => None,
                };
                Done::Probed {
                    cluster,
                    generation,
                    probe,
                    identity,
                }
            }
            .boxed(),
        );
    }

    fn probed(&mut self, name: &str, generation: u64, probe: Probe, identity: Option<String>) {
        let now = self.registry.setup.clock.now();
        let Some(entry) = self
            .entries
            .get_mut(name)
            .filter(|entry| entry.generation == generation)
        else {
            return;
        };
        entry.probing = None;
        entry.identity = identity.or_else(|| entry.identity.take());
        match probe {
            Probe::Answered { .. } => entry.last_contact = Some(now),
            Probe::Refused(error) => {
                entry.last_contact = Some(now);
                return self.read_secret(name, Duration::ZERO, Some((error, generation)));
            }
            Probe::Failed(_) => {}
        }
        entry.contact.record(probe);
        self.publish(name);
        self.probe_again(name);
    }

    fn probe_again(&mut self, name: &str) {
        let Some(entry) = self.entries.get(name) else {
            return;
        };
        let pause = self.registry.setup.jitter.spread(entry.contact.pause(), JITTER);
        self.keep_probing(name, pause);
    }

    // Publishing

    fn publish(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.decide(&self.registry.setup.namespace, self.registry.setup.clock.now());
        let row = Arc::new(entry.row());
        let published = Published {
            row: Arc::clone(&row),
            connection: entry.connection().cloned(),
            poke: Arc::clone(&entry.poke),
        };
        let before = self.registry.clusters.write().insert(name.to_owned(), published);
        if before.is_none_or(|before| before.row.differs(&row)) {
            info!(
                cluster = name,
                reason = row.state.reason().map_or("Ready", |reason| reason.as_str()),
                message = row.state.message(),
                "cluster"
            );
            self.registry.changes.announce(name);
        }
    }

    fn check_synced(&self) {
        if self.registry.is_synced() {
            return;
        }
        let Some(listed) = self.listed else { return };
        if listed.elapsed() >= SETTLE || self.entries.values().all(Entry::is_known) {
            self.registry.synced.send_replace(true);
        }
    }

    fn fresh_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }
}

/// The next changed Cluster; never, while Clusters are not watched.
async fn next(clusters: &mut Option<Clusters>) -> String {
    if let Some(clusters) = clusters
        && let Some(name) = clusters.names.next().await
    {
        return name;
    }
    futures::future::pending().await
}

//! The one task that owns the state of all clusters: it processes watch events and the results of calls one at a time,
//! and publishes rows. It never awaits a call itself, so that no cluster waits for another.

mod clusters;
mod identities;
mod kubeconfigs;
mod probes;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream,
    stream::{BoxStream, FuturesUnordered},
};
use muster_api::{cluster::Version, labels::manager};
use tokio::{
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, sleep},
};
use tracing::info;

use super::{
    Published, Registry,
    entry::{Entry, KubeconfigLookup},
    identity::ObservedIdentity,
    pins::{Pin, Pins},
    probe::Probe,
    watching::{self, ClusterIndex, SecretIndex},
};
use crate::runtime::{CallError, Events, Panicked, isolated};

/// How often Secrets that no watch shows are read.
const READ_EVERY: Duration = Duration::from_secs(30);
/// How long to wait for the first answers of clusters before the registry counts as synced.
const SETTLE: Duration = Duration::from_secs(5);
/// The number of events written concurrently.
const WRITERS: usize = 8;

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
    /// The recorded identity of each Cluster; `None`: not read yet.
    pins: Option<Pins>,
    events: Events,
    /// Limits concurrent event writes: if a whole fleet becomes unreachable, there is an event for each cluster.
    turns: Arc<Semaphore>,
}

/// The watch of Clusters.
struct Clusters {
    version: Version,
    index: Arc<ClusterIndex>,
    names: BoxStream<'static, String>,
}

/// The result of a pending task.
enum Done {
    Discovered(Result<Option<Version>, CallError>),
    /// The first complete list of Clusters of a version.
    Listed(Version),
    /// Owner references of our objects were updated to a version of Cluster, or could not be.
    Renewed(Version, Result<(), CallError>),
    /// The first complete lists of both kinds of Secrets.
    SecretsListed,
    Probed {
        cluster: String,
        generation: u64,
        outcome: Result<(Probe, Option<ObservedIdentity>), Panicked>,
    },
    /// All records of identities.
    Pins(Result<Pins, CallError>),
    /// The result of writing a record.
    Kept {
        cluster: String,
        uid: String,
        pin: Pin,
        result: Result<Pin, CallError>,
    },
    /// An event was sent.
    Told,
    Read {
        cluster: String,
        found: Result<Result<KubeconfigLookup, CallError>, Panicked>,
        /// The refusal that caused the read of the Secret, with its generation.
        refusal: Option<(String, u64)>,
    },
    /// The pause after a panic has ended.
    Rested {
        cluster: String,
        generation: u64,
    },
    /// [`SETTLE`] has elapsed.
    Settled,
}

impl<'a> Actor<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        let setup = &registry.setup;
        let proxies = setup.proxy_hosts.clone();
        let events = Events::new(
            setup.client.clone(),
            manager::CONTROLLER,
            "registry",
            setup.clock.clone(),
        );
        Self {
            registry,
            entries: BTreeMap::new(),
            clusters: None,
            typed: Arc::new(watching::secret_index(proxies.clone())),
            labelled: Arc::new(watching::secret_index(proxies)),
            work: FuturesUnordered::new(),
            listed: None,
            generation: 0,
            pins: None,
            events,
            turns: Arc::new(Semaphore::new(WRITERS)),
        }
    }

    /// Never ends.
    pub(super) async fn run(mut self) {
        let mut secrets = self.watch_secrets();
        let mut read = tokio::time::interval(READ_EVERY);
        read.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.discover_in(Duration::ZERO);
        self.read_pins_in(Duration::ZERO);
        loop {
            tokio::select! {
                name = next(&mut self.clusters) => self.isolated(&name, |actor| actor.cluster_changed(&name)),
                Some(name) = secrets.next() => self.isolated(&name, |actor| actor.load_kubeconfig(&name)),
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
            Done::Renewed(version, result) => self.owners_renewed(version, result),
            Done::SecretsListed => self.read_unwatched(),
            Done::Probed {
                cluster,
                generation,
                outcome,
            } => {
                let (probe, observed) = outcome.unwrap_or_else(|panicked| {
                    let what = format!("probing cluster {cluster}");
                    self.registry.note_panic(&what, &panicked);
                    (Probe::Failed(panicked.to_string()), None)
                });
                self.isolated(&cluster, |actor| {
                    actor.probed(&cluster, generation, probe, observed);
                });
            }
            Done::Read {
                cluster,
                found: Ok(found),
                refusal,
            } => self.isolated(&cluster, |actor| actor.secret_read(&cluster, found, refusal)),
            Done::Read {
                cluster,
                found: Err(panicked),
                refusal: _,
            } => self.panicked(&cluster, &panicked),
            Done::Pins(pins) => self.pins_read(pins),
            Done::Kept {
                cluster,
                uid,
                pin,
                result,
            } => self.isolated(&cluster, |actor| {
                actor.identity_kept(&cluster, &uid, &pin, result);
            }),
            Done::Rested { cluster, generation } => {
                self.isolated(&cluster, |actor| actor.begin_again(&cluster, generation));
            }
            Done::Told | Done::Settled => {}
        }
    }

    /// Runs work on one cluster, so that a panic affects only that cluster.
    fn isolated(&mut self, name: &str, work: impl FnOnce(&mut Self)) {
        if let Err(panicked) = isolated(|| work(self)) {
            self.panicked(name, &panicked);
        }
    }

    /// Marks a cluster whose handling panicked as unreachable until it is retried.
    fn panicked(&mut self, name: &str, panicked: &Panicked) {
        self.registry
            .note_panic(&format!("handling cluster {name}"), panicked);
        let generation = self.fresh_generation();
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let pause = entry.break_off(generation);
        let cluster = name.to_owned();
        self.work.push(
            async move {
                sleep(pause).await;
                Done::Rested { cluster, generation }
            }
            .boxed(),
        );
        // The panic may come from publishing itself: then the former row stays.
        if let Err(panicked) = isolated(|| self.publish(name)) {
            panicked.log(&format!("publishing the state of cluster {name}"));
        }
    }

    /// Handles a cluster from scratch, unless it has changed since its panic.
    fn begin_again(&mut self, name: &str, generation: u64) {
        let entry = self.entries.get_mut(name);
        let entry = entry.filter(|entry| entry.generation == generation);
        if entry.is_some_and(Entry::begin_again) {
            self.load_kubeconfig(name);
        }
    }

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
            self.registry.changes.announce(&name.to_owned());
        }
        self.publish_reachability(name);
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

/// The next changed Cluster; pending while Clusters are not watched.
async fn next(clusters: &mut Option<Clusters>) -> String {
    if let Some(clusters) = clusters
        && let Some(name) = clusters.names.next().await
    {
        return name;
    }
    futures::future::pending().await
}

//! The controller of ClusterUpgrades: watches, reads, runs passes, and writes their results.
//!
//! Invariant: no field is written before the memory names the change (W2), and each only on the version of the object
//! that was read (W3).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::DynamicObject,
    runtime::{reflector::Store, watcher},
};
use muster_api::{
    cluster_upgrade::{ClusterUpgrade, UpgradePart},
    labels::manager,
    selector::SelectorError,
};
use muster_driver::{Decided, Rules};
use muster_rollout::{Incarnation, Memory, UnitId};
use parking_lot::Mutex;
use serde_json::json;
use thiserror::Error;
use tokio::time::Instant;
use tracing::info;

use super::{
    capi::{Carrier, Cluster, ClusterFacts},
    evidence::Reading,
    pass::{self, Fields, Lists, Next, Observation},
    preflight::{self, Hindrance},
    reading::Reader,
    status,
    version::Version,
};
use crate::{
    module::{
        instants::timestamp,
        memory::{self, Gaps},
    },
    reconcile::{Context, Runner},
    registry::Registry,
    rolloutwindow::{WatchedWindows, Windows},
    runtime::{
        Action, Api, CallError, Clock, Index, Key, Retry, Retryable, call,
        call::error_chain,
        status::{StatusError, patch_if_changed},
        watch as watching,
    },
};

/// The maximum number of reads in one reconcile before it starts over.
const ROUNDS: usize = 16;
/// The number of Clusters that are read concurrently.
const AT_ONCE: usize = 16;
/// How soon the objects of a Cluster in flight are read again, and failed reads are retried.
const AGAIN: Duration = Duration::from_secs(10);
/// How soon the preflight of a cluster, and objects that a Cluster waits for, are read again.
const PREFLIGHT_AGAIN: Duration = Duration::from_secs(30);
/// What was read less than this ago is not read again in the same reconcile, even if the watch shows another version.
const JUST_READ: Duration = Duration::from_secs(1);
/// A decision covers all Clusters: after it, changes are collected for this multiple of its duration, and at most for
/// the time below.
const GATHER: u32 = 3;
const GATHER_AT_MOST: Duration = Duration::from_secs(1);

/// Why a reconcile of a ClusterUpgrade failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The memory cannot be encoded as JSON: a bug in muster.
    #[error("the memory of the rollout cannot be encoded as JSON")]
    Encode(#[from] serde_json::Error),
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Another writer changed what was read: read again.
    #[error("{0} was changed by another writer")]
    Overtaken(String),
    /// The watch lags behind: nothing is decided until it has caught up.
    #[error(
        "Cluster {0} differs from what the watch shows: nothing is decided until the watch has caught up"
    )]
    Behind(String),
    /// A pass keeps requesting more reads.
    #[error("ClusterUpgrade {0}: a pass did not finish after {ROUNDS} rounds")]
    Restless(String),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Selector(_) | Self::Encode(_) => Retry::AwaitChange,
            Self::Call(error) => error.retry(),
            Self::Status(_) | Self::Overtaken(_) | Self::Behind(_) | Self::Restless(_) => Retry::Soon,
        }
    }
}

/// The dependencies of the controller.
pub struct Setup {
    /// The context that all controllers of the process share.
    pub context: Context,
    /// The change windows of the namespace.
    pub windows: Arc<WatchedWindows>,
}

/// A cached value, and when it was read.
#[derive(Clone)]
struct Cached<T> {
    at: Instant,
    value: T,
}

type Read = Result<Arc<Reading>, String>;
type PreflightResult = Result<Option<Hindrance>, String>;

/// What was read of a Cluster for a ClusterUpgrade.
#[derive(Clone)]
struct OfCluster {
    /// The resourceVersion of the Cluster at that time.
    version: String,
    /// The generation of the ClusterUpgrade, which determines what is read.
    generation: Option<i64>,
    /// Whether the Cluster waits because of it.
    hinders: bool,
    read: Read,
}

/// State shared by all reconciles.
struct Shared {
    context: Context,
    windows: Arc<WatchedWindows>,
    upgrades: Store<ClusterUpgrade>,
    clusters: Arc<Index<Cluster, Arc<ClusterFacts>>>,
    reader: Reader,
    /// By ClusterUpgrade and Cluster.
    readings: Mutex<BTreeMap<(Key, String), Cached<OfCluster>>>,
    preflights: Mutex<BTreeMap<String, Cached<PreflightResult>>>,
    gaps: Gaps,
}

/// Runs the controller until shutdown.
pub async fn run(setup: Setup) {
    let Setup { context, windows } = setup;
    let runner = Runner::<ClusterUpgrade>::new("clusterupgrade", &context);
    let store = runner.store();
    context.metrics.upgrades(store.clone(), context.clock.clone());
    // Which ClusterUpgrades select a Cluster is only known with the Cluster: each change of one triggers all of them.
    let all = {
        let store = store.clone();
        move || {
            let all = store.state();
            stream::iter(
                all.iter()
                    .map(|upgrade| Key::of(&**upgrade))
                    .collect::<Vec<Key>>(),
            )
        }
    };
    let clusters = Arc::new(Index::new(
        |cluster: &Cluster| Some(Arc::new(ClusterFacts::of(cluster))),
        |key: &Key, _: &Arc<ClusterFacts>| vec![key.clone()],
    ));
    let events = watching::watch::<Cluster>(
        context.client.clone(),
        &context.namespace,
        watcher::Config::default(),
    );
    let changed = watching::watch_rows(events, Arc::clone(&clusters));
    let (of_clusters, of_rows, of_windows) = (all.clone(), all.clone(), all);
    let rows = context.registry.subscribe();
    let opened = windows.changes();
    let (gate, registry) = (Arc::clone(&clusters), Arc::clone(&context.registry));
    let shared = Arc::new(Shared {
        reader: Reader::new(context.client.clone(), &context.namespace),
        gaps: Gaps::new(context.gap),
        upgrades: store,
        clusters,
        windows,
        readings: Mutex::default(),
        preflights: Mutex::default(),
        context,
    });
    runner
        .on(changed.flat_map(move |_| of_clusters()))
        .on(rows.flat_map(move |_| of_rows()))
        .on(opened.flat_map(move |()| of_windows()))
        .after(async move { gate.synced().await })
        .after(async move { registry.synced().await })
        .run(shared, reconcile)
        .await;
}

async fn reconcile(upgrade: Arc<ClusterUpgrade>, shared: Arc<Shared>) -> Result<Action, Error> {
    if upgrade.metadata.deletion_timestamp.is_some() {
        shared.drop_upgrade(&upgrade);
        return Ok(Action::await_change());
    }
    let Some(windows) = shared.windows.current() else {
        return Ok(Action::requeue(JUST_READ));
    };
    shared.check_missing(&upgrade).await?;
    let mut spent = Duration::ZERO;
    for _round in 0..ROUNDS {
        let began = Instant::now();
        let next = shared.pass(&upgrade, &windows);
        spent += began.elapsed();
        match next? {
            Next::Read(clusters) => shared.read(&upgrade, clusters).await,
            Next::Preflight(clusters) => shared.run_preflights(clusters).await,
            Next::Write(observed, decided) => {
                let action = shared.act(&upgrade, &observed, decided).await?;
                tokio::time::sleep((spent * GATHER).min(GATHER_AT_MOST)).await;
                return Ok(action);
            }
        }
    }
    Err(Error::Restless(upgrade.name_any()))
}

impl Shared {
    fn clock(&self) -> &Clock {
        &self.context.clock
    }

    fn registry(&self) -> &Registry {
        &self.context.registry
    }

    /// Runs a pass on the cached values that are still fresh.
    fn pass(&self, upgrade: &ClusterUpgrade, windows: &Windows) -> Result<Next, SelectorError> {
        let key = Key::of(upgrade);
        let stored = upgrade.status.as_ref().and_then(|status| status.rollout.as_ref());
        let memory = memory::recall(stored, upgrade.metadata.uid.as_deref()).memory;
        let clusters = self.clusters.all();
        let (readings, preflights) = (
            self.fresh_readings(upgrade, &clusters, &memory),
            self.fresh_preflights(),
        );
        let lists = Lists {
            upgrades: &self.upgrades.state(),
            clusters: &clusters,
            row: &|name| self.registry().get(name),
            readings: &readings,
            preflights: &preflights,
            windows,
            gap: self.gaps.before(&key, stored),
            now: self.clock().now(),
        };
        pass::next_step(upgrade, &lists)
    }

    /// The cached readings of Clusters that are still valid according to the watch; for a changing Cluster they also
    /// expire.
    fn fresh_readings(
        &self,
        upgrade: &ClusterUpgrade,
        clusters: &[Arc<ClusterFacts>],
        memory: &Memory,
    ) -> BTreeMap<String, Read> {
        let key = Key::of(upgrade);
        let facts: BTreeMap<&str, &Arc<ClusterFacts>> =
            clusters.iter().map(|of| (of.name.as_str(), of)).collect();
        let mut known = self.readings.lock();
        known.retain(|(_, cluster), _| facts.contains_key(cluster.as_str()));
        let own = known.iter().filter(|((of, _), _)| *of == key);
        let fresh = own.filter_map(|((_, cluster), known)| {
            let OfCluster {
                version,
                generation,
                hinders,
                read,
            } = &known.value;
            let age = known.at.elapsed();
            let moves = memory.in_flight.contains_key(cluster.as_str()) || !is_settled(read);
            let is_old = moves && age >= AGAIN || *hinders && age >= PREFLIGHT_AGAIN;
            let shown = facts.get(cluster.as_str()).map(|facts| &facts.resource_version);
            let same = shown == Some(version) && !is_old;
            let is_fresh = *generation == upgrade.metadata.generation && (same || age < JUST_READ);
            is_fresh.then(|| (cluster.clone(), read.clone()))
        });
        fresh.collect()
    }

    fn fresh_preflights(&self) -> BTreeMap<String, PreflightResult> {
        let mut known = self.preflights.lock();
        known.retain(|_, known| known.at.elapsed() < PREFLIGHT_AGAIN);
        let fresh = known.iter();
        fresh
            .map(|(cluster, known)| (cluster.clone(), known.value.clone()))
            .collect()
    }

    /// Reads the objects of several Clusters concurrently.
    async fn read(&self, upgrade: &ClusterUpgrade, clusters: BTreeSet<String>) {
        let Some(target) = Version::parse(&upgrade.spec.target.kubernetes) else {
            return;
        };
        let what: &[UpgradePart] = &upgrade.spec.what;
        let read = stream::iter(clusters).map(|cluster| async move {
            let read = self
                .reader
                .read(&cluster, what, target, Some(self.registry()))
                .await;
            (cluster, read.map(Arc::new).map_err(|error| error_chain(&error)))
        });
        let mut read = read.buffer_unordered(AT_ONCE);
        while let Some((cluster, read)) = read.next().await {
            let shown = self.clusters.get(&Key::new(&self.context.namespace, &cluster));
            let version = match &read {
                Ok(reading) => reading.cluster.resource_version.clone(),
                Err(_) => shown
                    .map(|facts| facts.resource_version.clone())
                    .unwrap_or_default(),
            };
            let known = Cached {
                at: Instant::now(),
                value: OfCluster {
                    version,
                    generation: upgrade.metadata.generation,
                    hinders: false,
                    read,
                },
            };
            self.readings.lock().insert((Key::of(upgrade), cluster), known);
        }
    }

    /// Runs the preflight in several clusters concurrently.
    async fn run_preflights(&self, clusters: BTreeSet<String>) {
        let found = stream::iter(clusters).map(|cluster| async move {
            let found = match self.registry().client(&cluster) {
                Ok(client) => preflight::read(&client)
                    .await
                    .map_err(|error| error_chain(&error)),
                Err(error) => Err(error.to_string()),
            };
            (cluster, found.map(|found| preflight::first_hindrance(&found)))
        });
        let mut found = found.buffer_unordered(AT_ONCE);
        while let Some((cluster, value)) = found.next().await {
            let known = Cached {
                at: Instant::now(),
                value,
            };
            self.preflights.lock().insert(cluster, known);
        }
    }

    /// Fails if a Cluster that is in flight exists, but the watch does not show it (W1).
    async fn check_missing(&self, upgrade: &ClusterUpgrade) -> Result<(), Error> {
        let stored = upgrade.status.as_ref().and_then(|status| status.rollout.as_ref());
        let recalled = memory::recall(stored, upgrade.metadata.uid.as_deref());
        let known = (!recalled.lost).then_some(&recalled.memory);
        let read = |unit: &UnitId| {
            let facts = self
                .clusters
                .get(&Key::new(&self.context.namespace, unit.as_str()))?;
            Some(Incarnation::of(&facts.uid))
        };
        let missing = muster_driver::missing(known, Vec::new(), read, &Rules::shipped());
        for holder in missing {
            let uid = self.registry().read_uid(holder.unit.as_str()).await?;
            if uid.is_some_and(|uid| holder.is(Incarnation::of(&uid))) {
                return Err(Error::Behind(holder.unit.to_string()));
            }
        }
        Ok(())
    }

    /// Marks the readings that Clusters wait for: these expire after a while, whatever the watch shows.
    fn note_hindering(&self, upgrade: &ClusterUpgrade, observed: &Observation) {
        let mut known = self.readings.lock();
        for unit in &observed.units {
            if let Some(known) = known.get_mut(&(Key::of(upgrade), unit.id.to_string())) {
                known.value.hinders = pass::rests_on_objects(unit);
            }
        }
    }

    /// Applies a decision: first the memory, then one field of each Cluster that is to change.
    async fn act(
        &self,
        upgrade: &ClusterUpgrade,
        observed: &Observation,
        decided: Option<Box<Decided>>,
    ) -> Result<Action, Error> {
        let now = self.clock().now();
        let (status, events) = match &decided {
            None => (status::idle_status(upgrade, observed, now), Vec::new()),
            Some(decided) => status::rolling_status(upgrade, observed, decided.decision(), now)?,
        };
        self.note_hindering(upgrade, observed);
        let upgrades: Api<ClusterUpgrade> =
            Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let before = upgrade.status.as_ref();
        let written = patch_if_changed(&upgrades, upgrade, before, &status, manager::CONTROLLER).await;
        let Some(decided) = decided else {
            written?;
            return Ok(Action::await_change());
        };
        let remembered = decided.written(written)?;
        let memory = &remembered.decision().memory;
        let mut writes: Vec<(String, Vec<Carrier>)> = remembered
            .writes(&Fields { observed })
            .into_iter()
            .map(|write| (write.planned().unit.to_string(), write.write().clone()))
            .collect();
        writes.extend(pass::following(observed, memory));
        // All are tried: one Cluster that cannot be written does not block another.
        let mut outcome = Ok(());
        for (cluster, fields) in &writes {
            for field in fields {
                outcome = outcome.and(self.write(upgrade, cluster, field).await);
            }
            self.readings.lock().retain(|(_, name), _| name != cluster);
        }
        for event in events {
            info!(
                upgrade = upgrade.name_any(),
                reason = event.reason,
                "{}",
                event.note
            );
            self.context.events.publish(upgrade, event).await;
        }
        outcome?;
        Ok(self.next(observed, memory, remembered.decision().wake_at.map(timestamp)))
    }

    /// Writes the version into one field, on the resourceVersion that was read. A field that another manager updates is
    /// taken over; one that another manager applies is left alone.
    async fn write(&self, upgrade: &ClusterUpgrade, cluster: &str, field: &Carrier) -> Result<(), Error> {
        let version = &upgrade.spec.target.kubernetes;
        let mut body = field
            .path
            .iter()
            .rev()
            .fold(json!(version), |value, name| json!({*name: value}));
        body["apiVersion"] = json!(field.resource.api_version);
        body["kind"] = json!(field.resource.kind);
        body["metadata"] = json!({
            "name": field.name, "namespace": self.context.namespace, "uid": field.uid,
            "resourceVersion": field.resource_version,
        });
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.context.client.clone(),
            &self.context.namespace,
            &field.resource,
        );
        let by = PatchParams {
            field_manager: Some(manager::UPGRADES.to_owned()),
            force: field.is_updated_by_another,
            ..PatchParams::default()
        };
        let name = field.describe();
        let what = format!("writing {} of {name}", field.path.join("."));
        match call(what, api.patch(&field.name, &by, &Patch::Apply(body))).await {
            Ok(_) => {
                info!(
                    upgrade = upgrade.name_any(),
                    cluster, "{name} is set to {version}"
                );
                Ok(())
            }
            Err(error) if error.is_conflict() => Err(Error::Overtaken(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// When to reconcile if nothing changes before: a deadline of the engine, a hold that expires, a window that opens
    /// or closes, or objects to read again.
    fn next(&self, observed: &Observation, memory: &Memory, wake_at: Option<Timestamp>) -> Action {
        let moving = observed
            .clusters
            .iter()
            .any(|cluster| pass::is_moving(observed, memory, &cluster.facts.name));
        let hindered = self
            .preflights
            .lock()
            .values()
            .any(|known| !matches!(known.value, Ok(None)));
        let unread = observed.clusters.iter().any(|cluster| cluster.reading.is_none());
        let now = self.clock().now();
        let at = wake_at.into_iter().chain(observed.until).min();
        let at = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let again = (moving || unread).then_some(AGAIN);
        // The watch shows another version than was just read.
        let behind = observed.clusters.iter().any(|cluster| {
            let read = cluster.reading.as_ref();
            read.is_some_and(|read| read.cluster.resource_version != cluster.facts.resource_version)
        });
        let behind = behind.then_some(JUST_READ);
        let hindered = hindered || observed.units.iter().any(pass::rests_on_objects);
        let recheck = hindered.then_some(PREFLIGHT_AGAIN);
        match at.into_iter().chain(again).chain(recheck).chain(behind).min() {
            Some(wait) => Action::requeue(wait.max(Duration::from_millis(1))),
            None => Action::await_change(),
        }
    }

    fn drop_upgrade(&self, upgrade: &ClusterUpgrade) {
        let key = Key::of(upgrade);
        self.gaps.drop_module(&key);
        self.readings.lock().retain(|(of, _), _| *of != key);
    }
}

/// Whether a cached reading stays valid until the watch shows a change.
fn is_settled(value: &Read) -> bool {
    value
        .as_ref()
        .is_ok_and(|reading| !matches!(reading.served, super::evidence::Served::Unknown(_)))
}

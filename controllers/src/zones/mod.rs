//! StatefulSets of several zones: `muster zones` applies the decisions of [`muster_zones`] in one namespace.
//!
//! ```text
//!   watches ─► rows ─► reconcile of a ZoneRollout ─► nothing to do: status
//!                             └► read ─► decide ─┬► more reads and requests to pods ─► decide again
//!                                                └► status (compare-and-swap) ─► act: delete, scale, record
//!   admission server ─► reviews ─► read ─► admit, budget ─► status (compare-and-swap) ─► answer
//! ```
//!
//! Invariant: every action or permission is based on a fresh read from the API server, ZoneRollouts first. Invariant:
//! every action or permission is recorded in `status` before, over the version that was read. Invariant: downscales and
//! evictions are allowed only while this process certainly holds its lease.

mod act;
mod leader;
pub mod metrics;
mod missing;
mod pass;
pub mod pods;
mod preflight;
mod read;
mod ready_time;
mod report;
pub mod reviews;
mod rows;

use std::{collections::BTreeMap, sync::Arc};

use jiff::SignedDuration;
use kube::Client;
use muster_api::zonerollout::InFlight;
use muster_zones::{
    flags::Settings,
    scale::{self, times::Tracker},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{metrics::ZoneMetrics, pods::AskPods, read::Reader, rows::Rows};
pub use self::{
    preflight::{PreflightError, check},
    report::reason,
};
use crate::{
    reconcile::{Base, Runner},
    runtime::{CallError, Clock, Events, Retry, Retryable, status::StatusError},
};

/// The field manager of muster zones, and the name of the lease.
pub const MANAGER: &str = "muster-zones";

/// Why a pass or a review did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object that was read is not valid.
    #[error("{0} {1} cannot be read: {2}")]
    Unreadable(&'static str, String, serde_json::Error),
    /// A write was refused; with the message of [`muster_zones::decide::Action::refused`].
    #[error("{0}")]
    Refused(String),
    /// Another writer changed the ZoneRollout at each try.
    #[error("ZoneRollout {0} was changed by another writer in each of {1} tries")]
    Conflicts(String, usize),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            Self::Status(_) | Self::Unreadable(..) | Self::Refused(_) | Self::Conflicts(..) => Retry::Soon,
        }
    }
}

/// The shared state of passes and reviews.
pub struct Zones {
    client: Client,
    reader: Reader,
    settings: Settings,
    clock: Clock,
    events: Events,
    metrics: ZoneMetrics,
    pods: Arc<dyn AskPods>,
    rows: Arc<Rows>,
    /// When each group's last pass began, and which write was refused in it.
    passes: Mutex<BTreeMap<String, Last>>,
    /// The zone tracker's ConfigMap as this process last read or wrote it; an error if it cannot be read.
    tracker: Mutex<Option<Result<Tracker, String>>>,
    /// Allowed evictions of pods whose sets are in no group: there is no ZoneRollout for them.
    evicted: Mutex<Vec<InFlight>>,
    /// One eviction, or one pass that deletes, at a time: budgets may span groups.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Last {
    began: Instant,
    refused: Option<String>,
}

/// The dependencies of [`Zones`].
pub struct Setup {
    /// The client of the API server; its writes are refused once the lease is lost.
    pub client: Client,
    /// The settings from the flags.
    pub settings: Settings,
    /// The only source of `now`.
    pub clock: Clock,
    /// The publisher of events.
    pub events: Events,
    /// The metrics of `muster zones`.
    pub metrics: ZoneMetrics,
    /// The client for pods.
    pub pods: Arc<dyn AskPods>,
}

impl Zones {
    /// The state of one namespace.
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup {
            client,
            settings,
            clock,
            events,
            metrics,
            pods,
        } = setup;
        Arc::new(Self {
            reader: Reader::new(
                client.clone(),
                &settings.namespace,
                &settings.zone_tracker,
                &settings.mirror_kinds,
            ),
            client,
            settings,
            clock,
            events,
            metrics,
            pods,
            rows: Arc::new(Rows::new()),
            passes: Mutex::default(),
            tracker: Mutex::default(),
            evicted: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// The settings of decisions.
    fn scaling(&self) -> scale::Settings {
        let timeout = SignedDuration::try_from(self.settings.request_timeout);
        scale::Settings {
            namespace: self.settings.namespace.clone(),
            cluster_domain: self.settings.cluster_domain.clone(),
            timeout: timeout.unwrap_or(SignedDuration::MAX),
        }
    }
}

/// Reconciles the groups of the namespace until shutdown. `instance` is the name of the pod of this process.
pub async fn run(zones: Arc<Zones>, base: Base, instance: String) {
    let runner = Runner::new("zonerollout", &base);
    let store = runner.store();
    base.metrics.conditions(store.clone());
    let rows = Arc::clone(&zones.rows);
    let (sets, pods, budgets) = (Arc::clone(&rows.sets), Arc::clone(&rows.pods), Arc::clone(&rows));
    let runner = runner
        .on(rows.watch(&base))
        .on(rows.watch_budgets(&base, store.clone(), zones.metrics.clone()))
        .after(async move { sets.synced().await })
        .after(async move { pods.synced().await })
        .after(async move { budgets.budgets_known().await });
    tokio::select! {
        () = runner.run(Arc::clone(&zones), pass::reconcile) => {}
        never = missing::run(&zones, &store) => match never {},
        never = leader::run(&zones, &instance) => match never {},
        never = ready_time::run(&zones) => match never {},
    }
}

//! StatefulSets of several zones: what [`muster_zones`] decides, carried out in one namespace by `muster zones`.
//!
//! ```text
//!   watches ─► rows ─► reconcile of a ZoneRollout ─► nothing to do: status
//!                             └► read ─► decide ─┬► what is still to be read and asked ─► decide again
//!                                                └► status (compare-and-swap) ─► act: delete, scale, record
//!   door ─► reviews ─► read ─► admit, budget ─► status (compare-and-swap) ─► answer
//! ```
//!
//! Invariant: what is done, or allowed, rests on what was read from the API server for it, ZoneRollouts first.
//! Invariant: what is done, or allowed, is on record in `status` before, written over the version that was read.
//! Invariant: downscales and evictions are allowed only while the lease of this process surely holds.

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

/// The field manager of our writes, and the name of the lease.
pub const MANAGER: &str = "muster-zones";

/// What could not be brought to an end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object that was read is not of its form.
    #[error("{0} {1} cannot be read: {2}")]
    Unreadable(&'static str, String, serde_json::Error),
    /// A write was refused; in the words of [`muster_zones::decide::Action::refused`].
    #[error("{0}")]
    Refused(String),
    /// The ZoneRollout was written by another each time.
    #[error("ZoneRollout {0} was written by another in each of {1} tries")]
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

/// What passes and reviews share.
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

/// What they are made of.
pub struct Setup {
    /// The API server; writes through it are refused once the lease is over.
    pub client: Client,
    /// The flags.
    pub settings: Settings,
    /// The only source of `now`.
    pub clock: Clock,
    /// Writes events.
    pub events: Events,
    /// Counts.
    pub metrics: ZoneMetrics,
    /// How pods are asked.
    pub pods: Arc<dyn AskPods>,
}

impl Zones {
    /// Of one namespace.
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

    /// What decisions depend on.
    fn scaling(&self) -> scale::Settings {
        let timeout = SignedDuration::try_from(self.settings.request_timeout);
        scale::Settings {
            namespace: self.settings.namespace.clone(),
            cluster_domain: self.settings.cluster_domain.clone(),
            timeout: timeout.unwrap_or(SignedDuration::MAX),
        }
    }
}

/// Carries the groups of the namespace out until shutdown. `instance` is the name of the pod of this process.
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

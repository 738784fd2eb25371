//! Reconciles: their number, their duration, how many wait, and whether they can start.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use crate::runtime::Key;

/// Upper bounds of the duration buckets, in seconds: from a reconcile that changes nothing to the deadline of a call,
/// and beyond.
const BUCKETS: [f64; 10] = [0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    controller: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    controller: String,
    result: &'static str,
}

/// All controllers of a process.
pub(super) struct Controllers {
    reconciles: Family<ResultLabel, Counter>,
    durations: Family<Label, Histogram>,
    states: Arc<States>,
}

#[derive(Debug, Default)]
struct States(Mutex<BTreeMap<String, Arc<State>>>);

/// A change of a controller's state.
#[derive(Debug, Default)]
struct State {
    waiting: Mutex<BTreeSet<Key>>,
    synced: Mutex<bool>,
}

/// The metrics of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Controller {
    succeeded: Counter,
    failed: Counter,
    panicked: Counter,
    duration: Histogram,
    state: Arc<State>,
}

/// A running reconcile; it is counted when this is dropped.
pub struct Running {
    started: Instant,
    duration: Histogram,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.duration.observe(self.started.elapsed().as_secs_f64());
    }
}

impl Controllers {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let controllers = Self {
            reconciles: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            states: Arc::default(),
        };
        registry.register(
            "muster_reconciles",
            "Reconciles by result: success, error, panic",
            controllers.reconciles.clone(),
        );
        registry.register(
            "muster_reconcile_duration_seconds",
            "Duration of reconciles",
            controllers.durations.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&controllers.states)));
        controllers
    }

    pub(super) fn of(&self, name: &str) -> Controller {
        let controller = name.to_lowercase();
        let ended = |result| {
            let label = ResultLabel {
                controller: controller.clone(),
                result,
            };
            self.reconciles.get_or_create(&label).clone()
        };
        let (succeeded, failed, panicked) = (ended("success"), ended("error"), ended("panic"));
        let label = Label {
            controller: controller.clone(),
        };
        let duration = self.durations.get_or_create(&label).clone();
        let state = Arc::clone(self.states.0.lock().entry(controller).or_default());
        Controller {
            succeeded,
            failed,
            panicked,
            duration,
            state,
        }
    }

    /// Counts the panics of a component that is not a controller: readiness does not wait for it.
    pub(super) fn panics(&self, name: &str) -> Counter {
        let label = ResultLabel {
            controller: name.to_owned(),
            result: "panic",
        };
        self.reconciles.get_or_create(&label).clone()
    }

    pub(super) fn not_synced(&self) -> Vec<String> {
        let states = self.states.0.lock();
        let waiting = states.iter().filter(|(_, state)| !*state.synced.lock());
        waiting.map(|(name, _)| name.clone()).collect()
    }
}

impl Controller {
    /// The controller's caches are synced.
    pub fn synced(&self) {
        *self.state.synced.lock() = true;
    }

    /// An object changed and must be reconciled.
    pub fn queued(&self, key: Key) {
        self.state.waiting.lock().insert(key);
    }

    /// An object no longer waits: it is gone.
    pub fn gone(&self, key: &Key) {
        self.state.waiting.lock().remove(key);
    }

    /// The reconcile of an object starts.
    #[must_use]
    pub fn started(&self, key: &Key) -> Running {
        self.gone(key);
        Running {
            started: Instant::now(),
            duration: self.duration.clone(),
        }
    }

    /// A reconcile ended.
    pub fn succeeded(&self) {
        self.succeeded.inc();
    }

    /// A reconcile returned an error.
    pub fn failed(&self) {
        self.failed.inc();
    }

    /// A reconcile panicked.
    pub fn panicked(&self) {
        self.panicked.inc();
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let states = self.0.lock();
        let mut depth = encoder.encode_descriptor(
            "muster_queue_depth",
            "Objects waiting to be reconciled.",
            None,
            MetricType::Gauge,
        )?;
        for (controller, state) in states.iter() {
            let waiting = i64::try_from(state.waiting.lock().len()).unwrap_or(i64::MAX);
            let label = [("controller", controller.as_str())];
            ConstGauge::new(waiting).encode(depth.encode_family(&label)?)?;
        }
        let mut synced = encoder.encode_descriptor(
            "muster_controller_synced",
            "Whether the caches of a controller are synced.",
            None,
            MetricType::Gauge,
        )?;
        for (controller, state) in states.iter() {
            let label = [("controller", controller.as_str())];
            let is_synced = i64::from(*state.synced.lock());
            ConstGauge::new(is_synced).encode(synced.encode_family(&label)?)?;
        }
        Ok(())
    }
}

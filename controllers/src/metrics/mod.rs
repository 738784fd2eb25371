//! The metrics of a process, in the OpenMetrics text format.
//!
//! ```text
//!   Runner ──► Controller (queue, reconciles, synced) ─┐
//!   clients ──► writes by verb ────────────────────────┼──► Metrics::scrape ──► /metrics
//!   stores, registry ─────read when scraped────► facts ┘
//! ```
//!
//! Metrics of objects and clusters are computed from the controllers' caches at the moment of the scrape: when an
//! object is deleted, its series is gone as well.
//!
//! Invariant: labels are names of muster's objects and values of closed sets; there is no series for each cluster of
//! each module.

mod controllers;
mod facts;
mod notifications;
mod rollouts;
mod writes;

use std::{fmt, sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::{ClusterUpgrade, module::ModuleObject, node::NodeModule, revision::Verdict};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::encode,
    metrics::{gauge::Gauge, info::Info},
    registry::Registry,
};

pub use self::{
    controllers::Controller,
    facts::{Conditioned, Facts},
    notifications::Delivery,
    writes::{Target, Verb, WriteResult, Writing},
};
use self::{
    controllers::Controllers, facts::Sources, notifications::Notifications, rollouts::Rollouts,
    writes::Writes,
};
use crate::{registry, runtime::Clock};

/// A handle to the metrics of a process. Cheap to clone; clones share the metrics.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    controllers: Controllers,
    writes: Writes,
    rollouts: Rollouts,
    notifications: Notifications,
    sources: Arc<Sources>,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let controllers = Controllers::register(&mut registry);
        let writes = Writes::register(&mut registry);
        let rollouts = Rollouts::register(&mut registry);
        let notifications = Notifications::register(&mut registry);
        let sources = Arc::new(Sources::default());
        let leader = Gauge::default();
        registry.register(
            "muster_leader",
            "Whether this process is the leader, or runs without leader election",
            leader.clone(),
        );
        registry.register(
            "muster_build",
            "The version of muster",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(Arc::clone(&sources)));
        Self(Arc::new(Inner {
            registry: Mutex::new(registry),
            controllers,
            writes,
            rollouts,
            notifications,
            sources,
            leader,
        }))
    }
}

impl Metrics {
    /// The metrics of a controller, by its name in lower case.
    pub fn controller(&self, name: &str) -> Controller {
        self.0.controllers.of(name)
    }

    /// The controllers whose caches are not synced yet.
    pub fn not_synced(&self) -> Vec<String> {
        self.0.controllers.not_synced()
    }

    /// Counts a write that is about to be sent.
    pub fn writing(&self, target: Target, verb: Verb) -> Writing {
        self.0.writes.begin(target, verb)
    }

    /// Records a finished rollout and its duration.
    pub fn rollout_ended(&self, kind: &'static str, verdict: Verdict, took: Duration) {
        self.0.rollouts.ended(kind, verdict, took);
    }

    /// Starts the metrics of a receiver of notifications.
    pub fn notifies(&self, receiver: &str) {
        self.0.notifications.of(receiver);
    }

    /// Counts the delivery of a message to a receiver.
    pub fn notified(&self, receiver: &str, outcome: Delivery) {
        self.0.notifications.ended(receiver, outcome);
    }

    /// Sets the number of rollouts with notifications pending for a receiver.
    pub fn set_pending_notifications(&self, receiver: &str, rollouts: usize) {
        self.0.notifications.pending(receiver, rollouts);
    }

    /// Sets whether this process is the leader.
    pub fn leads(&self, leads: bool) {
        self.0.leader.set(leads.into());
    }

    /// Exports the clusters of a registry, and counts its panics.
    pub fn clusters(&self, registry: Arc<registry::Registry>) {
        registry.count_panics(self.0.controllers.panics("registry"));
        self.0.sources.clusters(registry);
    }

    /// Exports the modules in a store: their own metrics and their conditions.
    pub fn modules<K: ModuleObject>(&self, store: Store<K>, clock: Clock) {
        self.0.sources.add(move || {
            let now = clock.now();
            let modules = store.state();
            modules
                .iter()
                .map(|module| Facts::of_module(&**module, now))
                .collect()
        });
    }

    /// Exports the ClusterUpgrades in a store.
    pub fn upgrades(&self, store: Store<ClusterUpgrade>, clock: Clock) {
        self.0.sources.add(move || {
            let now = clock.now();
            let upgrades = store.state();
            upgrades
                .iter()
                .map(|upgrade| Facts::of_upgrade(upgrade, now))
                .collect()
        });
    }

    /// Exports the NodeModules in a store. `stuck`: the number of nodes that could not restore their files from before
    /// a change of a NodeModule.
    pub fn node_modules(
        &self,
        store: Store<NodeModule>,
        stuck: impl Fn(&str) -> u32 + Send + Sync + 'static,
        clock: Clock,
    ) {
        self.0.sources.add(move || {
            let now = clock.now();
            let modules = store.state();
            let modules = modules.iter();
            modules
                .map(|module| Facts::of_node_module(module, stuck(&module.name_any()), now))
                .collect()
        });
    }

    /// Exports the conditions of the objects in a store.
    pub fn conditions<K: Conditioned>(&self, store: Store<K>) {
        self.0
            .sources
            .add(move || store.state().iter().map(|object| Facts::of(&**object)).collect());
    }

    /// Registers the metrics of another module.
    pub(crate) fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.0.registry.lock());
    }

    /// All metrics, as text.
    pub fn scrape(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry.lock())?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

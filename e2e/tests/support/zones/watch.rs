//! Observes the pods of the zones.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::Value;

use super::{
    ZONES,
    kubectl::{Kubectl, Process, is_ready, zone_of},
};

/// The pods of the zones from a watch, so that a short absence of a pod is not missed.
pub(super) struct Watch {
    observed: Arc<Mutex<ObservedPods>>,
    _process: Process,
}

#[derive(Default)]
struct ObservedPods {
    ready: BTreeMap<String, (String, bool)>,
    /// The desired number of pods of a zone.
    replicas: usize,
    /// In how many zones pods were missing at once.
    most: usize,
}

impl Watch {
    pub(super) fn new(kubectl: &Kubectl) -> Self {
        let (process, events) = kubectl.watch("rollout-group=ingester");
        let observed = Arc::<Mutex<ObservedPods>>::default();
        let known = Arc::clone(&observed);
        std::thread::spawn(move || {
            // The stream ends when the process is stopped.
            let events = serde_json::Deserializer::from_reader(events).into_iter::<Value>();
            for event in events.map_while(Result::ok) {
                known.lock().unwrap().record_pod_event(&event);
            }
        });
        Self {
            observed,
            _process: process,
        }
    }

    /// The current number of pods.
    pub(super) fn pods(&self) -> usize {
        self.observed.lock().unwrap().ready.len()
    }

    /// Restarts the count, with this number of pods in each zone.
    pub(super) fn begin(&self, replicas: usize) {
        let mut observed = self.observed.lock().unwrap();
        (observed.replicas, observed.most) = (replicas, 0);
    }

    /// In how many zones pods were missing at once since the last restart.
    pub(super) fn most(&self) -> usize {
        self.observed.lock().unwrap().most
    }
}

impl ObservedPods {
    fn record_pod_event(&mut self, event: &Value) {
        let pod = &event["object"];
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if event["type"] == "DELETED" {
            self.ready.remove(&name);
        } else {
            self.ready.insert(name, (zone_of(pod).to_owned(), is_ready(pod)));
        }
        let ready = |zone: &str| {
            let of_zone = self.ready.values().filter(|(of, _)| of == zone);
            of_zone.filter(|(_, ready)| *ready).count()
        };
        let missing = ZONES.iter().filter(|zone| ready(zone) < self.replicas).count();
        self.most = self.most.max(missing);
    }
}

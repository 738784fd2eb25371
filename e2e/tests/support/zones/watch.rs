//! What became of the pods of the zones.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::Value;

use super::{
    ZONES,
    kubectl::{Kubectl, Process, is_ready, zone_of},
};

/// The pods of the zones as a watch shows them, so that none is missed that is away for a moment.
pub(super) struct Watch {
    seen: Arc<Mutex<Seen>>,
    _process: Process,
}

#[derive(Default)]
struct Seen {
    ready: BTreeMap<String, (String, bool)>,
    /// How many pods a zone is to have.
    replicas: usize,
    /// In how many zones some were missing at once.
    most: usize,
}

impl Watch {
    pub(super) fn new(kubectl: &Kubectl) -> Self {
        let (process, events) = kubectl.watch("rollout-group=ingester");
        let seen = Arc::<Mutex<Seen>>::default();
        let known = Arc::clone(&seen);
        std::thread::spawn(move || {
            // It breaks off when the process is ended.
            let events = serde_json::Deserializer::from_reader(events).into_iter::<Value>();
            for event in events.map_while(Result::ok) {
                known.lock().unwrap().note(&event);
            }
        });
        Self {
            seen,
            _process: process,
        }
    }

    /// How many pods are there.
    pub(super) fn pods(&self) -> usize {
        self.seen.lock().unwrap().ready.len()
    }

    /// Counts anew, with so many pods in each zone.
    pub(super) fn begin(&self, replicas: usize) {
        let mut seen = self.seen.lock().unwrap();
        (seen.replicas, seen.most) = (replicas, 0);
    }

    /// In how many zones pods were missing at once since it began.
    pub(super) fn most(&self) -> usize {
        self.seen.lock().unwrap().most
    }
}

impl Seen {
    fn note(&mut self, event: &Value) {
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

//! The last results of the gates of one kind of module, and which gates are being read. Lost at a restart, and then
//! read again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use futures::Stream;
use muster_api::validate::InsecureSources;
use muster_rollout::{GateId, GateResult};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{Evaluator, GateError, Question, Reading, Subject};
use crate::runtime::{Changes, Key};

/// The readings. Dropping them cancels running evaluations.
pub struct Readings {
    evaluator: Arc<Evaluator>,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Answers {
    /// At most the gates of one stage for each module.
    slots: Mutex<BTreeMap<Key, BTreeMap<GateId, Slot>>>,
    changes: Changes<Key>,
}

/// The state of one gate.
struct Slot {
    about: Subject,
    reading: Option<Reading>,
    /// The running evaluation.
    running: Option<AbortOnDropHandle<()>>,
}

impl Readings {
    /// Nothing was read yet.
    pub fn new(evaluator: Arc<Evaluator>) -> Self {
        Self {
            evaluator,
            answers: Arc::default(),
        }
    }

    /// Whether gates may use plain http.
    pub fn insecure(&self) -> InsecureSources {
        self.evaluator.insecure()
    }

    /// The modules with a new reading.
    pub fn changes(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        self.answers.changes.subscribe(BTreeSet::new())
    }

    /// The last results of a module's gates, and their subjects.
    pub fn of(&self, module: &Key) -> BTreeMap<GateId, (Subject, Reading)> {
        let slots = self.answers.slots.lock();
        let read = slots.get(module).into_iter().flatten();
        let read =
            read.filter_map(|(place, slot)| Some((*place, (slot.about.clone(), slot.reading.clone()?))));
        read.collect()
    }

    /// Starts reading a gate, unless it is being read already. A request with another subject replaces it.
    pub fn request_reading(&self, module: &Key, question: &Question) {
        let mut slots = self.answers.slots.lock();
        let slots = slots.entry(module.clone()).or_default();
        // Drop the gates of another stage.
        slots.retain(|place, _| place.stage == question.place.stage);
        let known = slots
            .remove(&question.place)
            .filter(|slot| slot.about == question.about);
        let slot = match known {
            Some(slot) if slot.running.as_ref().is_some_and(|task| !task.is_finished()) => slot,
            known => Slot {
                about: question.about.clone(),
                reading: known.and_then(|slot| slot.reading),
                running: Some(self.read(module.clone(), question.clone())),
            },
        };
        slots.insert(question.place, slot);
    }

    /// Drops a deleted module.
    pub fn remove(&self, module: &Key) {
        self.answers.slots.lock().remove(module);
    }

    fn read(&self, module: Key, question: Question) -> AbortOnDropHandle<()> {
        let (evaluator, answers) = (Arc::clone(&self.evaluator), Arc::downgrade(&self.answers));
        AbortOnDropHandle::new(tokio::spawn(read(evaluator, answers, module, question)))
    }
}

/// Reads one gate. A panic affects only this reading.
async fn read(evaluator: Arc<Evaluator>, answers: Weak<Answers>, module: Key, question: Question) {
    let began = evaluator.now();
    let input = (module.clone(), question.clone());
    let evaluation = tokio::spawn(async move { evaluator.evaluate(&input.0, &input.1).await });
    let reading = AbortOnDropHandle::new(evaluation).await;
    let reading = reading.unwrap_or_else(|_panicked| Reading {
        at: began,
        outcome: GateResult::NoData,
        message: GateError::Panicked.to_string(),
    });
    let Question { place, about, .. } = question;
    debug!(%module, stage = about.stage, gate = place.gate, outcome = ?reading.outcome, "{}", reading.message);
    if let Some(answers) = answers.upgrade() {
        answers.take(&module, place, &about, reading);
    }
}

impl Answers {
    fn take(&self, module: &Key, place: GateId, about: &Subject, reading: Reading) {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(module).and_then(|slots| slots.get_mut(&place));
        let Some(slot) = slot.filter(|slot| slot.about == *about) else {
            return;
        };
        slot.reading = Some(reading);
        // This is the handle of the current task, which ends here: there is nothing to wait for.
        slot.running = None;
        self.changes.announce(module);
    }
}

impl std::fmt::Debug for Readings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readings").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use futures::{FutureExt, StreamExt};
    use muster_apiserver::ApiServer;
    use muster_rollout::Revision;
    use serde_json::json;

    use super::*;
    use crate::{
        bindings::{Kinds, Objects},
        gates::{Access, Ask, Fetch, FetchError, Setup},
        runtime::Clock,
    };

    const PLACE: GateId = GateId { stage: 0, gate: 0 };

    /// Takes ten seconds for a response; counts the requests that wait for one.
    #[derive(Default)]
    struct Host {
        requests: Mutex<u32>,
        waiting: Arc<()>,
    }

    #[async_trait]
    impl Fetch for Host {
        async fn get(&self, endpoint: &Ask) -> Result<Bytes, FetchError> {
            let _waiting = Arc::clone(&self.waiting);
            *self.requests.lock() += 1;
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_ne!(endpoint.url.path(), "/panics");
            Ok(Bytes::from_static(b"1"))
        }
    }

    fn readings(host: &Arc<Host>) -> Readings {
        let client = ApiServer::in_process().unwrap().client();
        let host: Arc<dyn Fetch> = Arc::<Host>::clone(host);
        Readings::new(Evaluator::new(Setup {
            objects: Objects::new(client.clone(), "fleet", Kinds::default()),
            client,
            namespace: "fleet".to_owned(),
            access: Access {
                hosts: ["a.test".parse().unwrap()].into_iter().collect(),
                insecure: InsecureSources::Refused,
                fetch: host,
            },
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
        }))
    }

    fn question(run: u64, path: &str) -> Question {
        let http =
            json!({"url": format!("https://a.test/{path}"), "jsonPath": "$", "op": "==", "value": "1"});
        Question {
            place: PLACE,
            about: Subject {
                module: "uid".to_owned(),
                run,
                revision: Revision::new([7; 16]),
                stage: "canary".to_owned(),
                definition: 1,
            },
            gate: serde_json::from_value(json!({"http": http, "timeout": "30s"})).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_only_what_was_asked_last() {
        let host = Arc::<Host>::default();
        let (readings, key) = (readings(&host), Key::new("fleet", "web"));
        let mut changes = readings.changes().boxed();
        for _ in 0..3 {
            readings.request_reading(&key, &question(1, "v"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!((*host.requests.lock(), readings.of(&key).len()), (1, 0));
        readings.request_reading(&key, &question(2, "v"));
        assert_eq!(changes.next().await, Some(key.clone()));
        let (about, reading) = readings.of(&key).remove(&PLACE).unwrap();
        assert_eq!((about.run, reading.outcome), (2, GateResult::Pass));
        assert_eq!(
            reading.at.as_second(),
            3,
            "when it was asked, not when it was answered"
        );
        assert!(changes.next().now_or_never().is_none(), "the first was given up");
        assert_eq!((*host.requests.lock(), Arc::strong_count(&host.waiting)), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_no_data() {
        let (readings, key) = (readings(&Arc::default()), Key::new("fleet", "web"));
        let mut changes = readings.changes().boxed();
        readings.request_reading(&key, &question(1, "panics"));
        changes.next().await;
        let (_, reading) = readings.of(&key).remove(&PLACE).unwrap();
        assert_eq!(reading.outcome, GateResult::NoData);
        assert!(reading.message.contains("a bug in muster"), "{}", reading.message);
        readings.request_reading(&key, &question(1, "v"));
        changes.next().await;
        assert_eq!(readings.of(&key)[&PLACE].1.outcome, GateResult::Pass);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_module_stops_its_gate_readings() {
        let host = Arc::<Host>::default();
        let readings = readings(&host);
        let waiting = || Arc::strong_count(&host.waiting) - 1;
        for name in ["web", "other"] {
            readings.request_reading(&Key::new("fleet", name), &question(1, "v"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(waiting(), 2);
        readings.remove(&Key::new("fleet", "web"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(waiting(), 1);
        drop(readings);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(waiting(), 0);
    }
}

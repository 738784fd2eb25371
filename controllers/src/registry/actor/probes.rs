//! Probes: one under way for each cluster that may be called, at its own pace.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::sleep;

use super::{
    super::{
        identity::Sight,
        probe::{self, Probe},
    },
    Actor, Done,
};
use crate::runtime::isolated_future;

/// ± 10 %: clusters are not probed in step.
const JITTER: f64 = 0.1;

impl Actor<'_> {
    /// Sees to it that a probe is under way for the present generation, if probes are of use.
    pub(super) fn keep_probing(&mut self, name: &str, pause: Duration) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if !entry.is_to_be_probed() || entry.probing == Some(entry.generation) {
            return;
        }
        let Some(connection) = entry.connection().cloned() else {
            return;
        };
        let (cluster, generation, poke) = (name.to_owned(), entry.generation, Arc::clone(&entry.poke));
        let ask = entry.ask();
        // A cluster that fails is asked at its own pace, whoever suspects it.
        let pokes = entry.contact.failures == 0;
        entry.probing = Some(generation);
        self.work.push(
            async move {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = poke.notified(), if pokes => {}
                }
                // Made now, and apart: of ten thousand clusters nearly all wait.
                let client = connection.probe();
                let outcome = isolated_future(probe::probe(&client, ask).boxed()).await;
                Done::Probed {
                    cluster,
                    generation,
                    outcome,
                }
            }
            .boxed(),
        );
    }

    pub(super) fn probed(&mut self, name: &str, generation: u64, probe: Probe, sight: Option<Sight>) {
        let now = self.registry.setup.clock.now();
        let Some(entry) = self
            .entries
            .get_mut(name)
            .filter(|entry| entry.generation == generation)
        else {
            return;
        };
        entry.probing = None;
        if sight.is_some() {
            entry.sight = sight;
        }
        match probe {
            Probe::Answered { .. } => entry.last_contact = Some(now),
            Probe::Refused(error) => {
                entry.last_contact = Some(now);
                return self.read_secret(name, Duration::ZERO, Some((error, generation)));
            }
            Probe::Failed(_) => {}
        }
        entry.record(probe);
        self.settle(name);
        self.publish(name);
        self.probe_again(name);
    }

    pub(super) fn probe_again(&mut self, name: &str) {
        let Some(entry) = self.entries.get(name) else {
            return;
        };
        let pause = entry.jitter.spread(entry.contact.pause(), JITTER);
        self.keep_probing(name, pause);
    }
}

//! Probes: one at a time for each cluster that may be called, each cluster at its own interval.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::sleep;

use super::{
    super::{
        identity::ObservedIdentity,
        probe::{self, Probe},
    },
    Actor, Done,
};
use crate::runtime::isolated_future;

/// ± 10 %, so that clusters are not probed in lockstep.
const JITTER: f64 = 0.1;

impl Actor<'_> {
    /// Starts a probe for the present generation, unless one is running or probes are of no use.
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
        let checks = entry.next_probe();
        // A cluster that fails is probed at its own interval, regardless of hints that it is unreachable.
        let pokes = entry.contact.failures == 0;
        entry.probing = Some(generation);
        self.work.push(
            async move {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = poke.notified(), if pokes => {}
                }
                // Created only now, and boxed, to save memory: of ten thousand clusters nearly all are waiting.
                let client = connection.probe();
                let outcome = isolated_future(probe::probe(&client, checks).boxed()).await;
                Done::Probed {
                    cluster,
                    generation,
                    outcome,
                }
            }
            .boxed(),
        );
    }

    pub(super) fn probed(
        &mut self,
        name: &str,
        generation: u64,
        probe: Probe,
        observed: Option<ObservedIdentity>,
    ) {
        let now = self.registry.setup.clock.now();
        let Some(entry) = self
            .entries
            .get_mut(name)
            .filter(|entry| entry.generation == generation)
        else {
            return;
        };
        entry.probing = None;
        if observed.is_some() {
            entry.observed_identity = observed;
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

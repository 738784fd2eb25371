//! Kubeconfigs: from the watches of Secrets, or read if no watch shows them.

use std::time::Duration;

use futures::FutureExt;
use muster_api::{labels::KUBECONFIG_KEY, names::kubeconfig_secret};
use tokio::time::sleep;
use tracing::warn;

use super::{
    super::{entry::KubeconfigLookup, probe::Probe, watching},
    Actor, Done,
};
use crate::runtime::{CallError, call::error_chain, isolated_future};

/// The pause after a failed read of a Secret that is still unknown.
const READ_AGAIN: Duration = Duration::from_secs(2);

impl Actor<'_> {
    /// Takes the kubeconfig from a watch, or starts a read of the Secret.
    pub(super) fn load_kubeconfig(&mut self, name: &str) {
        if !self.entries.contains_key(name) {
            return;
        }
        match self.watched_kubeconfig(name) {
            Some(found) => self.take_kubeconfig(name, found),
            None if self.typed.is_synced() && self.labelled.is_synced() => {
                self.read_secret(name, Duration::ZERO, None);
            }
            // The first lists are not complete yet.
            None => {}
        }
    }

    fn watched_kubeconfig(&self, name: &str) -> Option<KubeconfigLookup> {
        let key = watching::secret_key(&self.registry.setup.namespace, name);
        self.typed.get(&key).or_else(|| self.labelled.get(&key))
    }

    /// Reads Secrets that neither watch shows; called periodically.
    pub(super) fn read_unwatched(&mut self) {
        let names: Vec<String> = self
            .entries
            .keys()
            .filter(|name| self.watched_kubeconfig(name).is_none())
            .cloned()
            .collect();
        for name in names {
            self.isolated(&name, |actor| actor.load_kubeconfig(&name));
        }
    }

    pub(super) fn read_secret(&self, name: &str, pause: Duration, refusal: Option<(String, u64)>) {
        let setup = &self.registry.setup;
        let (client, namespace, cluster) = (setup.client.clone(), setup.namespace.clone(), name.to_owned());
        let proxies = setup.proxy_hosts.clone();
        self.work.push(
            async move {
                sleep(pause).await;
                let secret = kubeconfig_secret(&cluster);
                let read = watching::read_secret(client, &namespace, &secret, &[KUBECONFIG_KEY], &proxies);
                let found = isolated_future(read).await;
                Done::Read {
                    cluster,
                    found,
                    refusal,
                }
            }
            .boxed(),
        );
    }

    pub(super) fn secret_read(
        &mut self,
        name: &str,
        found: Result<KubeconfigLookup, CallError>,
        refusal: Option<(String, u64)>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        match found {
            // A watch event may have arrived during the read; it takes precedence.
            Ok(found) => self.take_kubeconfig(name, self.watched_kubeconfig(name).unwrap_or(found)),
            Err(error) => {
                warn!(
                    cluster = name,
                    error = error_chain(&error),
                    "the kubeconfig could not be read; the known one is kept"
                );
                if entry.needs_kubeconfig() {
                    self.read_secret(name, READ_AGAIN, None);
                }
            }
        }
        if let Some((error, generation)) = refusal {
            self.refused(name, generation, error);
        }
    }

    /// The credential was refused and the Secret was read again: if it is unchanged, the credential itself is the
    /// cause. A watch takes precedence over the read; for a watched Secret the read only gives the watch time to show a
    /// newer one.
    fn refused(&mut self, name: &str, generation: u64, error: String) {
        let Some(entry) = self
            .entries
            .get_mut(name)
            .filter(|entry| entry.generation == generation)
        else {
            return;
        };
        entry.record(Probe::Refused(error));
        self.publish(name);
        self.probe_again(name);
    }

    fn take_kubeconfig(&mut self, name: &str, found: KubeconfigLookup) {
        let generation = self.fresh_generation();
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        match entry.take_kubeconfig(&self.registry.setup.connect, found) {
            Ok(true) => {
                entry.generation = generation;
                self.keep_probing(name, Duration::ZERO);
            }
            Ok(false) => {}
            Err(panicked) => return self.panicked(name, &panicked),
        }
        self.publish(name);
    }
}

//! Identities: the observed identity of a cluster is checked, recorded if new, and opens or closes the gate of its
//! client.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt;
use k8s_openapi::api::core::v1::ObjectReference;
use muster_api::{
    cluster::Facts,
    labels::annotation,
    reasons::{EventReason, ObjectReason},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    super::{
        entry::{Entry, Identity, News},
        identity::{self, IdentityFacts, ObservedIdentity, Verdict},
        pins::{self, Pin, Pins},
    },
    Actor, Done,
};
use crate::runtime::{CallError, Event, call::error_chain};

/// The pause after records could not be read or written.
const AGAIN: Duration = Duration::from_secs(2);

impl Actor<'_> {
    pub(super) fn read_pins_in(&self, pause: Duration) {
        let setup = &self.registry.setup;
        let (client, namespace) = (setup.client.clone(), setup.namespace.clone());
        self.work.push(
            async move {
                sleep(pause).await;
                Done::Pins(pins::load(client, namespace).await)
            }
            .boxed(),
        );
    }

    pub(super) fn pins_read(&mut self, pins: Result<Pins, CallError>) {
        match pins {
            Ok(pins) => {
                self.pins = Some(pins);
                self.settle_all();
            }
            Err(error) => {
                warn!(
                    error = error_chain(&error),
                    "the identities of clusters are not known; nothing is sent to clusters that were not identified yet"
                );
                self.read_pins_in(AGAIN);
            }
        }
    }

    /// Checks the observed identities of all clusters again.
    pub(super) fn settle_all(&mut self) {
        let names: Vec<String> = self.entries.keys().cloned().collect();
        for name in names {
            self.isolated(&name, |actor| {
                actor.settle(&name);
                actor.publish(&name);
            });
        }
    }

    /// Checks the observed identity of a cluster, once all Clusters and all records are known.
    pub(super) fn settle(&mut self, name: &str) {
        let (Some(pins), true, Some(entry)) = (&self.pins, self.listed.is_some(), self.entries.get(name))
        else {
            return;
        };
        let Some(observed) = entry.observed_identity.clone() else {
            return;
        };
        if entry.identity == Identity::Keeping {
            return;
        }
        let facts = entry.facts.clone();
        let known = IdentityFacts {
            namespace: &self.registry.setup.namespace,
            cluster: name,
            pinned: pins.get(&facts.uid).map(|pin| pin.identity.as_str()),
            accepted: facts
                .annotations
                .get(annotation::ACCEPT_IDENTITY)
                .map(String::as_str),
            holder: holder(&self.entries, pins, &facts, &observed),
        };
        let identity = match (identity::judge_identity(&known, &observed), observed) {
            (Verdict::Same, ObservedIdentity::Seen(uid)) => Identity::Known(Some(uid)),
            (Verdict::Same, ObservedIdentity::Unreadable) | (Verdict::Unknown, _) => Identity::Known(None),
            (Verdict::Pin(uid), _) => {
                self.keep(facts, uid);
                Identity::Keeping
            }
            (Verdict::Refused(why), _) => {
                self.publish_refusal(&facts, entry, &why);
                Identity::Refused(why)
            }
        };
        if let Some(entry) = self.entries.get_mut(name) {
            entry.identified(identity);
        }
    }

    /// Records an identity. It counts as taken at once: of two Clusters that lead to the same cluster the second is
    /// refused.
    fn keep(&mut self, facts: Facts, identity: String) {
        let Some(pins) = &mut self.pins else { return };
        let pin = Pin {
            identity,
            version: pins.get(&facts.uid).and_then(|pin| pin.version.clone()),
        };
        pins.insert(facts.uid.clone(), pin.clone());
        info!(
            cluster = facts.name,
            identity = pin.identity,
            "recording which cluster this is"
        );
        let setup = &self.registry.setup;
        let (client, namespace) = (setup.client.clone(), setup.namespace.clone());
        let (cluster, uid) = (facts.name.clone(), facts.uid.clone());
        self.work.push(
            async move {
                let result = pins::write_pin(client, namespace, facts, pin.clone()).await;
                Done::Kept {
                    cluster,
                    uid,
                    pin,
                    result,
                }
            }
            .boxed(),
        );
    }

    pub(super) fn identity_kept(&mut self, name: &str, uid: &str, pin: &Pin, result: Result<Pin, CallError>) {
        let identity = match &result {
            Err(error) if error.is_conflict() => Identity::Refused(format!(
                "which cluster it points to cannot be recorded: {}",
                error_chain(error)
            )),
            // A recorded identity is checked like one that was read; if recording failed, it is checked again once the
            // present record is known.
            Ok(_) | Err(_) => Identity::Unchecked,
        };
        let is_new_pin = pin.version.is_none();
        match result {
            Ok(there) => {
                if let Some(pins) = &mut self.pins {
                    pins.insert(uid.to_owned(), there);
                }
            }
            Err(error) => {
                warn!(
                    cluster = name,
                    error = error_chain(&error),
                    "an identity was not recorded"
                );
                // The records are read again, and all identities are checked again.
                self.pins = None;
                self.read_pins_in(AGAIN);
            }
        }
        let entry = self.entries.get_mut(name);
        let Some(entry) = entry.filter(|entry| entry.facts.uid == uid && entry.identity == Identity::Keeping)
        else {
            return;
        };
        entry.identified(identity);
        let facts = entry.facts.clone();
        if !is_new_pin && self.pins.is_some() {
            let note = format!(
                "this Cluster is now the one whose namespace kube-system has uid {}",
                pin.identity
            );
            let event = Event::normal(EventReason::ControlApplied, "AcceptIdentity", note);
            self.publish_event(&facts, event);
        }
        self.settle(name);
        self.publish(name);
    }

    /// Releases the identity of a deleted Cluster for another one.
    pub(super) fn release_identity(&mut self, uid: &str) {
        let pin = self.pins.as_mut().and_then(|pins| pins.remove(uid));
        if pin.is_some() {
            self.settle_all();
        }
    }

    /// Reports that a Cluster stopped answering, or answers again. For a Cluster that was never reached, this is
    /// reported only if it was enrolled, as the user waits for the result.
    pub(super) fn publish_reachability(&mut self, name: &str) {
        let Some(pins) = &self.pins else { return };
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let known = pins.get(&entry.facts.uid).is_some();
        let enrolled = entry.facts.annotations.contains_key(annotation::ENROLLED);
        if !known && !enrolled {
            return;
        }
        let Some(news) = entry.take_news() else { return };
        let event = match news {
            // It was already unreachable when this process started: the former one reported it.
            News::Away { first: true, .. } if known => return,
            News::Away { reason, message, .. } => Event::warning(reason.as_str(), "Connect", message),
            News::Back => {
                let note = format!("the API server of {name} answers");
                Event::normal(ObjectReason::Answering, "Connect", note)
            }
        };
        let facts = entry.facts.clone();
        self.publish_event(&facts, event);
    }

    fn publish_refusal(&self, facts: &Facts, entry: &Entry, why: &str) {
        if !matches!(&entry.identity, Identity::Refused(before) if before == why) {
            let note = format!("nothing is sent with the kubeconfig of this Cluster: {why}");
            self.publish_event(
                facts,
                Event::warning(ObjectReason::IdentityChanged, "Identify", note),
            );
        }
    }

    fn publish_event(&self, facts: &Facts, event: Event) {
        let (events, turns) = (self.events.clone(), Arc::clone(&self.turns));
        let about = ObjectReference {
            api_version: Some(facts.api_version.clone()),
            kind: Some("Cluster".to_owned()),
            name: Some(facts.name.clone()),
            namespace: Some(self.registry.setup.namespace.clone()),
            uid: Some(facts.uid.clone()),
            ..ObjectReference::default()
        };
        self.work.push(
            async move {
                // The semaphore is never closed, so a permit always arrives.
                let _turn = turns.acquire().await.ok();
                events.publish_about(about, event).await;
                Done::Told
            }
            .boxed(),
        );
    }
}

/// Another Cluster that is pinned to the observed identity.
fn holder<'a>(
    entries: &'a BTreeMap<String, Entry>,
    pins: &Pins,
    cluster: &Facts,
    observed: &ObservedIdentity,
) -> Option<&'a str> {
    let ObservedIdentity::Seen(identity) = observed else {
        return None;
    };
    let others = pins.others(identity, &cluster.uid);
    if others.is_empty() {
        return None;
    }
    let mut entries = entries.iter();
    let holder =
        entries.find(|(name, entry)| **name != cluster.name && others.contains(entry.facts.uid.as_str()));
    holder.map(|(other, _)| other.as_str())
}

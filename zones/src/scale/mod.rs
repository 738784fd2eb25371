//! Decides the number of replicas of sets: they follow a leader or another resource, one patch per pass, zone by zone.
//!
//! ```text
//!   leaders, then references ─► what is still to be read and asked ─► (the executor answers, and decides again)
//!                            └► one patch of replicas, with the operation that is on record before it; statuses of references
//! ```
//!
//! Invariant: no zone loses a pod while another zone is disturbed, or while another operation is in progress in the
//! group (R13). Invariant: nothing is patched while an answer is missing.

pub mod delay;
pub mod follower;
pub mod mirror;
pub mod operation;
pub mod pods;
pub mod preparation;
pub mod times;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_api::zonerollout::{Operation, ZoneReason};

use self::{
    delay::Delay,
    mirror::{Reference, Scale},
    operation::{Downscale, Taken},
    pods::{Answered, Ask, Method},
    preparation::has_nothing_to_hand_over,
    times::{Times, Tracker},
};
use crate::model::{Group, Set};

/// When a pass is repeated if something may have changed without an event in the cluster: a reference, the answers of
/// pods, the passage of time.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Reason codes for sets whose replicas are not changed.
pub mod code {
    /// The API server, or a webhook, rejected the change.
    pub const REFUSED: &str = "ScalingRefused";
    /// The zone tracker's ConfigMap cannot be read.
    pub const ZONE_TRACKER: &str = "ZoneTrackerUnreadable";
    /// The leader is missing, or a required time or label is malformed.
    pub const FOLLOWER: &str = "CannotFollow";
    /// The mirrored resource cannot be read.
    pub const REFERENCE: &str = "ReferenceUnreadable";
    /// Another zone is disturbed or in progress, or pods have not been prepared for long enough.
    pub const NOT_SCALED: &str = "NotScaled";
}

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Flag `kubernetes.namespace`.
    pub namespace: String,
    /// Flag `kubernetes.cluster-domain`.
    pub cluster_domain: String,
    /// Timeout of a webhook call by the API server: flag `server-tls.request-timeout`.
    pub timeout: SignedDuration,
}

/// What the executor has read so far in this pass.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The subresource `scale` of references, or why it cannot be read.
    pub scales: BTreeMap<Reference, Result<Scale, String>>,
    /// The answers of pods.
    pub answers: BTreeMap<Ask, Answered>,
    /// The zone tracker's ConfigMap; an error if it cannot be read.
    pub tracker: Option<Result<Tracker, String>>,
    /// A patch of replicas that the API server rejected, with its message: nothing else is scaled in this pass.
    pub refused: Option<Refused>,
}

/// A rejected patch of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The API server's message.
    pub message: String,
    /// The holder of the attempt's downscale operation; `None` if there was none. The rejection does not end holds of
    /// other attempts.
    pub holder: Option<String>,
}

/// A write of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `spec.replicas` of a set, with its uid and generation as preconditions.
    Replicas(Downscale),
    /// `status.replicas` of a mirrored resource.
    WriteBack {
        /// The mirrored resource.
        reference: Reference,
        /// The number of replicas to write.
        replicas: u32,
    },
}

impl Change {
    /// Name of the object that is written.
    pub fn target(&self) -> &str {
        match self {
            Self::Replicas(downscale) => &downscale.set,
            Self::WriteBack { reference, .. } => &reference.name,
        }
    }
}

/// The result of the scaling decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scaling {
    /// References to read first.
    pub read: Vec<Reference>,
    /// Requests to pods to send first; answers to DELETE are ignored.
    pub ask: Vec<Ask>,
    /// The operation to record before a downscale is patched.
    pub operation: Option<Operation>,
    /// Writes in order; empty while reads or requests are still needed.
    pub changes: Vec<Change>,
    /// Why replicas of sets are not changed.
    pub reasons: Vec<ZoneReason>,
    /// When to run the next pass even if no event occurs.
    pub wake_at: Option<Timestamp>,
}

impl Scaling {
    /// Whether replicas are changed; if so, nothing is rolled in this pass.
    pub fn is_scaling(&self) -> bool {
        self.changes
            .iter()
            .any(|change| matches!(change, Change::Replicas(_)))
    }

    /// Whether reads or requests are still needed.
    pub fn is_open(&self) -> bool {
        !self.read.is_empty() || !self.ask.is_empty()
    }
}

/// Decides on replicas. As in rollout-operator, an error stops scaling in this pass, but not the rollout.
pub fn scale(group: &Group, facts: &Facts, settings: &Settings, now: Timestamp) -> Scaling {
    let mut pass = Pass {
        group,
        facts,
        settings,
        now,
        scaling: Scaling::default(),
    };
    if let Err(reason) = pass.run() {
        pass.scaling.reasons.push(reason);
    }
    let follows = |set: &Set| {
        set.annotations.contains_key(follower::LEADER) || mirror::reference(&set.annotations).is_some()
    };
    if group.sets.iter().any(follows) {
        pass.scaling.wake_at = Some(now.checked_add(AGAIN).unwrap_or(Timestamp::MAX));
    }
    if pass.scaling.is_open() {
        pass.scaling.changes.clear();
        pass.scaling.operation = None;
    }
    pass.scaling
}

struct Pass<'a> {
    group: &'a Group,
    facts: &'a Facts,
    settings: &'a Settings,
    now: Timestamp,
    scaling: Scaling,
}

/// The effect of a delay on a change of replicas.
enum Delayed {
    /// Answers of pods are still needed.
    Open,
    /// The number of replicas that is allowed now.
    To(u32),
    /// The change is not allowed now; contains the reason.
    No(String),
}

impl Pass<'_> {
    fn run(&mut self) -> Result<(), ZoneReason> {
        if let Some(refused) = &self.facts.refused {
            return Err(reason("", code::REFUSED, &refused.message));
        }
        if !self.followers()? {
            self.mirrors()?;
        }
        Ok(())
    }

    /// Patches the first follower that needs it; returns whether one was patched.
    fn followers(&mut self) -> Result<bool, ZoneReason> {
        let empty = Tracker::default();
        let tracker = match &self.facts.tracker {
            Some(Ok(tracker)) => tracker,
            Some(Err(error)) => return Err(reason("", code::ZONE_TRACKER, error)),
            None => &empty,
        };
        let record = &self.group.status.last_downscale;
        let times = Times { record, tracker };
        for set in &self.group.sets {
            let wanted = follower::desired(set, &self.group.sets, times, self.now)
                .map_err(|error| reason(&set.name, code::FOLLOWER, &error))?;
            if wanted != set.desired() && self.patch(set, wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mirrors(&mut self) -> Result<(), ZoneReason> {
        for set in &self.group.sets {
            let Some(reference) = mirror::reference(&set.annotations) else {
                continue;
            };
            let Some(read) = self.facts.scales.get(&reference) else {
                self.scaling.read.push(reference);
                return Ok(());
            };
            let scale = read
                .clone()
                .map_err(|error| reason(&set.name, code::REFERENCE, &error))?;
            let wanted = follower::forced(&set.annotations).unwrap_or(scale.spec);
            if self.mirror(set, reference, scale, wanted) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Scales a set that mirrors a resource; returns whether the pass ends with it.
    fn mirror(&mut self, set: &Set, reference: Reference, scale: Scale, wanted: u32) -> bool {
        let present = set.desired();
        let refused = self.held(set, wanted).filter(|_| wanted < present);
        let to = match refused.map_or_else(|| self.delayed(set, wanted), Delayed::No) {
            Delayed::Open => return true,
            Delayed::To(to) => to,
            Delayed::No(why) => {
                self.scaling
                    .reasons
                    .push(reason(&set.name, code::NOT_SCALED, &why));
                present
            }
        };
        let ends = to != present && self.patch(set, to);
        let reached = if ends { to } else { present };
        if mirror::writes_back(&set.annotations) && scale.status != reached {
            self.scaling.changes.push(Change::WriteBack {
                reference,
                replicas: reached,
            });
        }
        ends
    }

    /// The number of replicas that a set may have now. Pods that stay are un-prepared, even if no pod leaves.
    fn delayed(&mut self, set: &Set, wanted: u32) -> Delayed {
        let present = set.desired();
        let delay = match delay::parse_delay(&set.annotations) {
            Ok(Some(delay)) if !delay.delay.is_zero() => delay,
            Ok(_) => return Delayed::To(wanted),
            // If nothing changes, an invalid delay does not matter.
            Err(_) if wanted == present => return Delayed::To(present),
            Err(error) => return Delayed::No(error),
        };
        let mut asks = self.asks(set, 0..present.min(wanted), Method::Delete, &delay);
        let leaving: Vec<(u32, Ask)> = (wanted..present)
            .zip(self.asks(set, wanted..present, Method::Post, &delay))
            .filter(|(_, ask)| !has_nothing_to_hand_over(set, &ask.pod))
            .collect();
        asks.extend(leaving.iter().map(|(_, ask)| ask.clone()));
        asks.retain(|ask| !self.facts.answers.contains_key(ask));
        if !asks.is_empty() {
            self.scaling.ask = asks;
            return Delayed::Open;
        }
        if wanted >= present {
            return Delayed::To(wanted);
        }
        let answers = leaving
            .iter()
            .filter_map(|(replica, ask)| Some((*replica, self.facts.answers.get(ask)?)))
            .collect();
        match delay::reached(present, wanted, delay.delay, &answers, self.now) {
            Ok(to) => Delayed::To(to),
            Err(error) => Delayed::No(error),
        }
    }

    fn asks(&self, set: &Set, replicas: std::ops::Range<u32>, method: Method, delay: &Delay) -> Vec<Ask> {
        let names = (
            self.settings.namespace.as_str(),
            self.settings.cluster_domain.as_str(),
        );
        delay::asks(set, replicas, method, &delay.url, names)
    }

    /// Why the set must not lose a pod now, if so.
    fn held(&self, set: &Set, to: u32) -> Option<String> {
        let others = self.group.sets.iter().filter(|other| other.name != set.name);
        let mut disturbed = others.filter(|other| self.group.disturbance(other).is_some());
        if let Some(other) = disturbed.next() {
            return Some(format!("pods of {} are not all available", other.name));
        }
        match self.take(set, to) {
            Taken::By(_) => None,
            Taken::Busy(operation) => Some(format!("an operation on {} is under way", operation.set)),
        }
    }

    fn take(&self, set: &Set, to: u32) -> Taken {
        let change = change(set, to);
        operation::take(
            self.group,
            &change,
            &operation::holder(self.now),
            self.settings.timeout,
            self.now,
        )
    }

    /// Patches the replicas of a set; returns whether it did. A downscale is recorded first.
    fn patch(&mut self, set: &Set, to: u32) -> bool {
        if to < set.desired() {
            if let Some(why) = self.held(set, to) {
                self.scaling
                    .reasons
                    .push(reason(&set.name, code::NOT_SCALED, &why));
                return false;
            }
            let Taken::By(operation) = self.take(set, to) else {
                return false;
            };
            self.scaling.operation = Some(operation);
        }
        self.scaling.changes.push(Change::Replicas(change(set, to)));
        true
    }
}

fn change(set: &Set, to: u32) -> Downscale {
    Downscale {
        set: set.name.clone(),
        set_uid: set.uid.clone(),
        generation: set.generation,
        from: set.desired(),
        to,
    }
}

fn reason(set: &str, reason: &str, message: &str) -> ZoneReason {
    ZoneReason {
        set: set.to_owned(),
        pod: None,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

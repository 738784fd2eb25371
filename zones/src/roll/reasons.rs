//! Reasons for the states of sets and of pods that are waited for. They are written by the code that decides, so that
//! they always match the decision.

use std::collections::BTreeSet;

use muster_api::{
    conditions::bounded,
    schema::MAX_MESSAGE,
    zonerollout::{MAX_REASONS, ZoneReason},
};

use crate::model::{Disturbance, Group, Pod, Set};

/// The reason codes. They never change.
pub mod code {
    /// All pods are at the revision and available.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// A pod is being deleted.
    pub const REPLACING: &str = "Replacing";
    /// A pod at an old revision does not become ready.
    pub const STUCK: &str = "Stuck";
    /// A pod is not available.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// The StatefulSet controller has not observed the set's spec.
    pub const NOT_OBSERVED: &str = "NotObserved";
    /// The set has more pods than desired.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// The maximum number of pods is unavailable.
    pub const LIMIT: &str = "Limit";
    /// A disruption budget denies the deletion.
    pub const BUDGET: &str = "Budget";
    /// The set is paused.
    pub const PAUSED: &str = "Paused";
    /// Another zone is done and soaking; the next one has not started yet.
    pub const SOAKING: &str = "Soaking";
    /// Another zone is rolled first.
    pub const WAITING: &str = "Waiting";
    /// Two zones are disturbed.
    pub const TWO_ZONES: &str = "TwoZones";
    /// The set's revision is condemned.
    pub const CONDEMNED: &str = "Condemned";
    /// The set's update strategy is not OnDelete.
    pub const NOT_ON_DELETE: &str = "NotOnDelete";
    /// A required object could not be read.
    pub const FAILED: &str = "Failed";
}

/// Collects the reasons of a pass.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<ZoneReason>);

impl Reasons {
    pub(super) fn of_set(&mut self, set: &Set, reason: &str, message: &str) {
        self.push(&set.name, None, reason, message);
    }

    pub(super) fn of_pod(&mut self, set: &Set, pod: &Pod, reason: &str, message: &str) {
        self.push(&set.name, Some(pod.name.clone()), reason, message);
    }

    fn push(&mut self, set: &str, pod: Option<String>, reason: &str, message: &str) {
        self.0.push(ZoneReason {
            set: set.to_owned(),
            pod,
            reason: reason.to_owned(),
            message: bounded(message, MAX_MESSAGE).into_owned(),
        });
    }

    pub(super) fn disturbed(&mut self, set: &Set, disturbance: &Disturbance) {
        match disturbance {
            Disturbance::Pods(pods) => {
                for unavailable in pods {
                    self.push(
                        &set.name,
                        Some(unavailable.pod.clone()),
                        code::UNAVAILABLE,
                        &unavailable.why,
                    );
                }
            }
            Disturbance::Reported { not_ready } => self.of_set(
                set,
                code::UNAVAILABLE,
                &format!("its status reports {not_ready} pods that are not ready"),
            ),
            Disturbance::NotObserved => self.of_set(
                set,
                code::NOT_OBSERVED,
                &format!(
                    "generation is {}, but the StatefulSet controller observed {}",
                    set.generation, set.status.observed_generation
                ),
            ),
            Disturbance::ScalingDown { pod } => self.of_set(
                set,
                code::SCALING_DOWN,
                &format!(
                    "{} replicas are desired, and pod {pod} still exists",
                    set.desired()
                ),
            ),
        }
    }

    /// Reports that a set is complete, which explains why nothing happens to it.
    pub(super) fn done(&mut self, set: &Set) {
        let unchanged = if set.status.current_revision == set.status.update_revision {
            "; only changes of the pod template are rolled out"
        } else {
            ""
        };
        let message = format!(
            "{} of {} pods are Ready at revision {}{unchanged}",
            set.pods.len(),
            set.expected_pods(),
            set.status.update_revision
        );
        self.of_set(set, code::UP_TO_DATE, &message);
    }

    pub(super) fn paused(&mut self, set: &Set) {
        self.of_set(
            set,
            code::PAUSED,
            "it is paused; its unavailable pods still count",
        );
    }

    pub(super) fn condemned(&mut self, group: &Group, condemned: &str) {
        for set in &group.sets {
            let message = if set.name == condemned {
                format!(
                    "revision {} is condemned: the rollout made no progress",
                    set.status.update_revision
                )
            } else {
                format!("the revision of {condemned} was condemned")
            };
            self.of_set(set, code::CONDEMNED, &message);
            // The problem of the set's pods is the most useful information.
            if let Some(disturbance) = group.disturbance(set) {
                self.disturbed(set, &disturbance);
            }
        }
    }

    pub(super) fn two_zones(&mut self, group: &Group, first: &Set, second: &Set) {
        let message = format!(
            "pods of {} and of {} are unavailable: nothing is rolled",
            first.name, second.name
        );
        for set in &group.sets {
            if !self.is_named(&set.name) {
                self.of_set(set, code::TWO_ZONES, &message);
            }
        }
    }

    /// Adds a reason for the sets without one: another set is rolled first.
    pub(super) fn waits_for(&mut self, group: &Group, active: Option<&str>) {
        let first = self.0.iter().map(|reason| reason.set.clone());
        let mut first = first.filter(|set| {
            self.0
                .iter()
                .any(|reason| &reason.set == set && reason.reason != code::UP_TO_DATE)
        });
        let Some(first) = active.map(str::to_owned).or_else(|| first.next()) else {
            return;
        };
        for set in &group.sets {
            if !self.is_named(&set.name) && set.outdated().next().is_some() {
                self.of_set(set, code::WAITING, &format!("{first} comes first"));
            } else if !self.is_named(&set.name) {
                self.done(set);
            }
        }
    }

    fn is_named(&self, set: &str) -> bool {
        self.0.iter().any(|reason| reason.set == set)
    }

    /// All reasons; if there are too many, the first reason of each set comes first.
    pub(super) fn into_list(self) -> Vec<ZoneReason> {
        let mut named = BTreeSet::new();
        let (mut first, rest): (Vec<ZoneReason>, Vec<ZoneReason>) = self
            .0
            .into_iter()
            .partition(|reason| named.insert(reason.set.clone()));
        first.extend(rest);
        first.truncate(MAX_REASONS);
        first.sort_by(|a, b| (&a.set, &a.pod).cmp(&(&b.set, &b.pod)));
        first
    }
}

//! Why each set, and each pod that is waited for, is where it is: written by what decides, so that it never says anything else.

use std::collections::BTreeSet;

use muster_api::{
    conditions::bounded,
    schema::MAX_MESSAGE,
    zonerollout::{MAX_REASONS, ZoneReason},
};

use crate::model::{Disturbance, Group, Pod, Set};

/// The words for reasons. They are never changed.
pub mod code {
    /// All pods are at the revision and available.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// A pod is deleted now.
    pub const REPLACING: &str = "Replacing";
    /// A pod does not come up, and is of an old revision.
    pub const STUCK: &str = "Stuck";
    /// A pod is not available.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// Its controller did not observe its spec.
    pub const NOT_OBSERVED: &str = "NotObserved";
    /// It has more pods than it is to have.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// As many pods are unavailable as may be.
    pub const LIMIT: &str = "Limit";
    /// A disruption budget refuses.
    pub const BUDGET: &str = "Budget";
    /// Nothing is done to its pods.
    pub const PAUSED: &str = "Paused";
    /// Another zone is done, and the next is not begun yet.
    pub const SOAKING: &str = "Soaking";
    /// Another zone comes first.
    pub const WAITING: &str = "Waiting";
    /// Two zones are disturbed.
    pub const TWO_ZONES: &str = "TwoZones";
    /// Its revision was condemned.
    pub const CONDEMNED: &str = "Condemned";
    /// It is not updated by deletions.
    pub const NOT_ON_DELETE: &str = "NotOnDelete";
    /// What is needed could not be read.
    pub const FAILED: &str = "Failed";
}

/// The reasons of a pass.
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
                    "{} replicas are wanted, and pod {pod} is still there",
                    set.desired()
                ),
            ),
        }
    }

    /// The answer to "nothing happens".
    pub(super) fn done(&mut self, set: &Set) {
        let unchanged = if set.status.current_revision == set.status.update_revision {
            "; a change outside of the pod template rolls nothing"
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
        self.of_set(set, code::PAUSED, "it is paused, and its pods still count");
    }

    pub(super) fn condemned(&mut self, group: &Group, condemned: &str) {
        for set in &group.sets {
            let message = if set.name == condemned {
                format!(
                    "revision {} was condemned: nothing got better",
                    set.status.update_revision
                )
            } else {
                format!("the revision of {condemned} was condemned")
            };
            self.of_set(set, code::CONDEMNED, &message);
            // What is wrong with its pods is what people have to know.
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

    /// Of sets of which nothing was said: another comes first.
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

    /// All of them; where there are too many the first of each set come first.
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

//! An observer that sees only writes of assignments, reports, verdicts, and which clusters are reachable: checks E1,
//! E3, E4 and E5 as docs/engine.md states them.
//!
//! A cluster counts from the write of an assignment with a new token until its report of success for that digest and
//! token. At each write of a new token to a cluster that does not count yet, the number of counted clusters, without
//! those absent longer than `absence` and including this one, is at most the limit. An assignment that is a withdrawal
//! or empty ends this, as it is outside of the limit.
//!
//! Three facts are unknown to any writer, so the rule has these exceptions, as in the random histories: a cluster that
//! returned after the view of a decision was read does not count against its writes; a cluster that returned, or was
//! adopted when the memory was lost, may itself be written until it is no longer in flight; and a cluster that was
//! confirmed after that view is written on its own slot beside clusters that returned.

use muster_rollout::{Content, Token};

use crate::pending_write::PendingWrite;
use crate::set::Set;

/// No violation, or its message.
pub type Verdict = Result<(), String>;

/// Room for the clusters of the largest scope.
pub const CLUSTERS: usize = 4;
/// Room for all revisions, and those of fair runs.
pub const REVISIONS: usize = 8;

/// The last change that was sent to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// The token of the change.
    pub token: Token,
    /// Clusters that returned since the view of the decision.
    pub returned: Set,
    /// The cluster was confirmed since.
    pub confirmed: bool,
}

/// The observations so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observer {
    /// The clusters that count.
    pub counted: Set,
    /// The clusters that returned or were adopted, and are still in flight.
    pub returned: Set,
    /// The last changes.
    pub intents: [Option<Intent>; CLUSTERS],
    /// Number of ticks that each cluster has been absent, at most the number that an absence may take.
    pub away: [Option<u8>; CLUSTERS],
    /// The same for clusters that returned unobserved: if they leave again, it is one absence.
    pub unobserved: [Option<u8>; CLUSTERS],
    /// Number of ticks that each cluster has had its assignment.
    pub since: [u8; CLUSTERS],
    /// The clusters that were ready when their slot began.
    pub ready: Set,
    /// The clusters that failed at each revision, or had it long enough to be overdue, and were ready before.
    pub failed: [Set; REVISIONS],
    /// Revisions that were concluded to be bad, and not retried since.
    pub bad: Set,
    /// Revisions that were concluded to be good.
    pub good: Set,
}

/// What a decision concludes about revisions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Revisions that are now known to be bad.
    pub bad: Set,
    /// The good revision.
    pub good: Option<usize>,
    /// Revisions that are retried.
    pub tried: Set,
}

/// An assignment of a revision to a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Assigned {
    /// The cluster.
    pub cluster: usize,
    /// The revision that it gets.
    pub gets: usize,
    /// The desired revision.
    pub shall: usize,
}

/// The settings that the rules refer to.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Maximum number of clusters that change at once.
    pub limit: u32,
    /// Maximum number of failures.
    pub max_failed: u32,
    /// Number of ticks after which an absent cluster no longer counts.
    pub absence: Option<u8>,
}

impl Observer {
    /// E1: an assignment was written.
    pub fn wrote(&mut self, flying: &PendingWrite, content: Content, measure: Measure) -> Verdict {
        let at = flying.cluster;
        let Content::Carries { .. } = content else {
            self.counted.remove(at);
            return Ok(());
        };
        self.since[at] = 0;
        let new = self.counted.insert(at);
        let excused = |other: usize| {
            other != at
                && self.returned.contains(other)
                && (flying.returned.contains(other) || flying.confirmed)
        };
        let here = self
            .counted
            .iter()
            .filter(|other| !excused(*other) && !self.is_long_absent(*other, measure));
        let here = u32::try_from(here.count()).unwrap_or(u32::MAX);
        let free = self.is_long_absent(at, measure) || self.returned.contains(at);
        if new && !free && here > measure.limit {
            return Err(format!(
                "E1: {:?} are counted when {at} is written, the limit is {}",
                self.counted, measure.limit
            ));
        }
        Ok(())
    }

    /// A cluster reported its assignment as done. True if it counted until now.
    pub fn succeeded(&mut self, at: usize) -> bool {
        self.counted.remove(at)
    }

    /// A write with the token of an earlier decision is the same write, whenever it is sent again: they cannot be
    /// distinguished.
    pub fn decided_before(&mut self, flying: PendingWrite) -> PendingWrite {
        let token = flying.write.change.token;
        let intent = &mut self.intents[flying.cluster];
        if let Some(known) = intent.filter(|known| known.token == token) {
            return PendingWrite {
                returned: known.returned,
                confirmed: known.confirmed,
                ..flying
            };
        }
        *intent = Some(Intent {
            token,
            returned: flying.returned,
            confirmed: flying.confirmed,
        });
        flying
    }

    /// A cluster is in flight now, and was not before. `ready`: it was observed as confirmed, or without content.
    pub fn becomes_in_flight(&mut self, at: usize, ready: bool) {
        if ready {
            self.ready.insert(at);
        } else {
            self.ready.remove(at);
        }
    }

    /// A cluster in flight was observed failing at a revision, or had it for so long that it may be overdue.
    pub fn failed_on(&mut self, at: usize, revision: usize) {
        if self.ready.contains(at) {
            self.failed[revision].insert(at);
        }
    }

    /// The cluster is no longer eligible.
    pub fn went_away(&mut self, at: usize) {
        let before = self.unobserved[at].take();
        self.away[at] = self.away[at].or(before).or(Some(0));
    }

    /// The cluster is eligible again.
    pub fn came_back(&mut self, at: usize) {
        if let Some(beats) = self.away[at].take() {
            self.unobserved[at] = Some(beats);
            self.returned.insert(at);
        }
    }

    /// The cluster no longer exists.
    pub fn is_gone(&mut self, at: usize) {
        self.counted.remove(at);
        self.returned.remove(at);
        (self.away[at], self.unobserved[at], self.since[at]) = (None, None, 0);
    }

    /// E3, E4, E5: the verdicts of a decision, and which cluster gets which revision instead of the desired one.
    pub fn decided(&mut self, judged: &Judged, assigned: &[Assigned], measure: Measure) -> Verdict {
        for revision in judged.tried.iter() {
            self.bad.remove(revision);
        }
        for revision in judged.bad.iter() {
            let failed = self.failed[revision].len();
            if !self.bad.contains(revision) && failed <= measure.max_failed {
                return Err(format!("E4: {revision} is condemned by {failed}"));
            }
        }
        if let Some(good) = judged.good {
            self.good.insert(good);
        }
        for it in assigned {
            if self.bad.contains(it.gets) {
                return Err(format!(
                    "E3: {} gets {}, which is known to be bad",
                    it.cluster, it.gets
                ));
            }
            if it.gets != it.shall && !self.good.contains(it.gets) {
                return Err(format!(
                    "E5: {} gets {}, which was never good",
                    it.cluster, it.gets
                ));
            }
        }
        for revision in judged.bad.iter() {
            self.bad.insert(revision);
        }
        Ok(())
    }

    /// A tick of the clock. `late`: after this number of ticks with an assignment a cluster may be overdue.
    pub fn beat(&mut self, longest: u8, absence: Option<u8>) {
        let counts = |beats: u8| beats.saturating_add(1).min(longest);
        for beats in self.away.iter_mut().chain(&mut self.unobserved).flatten() {
            *beats = beats.saturating_add(1).min(absence.unwrap_or(0));
        }
        for at in 0..CLUSTERS {
            self.since[at] = if self.counted.contains(at) {
                counts(self.since[at])
            } else {
                0
            };
        }
    }

    fn is_long_absent(&self, at: usize, measure: Measure) -> bool {
        measure
            .absence
            .zip(self.away[at])
            .is_some_and(|(absence, beats)| beats >= absence)
    }
}

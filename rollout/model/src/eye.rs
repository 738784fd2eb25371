//! Somebody who sees only writes of rows, reports, verdicts, and who can be reached: E1, E3, E4 and E5 in the words of the page.
//!
//! A cluster counts from the write of a row with a new token until its report of that digest and token, succeeded. At each
//! write of a new token to a cluster not yet counted, the number counted, without those absent longer than `absence` and with
//! this one, is at most the limit. A row that asks for a withdrawal, or for nothing, ends it: that is beside the limit.
//!
//! Three things no writer can know, and so the sentence is read with them, as in the random histories: who came back after the
//! view was taken that a write was decided on is not counted against that write; a cluster that came back, or was charged out
//! of its row when the memory was lost, may itself be written, until nobody charges it any more; and a cluster that was
//! confirmed after that view is written on the slot that it had beside who came back.

use muster_rollout::{Content, Token};

use crate::flying::Flying;
use crate::set::Set;

/// Nothing is broken, or what, in words.
pub type Verdict = Result<(), String>;

/// Room for the clusters of the largest scope.
pub const CLUSTERS: usize = 4;
/// Room for all revisions, and those of fair times.
pub const REVISIONS: usize = 8;

/// The last intent that was sent to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// Its token.
    pub token: Token,
    /// Who came back since the view that it was decided on.
    pub returned: Set,
    /// Its cluster was confirmed since.
    pub confirmed: bool,
}

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Eye {
    /// Who counts.
    pub counted: Set,
    /// Who came back, or was charged anew, and is still charged.
    pub returned: Set,
    /// The last intents.
    pub intents: [Option<Intent>; CLUSTERS],
    /// For how many beats each cluster has been away, at most as many as an absence may take.
    pub away: [Option<u8>; CLUSTERS],
    /// The same of who came back while nobody looked: should it leave again, its absence was one.
    pub unseen: [Option<u8>; CLUSTERS],
    /// For how many beats each cluster has had its row.
    pub since: [u8; CLUSTERS],
    /// Who was ready when its slot began.
    pub ready: Set,
    /// Who failed on which revision, or had it long enough to be late, and was ready before.
    pub failed: [Set; REVISIONS],
    /// What was concluded to be bad, and not tried again since.
    pub bad: Set,
    /// What was concluded to be good.
    pub good: Set,
}

/// What a decision says of revisions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Known to be bad from now on.
    pub bad: Set,
    /// Good.
    pub good: Option<usize>,
    /// Somebody tries them again.
    pub tried: Set,
}

/// Who gets what.
#[derive(Clone, Copy, Debug)]
pub struct Assigned {
    /// The cluster.
    pub cluster: usize,
    /// The revision that it gets.
    pub gets: usize,
    /// The revision that it shall have.
    pub shall: usize,
}

/// What the world is measured by.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// How many may change at once.
    pub limit: u32,
    /// How many may fail.
    pub max_failed: u32,
    /// Beats after which who is away does not count.
    pub absence: Option<u8>,
}

impl Eye {
    /// E1: a row was written.
    pub fn wrote(&mut self, flying: &Flying, content: Content, measure: Measure) -> Verdict {
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

    /// It said that what its row says is done. True if it counted until now.
    pub fn succeeded(&mut self, at: usize) -> bool {
        self.counted.remove(at)
    }

    /// A write with the token of one that was decided before is that one, whenever it is sent again: nobody can tell them apart.
    pub fn decided_before(&mut self, flying: Flying) -> Flying {
        let token = flying.write.change.token;
        let intent = &mut self.intents[flying.cluster];
        if let Some(known) = intent.filter(|known| known.token == token) {
            return Flying {
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

    /// A cluster is charged now, and was not before. `ready`: it was seen confirmed, or with nothing.
    pub fn charged(&mut self, at: usize, ready: bool) {
        if ready {
            self.ready.insert(at);
        } else {
            self.ready.remove(at);
        }
    }

    /// A charged cluster was seen failing on a revision, or had it for so long that it may be late.
    pub fn failed_on(&mut self, at: usize, revision: usize) {
        if self.ready.contains(at) {
            self.failed[revision].insert(at);
        }
    }

    /// It cannot be touched any more.
    pub fn went_away(&mut self, at: usize) {
        let before = self.unseen[at].take();
        self.away[at] = self.away[at].or(before).or(Some(0));
    }

    /// It can be touched again.
    pub fn came_back(&mut self, at: usize) {
        if let Some(beats) = self.away[at].take() {
            self.unseen[at] = Some(beats);
            self.returned.insert(at);
        }
    }

    /// There is no such cluster any more.
    pub fn is_gone(&mut self, at: usize) {
        self.counted.remove(at);
        self.returned.remove(at);
        (self.away[at], self.unseen[at], self.since[at]) = (None, None, 0);
    }

    /// E3, E4, E5: what was decided about revisions, and who gets which instead of what it shall have.
    pub fn decided(&mut self, told: &Judged, assigned: &[Assigned], measure: Measure) -> Verdict {
        for revision in told.tried.iter() {
            self.bad.remove(revision);
        }
        for revision in told.bad.iter() {
            let failed = self.failed[revision].len();
            if !self.bad.contains(revision) && failed <= measure.max_failed {
                return Err(format!("E4: {revision} is condemned by {failed}"));
            }
        }
        if let Some(good) = told.good {
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
        for revision in told.bad.iter() {
            self.bad.insert(revision);
        }
        Ok(())
    }

    /// A beat of the clock. `late`: after so many beats with a row a cluster may be late at it.
    pub fn beat(&mut self, longest: u8, absence: Option<u8>) {
        let counts = |beats: u8| beats.saturating_add(1).min(longest);
        for beats in self.away.iter_mut().chain(&mut self.unseen).flatten() {
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

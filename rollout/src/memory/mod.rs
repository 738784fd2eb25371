//! What is remembered: the only state of the engine, kept by the caller and written by compare-and-swap.
//!
//! Bounded by construction: see [`MAX_CHARGES`], [`MAX_MARKS`], [`MAX_BAD`], [`MAX_MESSAGE`]; as JSON it stays
//! below [`MAX_BYTES`] for names of at most 63 bytes.

mod rebuild;
mod wire;

pub(crate) use rebuild::greatest_token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::StageId;
use crate::{
    Deadlines, Digest, Incarnation, Millis, Outcome, Revision, Says, State, Token, Unit, UnitId, Verdict,
};

/// Charges kept; a wider window is filled in waves of so many.
pub const MAX_CHARGES: usize = 500;
/// Marks kept by name; more are only counted.
pub const MAX_MARKS: usize = 100;
/// Revisions remembered as bad; the oldest but the target is forgotten first.
pub const MAX_BAD: usize = 20;
/// Bytes of a message kept as evidence.
pub const MAX_MESSAGE: usize = 256;
/// Controls looked at; more are not.
pub const MAX_CONTROLS: usize = 16;
/// Bytes of the memory as JSON.
pub const MAX_BYTES: usize = 160 * 1024;

/// The state of one module's rollout. The default is the memory of a module that never rolled;
/// for one that did and lost it see [`Memory::rebuild`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(into = "wire::Wire", try_from = "wire::Wire")]
pub struct Memory {
    /// The greatest token given out or seen when one was given out.
    pub seq: Token,
    /// The run under way, or the last one.
    pub run: Option<Run>,
    /// The units that are being changed. Who is not here is confirmed at what its row says, or has nothing.
    pub charges: BTreeMap<UnitId, Charge>,
    /// The units whose failure counts against the target of the run, and when it was counted.
    pub marks: BTreeMap<UnitId, Millis>,
    /// Failures counted beyond the marks that are kept.
    pub marks_beyond: u32,
    /// The last revision that every eligible selected unit was confirmed at.
    pub last_good: Option<Revision>,
    /// Condemned revisions, never newly assigned.
    pub bad: BTreeMap<Revision, Evidence>,
    /// The withdrawal that was acknowledged: what is left of it.
    pub acknowledged: Option<Acknowledged>,
    /// It was rebuilt and not decided on yet: nothing is withdrawn on that pass.
    pub rebuilt: bool,
    /// How far the run has come in batches and stages.
    pub course: Course,
    /// Of what is said once ([`Spec::controls`](crate::Spec::controls)): what stands, and was taken.
    pub taken: BTreeSet<u64>,
}

/// How far a run has come in batches and stages. A new run begins with an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// The batch that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<OpenBatch>,
    /// The stages that were passed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub passed: BTreeSet<StageId>,
    /// The stages that somebody approved.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approved: BTreeSet<StageId>,
    /// Those for whose soak and gates nobody waits.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub promoted: BTreeSet<StageId>,
    /// Since when all units of the stage that is open are confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear_since: Option<Millis>,
    /// What the gates of the stage that is open said since then, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateCount>,
    /// The target was condemned, and the run goes on all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Evidence>,
}

/// A batch of which units are begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenBatch {
    /// How many units it has.
    pub size: u32,
    /// How many of them are not begun yet.
    pub left: u32,
}

/// What a gate said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct GateCount {
    /// What was asked.
    #[serde(default)]
    pub definition: u64,
    /// How many times in a row it held.
    pub passes: u32,
    /// When it was last read, and what it said.
    pub last: Option<(Millis, Outcome)>,
}

/// A target on its way, or where it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Counts the runs of this memory.
    pub id: u64,
    /// The revision that is rolled out.
    pub target: Revision,
    /// The last good revision when it began.
    pub from: Option<Revision>,
    /// When it began.
    pub started: Millis,
    /// Where it stands.
    pub state: RunState,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RunState {
    /// Its verdict is open.
    Open,
    /// Every eligible selected unit was confirmed.
    Good,
    /// The target was condemned in this run.
    Halted,
    /// The target was known to be bad before.
    KnownBad,
    /// Somebody aborted it.
    Aborted,
}

impl Run {
    /// It ended, and not well: a retry begins another one.
    pub(crate) const fn is_refused(self) -> bool {
        matches!(
            self.state,
            RunState::Halted | RunState::KnownBad | RunState::Aborted
        )
    }
}

/// A unit that is being changed: its slot in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Charge {
    /// Which life of the unit.
    pub incarnation: Incarnation,
    /// The intent.
    pub kind: Kind,
    /// What it gets; None for a withdrawal or a fence, or when the row does not say.
    pub revision: Option<Revision>,
    /// What it gets; None for a withdrawal or a fence.
    pub digest: Option<Digest>,
    /// The decision to do so.
    pub token: Token,
    /// When that was decided.
    pub since: Millis,
    /// The unit reported about this digest and token.
    pub picked_up: bool,
    /// Since when it was seen as succeeded at this digest and token.
    pub succeeded_since: Option<Millis>,
    /// The first token that was given out on this slot and is not confirmed, for this or an earlier intent: who watches the
    /// rows counts the unit from when its row has that token. A withdrawal that took the place of such an intent keeps its
    /// slot of the limit until it is written itself: that is the fence (W5).
    pub sent: Option<Token>,
    /// It was released while it was away, came back, and something that was given out before may still be on its way: it is above
    /// the limit, and the others wait for it.
    pub returned: bool,
    /// Nobody knows whether what its row says was confirmed before it was charged, and so whether who watches counts it:
    /// it waits for room itself, and others wait for it. Only as long as nothing was given out on the slot.
    pub doubtful: bool,
    /// It was seen ready before it was charged.
    pub was_ready: bool,
    /// It had the same revision before: only its values change, its failure marks no revision.
    pub values_only: bool,
    /// This intent failed, or its deadline is over.
    pub failed: bool,
    /// Its failure is counted against the target of the run: once, whatever else fails on this slot.
    pub marked: bool,
    /// Time spent against the deadline that runs now.
    pub clock: Clock,
    /// Since when the unit has not been eligible.
    pub absent_since: Option<Millis>,
    /// It was absent for too long: released, counted for nothing, remembered as unconfirmed.
    pub skipped: bool,
    /// A window closed before its intent was written, and it is fenced: only its row's token is raised, so nothing is in flight. It gets
    /// no other intent before the window opens.
    pub unbegun: bool,
    /// After such a fence its intent was decided anew, as the window had opened: nothing is in flight before the row of that is written.
    pub resumed: bool,
}

/// What is intended with a charged unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It gets what it shall have.
    Assign,
    /// It joined: it gets the last good revision first.
    Join,
    /// It was confirmed at the target, and then failed.
    Relapsed,
    /// An intent was given up: its row's token is raised, so that no late write can still carry it out.
    Fence,
    /// What it has is withdrawn.
    Withdraw,
    /// What it has is condemned, or its run was aborted: it gets the last good revision back.
    Revert,
    /// It is given up: nothing is left of its row. Given up in the midst of a change it keeps its slot until then, as a withdrawal does.
    Abandon,
}

/// Time spent, counted only while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Spent before it was last started.
    pub spent: Millis,
    /// When it was last started; None while it stands.
    pub from: Option<Millis>,
    /// Spent on steps that are done: the deadline of each starts anew, and all of them have one in common.
    pub before: Millis,
    /// The most steps that were reported as done.
    pub done: u32,
}

/// Why a revision is bad.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Evidence {
    /// The unit whose failure was one too many.
    pub unit: UnitId,
    /// What it said: at most [`MAX_MESSAGE`] bytes, without control characters, quotes and backslashes.
    pub message: Arc<str>,
    /// When it was counted.
    pub at: Millis,
}

/// A withdrawal that somebody acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The set of units that it named.
    pub named: u64,
    /// The set of those that are still to be withdrawn from.
    pub left: u64,
}

impl Kind {
    /// The unit gets something.
    pub(crate) const fn is_assignment(self) -> bool {
        matches!(self, Self::Assign | Self::Join | Self::Revert)
    }

    /// Its row says that it has nothing: that is beside the limit.
    pub(crate) const fn empties(self) -> bool {
        matches!(self, Self::Withdraw | Self::Abandon)
    }
}

impl Charge {
    /// A new intent for a unit; nothing has happened yet.
    pub(crate) fn new(unit: &Unit, kind: Kind, token: Token, now: Millis) -> Self {
        Self {
            incarnation: unit.incarnation,
            kind,
            revision: None,
            digest: None,
            token,
            since: now,
            picked_up: false,
            succeeded_since: None,
            sent: None,
            returned: false,
            doubtful: false,
            was_ready: false,
            values_only: false,
            failed: false,
            marked: false,
            clock: Clock::default(),
            absent_since: None,
            skipped: false,
            unbegun: false,
            resumed: false,
        }
    }

    /// The same slot with another intent: what is known of the old one no longer says anything.
    #[must_use]
    pub(crate) fn redirected(self, kind: Kind, token: Token, now: Millis) -> Self {
        // For the slot of a withdrawal maybe nothing was given out but itself: then who comes after it waits for room.
        let itself = |first: &Token| self.kind.empties() && *first == self.token;
        let sent = self.sent.filter(|first| !itself(first));
        Self {
            sent,
            returned: self.returned && sent.is_some(),
            kind,
            revision: None,
            digest: None,
            token,
            since: now,
            picked_up: false,
            succeeded_since: None,
            failed: false,
            clock: Clock::default(),
            ..self
        }
    }

    /// The same intent on the same slot with a greater token. Only a success has to be seen anew: it was of the smaller token.
    #[must_use]
    pub(crate) fn above(self, token: Token) -> Self {
        // The slot of a withdrawal for which nothing was given out but itself.
        let itself = self.kind.empties() && self.sent == Some(self.token);
        Self {
            token,
            sent: if itself { Some(token) } else { self.sent },
            succeeded_since: None,
            ..self
        }
    }

    /// It takes a slot of the limit: it is neither released, nor a withdrawal, which has a window of its own, nor given up (but see
    /// [`Charge::sent`]).
    pub fn counts(&self) -> bool {
        !self.skipped && (!self.kind.empties() || self.sent.is_some())
    }

    /// Its row has something that was given out on this slot, and that is not confirmed. A withdrawal that was written before it
    /// was taken back is nothing of that.
    pub(crate) fn is_counted(&self, unit: &Unit) -> bool {
        !unit.is_quiet() && unit.carries().is_some() && self.sent.is_some_and(|first| unit.token() >= first)
    }

    /// A change of the unit has begun on this slot and is not done: its row was written, for this or an earlier intent, and the unit does not
    /// report success at it. An intent whose row is not written has not begun, nor has one of which only the token is new. The fence of an
    /// intent that was given up for another reason, before a window closed, counts as written: nothing tells it from an intent with the same
    /// content.
    pub(crate) fn is_in_flight(&self, unit: &Unit) -> bool {
        let earlier = !self.resumed && (self.is_counted(unit) || self.is_found(unit));
        let written = self.is_written(unit) && !unit.is_quiet();
        !self.unbegun && (written || earlier) && !unit.has_only_a_new_token()
    }

    /// It was charged out of its row, which is not confirmed: of what was given out on its slot that is the first.
    pub(crate) fn is_found(&self, unit: &Unit) -> bool {
        self.doubtful && !unit.is_quiet() && unit.carries().is_some()
    }

    /// Its intent is in the row, as far as the view tells. A report that has its token is no proof: without the row it is about one of
    /// another life, and the write of this one may still be on its way.
    pub(crate) fn is_written(&self, unit: &Unit) -> bool {
        unit.token() >= self.token
    }

    /// The unit reports about a row of which nothing is remembered: its token is greater than that of this intent, or the same where no
    /// row has it here.
    pub(crate) fn is_overtaken(&self, unit: &Unit) -> bool {
        let reported = unit.observed.as_ref().map(|echo| echo.token);
        reported > Some(self.token) || reported == Some(self.token) && !self.is_written(unit)
    }

    /// What the unit reports about this intent.
    pub(crate) fn report<'a>(&self, unit: &'a Unit) -> Option<&'a State> {
        unit.state_at(Some(self.digest?), self.token)
            .filter(|_| self.is_written(unit))
    }

    /// When the deadline that runs now ends, if its clock runs.
    pub(crate) fn deadline(&self, deadlines: &Deadlines) -> Option<Millis> {
        let left = self.allowed(deadlines).since(self.clock.spent);
        let in_all = self.clock.before.plus(self.clock.spent);
        let left = deadlines
            .total
            .map_or(left, |total| left.min(total.since(in_all)));
        self.clock.from.map(|from| from.plus(left))
    }

    /// The deadline that runs now is over.
    pub(crate) fn is_overdue(&self, deadlines: &Deadlines, now: Millis) -> bool {
        let elapsed = self.clock.elapsed(now);
        let in_all = self.clock.before.plus(elapsed);
        elapsed >= self.allowed(deadlines) || deadlines.total.is_some_and(|total| in_all >= total)
    }

    fn allowed(&self, deadlines: &Deadlines) -> Millis {
        if self.picked_up {
            deadlines.progress
        } else {
            deadlines.pickup
        }
    }
}

impl Clock {
    /// Let it run, or stand.
    pub(crate) fn set(&mut self, run: bool, now: Millis) {
        match (self.from, run) {
            (None, true) => self.from = Some(now),
            (Some(_), false) => {
                *self = Self {
                    spent: self.elapsed(now),
                    from: None,
                    ..*self
                }
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    /// More steps are done than were: the deadline starts anew.
    pub(crate) fn advance(&mut self, done: u32, now: Millis) {
        if done > self.done {
            *self = Self {
                spent: Millis(0),
                from: self.from.map(|_| now),
                before: self.before.plus(self.elapsed(now)),
                done,
            };
        }
    }

    /// The time spent until now.
    pub(crate) fn elapsed(&self, now: Millis) -> Millis {
        self.from
            .map_or(self.spent, |from| self.spent.plus(now.since(from)))
    }
}

impl Evidence {
    /// Evidence whose message is fit to be kept: one line, bounded, nothing that JSON would have to escape. One that is too long ends
    /// with an ellipsis.
    pub fn new(unit: UnitId, message: &str, at: Millis) -> Self {
        const ELLIPSIS: &str = "…";
        let mut kept = String::with_capacity(message.len().min(MAX_MESSAGE));
        for char in message.chars() {
            let char = match char {
                '"' => '\'',
                '\\' => '/',
                char if char.is_control() => ' ',
                char => char,
            };
            if kept.len() + char.len_utf8() > MAX_MESSAGE {
                kept.truncate(kept.floor_char_boundary(MAX_MESSAGE - ELLIPSIS.len()));
                kept.push_str(ELLIPSIS);
                break;
            }
            kept.push(char);
        }
        Self {
            unit,
            message: kept.into(),
            at,
        }
    }
}

impl Memory {
    /// What the evidence says about this revision, as far as it is remembered.
    pub fn verdict(&self, revision: Revision) -> Option<Verdict> {
        if self.bad.contains_key(&revision) {
            return Some(Verdict::Bad);
        }
        (self.last_good == Some(revision)).then_some(Verdict::Good)
    }

    /// Whether a stage may go on without this unit while its change window is closed: it is to get something, and no change of it was
    /// decided that is not confirmed or fenced yet. A caller whose windows say so gives such a unit as [`Eligible::No`](crate::Eligible::No)
    /// with [`Absence::Skip`](crate::Absence::Skip).
    pub fn may_skip(&self, unit: &Unit) -> bool {
        let charge = self.charges.get(&unit.id);
        // What was released for its absence and is back may be at work on its row: it takes a slot again (rule 4).
        let is_open = |charge: &Charge| !charge.skipped || !unit.is_quiet();
        let charged = charge.is_some_and(|charge| charge.incarnation == unit.incarnation && is_open(charge));
        unit.selected() && !unit.has_desired() && !charged
    }

    /// Is this revision condemned, or its run aborted? Then it is never newly assigned.
    pub fn refuses(&self, revision: Revision) -> bool {
        let aborted = |run: Run| run.target == revision && run.state == RunState::Aborted;
        self.is_bad(revision) || self.run.is_some_and(aborted)
    }

    /// Whether something that is said once would have an effect, were it heard now. Which stages there are is for whoever knows the spec.
    pub fn heeds(&self, says: &Says) -> bool {
        let run_of = |revision: Revision| self.run.filter(|run| run.target == revision);
        let open = |revision| run_of(revision).is_some_and(|run| run.state == RunState::Open);
        match says {
            Says::Abort(revision) => open(*revision),
            Says::Retry(revision) => self.is_bad(*revision) || run_of(*revision).is_some_and(Run::is_refused),
            Says::Approve(revision, stage) | Says::Promote(revision, stage) => {
                open(*revision) && !self.course.passed.contains(&StageId::of(stage))
            }
        }
    }

    pub(crate) fn refuses_nothing(&self) -> bool {
        self.bad.is_empty() && self.run.is_none_or(|run| run.state != RunState::Aborted)
    }

    /// Is this revision condemned?
    pub fn is_bad(&self, revision: Revision) -> bool {
        self.bad.contains_key(&revision)
    }
}

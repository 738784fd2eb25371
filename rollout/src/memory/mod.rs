//! The memory: the only state of the engine, stored by the caller with compare-and-swap.
//!
//! Bounded by construction: see [`MAX_IN_FLIGHT`], [`MAX_MARKS`], [`MAX_BAD`], [`MAX_MESSAGE`]; its JSON stays below
//! [`MAX_BYTES`] for names of at most 63 bytes.

mod rebuild;
mod wire;

pub(crate) use rebuild::greatest_token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::StageId;
use crate::{
    ControlCommand, Deadlines, Digest, GateResult, Incarnation, Millis, Revision, State, Token, Unit, UnitId,
    Verdict,
};

/// Maximum number of in-flight changes; a larger limit is used in waves of this size.
pub const MAX_IN_FLIGHT: usize = 500;
/// Maximum number of marks stored by name; others are only counted.
pub const MAX_MARKS: usize = 100;
/// Maximum number of revisions remembered as bad; the oldest one that is not the target is dropped first.
pub const MAX_BAD: usize = 20;
/// Maximum length of a message stored as evidence, in bytes.
pub const MAX_MESSAGE: usize = 256;
/// Maximum number of controls that are processed; others are ignored.
pub const MAX_CONTROLS: usize = 16;
/// Maximum size of the memory as JSON, in bytes.
pub const MAX_BYTES: usize = 160 * 1024;

/// The state of one module's rollout. The default is the memory of a module that was never rolled out; if it was and
/// the memory is lost, see [`Memory::rebuild`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(into = "wire::Wire", try_from = "wire::Wire")]
pub struct Memory {
    /// The greatest token issued so far, or read when one was issued.
    pub seq: Token,
    /// The current run, or the last one.
    pub run: Option<Run>,
    /// The units in flight. Any other unit is confirmed at its assignment, or has nothing.
    pub in_flight: BTreeMap<UnitId, InFlight>,
    /// The units whose failure counts against the target of the run, with the time of the mark.
    pub marks: BTreeMap<UnitId, Millis>,
    /// Number of failures beyond the marks that are stored.
    pub marks_beyond: u32,
    /// The last revision that every eligible selected unit was confirmed at.
    pub last_good: Option<Revision>,
    /// Condemned revisions, which are never newly assigned.
    pub bad: BTreeMap<Revision, Evidence>,
    /// What remains of the acknowledged withdrawal.
    pub acknowledged: Option<Acknowledged>,
    /// The memory was rebuilt and not used for a decision yet: nothing is withdrawn on that pass.
    pub rebuilt: bool,
    /// The progress of the run in batches and stages.
    pub course: Course,
    /// The controls in [`Spec::controls`](crate::Spec::controls) that were already taken.
    pub taken: BTreeSet<u64>,
}

/// The progress of a run in batches and stages. A new run starts with an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// The batch that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<OpenBatch>,
    /// The stages that were passed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub passed: BTreeSet<StageId>,
    /// The stages that are approved.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approved: BTreeSet<StageId>,
    /// The promoted stages, which need no soak and no gates.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub promoted: BTreeSet<StageId>,
    /// Since when all units of the open stage are confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear_since: Option<Millis>,
    /// The results of the open stage's gates since then, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateCount>,
    /// The target was condemned, and the run continues (`onFailure: Continue`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Evidence>,
}

/// A batch that has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenBatch {
    /// The number of its units.
    pub size: u32,
    /// The number of its units that have not started yet.
    pub left: u32,
}

/// The results of a gate so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct GateCount {
    /// The hash of the gate's definition.
    #[serde(default)]
    pub definition: u64,
    /// Number of consecutive passes.
    pub passes: u32,
    /// The time and the result of the last reading.
    pub last: Option<(Millis, GateResult)>,
}

/// The rollout of one target, running or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The number of the run in this memory.
    pub id: u64,
    /// The revision that is being rolled out.
    pub target: Revision,
    /// The last good revision at the start of the run.
    pub from: Option<Revision>,
    /// When the run started.
    pub started: Millis,
    /// The state of the run.
    pub state: RunState,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RunState {
    /// There is no verdict yet.
    Open,
    /// Every eligible selected unit was confirmed.
    Good,
    /// The target was condemned in this run.
    Halted,
    /// The target was known to be bad before.
    KnownBad,
    /// The run was aborted.
    Aborted,
}

impl Run {
    /// The run ended without success: a retry starts another one.
    pub(crate) const fn is_refused(self) -> bool {
        matches!(
            self.state,
            RunState::Halted | RunState::KnownBad | RunState::Aborted
        )
    }
}

/// A unit in flight, which takes a slot of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InFlight {
    /// The incarnation of the unit.
    pub incarnation: Incarnation,
    /// The kind of change.
    pub kind: Kind,
    /// The revision that the unit gets; None for a withdrawal or a fence, or if the assignment does not name it.
    pub revision: Option<Revision>,
    /// The digest that the unit gets; None for a withdrawal or a fence.
    pub digest: Option<Digest>,
    /// The token of the decision.
    pub token: Token,
    /// When the change was decided.
    pub since: Millis,
    /// The unit has reported about this digest and token.
    pub picked_up: bool,
    /// Since when the unit has been observed as succeeded at this digest and token.
    pub succeeded_since: Option<Millis>,
    /// The first token issued on this slot that is not confirmed, for this change or an earlier one: an observer of the
    /// assignments counts the unit from the time its assignment has that token. A withdrawal that replaces such a
    /// change keeps its slot of the limit until it is written itself, which fences the change (W5).
    pub sent: Option<Token>,
    /// The unit was released while absent and has returned, and a change issued before may still be written: it is
    /// above the limit, and the others wait for it.
    pub returned: bool,
    /// It is unknown whether the unit was confirmed at its assignment before this change, and so whether an observer
    /// counts it: it waits for room, and others wait for it. Only until something is issued on the slot.
    pub doubtful: bool,
    /// The unit was observed as ready before the change.
    pub was_ready: bool,
    /// The unit had the same revision before: only its values change, so its failure does not mark the revision.
    pub values_only: bool,
    /// This change failed, or its deadline has passed.
    pub failed: bool,
    /// The failure is counted against the target of the run: once, whatever else fails on this slot.
    pub marked: bool,
    /// Time spent against the current deadline.
    pub clock: Stopwatch,
    /// Since when the unit has not been eligible.
    pub absent_since: Option<Millis>,
    /// The unit was absent for too long: its slot is released, and it is remembered as unconfirmed.
    pub skipped: bool,
    /// A window closed before the change was written, and it was fenced: only the token of the assignment is raised, so
    /// the change has not begun. No other change is decided before the window opens.
    pub unbegun: bool,
    /// After such a fence the change was decided again when the window opened: it begins only when its
    /// assignment is written.
    pub resumed: bool,
}

/// The kind of an in-flight change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The unit gets its desired content.
    Assign,
    /// The unit joined: it gets the last good revision first.
    Join,
    /// The unit was confirmed at the target, and failed later.
    Relapsed,
    /// A change was given up: the token of its assignment is raised, so that a late write cannot apply it.
    Fence,
    /// The unit's content is withdrawn.
    Withdraw,
    /// The unit's content is condemned, or its run was aborted: it returns to the last good revision.
    Revert,
    /// The unit is abandoned: its assignment is emptied. If this happens during a change, it keeps its slot until then,
    /// as a withdrawal does.
    Abandon,
}

/// A stopwatch for time spent, counted only while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stopwatch {
    /// Time spent before the last start.
    pub spent: Millis,
    /// When it was last started; None while it is stopped.
    pub from: Option<Millis>,
    /// Time spent on completed steps: each step has its own deadline, and all of them share a total.
    pub before: Millis,
    /// The highest reported number of completed steps.
    pub done: u32,
}

/// Why a revision is bad.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Evidence {
    /// The unit whose failure exceeded the tolerance.
    pub unit: UnitId,
    /// The failure message: at most [`MAX_MESSAGE`] bytes, without control characters, quotes and backslashes.
    pub message: Arc<str>,
    /// When the failure was counted.
    pub at: Millis,
}

/// An acknowledged withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The set of units that the acknowledgement named.
    pub named: u64,
    /// The set of units that are still to be withdrawn from.
    pub left: u64,
}

impl Kind {
    /// The unit gets content.
    pub(crate) const fn is_assignment(self) -> bool {
        matches!(self, Self::Assign | Self::Join | Self::Revert)
    }

    /// The assignment becomes a withdrawal or is emptied, outside of the limit.
    pub(crate) const fn empties(self) -> bool {
        matches!(self, Self::Withdraw | Self::Abandon)
    }
}

impl InFlight {
    /// A new change of a unit, with nothing done yet.
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
            clock: Stopwatch::default(),
            absent_since: None,
            skipped: false,
            unbegun: false,
            resumed: false,
        }
    }

    /// The same slot with another change: what is known about the old one no longer applies.
    #[must_use]
    pub(crate) fn redirected(self, kind: Kind, token: Token, now: Millis) -> Self {
        // If nothing but a withdrawal was issued on its slot, the change that replaces it waits for room.
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
            clock: Stopwatch::default(),
            ..self
        }
    }

    /// The same change on the same slot with a greater token. Only success has to be observed again, as it was reported
    /// for the smaller token.
    #[must_use]
    pub(crate) fn above(self, token: Token) -> Self {
        // The slot of a withdrawal on which nothing else was issued.
        let itself = self.kind.empties() && self.sent == Some(self.token);
        Self {
            token,
            sent: if itself { Some(token) } else { self.sent },
            succeeded_since: None,
            ..self
        }
    }

    /// Whether it takes a slot of the limit: it is not released, and it is neither a withdrawal, which has a limit of
    /// its own, nor abandoned (but see [`InFlight::sent`]).
    pub fn counts(&self) -> bool {
        !self.skipped && (!self.kind.empties() || self.sent.is_some())
    }

    /// Whether the assignment has content that was issued on this slot and is not confirmed. A withdrawal that was
    /// written before it was reverted does not count.
    pub(crate) fn is_counted(&self, unit: &Unit) -> bool {
        !unit.is_quiet() && unit.carries().is_some() && self.sent.is_some_and(|first| unit.token() >= first)
    }

    /// Whether a change of the unit has begun on this slot and is not done: its assignment was written, for this change
    /// or an earlier one, and the unit does not report success at it. A change that is not written has not begun, and
    /// neither has one that only has a new token. The fence of a change that was given up for another reason, before a
    /// window closed, counts as written: it cannot be distinguished from a change with the same content.
    pub(crate) fn has_begun(&self, unit: &Unit) -> bool {
        let earlier = !self.resumed && (self.is_counted(unit) || self.is_found(unit));
        let written = self.is_written(unit) && !unit.is_quiet();
        !self.unbegun && (written || earlier) && !unit.has_only_a_new_token()
    }

    /// Whether it was created from an existing assignment that is not confirmed: that is the first token of its slot.
    pub(crate) fn is_found(&self, unit: &Unit) -> bool {
        self.doubtful && !unit.is_quiet() && unit.carries().is_some()
    }

    /// Whether the change is written in the assignment, as far as the view shows. A report with its token is no proof:
    /// without the assignment the report is about another incarnation, and the write of this one may still be pending.
    pub(crate) fn is_written(&self, unit: &Unit) -> bool {
        unit.token() >= self.token
    }

    /// Whether the unit reports about an assignment that is not remembered: its token is greater than that of this
    /// change, or equal although no assignment has it here.
    pub(crate) fn is_overtaken(&self, unit: &Unit) -> bool {
        let reported = unit.observed.as_ref().map(|report| report.token);
        reported > Some(self.token) || reported == Some(self.token) && !self.is_written(unit)
    }

    /// The unit's report about this change.
    pub(crate) fn report<'a>(&self, unit: &'a Unit) -> Option<&'a State> {
        unit.state_at(Some(self.digest?), self.token)
            .filter(|_| self.is_written(unit))
    }

    /// When the current deadline ends, if its clock runs.
    pub(crate) fn deadline(&self, deadlines: &Deadlines) -> Option<Millis> {
        let left = self.allowed(deadlines).since(self.clock.spent);
        let in_all = self.clock.before.plus(self.clock.spent);
        let left = deadlines
            .total
            .map_or(left, |total| left.min(total.since(in_all)));
        self.clock.from.map(|from| from.plus(left))
    }

    /// Whether the current deadline has passed.
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

impl Stopwatch {
    /// Starts or stops the clock.
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

    /// If more steps are done than before, the deadline starts again.
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

    /// The total time spent.
    pub(crate) fn elapsed(&self, now: Millis) -> Millis {
        self.from
            .map_or(self.spent, |from| self.spent.plus(now.since(from)))
    }
}

impl Evidence {
    /// Evidence with a message that can be stored: one line, limited in length, without characters that JSON would have
    /// to escape. A message that is too long ends with an ellipsis.
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
    /// The verdict about this revision, as far as it is remembered.
    pub fn verdict(&self, revision: Revision) -> Option<Verdict> {
        if self.bad.contains_key(&revision) {
            return Some(Verdict::Bad);
        }
        (self.last_good == Some(revision)).then_some(Verdict::Good)
    }

    /// Whether a stage may continue without this unit while its change window is closed: it needs a change, and no
    /// change of it is pending that is not confirmed or fenced. A caller that uses this reports such a unit as
    /// [`Eligible::No`](crate::Eligible::No) with [`Absence::Skip`](crate::Absence::Skip).
    pub fn may_skip(&self, unit: &Unit) -> bool {
        let change = self.in_flight.get(&unit.id);
        // A unit that was released and has returned may be working on its assignment: it takes a slot again (rule 4).
        let is_open = |change: &InFlight| !change.skipped || !unit.is_quiet();
        let in_flight =
            change.is_some_and(|change| change.incarnation == unit.incarnation && is_open(change));
        unit.selected() && !unit.has_desired() && !in_flight
    }

    /// Whether this revision is condemned or its run was aborted, so it is never newly assigned.
    pub fn refuses(&self, revision: Revision) -> bool {
        let aborted = |run: Run| run.target == revision && run.state == RunState::Aborted;
        self.is_bad(revision) || self.run.is_some_and(aborted)
    }

    /// Whether a control would have an effect now. Which stages exist is known only from the spec.
    pub fn heeds(&self, command: &ControlCommand) -> bool {
        let run_of = |revision: Revision| self.run.filter(|run| run.target == revision);
        let open = |revision| run_of(revision).is_some_and(|run| run.state == RunState::Open);
        match command {
            ControlCommand::Abort(revision) => open(*revision),
            ControlCommand::Retry(revision) => {
                self.is_bad(*revision) || run_of(*revision).is_some_and(Run::is_refused)
            }
            ControlCommand::Approve(revision, stage) | ControlCommand::Promote(revision, stage) => {
                open(*revision) && !self.course.passed.contains(&StageId::of(stage))
            }
        }
    }

    pub(crate) fn refuses_nothing(&self) -> bool {
        self.bad.is_empty() && self.run.is_none_or(|run| run.state != RunState::Aborted)
    }

    /// Whether this revision is condemned.
    pub fn is_bad(&self, revision: Revision) -> bool {
        self.bad.contains_key(&revision)
    }
}

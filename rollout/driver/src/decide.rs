//! Decides, then writes the memory, then the assignments.

use std::{borrow::Cow, collections::BTreeMap};

use muster_rollout::{Assignment, Decision, Evidence, Memory, Millis, Revision, Spec, Token, Unit, UnitId};

use crate::{Change, Rules, Tested};

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The settings.
    pub spec: &'a Spec,
    /// The memory, as [`Recalled::believed`] returns it.
    pub memory: &'a Memory,
    /// The units. They may be older than the memory (W1).
    pub units: &'a [Unit],
    /// The time of the decision.
    pub now: Millis,
}

/// The memory as it was read.
#[derive(Clone, Debug)]
pub enum Recalled<'a> {
    /// It was written by this process or a previous one.
    Kept {
        /// The memory.
        memory: &'a Memory,
        /// How long there was no leader since it was written; zero if this process wrote it.
        gap: Millis,
    },
    /// It does not exist, cannot be read, or is of another incarnation of the module (W7).
    Lost(Verdicts),
}

/// The verdicts that are recorded outside of the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// The last good revision.
    pub last_good: Option<Revision>,
    /// The bad revisions, with their evidence.
    pub bad: BTreeMap<Revision, Evidence>,
}

impl<'a> Recalled<'a> {
    /// The memory to decide with. If it is lost, `units` must come from a complete, fresh read of all assignments.
    pub fn believed(self, units: &[Unit], now: Millis) -> Cow<'a, Memory> {
        match self {
            Self::Kept {
                memory,
                gap: Millis(0),
            } => Cow::Borrowed(memory),
            Self::Kept { memory, gap } => Cow::Owned(memory.clone().after_gap(gap, now)),
            Self::Lost(verdicts) => Cow::Owned(rebuild(units, verdicts, now)),
        }
    }
}

/// Rebuilds a lost memory from a complete, fresh read of all assignments, and from the recorded verdicts (W7).
pub fn rebuild(units: &[Unit], verdicts: Verdicts, now: Millis) -> Memory {
    Memory::rebuild(units, verdicts.last_good, verdicts.bad, now)
}

/// Decides. Nothing may be applied before the new memory is written.
pub fn decide(facts: Facts<'_>, rules: &Rules<'_>) -> Decided {
    let decision = (rules.plan)(facts.spec, facts.memory, facts.units, facts.now);
    Decided { decision }
}

/// A decision whose memory is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    decision: Decision,
}

impl Decided {
    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The changes that it will make once its memory is written, in the order of its steps: for inspection only.
    pub fn planned<R: Assignments + ?Sized>(&self, rows: &R) -> Vec<Planned> {
        planned(&self.decision, rows)
    }

    /// The number of assignments that it changes.
    pub fn assignment_count(&self) -> usize {
        changes(&self.decision).count()
    }

    /// Takes the result of writing the memory: by compare-and-swap on what was read, or no write if the memory is
    /// unchanged. On an error or a timeout the caller must read again (W2).
    pub fn written<T, E>(self, answer: Result<T, E>) -> Result<Remembered, E> {
        let Self { decision } = self;
        answer.map(|_| Remembered { decision })
    }
}

/// A decision whose memory is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    decision: Decision,
}

/// The change of one unit's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The unit.
    pub unit: UnitId,
    /// The change; `None` if the assignment is removed.
    pub change: Option<Change>,
}

impl Planned {
    /// The new token of the assignment; 0 if it is removed.
    pub fn token(&self) -> Token {
        self.change.map_or(Token(0), |change| change.token)
    }

    /// Whether the assignment is already as planned, or has a greater token.
    pub fn is_written(&self, row: Option<Token>) -> bool {
        self.change
            .map_or_else(|| row.is_none(), |change| change.is_written(row))
    }
}

/// The assignments of units, as they were read.
pub trait Assignments {
    /// A write of one assignment that fails if it differs from what was read.
    type Write;

    /// The token of the unit's assignment; `None` if there is none.
    fn token(&self, unit: &UnitId) -> Option<Token>;

    /// Whether the new content is known: otherwise the assignment stays as it is.
    fn knows(&self, _unit: &UnitId, _change: Change) -> bool {
        true
    }

    /// Units whose assignments must be removed once there is nothing else to write: the end of a deletion.
    fn over(&self) -> Vec<UnitId> {
        Vec::new()
    }

    /// The write that makes this change; `None` if there is nothing to write.
    fn write(&self, planned: &Planned) -> Option<Self::Write>;
}

/// A write of one assignment that may be sent: the memory that names it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentWrite<W> {
    planned: Planned,
    write: W,
}

impl<W> AssignmentWrite<W> {
    /// The unit and its change.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// The write, with its precondition.
    pub fn write(&self) -> &W {
        &self.write
    }
}

impl Remembered {
    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The pending writes of assignments, in the order of the steps. Any of them may fail or be lost: the next decision
    /// repeats it with its token.
    pub fn writes<R: Assignments + ?Sized>(&self, rows: &R) -> Vec<AssignmentWrite<R::Write>> {
        let write = |planned: Planned| {
            let write = rows.write(&planned)?;
            Some(AssignmentWrite { planned, write })
        };
        planned(&self.decision, rows)
            .into_iter()
            .filter_map(write)
            .collect()
    }
}

fn planned<R: Assignments + ?Sized>(decision: &Decision, rows: &R) -> Vec<Planned> {
    let planned = changes(decision).filter(|(unit, change)| {
        let is_written = change.is_written(rows.token(unit));
        !is_written && rows.knows(unit, *change)
    });
    let planned: Vec<Planned> = planned
        .map(|(unit, change)| Planned {
            unit: unit.clone(),
            change: Some(change),
        })
        .collect();
    if !planned.is_empty() {
        return planned;
    }
    let over = rows.over().into_iter();
    over.map(|unit| Planned { unit, change: None }).collect()
}

fn changes(decision: &Decision) -> impl Iterator<Item = (&UnitId, Change)> {
    decision.steps.iter().filter_map(Change::of)
}

/// Simulated assignments of units, sorted by name.
impl Assignments for [Unit] {
    type Write = Tested;

    fn token(&self, unit: &UnitId) -> Option<Token> {
        assignment_of(self, unit).map(|row| row.token)
    }

    fn write(&self, planned: &Planned) -> Option<Tested> {
        let read = self.token(&planned.unit);
        planned.change.map(|change| Tested { change, read })
    }
}

fn assignment_of(units: &[Unit], id: &UnitId) -> Option<Assignment> {
    let place = units.binary_search_by(|unit| unit.id.cmp(id)).ok()?; // a unit that does not exist has no row
    units.get(place)?.assigned
}

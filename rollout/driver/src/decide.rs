//! Decide, write the memory, then the rows.

use std::{borrow::Cow, collections::BTreeMap};

use muster_rollout::{Decision, Evidence, Memory, Millis, Revision, Row, Spec, Token, Unit, UnitId};

use crate::{Change, Rules, Tested};

/// What a decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The settings.
    pub spec: &'a Spec,
    /// The memory, as [`Recalled::believed`] gives it.
    pub memory: &'a Memory,
    /// The units. They may be older than the memory (W1).
    pub units: &'a [Unit],
    /// The instant.
    pub now: Millis,
}

/// The memory as it was read.
#[derive(Clone, Debug)]
pub enum Recalled<'a> {
    /// It stands, and was written by this process, or by one before it.
    Kept {
        /// The memory.
        memory: &'a Memory,
        /// How long no process led since it was written; zero where this one wrote it.
        gap: Millis,
    },
    /// There is none, it cannot be read, or it is of another life of the module (W7).
    Lost(Verdicts),
}

/// What stands on record of revisions outside of the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// The last good one.
    pub last_good: Option<Revision>,
    /// Bad ones, with what condemned each.
    pub bad: BTreeMap<Revision, Evidence>,
}

impl<'a> Recalled<'a> {
    /// The memory that a decision rests on. Where it is lost, `units` come from a complete, fresh read of all rows.
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

/// A memory in place of a lost one: from a complete, fresh read of all rows, and from what is on record of revisions (W7).
pub fn rebuild(units: &[Unit], verdicts: Verdicts, now: Millis) -> Memory {
    Memory::rebuild(units, verdicts.last_good, verdicts.bad, now)
}

/// Decides. Nothing of it may be carried out before its memory stands.
pub fn decide(facts: Facts<'_>, rules: &Rules<'_>) -> Decided {
    let decision = (rules.plan)(facts.spec, facts.memory, facts.units, facts.now);
    Decided { decision }
}

/// A decision whose memory does not stand yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    decision: Decision,
}

impl Decided {
    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What it will change, and of which units' rows, in the order of its steps.
    pub fn changes(&self) -> impl Iterator<Item = (&UnitId, Change)> {
        changes(&self.decision)
    }

    /// The memory stands if its write was answered with success: this write, by compare-and-swap on what was read, or none where the
    /// memory is equal to what was read. Any other answer, and none, gives the error: read again (W2).
    pub fn written<T, E>(self, answer: Result<T, E>) -> Result<Remembered, E> {
        let Self { decision } = self;
        answer.map(|_| Remembered { decision })
    }
}

/// A decision whose memory stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    decision: Decision,
}

/// Rows of one kind of unit, as they were read.
pub trait Rows {
    /// A write of one row that fails if the row is not as it was read.
    type Write;

    /// The token of the row of a unit. `None`: there is no row.
    fn token(&self, unit: &UnitId) -> Option<Token>;

    /// The write that makes a change. `None`: what the row is to say is not known any more, or the row is to stay.
    fn write(&self, unit: &UnitId, change: Change) -> Option<Self::Write>;
}

/// A write of one row that may be sent: the memory that names it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite<W> {
    unit: UnitId,
    change: Change,
    write: W,
}

impl<W> RowWrite<W> {
    /// Whose row.
    pub fn unit(&self) -> &UnitId {
        &self.unit
    }

    /// What becomes of it.
    pub fn change(&self) -> Change {
        self.change
    }

    /// The write, with its test.
    pub fn write(&self) -> &W {
        &self.write
    }
}

impl Remembered {
    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The writes of the rows that do not stand yet, in the order of the steps. Any of them may fail, or be lost: the next decision
    /// has it again, with its token.
    pub fn writes<R: Rows + ?Sized>(&self, rows: &R) -> Vec<RowWrite<R::Write>> {
        let write = |(unit, change): (&UnitId, Change)| {
            if change.stands(rows.token(unit)) {
                return None;
            }
            Some(RowWrite {
                unit: unit.clone(),
                change,
                write: rows.write(unit, change)?,
            })
        };
        changes(&self.decision).filter_map(write).collect()
    }
}

fn changes(decision: &Decision) -> impl Iterator<Item = (&UnitId, Change)> {
    decision.steps.iter().filter_map(Change::of)
}

/// Units in the order of their names, whose rows are played.
impl Rows for [Unit] {
    type Write = Tested;

    fn token(&self, unit: &UnitId) -> Option<Token> {
        row(self, unit).map(|row| row.token)
    }

    fn write(&self, unit: &UnitId, change: Change) -> Option<Tested> {
        let read = self.token(unit);
        Some(Tested { change, read })
    }
}

fn row(units: &[Unit], id: &UnitId) -> Option<Row> {
    let place = units.binary_search_by(|unit| unit.id.cmp(id)).ok()?; // a unit that is not there has no row
    units.get(place)?.assigned
}

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

    /// What it will change once its memory stands, in the order of its steps: to be examined, not to be carried out.
    pub fn planned<R: Rows + ?Sized>(&self, rows: &R) -> Vec<Planned> {
        planned(&self.decision, rows)
    }

    /// How many rows it is about.
    pub fn rows(&self) -> usize {
        changes(&self.decision).count()
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

/// What becomes of the row of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The unit.
    pub unit: UnitId,
    /// The change. `None`: the row goes.
    pub change: Option<Change>,
}

impl Planned {
    /// The token that the row gets; 0 if it goes.
    pub fn token(&self) -> Token {
        self.change.map_or(Token(0), |change| change.token)
    }

    /// Whether the row is as it is to be, or has a greater token.
    pub fn stands(&self, row: Option<Token>) -> bool {
        self.change
            .map_or_else(|| row.is_none(), |change| change.stands(row))
    }
}

/// Rows of one kind of unit, as they were read.
pub trait Rows {
    /// A write of one row that fails if the row is not as it was read.
    type Write;

    /// The token of the row of a unit. `None`: there is no row.
    fn token(&self, unit: &UnitId) -> Option<Token>;

    /// Whether what the row is to say is known: else it stays as it is.
    fn knows(&self, _unit: &UnitId, _change: Change) -> bool {
        true
    }

    /// Units whose rows are to go once nothing else is to be written: the end of what is being deleted.
    fn over(&self) -> Vec<UnitId> {
        Vec::new()
    }

    /// The write that carries this out. `None`: there is nothing to write.
    fn write(&self, planned: &Planned) -> Option<Self::Write>;
}

/// A write of one row that may be sent: the memory that names it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite<W> {
    planned: Planned,
    write: W,
}

impl<W> RowWrite<W> {
    /// Whose row, and what becomes of it.
    pub fn planned(&self) -> &Planned {
        &self.planned
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
        let write = |planned: Planned| {
            let write = rows.write(&planned)?;
            Some(RowWrite { planned, write })
        };
        planned(&self.decision, rows)
            .into_iter()
            .filter_map(write)
            .collect()
    }
}

fn planned<R: Rows + ?Sized>(decision: &Decision, rows: &R) -> Vec<Planned> {
    let planned = changes(decision).filter(|(unit, change)| {
        let stands = change.stands(rows.token(unit));
        !stands && rows.knows(unit, *change)
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

/// Units in the order of their names, whose rows are played.
impl Rows for [Unit] {
    type Write = Tested;

    fn token(&self, unit: &UnitId) -> Option<Token> {
        row(self, unit).map(|row| row.token)
    }

    fn write(&self, planned: &Planned) -> Option<Tested> {
        let read = self.token(&planned.unit);
        planned.change.map(|change| Tested { change, read })
    }
}

fn row(units: &[Unit], id: &UnitId) -> Option<Row> {
    let place = units.binary_search_by(|unit| unit.id.cmp(id)).ok()?; // a unit that is not there has no row
    units.get(place)?.assigned
}

//! What is seen of one unit: a small row of facts. What is missing is unknown, never assumed.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digest, Incarnation, Revision, Token, UnitId};

/// One unit as seen. The view may be older than the memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Its name.
    pub id: UnitId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// What it shall have.
    pub desired: Desired,
    /// The row that stands written for it. None: no row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<Row>,
    /// What it last reported about its row. None: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Echo>,
    /// Whether it can be touched.
    pub eligible: Eligible,
    /// Where it comes in the order of stages.
    pub place: Place,
    /// What it shares with others: see [`Spec::domains`](crate::Spec::domains). None: nothing, it is its own domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// It does its work, as far as the caller can tell: see [`Spec::unavailable`](crate::Spec::unavailable). A unit that is not eligible
    /// counts as unavailable whatever this says.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub available: bool,
    /// What it shall have is not the target, because somebody pinned it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// A unit of a record in which nothing else is said is available.
const fn yes() -> bool {
    true
}

/// Where a unit comes in the order of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Place {
    /// In the stage of this place in [`Spec::stages`](crate::Spec::stages).
    Stage(u8),
    /// After all stages.
    #[default]
    Last,
    /// Nowhere: it keeps what it has.
    Excluded,
}

/// One of the values that units share, by its number among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Domain(NonZeroU32);

impl Domain {
    /// The value of this number, from zero. None: that is more than anybody counts to.
    pub fn nth(number: usize) -> Option<Self> {
        let number = u32::try_from(number).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }
}

/// What a unit shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Desired {
    /// It is not selected: what it has is withdrawn.
    Nothing,
    /// It is selected, but what it shall have is not known (source or values cannot be read): what it has stays.
    Unresolved,
    /// It is selected and shall have this.
    Content {
        /// The revision.
        revision: Revision,
        /// That revision with today's values of this unit.
        digest: Digest,
        /// The last good revision of the memory with today's values of this unit, if there is one.
        last_good: Option<Digest>,
    },
}

/// A row: what stands written for a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The decision that wrote it.
    pub token: Token,
    /// What it says.
    pub content: Content,
}

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Content {
    /// Name and token only: fenced before it ever had something, or withdrawn and tidied.
    Nothing,
    /// The unit shall carry this.
    Carries {
        /// The revision, if the row names one.
        revision: Option<Revision>,
        /// The digest.
        digest: Digest,
    },
    /// What the unit has shall be withdrawn.
    Withdraw,
}

/// What a unit reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Echo {
    /// The digest that the report is about.
    pub digest: Option<Digest>,
    /// The token that the report is about; zero if it names none.
    pub token: Token,
    /// How it stands.
    pub state: State,
}

/// How a unit stands at what it reports about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// On the way.
    Updating,
    /// On the way step by step, and it reports how far.
    Progressing(Progress),
    /// Done, and healthy.
    Succeeded,
    /// Not done. Something that is held up by its surroundings is given as failed with [`Class::Infra`].
    Failed {
        /// Whose fault it is.
        class: Class,
        /// It will not get better by itself.
        terminal: bool,
        /// For people: which object, and why.
        message: Arc<str>,
    },
    /// What it had is gone (or let go).
    Withdrawn,
    /// Nobody can say.
    Unknown,
}

/// How far a unit is that goes step by step, such as one that renews its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that are done: while it grows the deadline starts anew.
    pub done: u32,
    /// It waits for something that is no work of its own: an approval, a gate, a soak, a window, the end of a pause. Its deadline stands.
    pub waiting: bool,
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// The revision's: it cannot be built, is refused, or is not healthy.
    Revision,
    /// The unit's: quota, rights, something missing there.
    Unit,
    /// The surroundings': network, source, a dependency.
    Infra,
}

/// Whether a unit can be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Eligible {
    /// Yes.
    Yes,
    /// Yes, but for this reason its turn has not come yet, to get something or to be left: it is waited for. Who goes back to what was
    /// good waits for nothing.
    NotYet(Ineligible),
    /// Yes, but no change may begin at present: a change window is closed.
    ///
    /// A change in flight goes on: one whose row was written is confirmed, is late, fails and is retargeted as ever. One that was decided
    /// and not written is fenced (W5). The unit is waited for and is part of the whole of percentages. A caller whose stages go on
    /// without closed units says [`Eligible::No`] with [`Absence::Skip`] of those that [`Memory::may_skip`](crate::Memory::may_skip)
    /// names, and this of the others.
    Closed {
        /// The reason.
        why: Ineligible,
        /// A unit may begin to go back to the last good revision.
        reverts: bool,
        /// A withdrawal may begin.
        withdrawals: bool,
    },
    /// No, for this reason.
    No(Ineligible),
}

/// Why a unit cannot be touched: carried through, not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ineligible {
    /// The caller's number for it.
    pub code: u8,
    /// Its place in the order of all reasons (see [`Why::rank`](crate::Why::rank)): the smaller wins.
    pub rank: u8,
    /// What its absence means.
    pub absence: Absence,
}

/// What it means that a unit cannot be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Absence {
    /// The others go on without it; its slot is free after a while.
    #[default]
    Skip,
    /// It is waited for, and keeps its slot.
    Wait,
    /// The same as `Skip`; when it loses its slot it counts as failed.
    Fail,
}

impl Unit {
    /// It shall have something, known or not.
    pub fn selected(&self) -> bool {
        !matches!(self.desired, Desired::Nothing)
    }

    /// It can be touched.
    pub fn is_eligible(&self) -> bool {
        match self.eligible {
            Eligible::Yes | Eligible::NotYet(_) | Eligible::Closed { .. } => true,
            Eligible::No(_) => false,
        }
    }

    /// It does its work, and can be touched.
    pub(crate) fn is_available(&self) -> bool {
        self.available && self.is_eligible()
    }

    /// It is one of those that percentages of the limit are of.
    pub(crate) fn is_base(&self) -> bool {
        self.selected() && self.place != Place::Excluded && self.is_eligible()
    }

    /// The run, and its stage, do not end without it.
    pub(crate) fn is_needed(&self) -> bool {
        let waited_for = match self.eligible {
            Eligible::Yes | Eligible::NotYet(_) | Eligible::Closed { .. } => true,
            Eligible::No(why) => why.absence == Absence::Wait,
        };
        self.selected() && waited_for && self.place != Place::Excluded
    }

    /// The token of its row; zero without a row.
    pub fn token(&self) -> Token {
        self.assigned.map(|row| row.token).unwrap_or_default()
    }

    /// What it carries by its row, confirmed or not.
    pub(crate) fn carries(&self) -> Option<(Option<Revision>, Digest)> {
        match self.assigned?.content {
            Content::Carries { revision, digest } => Some((revision, digest)),
            Content::Nothing | Content::Withdraw => None,
        }
    }

    /// Its row says what it shall have.
    pub(crate) fn has_desired(&self) -> bool {
        let Desired::Content { digest, .. } = self.desired else {
            return false;
        };
        self.carries().is_some_and(|(_, carried)| carried == digest)
    }

    /// The revision that its row names.
    pub(crate) fn carried_revision(&self) -> Option<Revision> {
        self.carries().and_then(|(revision, _)| revision)
    }

    /// Its row says withdraw, and it has not reported yet that it did.
    pub(crate) fn being_withdrawn(&self) -> bool {
        self.assigned.is_some_and(|row| {
            row.content == Content::Withdraw && self.state_at(None, row.token) != Some(&State::Withdrawn)
        })
    }

    /// It has nothing of this module: no row, an empty row, or a withdrawal that is done.
    pub(crate) fn is_empty(&self) -> bool {
        self.carries().is_none() && !self.being_withdrawn()
    }

    /// The report, if it is about this token and, when given, this digest.
    pub(crate) fn state_at(&self, digest: Option<Digest>, token: Token) -> Option<&State> {
        let echo = self.observed.as_ref()?;
        let same = token != Token(0) && echo.token == token && (digest.is_none() || echo.digest == digest);
        same.then_some(&echo.state)
    }

    /// The report about what the row says it carries; None when there is none or it is about something else.
    pub fn state_at_row(&self) -> Option<&State> {
        let (_, digest) = self.carries()?;
        self.state_at(Some(digest), self.token())
    }

    /// The failure at what its row says, if it is not its surroundings' (who waits for those is still on its way).
    pub(crate) fn failure_at_row(&self) -> Option<(Class, &Arc<str>)> {
        match self.state_at_row()? {
            State::Failed { class, message, .. } if *class != Class::Infra => Some((*class, message)),
            _ => None,
        }
    }

    /// It reports success at what its row carries, only with a smaller token.
    pub(crate) fn has_only_a_new_token(&self) -> bool {
        let carried = self.carries().map(|(_, digest)| digest);
        self.observed.as_ref().is_some_and(|echo| {
            let same = carried.is_some() && echo.digest == carried && echo.state == State::Succeeded;
            same && echo.token < self.token()
        })
    }

    /// It has nothing, or what its row says is reported as succeeded: nothing of an earlier write is still under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() || self.state_at_row() == Some(&State::Succeeded)
    }
}

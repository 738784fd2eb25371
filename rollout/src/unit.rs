//! The observed state of one unit. What is missing is unknown, never assumed.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digest, Incarnation, Revision, Token, UnitId};

/// One unit as observed. The view may be older than the memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The name of the unit.
    pub id: UnitId,
    /// Distinguishes it from other units of the same name.
    pub incarnation: Incarnation,
    /// The desired content.
    pub desired: Desired,
    /// The assignment that is written for it. None: no assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<Assignment>,
    /// Its last report. None: no report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Report>,
    /// Whether it can be changed now.
    pub eligible: Eligible,
    /// Its position in the order of stages.
    pub place: StagePosition,
    /// The domain that it shares with other units: see [`Spec::domains`](crate::Spec::domains). None: it is its own
    /// domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// It is available, as far as the caller knows: see [`Spec::unavailable`](crate::Spec::unavailable). A unit that is
    /// not eligible counts as unavailable in any case.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub available: bool,
    /// A pin sets other content than the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// The default for records: available.
const fn yes() -> bool {
    true
}

/// The position of a unit in the order of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum StagePosition {
    /// In the stage with this index in [`Spec::stages`](crate::Spec::stages).
    Stage(u8),
    /// After all stages.
    #[default]
    Last,
    /// In no stage: it keeps its content.
    Excluded,
}

/// A domain of units, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Domain(NonZeroU32);

impl Domain {
    /// The domain with this index, from zero. None: the index is out of range.
    pub fn nth(number: usize) -> Option<Self> {
        let number = u32::try_from(number).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }
}

/// The desired content of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Desired {
    /// The unit is not selected: its content is withdrawn.
    Nothing,
    /// The unit is selected, but its content is not known (source or values cannot be read): it keeps what it has.
    Unresolved,
    /// The unit is selected and should have this content.
    Content {
        /// The revision.
        revision: Revision,
        /// That revision with the unit's current values.
        digest: Digest,
        /// The last good revision of the memory with the unit's current values, if there is one.
        last_good: Option<Digest>,
    },
}

/// An assignment: the entry that is written for a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Assignment {
    /// The token of the decision that wrote it.
    pub token: Token,
    /// The assigned content.
    pub content: Content,
}

/// The content of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Content {
    /// Name and token only: fenced before it had content, or withdrawn and cleaned up.
    Nothing,
    /// The unit should have this content.
    Carries {
        /// The revision, if the assignment names one.
        revision: Option<Revision>,
        /// The digest.
        digest: Digest,
    },
    /// The unit's content must be withdrawn.
    Withdraw,
}

/// The report of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Report {
    /// The digest that the report is about.
    pub digest: Option<Digest>,
    /// The token that the report is about; zero if it names none.
    pub token: Token,
    /// The reported state.
    pub state: State,
}

/// The state of a unit in its report.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// In progress.
    Updating,
    /// In progress, with the number of completed steps.
    Progressing(Progress),
    /// Done, and healthy.
    Succeeded,
    /// Not done. A change that its environment holds up is reported as failed with [`Class::Infra`].
    Failed {
        /// The class of the failure.
        class: Class,
        /// It does not recover on its own.
        terminal: bool,
        /// For display: the object and the error.
        message: Arc<str>,
    },
    /// The content was removed or released.
    Withdrawn,
    /// The state cannot be determined.
    Unknown,
}

/// The progress of a unit that changes in steps, such as one that rolls its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Progress {
    /// Number of completed steps: when it increases the deadline starts again.
    pub done: u32,
    /// It waits for something outside of its own work: an approval, a gate, a soak, a window, the end of a pause. Its
    /// deadline is stopped.
    pub waiting: bool,
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// Caused by the revision: it does not build, is rejected, or is not healthy.
    Revision,
    /// Caused by the unit: quota, permissions, something missing there.
    Unit,
    /// Caused by the environment: network, source, a dependency.
    Infra,
}

/// Whether a unit can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Eligible {
    /// Yes.
    Yes,
    /// Yes, but its turn to get content or to be withdrawn from has not come yet, for this reason; the run waits for
    /// it. A unit that reverts does not wait.
    NotYet(Ineligible),
    /// Yes, but no change may start now: a change window is closed.
    ///
    /// A change that has begun continues: if its assignment was written, it can be confirmed, become overdue, fail and
    /// be retargeted as usual. A change that was decided and not written is fenced (W5). The run waits for the unit,
    /// and it counts for percentages. A caller whose stages continue without closed units returns [`Eligible::No`] with
    /// [`Absence::Skip`] for those that [`Memory::may_skip`](crate::Memory::may_skip) names, and this for the others.
    Closed {
        /// The reason.
        why: Ineligible,
        /// A unit may start to revert to the last good revision.
        reverts: bool,
        /// A withdrawal may start.
        withdrawals: bool,
    },
    /// No, for this reason.
    No(Ineligible),
}

/// Why a unit cannot be changed; the engine passes it through without interpreting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ineligible {
    /// The caller's code.
    pub code: u8,
    /// Its priority among all reasons (see [`Why::rank`](crate::Why::rank)): the smallest wins.
    pub rank: u8,
    /// How the run handles the unit in the meantime.
    pub absence: Absence,
}

/// How a run handles a unit that cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Absence {
    /// The others continue without it; its slot becomes free after `deadlines.absence`.
    #[default]
    Skip,
    /// The run waits for it, and it keeps its slot.
    Wait,
    /// Like `Skip`, and it counts as failed when it loses its slot.
    Fail,
}

impl Unit {
    /// Whether it is selected, with known content or not.
    pub fn selected(&self) -> bool {
        !matches!(self.desired, Desired::Nothing)
    }

    /// Whether it can be changed.
    pub fn is_eligible(&self) -> bool {
        match self.eligible {
            Eligible::Yes | Eligible::NotYet(_) | Eligible::Closed { .. } => true,
            Eligible::No(_) => false,
        }
    }

    /// Whether it is available and eligible.
    pub(crate) fn is_available(&self) -> bool {
        self.available && self.is_eligible()
    }

    /// Whether percentages of the limit include it.
    pub(crate) fn is_base(&self) -> bool {
        self.selected() && self.place != StagePosition::Excluded && self.is_eligible()
    }

    /// Whether the run and its stage wait for it.
    pub(crate) fn is_needed(&self) -> bool {
        let waited_for = match self.eligible {
            Eligible::Yes | Eligible::NotYet(_) | Eligible::Closed { .. } => true,
            Eligible::No(why) => why.absence == Absence::Wait,
        };
        self.selected() && waited_for && self.place != StagePosition::Excluded
    }

    /// The token of its assignment; zero without one.
    pub fn token(&self) -> Token {
        self.assigned.map(|row| row.token).unwrap_or_default()
    }

    /// Its assigned content, confirmed or not.
    pub(crate) fn carries(&self) -> Option<(Option<Revision>, Digest)> {
        match self.assigned?.content {
            Content::Carries { revision, digest } => Some((revision, digest)),
            Content::Nothing | Content::Withdraw => None,
        }
    }

    /// Whether its assignment has the desired content.
    pub(crate) fn has_desired(&self) -> bool {
        let Desired::Content { digest, .. } = self.desired else {
            return false;
        };
        self.carries().is_some_and(|(_, carried)| carried == digest)
    }

    /// The revision of its assignment.
    pub(crate) fn carried_revision(&self) -> Option<Revision> {
        self.carries().and_then(|(revision, _)| revision)
    }

    /// Whether its assignment is a withdrawal that the unit has not reported as done.
    pub(crate) fn being_withdrawn(&self) -> bool {
        self.assigned.is_some_and(|row| {
            row.content == Content::Withdraw && self.state_at(None, row.token) != Some(&State::Withdrawn)
        })
    }

    /// Whether it has nothing of this module: no assignment, an empty one, or a completed withdrawal.
    pub(crate) fn is_empty(&self) -> bool {
        self.carries().is_none() && !self.being_withdrawn()
    }

    /// The reported state, if the report is about this token and, if given, this digest.
    pub(crate) fn state_at(&self, digest: Option<Digest>, token: Token) -> Option<&State> {
        let report = self.observed.as_ref()?;
        let same =
            token != Token(0) && report.token == token && (digest.is_none() || report.digest == digest);
        same.then_some(&report.state)
    }

    /// The reported state at its assignment; None if there is no report or it is about something else.
    pub fn state_at_assignment(&self) -> Option<&State> {
        let (_, digest) = self.carries()?;
        self.state_at(Some(digest), self.token())
    }

    /// The failure at its assignment, except for [`Class::Infra`], which counts as in progress.
    pub(crate) fn failure_at_assignment(&self) -> Option<(Class, &Arc<str>)> {
        match self.state_at_assignment()? {
            State::Failed { class, message, .. } if *class != Class::Infra => Some((*class, message)),
            _ => None,
        }
    }

    /// Whether it reports success at the digest of its assignment, only with a smaller token.
    pub(crate) fn has_only_a_new_token(&self) -> bool {
        let carried = self.carries().map(|(_, digest)| digest);
        self.observed.as_ref().is_some_and(|report| {
            let same = carried.is_some() && report.digest == carried && report.state == State::Succeeded;
            same && report.token < self.token()
        })
    }

    /// Whether it has nothing, or reports success at its assignment: no earlier write is still in progress.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() || self.state_at_assignment() == Some(&State::Succeeded)
    }
}

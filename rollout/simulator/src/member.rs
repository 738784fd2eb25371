//! One simulated unit: its assignment, its visible report, and how it works.

use std::collections::BTreeMap;

use muster_rollout::{
    Assignment, Class, Content, Desired, Digest, Domain, Eligible, Incarnation, Ineligible, Memory, Millis,
    Report, Revision, StagePosition, State, Token, Unit, UnitId,
};

use crate::digest;

/// How long a unit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the write of its assignment until it acknowledges it.
    pub pickup: Millis,
    /// From the acknowledgement until it is done.
    pub work: Millis,
}

/// A problem of a unit, whatever its desired content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not read its assignment.
    Deaf,
    /// It starts, and never ends.
    Stuck,
    /// It reports a failure of this class, which may resolve later.
    Fails(Class),
}

/// How a revision fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The class of the failure.
    pub class: Class,
    /// It does not recover on its own.
    pub terminal: bool,
}

/// A closed change window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closure {
    /// The reason of the caller.
    pub why: Ineligible,
    /// A unit may start to revert.
    pub reverts: bool,
    /// A withdrawal may start.
    pub withdrawals: bool,
    /// Stages continue without the unit, unless it is changing.
    pub skips: bool,
}

/// One simulated unit.
#[derive(Clone, Debug)]
pub struct Member {
    /// The incarnation of the unit.
    pub incarnation: Incarnation,
    /// It is selected.
    pub selected: bool,
    /// Its desired content is known.
    pub resolved: bool,
    /// Its position in the order of stages.
    pub place: StagePosition,
    /// Its domain.
    pub domain: Option<Domain>,
    /// The number of its values.
    pub values: u32,
    /// The content that it is pinned to.
    pub pin: Option<Revision>,
    /// Whether it can be changed.
    pub eligible: Eligible,
    /// The change window that is closed.
    pub closed: Option<Closure>,
    /// It is available.
    pub available: bool,
    /// It is disconnected: it sends no reports, and reads nothing.
    pub away: bool,
    /// The assignment that is written for it.
    pub assignment: Option<Assignment>,
    /// The report that others see.
    pub report: Option<Report>,
    /// How long it takes.
    pub pace: Pace,
    /// The problem of the unit.
    pub trouble: Option<Trouble>,
    /// The revisions that fail on it.
    pub faults: BTreeMap<Revision, Fault>,
    /// Digests of a real fleet; others are generated.
    pub known: BTreeMap<Revision, Digest>,
    /// The assignment that it acknowledged last.
    pub(crate) acknowledged: Token,
    /// When its last report arrives: no later report arrives earlier.
    pub(crate) mail: Millis,
    /// How often its assignment was written.
    pub(crate) writes: u32,
}

impl Member {
    /// A unit without content.
    pub fn new(pace: Pace) -> Self {
        Self {
            incarnation: Incarnation::default(),
            selected: true,
            resolved: true,
            place: StagePosition::Last,
            domain: None,
            values: 0,
            pin: None,
            eligible: Eligible::Yes,
            closed: None,
            available: true,
            away: false,
            assignment: None,
            report: None,
            pace,
            trouble: None,
            faults: BTreeMap::new(),
            known: BTreeMap::new(),
            acknowledged: Token(0),
            mail: Millis(0),
            writes: 0,
        }
    }

    /// Starts from the observed state of this unit. `last_good` is that of the memory.
    pub fn of(unit: &Unit, last_good: Option<Revision>, pace: Pace) -> Self {
        let mut known = BTreeMap::new();
        if let Desired::Content {
            revision,
            digest,
            last_good: good,
        } = unit.desired
        {
            known.extend(last_good.zip(good));
            known.insert(revision, digest);
        }
        let pinned = match unit.desired {
            Desired::Content { revision, .. } if unit.pinned => Some(revision),
            _ => None,
        };
        Self {
            incarnation: unit.incarnation,
            selected: unit.selected(),
            resolved: unit.desired != Desired::Unresolved,
            place: unit.place,
            domain: unit.domain,
            pin: pinned,
            eligible: unit.eligible,
            available: unit.available,
            away: !unit.is_eligible(),
            assignment: unit.assigned,
            report: unit.observed.clone(),
            known,
            ..Self::new(pace)
        }
    }

    /// The digest that it gets for a revision.
    pub fn digest(&self, revision: Revision) -> Digest {
        let known = self.known.get(&revision).copied();
        known.unwrap_or_else(|| digest(revision, self.values))
    }

    /// The unit as the engine reads it.
    pub(crate) fn unit(&self, id: &UnitId, target: Option<Revision>, memory: &Memory) -> Unit {
        let unit = Unit {
            id: id.clone(),
            incarnation: self.incarnation,
            desired: self.desired(target, memory),
            assigned: self.assignment,
            observed: self.report.clone(),
            eligible: self.eligible,
            place: self.place,
            domain: self.domain,
            available: self.available,
            pinned: self.pin.is_some() && self.pin != target,
        };
        let Some(closed) = self.closed.filter(|_| self.eligible == Eligible::Yes) else {
            return unit;
        };
        let eligible = if closed.skips && memory.may_skip(&unit) {
            Eligible::No(closed.why)
        } else {
            Eligible::Closed {
                why: closed.why,
                reverts: closed.reverts,
                withdrawals: closed.withdrawals,
            }
        };
        Unit { eligible, ..unit }
    }

    fn desired(&self, target: Option<Revision>, memory: &Memory) -> Desired {
        match self.pin.or(target) {
            _ if !self.selected => Desired::Nothing,
            Some(revision) if self.resolved => Desired::Content {
                revision,
                digest: self.digest(revision),
                last_good: memory.last_good.map(|good| self.digest(good)),
            },
            _ => Desired::Unresolved,
        }
    }

    /// The assignment that it can read, if it has content or is a withdrawal.
    pub(crate) fn task(&self) -> Option<Assignment> {
        self.assignment
            .filter(|row| !self.away && row.content != Content::Nothing)
    }

    /// The result of its work; None: nothing yet.
    pub(crate) fn outcome(&self, content: Content) -> Option<State> {
        let fails = |class: Class, terminal: bool, message: &str| State::Failed {
            class,
            terminal,
            message: message.into(),
        };
        match (self.trouble, content) {
            (Some(Trouble::Deaf | Trouble::Stuck), _) => None,
            (Some(Trouble::Fails(Class::Infra)), _) => {
                Some(fails(Class::Infra, false, "the registry does not answer"))
            }
            (_, Content::Withdraw) => Some(State::Withdrawn),
            (_, Content::Nothing) => None,
            (trouble, Content::Carries { revision, .. }) => {
                let fault = revision.and_then(|revision| self.faults.get(&revision));
                Some(match (trouble, fault) {
                    (Some(Trouble::Fails(class)), _) => fails(class, false, "Deployment app: quota exceeded"),
                    (_, Some(fault)) => fails(fault.class, fault.terminal, "Deployment app: image not found"),
                    (_, None) => State::Succeeded,
                })
            }
        }
    }
}

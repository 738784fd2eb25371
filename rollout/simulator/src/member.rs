//! One simulated unit: what stands written for it, what it is seen to say, and how it goes about its work.

use std::collections::BTreeMap;

use muster_rollout::{
    Class, Content, Desired, Digest, Domain, Echo, Eligible, Incarnation, Ineligible, Memory, Millis, Place,
    Revision, Row, State, Token, Unit, UnitId,
};

use crate::digest;

/// How long a unit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From its row being written until it acknowledges it.
    pub pickup: Millis,
    /// From there until it is done.
    pub work: Millis,
}

/// What is wrong with a unit, whatever it shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not look at its row.
    Deaf,
    /// It begins, and does not end.
    Stuck,
    /// It reports a failure of this class, which waiting may mend.
    Fails(Class),
}

/// How a revision fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it is.
    pub class: Class,
    /// It will not get better by itself.
    pub terminal: bool,
}

/// A closed change window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closure {
    /// The reason that is given.
    pub why: Ineligible,
    /// A unit may begin to go back.
    pub reverts: bool,
    /// A withdrawal may begin.
    pub withdrawals: bool,
    /// Stages go on without the unit, unless it is being changed.
    pub skips: bool,
}

/// One simulated unit.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which life of it.
    pub incarnation: Incarnation,
    /// It shall have something.
    pub selected: bool,
    /// What it shall have is known.
    pub resolved: bool,
    /// Where it comes.
    pub place: Place,
    /// What it shares with others.
    pub domain: Option<Domain>,
    /// The number of its values.
    pub values: u32,
    /// What somebody pinned it to.
    pub pin: Option<Revision>,
    /// Whether it can be touched.
    pub eligible: Eligible,
    /// The change window that closes it.
    pub closed: Option<Closure>,
    /// It does its work.
    pub available: bool,
    /// Nothing comes from it, and it sees nothing.
    pub away: bool,
    /// What stands written for it.
    pub row: Option<Row>,
    /// What it is seen to say.
    pub echo: Option<Echo>,
    /// How long it takes.
    pub pace: Pace,
    /// What is wrong with it.
    pub trouble: Option<Trouble>,
    /// The revisions that fail on it.
    pub faults: BTreeMap<Revision, Fault>,
    /// Digests of a real fleet; others are made up.
    pub known: BTreeMap<Revision, Digest>,
    /// The row that it acknowledged last.
    pub(crate) acknowledged: Token,
    /// When what it said last arrives: nothing that it says later arrives sooner.
    pub(crate) mail: Millis,
    /// How often its row was written.
    pub(crate) writes: u32,
}

impl Member {
    /// One that has nothing yet.
    pub fn new(pace: Pace) -> Self {
        Self {
            incarnation: Incarnation::default(),
            selected: true,
            resolved: true,
            place: Place::Last,
            domain: None,
            values: 0,
            pin: None,
            eligible: Eligible::Yes,
            closed: None,
            available: true,
            away: false,
            row: None,
            echo: None,
            pace,
            trouble: None,
            faults: BTreeMap::new(),
            known: BTreeMap::new(),
            acknowledged: Token(0),
            mail: Millis(0),
            writes: 0,
        }
    }

    /// One that is as this unit was seen, and goes on from there. `last_good` is that of the memory.
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
            row: unit.assigned,
            echo: unit.observed.clone(),
            known,
            ..Self::new(pace)
        }
    }

    /// What it gets of a revision.
    pub fn digest(&self, revision: Revision) -> Digest {
        let known = self.known.get(&revision).copied();
        known.unwrap_or_else(|| digest(revision, self.values))
    }

    /// As it is seen.
    pub(crate) fn unit(&self, id: &UnitId, target: Option<Revision>, memory: &Memory) -> Unit {
        let unit = Unit {
            id: id.clone(),
            incarnation: self.incarnation,
            desired: self.desired(target, memory),
            assigned: self.row,
            observed: self.echo.clone(),
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

    /// The row that it can see, if it asks for something.
    pub(crate) fn task(&self) -> Option<Row> {
        self.row
            .filter(|row| !self.away && row.content != Content::Nothing)
    }

    /// What comes of its work; None: nothing yet.
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

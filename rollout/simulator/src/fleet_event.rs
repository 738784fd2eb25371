//! Events of units, and of users.

use std::collections::BTreeSet;

use muster_rollout::{Absence, ControlCommand, Limit, Millis, Revision, UnitId};

use crate::{Closure, Pace, Trouble};

/// An event at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetEvent {
    /// An event of a unit.
    To(UnitId, UnitEvent),
    /// A change of the desired state.
    Wish(SpecChange),
    /// The leader dies, and there is none for some time. Its pending writes may still arrive.
    Crash {
        /// The duration without a leader.
        gap: Millis,
        /// The memory is lost and rebuilt.
        lost: bool,
    },
}

/// An event of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitEvent {
    /// It gets this problem.
    Breaks(Trouble),
    /// Its problem is gone.
    Recovers,
    /// Its duration changes.
    Takes(Pace),
    /// It becomes unreachable.
    Disappears(Absence),
    /// It is held.
    IsHeld(Absence),
    /// Its turn has not come yet.
    IsBehind,
    /// Its change window closes.
    Closes(Closure),
    /// Its change window opens again.
    Opens,
    /// It becomes unavailable.
    IsUnavailable,
    /// It becomes available.
    IsAvailable,
    /// It becomes eligible again.
    Returns,
    /// It joins the fleet.
    Joins,
    /// It leaves the fleet.
    Leaves,
    /// It is replaced by another one with the same name.
    IsReplaced,
    /// It is deselected.
    IsDeselected,
    /// It is selected again.
    IsReselected,
    /// Its values change.
    GetsValues,
    /// Its desired content becomes unknown.
    IsUnresolved,
    /// Its desired content becomes known.
    IsResolved,
    /// It is pinned.
    IsPinned(Revision),
    /// Its pin is removed.
    IsUnpinned,
    /// Its report is deleted; it reports again after the next read.
    IsForgotten,
    /// A report about something else becomes visible: an older assignment, another digest, or an assignment that was
    /// never written.
    Lies,
}

/// A change of the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecChange {
    /// Another target, or an unknown one.
    Target(Option<Revision>),
    /// Another limit.
    Limit(Limit),
    /// The rollout is paused or resumed.
    Pause(bool),
    /// The held withdrawal is acknowledged.
    Acknowledge,
    /// Exactly these units are abandoned.
    GiveUp(BTreeSet<UnitId>),
    /// A one-time command is given.
    Say(ControlCommand),
}

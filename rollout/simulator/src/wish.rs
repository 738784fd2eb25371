//! What happens in a fleet, and what people wish meanwhile.

use std::collections::BTreeSet;

use muster_rollout::{Absence, Limit, Millis, Revision, Says, UnitId};

use crate::{Closure, Pace, Trouble};

/// Something that happens at some instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// To a unit.
    To(UnitId, What),
    /// Somebody wishes something else.
    Wish(Wish),
    /// Who decides dies, and nobody decides for so long. What it had sent may still arrive.
    Crash {
        /// How long.
        gap: Millis,
        /// The memory is lost, and rebuilt.
        lost: bool,
    },
}

/// Something that happens to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something is wrong with it.
    Breaks(Trouble),
    /// Nothing is.
    Recovers,
    /// It takes longer, or less.
    Takes(Pace),
    /// It cannot be reached.
    Disappears(Absence),
    /// Somebody holds it.
    IsHeld(Absence),
    /// Its turn may not come yet.
    IsBehind,
    /// Its change window closes.
    Closes(Closure),
    /// It opens again.
    Opens,
    /// It does its work no longer.
    IsUnavailable,
    /// It does.
    IsAvailable,
    /// It can be touched.
    Returns,
    /// It joins the fleet.
    Joins,
    /// It leaves the fleet.
    Leaves,
    /// Another one gets its name.
    IsReplaced,
    /// It is selected no longer.
    IsDeselected,
    /// It is selected again.
    IsReselected,
    /// Its values change.
    GetsValues,
    /// What it shall have cannot be found out.
    IsUnresolved,
    /// It can be.
    IsResolved,
    /// It is pinned.
    IsPinned(Revision),
    /// It is not.
    IsUnpinned,
    /// What it said is deleted; it says it again when it looks.
    IsForgotten,
    /// A report is seen that is about something else: an older row, another digest, or none that anybody wrote.
    Lies,
}

/// What people wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Another revision, or none that is known.
    Target(Option<Revision>),
    /// Another limit.
    Limit(Limit),
    /// Nothing new begins, or it goes on.
    Pause(bool),
    /// The withdrawal that is held now may begin.
    Acknowledge,
    /// These units are given up, and no others.
    GiveUp(BTreeSet<UnitId>),
    /// Something is said once.
    Say(Says),
}

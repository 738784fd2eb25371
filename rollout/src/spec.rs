//! What people wish: the target and how it shall be rolled out.

use std::collections::BTreeSet;

use crate::{Millis, Revision, UnitId};

/// The settings of one module, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The revision that every selected unit shall get. None: not known yet (its source cannot be read); nothing new moves.
    pub target: Option<Revision>,
    /// How many units change at once.
    pub strategy: Strategy,
    /// The most units that may be charged at one time. Of no effect with [`Strategy::Replace`].
    pub limit: Limit,
    /// How long a unit must have been seen as succeeded before it is confirmed.
    pub min_ready: Millis,
    /// What a condemned revision leads to.
    pub on_failure: OnFailure,
    /// How many units may fail before the revision is condemned (a percentage is of the selected units, whether they can be
    /// touched or not: that others cannot be reached condemns nothing).
    pub max_failed: Limit,
    /// How long is waited for what.
    pub deadlines: Deadlines,
    /// What a unit gets first that joins while a run is under way.
    pub on_join: OnJoin,
    /// How units are left that are no longer selected.
    pub withdraw: Withdraw,
    /// No new charge; the charged ones finish.
    pub paused: bool,
    /// Units that somebody gave up, for as long as they are named here: what is left of them is not waited for, see
    /// [`Step::Abandon`](crate::Step::Abandon). Of no effect on selected units, nor on those that have nothing left.
    pub abandoned: BTreeSet<UnitId>,
    /// The units given to [`plan`](crate::plan) are a complete and successful read, not older than the memory given with them.
    /// When false nothing is withdrawn, nothing is concluded to be good, and a unit that is missing is absent rather than gone.
    pub complete: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            target: None,
            strategy: Strategy::Incremental,
            limit: Limit::Count(1),
            min_ready: Millis(0),
            on_failure: OnFailure::Halt,
            max_failed: Limit::Count(0),
            deadlines: Deadlines::default(),
            on_join: OnJoin::LastGood,
            withdraw: Withdraw::default(),
            paused: false,
            abandoned: BTreeSet::new(),
            complete: true,
        }
    }
}

/// How many units change at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// All of them.
    Replace,
    /// As many as the limit allows.
    Incremental,
}

/// A number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// This part of a whole (0 to 100; more is 100).
    Percent(u8),
}

/// What a condemned revision leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing new; who is in flight may still confirm.
    Halt,
}

/// How long is waited for what, on time that the unit was eligible and somebody led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From the row being written until the unit acknowledges it.
    pub pickup: Millis,
    /// From the acknowledgement until it is confirmed.
    pub progress: Millis,
    /// How long a charged unit that is not eligible keeps its slot.
    pub absence: Millis,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            pickup: Millis::minutes(5),
            progress: Millis::minutes(10),
            absence: Millis::minutes(5),
        }
    }
}

/// What a unit gets first that joins while a run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnJoin {
    /// The last good revision, if there is one, and the target when its turn comes.
    LastGood,
    /// The target, when its turn comes.
    Target,
}

/// How units are left that are no longer selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdraw {
    /// The most units withdrawn from at one time, beside the limit (a percentage is of the units that carry something).
    pub max: Limit,
    /// More than this (and more than one) deselected at once waits for an acknowledgement. None: no brake.
    pub brake: Option<Limit>,
    /// What becomes of the content.
    pub how: How,
    /// The withdrawal that somebody acknowledged, as named by [`Why::WithdrawalHeld`](crate::Why::WithdrawalHeld).
    pub acknowledged: Option<String>,
}

impl Default for Withdraw {
    fn default() -> Self {
        Self {
            max: Limit::Percent(10),
            brake: Some(Limit::Percent(20)),
            how: How::Prune,
            acknowledged: None,
        }
    }
}

/// What becomes of the content of a unit that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It is removed.
    Prune,
    /// It stays, nobody's.
    Orphan,
}

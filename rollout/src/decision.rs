//! What is decided: the new memory, steps, one reason for each unit, a summary, and when to ask again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Class, Digest, Evidence, GateId, How, Ineligible, Memory, Millis, Outcome, Revision, Token, UnitId,
    Verdict,
};

/// The outcome of one [`plan`](crate::plan).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// To be written by compare-and-swap before any step is carried out.
    pub memory: Memory,
    /// To be carried out in any order; any of them may fail, the next plan repeats it.
    pub steps: Vec<Step>,
    /// The counts.
    pub summary: Summary,
    /// Exactly one reason for each unit, ordered by unit.
    pub reasons: Vec<(UnitId, Why)>,
    /// What is in the way of the stage that is open, whether somebody waits behind it or not.
    pub open: Option<Why>,
    /// When time alone will change something. None: only an event will.
    pub wake_at: Option<Millis>,
    /// What was said once and is taken now, and whether it had an effect. An edge, as verdicts are.
    pub taken: Vec<(u64, bool)>,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Write this into the unit's row, if the row's token is smaller.
    Assign {
        /// The unit.
        unit: UnitId,
        /// The revision: the desired one or the last good one.
        revision: Revision,
        /// That revision with this unit's values.
        digest: Digest,
        /// The token that the row gets.
        token: Token,
    },
    /// Turn the unit's row into a withdrawal, if the row's token is smaller.
    Withdraw {
        /// The unit.
        unit: UnitId,
        /// The token that the row gets.
        token: Token,
        /// What becomes of the content.
        how: How,
    },
    /// Raise the token of the unit's row and change nothing else; without a row, write one with name and token.
    Fence {
        /// The unit.
        unit: UnitId,
        /// The token that the row gets.
        token: Token,
    },
    /// Leave nothing of the unit's row but name and token, if the row's token is smaller: it is no longer selected, and somebody gave
    /// it up ([`Spec::abandoned`](crate::Spec::abandoned)). What it has stays there, nobody's.
    ///
    /// The row stays, as that of a withdrawal does. Without it nobody who reads of no row could tell whether it is gone or was not
    /// there yet, and whoever saw none would write with a token of before what was given up (W3, W5).
    Abandon {
        /// The unit.
        unit: UnitId,
        /// The token that the row gets.
        token: Token,
    },
    /// Read a gate, and give its [`Reading`](crate::Reading) with the next plan. Repeated until that comes.
    Evaluate {
        /// Which.
        gate: GateId,
    },
    /// A verdict was reached in this plan. An edge: what holds is [`Memory::verdict`], to be compared with what is recorded.
    Conclude {
        /// The revision.
        revision: Revision,
        /// Good or bad.
        verdict: Verdict,
        /// Of a bad one: who failed, how, when.
        evidence: Option<Evidence>,
    },
}

/// Why a unit is where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// It cannot be touched.
    Ineligible {
        /// The caller's reason.
        reason: Ineligible,
        /// Since when its slot is kept for it.
        since: Option<Millis>,
    },
    /// Deselected together with so many others that somebody must acknowledge it.
    WithdrawalHeld {
        /// What the acknowledgement must name.
        acknowledge: Arc<str>,
        /// How many units are held.
        units: u32,
    },
    /// What it has is being withdrawn.
    Withdrawing {
        /// Since when.
        since: Millis,
        /// What is in the way, if it says so.
        message: Option<Arc<str>>,
    },
    /// Its row cannot be written ([`Spec::refused`](crate::Spec::refused)).
    WriteFailed {
        /// Since when it is charged.
        since: Millis,
        /// For longer than a row may take to be picked up.
        overdue: bool,
        /// The words of the refusal.
        message: Arc<str>,
    },
    /// It reports a failure.
    Failed {
        /// Whose fault it is.
        class: Class,
        /// What it says.
        message: Arc<str>,
        /// When the failure was counted, or since when it is charged if it was not; None after a run, when it is not charged.
        since: Option<Millis>,
        /// When the failure will count, if it does not yet.
        until: Option<Millis>,
    },
    /// It acknowledged the change but does not finish.
    Overdue {
        /// Since when it is charged.
        since: Millis,
    },
    /// It does not acknowledge the change.
    NotPickedUp {
        /// Since when it is charged.
        since: Millis,
    },
    /// It was not ready before; what it does now counts for nothing.
    AlreadyUnready {
        /// What it says, if it does.
        message: Option<Arc<str>>,
        /// Since when it is charged; None while it waits for its turn.
        since: Option<Millis>,
    },
    /// It was confirmed at the target and is no longer ready.
    Relapsed {
        /// Since when.
        since: Millis,
        /// When that will count as a failure.
        until: Option<Millis>,
    },
    /// It is being changed.
    Updating {
        /// Since when.
        since: Millis,
        /// When that will count as a failure; None while the clock stands.
        until: Option<Millis>,
        /// It acknowledged the change.
        picked_up: bool,
        /// What holds it up, if it says so.
        message: Option<Arc<str>>,
    },
    /// It succeeded and has to stay so for a while.
    Soaking {
        /// Since when.
        since: Millis,
        /// Until when.
        until: Millis,
    },
    /// Somebody pinned it to something else than the target.
    Pinned {
        /// What is in the way of that, if anything.
        message: Option<Arc<str>>,
    },
    /// It goes back to the last good revision.
    Reverting {
        /// Since when.
        since: Millis,
        /// When that will be late.
        until: Option<Millis>,
        /// What holds it up, if it says so.
        message: Option<Arc<str>>,
    },
    /// The target was known to be bad when it was set.
    KnownBad {
        /// The target.
        revision: Revision,
        /// Who failed, how, when.
        evidence: Evidence,
    },
    /// The target was condemned in this run.
    Halted {
        /// The target.
        revision: Revision,
        /// Who failed, how, when.
        evidence: Evidence,
    },
    /// Somebody aborted the run of the target.
    Aborted {
        /// The target.
        revision: Revision,
    },
    /// The rollout is paused.
    Paused,
    /// Its turn may not come yet, for a reason of the caller's.
    NotYet {
        /// The caller's reason.
        reason: Ineligible,
    },
    /// No change may begin: a change window is closed.
    Closed {
        /// The caller's reason.
        reason: Ineligible,
    },
    /// What it shall have is not known.
    Unresolved,
    /// A stage before its own is done but for somebody's approval.
    WaitingApproval {
        /// That stage.
        stage: Arc<str>,
    },
    /// A stage before its own is done but for a gate.
    WaitingGate {
        /// That stage.
        stage: Arc<str>,
        /// The gate.
        gate: GateId,
        /// What it said last, and when.
        last: Option<(Outcome, Millis)>,
        /// How many times in a row it held, and has to.
        passes: (u32, u32),
    },
    /// A stage before its own is not done.
    WaitingStage {
        /// That stage.
        stage: Arc<str>,
        /// Some of its units that are not confirmed.
        units: Arc<[UnitId]>,
        /// When it has been confirmed for long enough, if all of them are.
        until: Option<Millis>,
    },
    /// Units of other domains are changing, or such as are not in the view, so that theirs are not known; or as many of its own domain as
    /// may; or domains before its own are not done.
    WaitingDomain {
        /// Some of those units.
        holders: Arc<[UnitId]>,
    },
    /// It is available, and as many units are changing or not available as may be.
    WaitingBudget {
        /// Some of them.
        holders: Arc<[UnitId]>,
        /// How many may be.
        limit: u32,
    },
    /// The batch that is open has no place any more.
    WaitingBatch {
        /// Some of those that are not confirmed.
        holders: Arc<[UnitId]>,
        /// The size of the batch.
        size: u32,
    },
    /// The window is full.
    WaitingTurn {
        /// Some of those who fill it.
        holders: Arc<[UnitId]>,
        /// How many it holds.
        limit: u32,
    },
    /// It shall be withdrawn, or takes the place of a namesake, but the last read was not complete.
    WaitingRead,
    /// It has what it shall have.
    UpToDate,
    /// It is not selected, and has nothing or was given up.
    Excluded,
}

impl Why {
    /// The place of this reason in the order of all reasons, those of later features and of the caller included: the smaller wins.
    /// 0 to 11 are the caller's, for units that cannot be touched (9 is the engine's, too: a pin); 26 is, for those that wait for
    /// something that it knows.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Ineligible { reason, .. } | Self::NotYet { reason } | Self::Closed { reason } => {
                reason.rank
            }
            Self::Pinned { .. } => 9,
            Self::WithdrawalHeld { .. } => 12,
            Self::Withdrawing { .. } => 13,
            // No unit has both: one that failed has its row.
            Self::WriteFailed { .. } | Self::Failed { .. } => 14,
            Self::Overdue { .. } => 15,
            Self::NotPickedUp { .. } => 16,
            Self::AlreadyUnready { .. } => 17,
            Self::Relapsed { .. } => 18,
            Self::Updating { .. } => 19,
            Self::Soaking { .. } => 20,
            Self::Reverting { .. } => 21,
            Self::KnownBad { .. } => 22,
            Self::Halted { .. } => 23,
            Self::Aborted { .. } => 24,
            Self::Paused => 25,
            Self::Unresolved => 27,
            Self::WaitingApproval { .. } => 28,
            Self::WaitingGate { .. } => 29,
            Self::WaitingStage { .. } => 30,
            Self::WaitingDomain { .. } => 31,
            Self::WaitingBatch { .. } => 32,
            Self::WaitingTurn { .. } | Self::WaitingBudget { .. } | Self::WaitingRead => 33,
            Self::UpToDate => 34,
            Self::Excluded => 35,
        }
    }
}

/// The counts of one decision. `total` = up to date + updating + waiting + failed + skipped + held, by their reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Selected units.
    pub total: u32,
    /// Selected units that are confirmed at what they shall have, eligible or not; those that are pinned are apart.
    pub updated: u32,
    /// Selected, eligible units that are confirmed and report success now.
    pub ready: u32,
    /// Selected units being changed.
    pub updating: u32,
    /// Selected units that wait for something.
    pub waiting: u32,
    /// Selected units that failed, overran, or were not ready before.
    pub failed: u32,
    /// Selected units that cannot be touched.
    pub skipped: u32,
    /// Selected units that are pinned to something else than the target.
    pub held: u32,
    /// Units that are, or shall be, withdrawn from.
    pub withdrawing: u32,
    /// Charged units that count against the limit.
    pub charged: u32,
    /// The limit in units, as it is now.
    pub limit: u32,
    /// Where the run stands.
    pub phase: Phase,
}

/// Where the run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Phase {
    /// There is no target yet.
    #[default]
    Idle,
    /// Units are on the way.
    Rolling,
    /// Somebody paused it.
    Paused,
    /// The target was condemned.
    Halted,
    /// It was condemned, or aborted, and units go back to the last good revision.
    Reverting,
    /// Somebody aborted it.
    Aborted,
    /// Every eligible selected unit was confirmed.
    Done,
}

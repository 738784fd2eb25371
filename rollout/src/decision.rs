//! The decision: the new memory, steps, one reason for each unit, a summary, and when to decide again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Class, Digest, Evidence, GateId, GateResult, How, Ineligible, Memory, Millis, Revision, Token, UnitId,
    Verdict,
};

/// The result of one [`plan`](crate::plan).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Must be written by compare-and-swap before any step is applied.
    pub memory: Memory,
    /// Can be applied in any order; if one fails, the next plan repeats it.
    pub steps: Vec<Step>,
    /// The counts.
    pub summary: Summary,
    /// Exactly one reason for each unit, ordered by unit.
    pub reasons: Vec<(UnitId, Why)>,
    /// What the open stage waits for, whether other units wait behind it or not.
    pub open: Option<Why>,
    /// When time alone changes something. None: only an event does.
    pub wake_at: Option<Millis>,
    /// The ids of the controls taken by this decision, and whether each had an effect. Reported once, like verdicts.
    pub taken: Vec<(u64, bool)>,
}

/// A write or an action that the caller must apply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Write this into the unit's assignment, if the token there is smaller.
    Assign {
        /// The unit.
        unit: UnitId,
        /// The revision: the desired one or the last good one.
        revision: Revision,
        /// That revision with this unit's values.
        digest: Digest,
        /// The new token of the assignment.
        token: Token,
    },
    /// Turn the unit's assignment into a withdrawal, if the token there is smaller.
    Withdraw {
        /// The unit.
        unit: UnitId,
        /// The new token of the assignment.
        token: Token,
        /// What happens to the content.
        how: How,
    },
    /// Raise the token of the unit's assignment and change nothing else; without an assignment, write one with name and
    /// token.
    Fence {
        /// The unit.
        unit: UnitId,
        /// The new token of the assignment.
        token: Token,
    },
    /// Empty the unit's assignment except for name and token, if the token there is smaller: the unit is no longer
    /// selected, and it was abandoned ([`Spec::abandoned`](crate::Spec::abandoned)). Its content stays there, without
    /// an owner.
    ///
    /// The assignment itself stays, as after a withdrawal. Without it a reader could not tell whether it was removed or
    /// did not exist yet, and could write with an older token (W3, W5).
    Abandon {
        /// The unit.
        unit: UnitId,
        /// The new token of the assignment.
        token: Token,
    },
    /// Read a gate, and pass its [`Reading`](crate::Reading) to the next plan. Repeated until it is passed.
    Evaluate {
        /// The gate.
        gate: GateId,
    },
    /// This plan reached a verdict. It is reported once; [`Memory::verdict`] has the current one, which can be compared
    /// with what is recorded.
    Conclude {
        /// The revision.
        revision: Revision,
        /// Good or bad.
        verdict: Verdict,
        /// For a bad revision: the unit that failed, its message, and the time.
        evidence: Option<Evidence>,
    },
}

/// The reason for the state of a unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// It cannot be changed.
    Ineligible {
        /// The caller's reason.
        reason: Ineligible,
        /// Since when its slot has been kept for it.
        since: Option<Millis>,
    },
    /// It was deselected together with so many others that an acknowledgement is required.
    WithdrawalHeld {
        /// The name that the acknowledgement must contain.
        acknowledge: Arc<str>,
        /// Number of units that are held.
        units: u32,
    },
    /// Its content is being withdrawn.
    Withdrawing {
        /// When the withdrawal was decided.
        since: Millis,
        /// The reported problem, if any.
        message: Option<Arc<str>>,
    },
    /// Its assignment cannot be written ([`Spec::refused`](crate::Spec::refused)).
    WriteFailed {
        /// Since when it is in flight.
        since: Millis,
        /// It has not been written within `deadlines.pickup`.
        overdue: bool,
        /// The error message of the API server.
        message: Arc<str>,
    },
    /// It reports a failure.
    Failed {
        /// The class of the failure.
        class: Class,
        /// The reported message.
        message: Arc<str>,
        /// When the failure was counted, or since when the unit is in flight if it was not; None after a run, when the
        /// unit is not in flight.
        since: Option<Millis>,
        /// When the failure will count, if it does not yet.
        until: Option<Millis>,
    },
    /// It acknowledged the change but does not finish.
    Overdue {
        /// Since when it is in flight.
        since: Millis,
    },
    /// It does not acknowledge the change.
    NotPickedUp {
        /// Since when it is in flight.
        since: Millis,
    },
    /// It was not ready before the change, so its failure does not count.
    AlreadyUnready {
        /// The reported message, if any.
        message: Option<Arc<str>>,
        /// Since when it is in flight; None while it waits for its turn.
        since: Option<Millis>,
    },
    /// It was confirmed at the target and is no longer ready.
    Relapsed {
        /// Since when it is in flight again.
        since: Millis,
        /// When this counts as a failure.
        until: Option<Millis>,
    },
    /// It is being changed.
    Updating {
        /// Since when it is in flight.
        since: Millis,
        /// When this counts as a failure; None while the clock is stopped.
        until: Option<Millis>,
        /// It acknowledged the change.
        picked_up: bool,
        /// What holds it up, if reported.
        message: Option<Arc<str>>,
    },
    /// It succeeded, and has to stay so for `minReadySeconds`.
    Soaking {
        /// Since when it has been observed as succeeded.
        since: Millis,
        /// When it is confirmed.
        until: Millis,
    },
    /// A pin sets other content than the target.
    Pinned {
        /// The problem with the pinned content, if any.
        message: Option<Arc<str>>,
    },
    /// It returns to the last good revision.
    Reverting {
        /// Since when it is in flight.
        since: Millis,
        /// When this is overdue.
        until: Option<Millis>,
        /// What holds it up, if reported.
        message: Option<Arc<str>>,
    },
    /// The target was known to be bad when it was set.
    KnownBad {
        /// The target.
        revision: Revision,
        /// The unit that failed, its message, and the time.
        evidence: Evidence,
    },
    /// The target was condemned in this run.
    Halted {
        /// The target.
        revision: Revision,
        /// The unit that failed, its message, and the time.
        evidence: Evidence,
    },
    /// The run of the target was aborted.
    Aborted {
        /// The target.
        revision: Revision,
    },
    /// The rollout is paused.
    Paused,
    /// Its turn has not come yet, for a reason of the caller.
    NotYet {
        /// The caller's reason.
        reason: Ineligible,
    },
    /// No change may start: a change window is closed.
    Closed {
        /// The caller's reason.
        reason: Ineligible,
    },
    /// Its desired content is not known.
    Unresolved,
    /// An earlier stage waits only for its approval.
    WaitingApproval {
        /// That stage.
        stage: Arc<str>,
    },
    /// An earlier stage waits only for a gate.
    WaitingGate {
        /// That stage.
        stage: Arc<str>,
        /// The gate.
        gate: GateId,
        /// The last result and its time.
        last: Option<(GateResult, Millis)>,
        /// Consecutive passes so far, and the number required.
        passes: (u32, u32),
    },
    /// An earlier stage is not done.
    WaitingStage {
        /// That stage.
        stage: Arc<str>,
        /// Some of its units that are not confirmed.
        units: Arc<[UnitId]>,
        /// When its soak ends, if all its units are confirmed.
        until: Option<Millis>,
    },
    /// Units of other domains are changing, or units in flight are not in the view, so their domains are unknown; or
    /// its own domain has used up its limit; or earlier domains are not done.
    WaitingDomain {
        /// Some of those units.
        holders: Arc<[UnitId]>,
    },
    /// It is available, and the number of units that are changing or unavailable is at its limit.
    WaitingBudget {
        /// Some of the units that are changing or unavailable.
        holders: Arc<[UnitId]>,
        /// The limit.
        limit: u32,
    },
    /// The open batch is full.
    WaitingBatch {
        /// Some of its units that are not confirmed.
        holders: Arc<[UnitId]>,
        /// The size of the batch.
        size: u32,
    },
    /// The limit is used up.
    WaitingTurn {
        /// Some of the units in flight.
        holders: Arc<[UnitId]>,
        /// The limit.
        limit: u32,
    },
    /// It must be withdrawn from, or replaces a unit of the same name, but the last read was not complete.
    WaitingRead,
    /// It has its desired content.
    UpToDate,
    /// It is not selected, and has nothing or was abandoned.
    Excluded,
}

impl Why {
    /// The priority of this reason among all reasons, including those of later features and of the caller: the smallest
    /// wins. 0 to 11 are reserved for the caller, for units that cannot be changed (9 is also used for pins); 26 is
    /// reserved for the caller, for units that wait for something that it knows.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Ineligible { reason, .. } | Self::NotYet { reason } | Self::Closed { reason } => {
                reason.rank
            }
            Self::Pinned { .. } => 9,
            Self::WithdrawalHeld { .. } => 12,
            Self::Withdrawing { .. } => 13,
            // No unit has both: a unit that failed has its assignment.
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
    /// Selected units that are confirmed at their desired content, eligible or not; pinned units are not included.
    pub updated: u32,
    /// Selected, eligible units that are confirmed and report success now.
    pub ready: u32,
    /// Selected units being changed.
    pub updating: u32,
    /// Selected units that wait for something.
    pub waiting: u32,
    /// Selected units that failed, are overdue, or were not ready before.
    pub failed: u32,
    /// Selected units that cannot be changed.
    pub skipped: u32,
    /// Selected units that are pinned to other content than the target.
    pub held: u32,
    /// Units that are or must be withdrawn from.
    pub withdrawing: u32,
    /// Units in flight that count against the limit.
    #[serde(rename = "charged")]
    pub in_flight: u32,
    /// The current limit in units.
    pub limit: u32,
    /// The state of the run.
    pub phase: Phase,
}

/// The state of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Phase {
    /// There is no target yet.
    #[default]
    Idle,
    /// Units are changing or waiting.
    Rolling,
    /// It is paused.
    Paused,
    /// The target was condemned.
    Halted,
    /// It was condemned or aborted, and units return to the last good revision.
    Reverting,
    /// It was aborted.
    Aborted,
    /// Every eligible selected unit was confirmed.
    Done,
}

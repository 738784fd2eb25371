//! The counts: each selected unit is in exactly one of them, by its reason.

use super::Pass;
use crate::{InFlight, Kind, Phase, RunState, State, Summary, Unit, Why};

impl Pass<'_> {
    /// The counts that need no loop over the units.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            in_flight: self.in_flight_count(),
            limit: self.limit(),
            phase: self.phase(),
            ..Summary::default()
        }
    }

    fn phase(&self) -> Phase {
        match self.memory.run.map(|run| run.state) {
            None => Phase::Idle,
            Some(RunState::Halted | RunState::KnownBad | RunState::Aborted) if self.is_reverting() => {
                Phase::Reverting
            }
            Some(RunState::Halted | RunState::KnownBad) => Phase::Halted,
            Some(RunState::Aborted) => Phase::Aborted,
            Some(RunState::Open) if self.spec.paused => Phase::Paused,
            Some(RunState::Open) => Phase::Rolling,
            Some(RunState::Good) => Phase::Done,
        }
    }
}

impl Pass<'_> {
    /// Whether a unit is reverting to the last good revision.
    fn is_reverting(&self) -> bool {
        let mut changes = self.memory.in_flight.values();
        changes.any(|change| change.kind == Kind::Revert && change.counts())
    }
}

impl Summary {
    /// Counts one unit by its reason.
    pub(super) fn add(&mut self, unit: &Unit, change: Option<&InFlight>, why: &Why) {
        if !unit.selected() {
            self.withdrawing += u32::from(!matches!(why, Why::Excluded) && !unit.is_empty());
            return;
        }
        self.total += 1;
        if change.is_none() && unit.has_desired() {
            // The content of a pinned unit is not the target.
            self.updated += u32::from(!unit.pinned);
            let now = unit.state_at_assignment() == Some(&State::Succeeded);
            self.ready += u32::from(now && unit.is_eligible());
        }
        let counter = match why {
            Why::Ineligible { .. } => &mut self.skipped,
            Why::Pinned { .. } => &mut self.held,
            Why::Failed { .. }
            | Why::Overdue { .. }
            | Why::NotPickedUp { .. }
            | Why::WriteFailed { .. }
            | Why::AlreadyUnready { .. }
            | Why::Relapsed { .. } => &mut self.failed,
            Why::Updating { .. } | Why::Soaking { .. } | Why::Reverting { .. } | Why::Withdrawing { .. } => {
                &mut self.updating
            }
            Why::KnownBad { .. }
            | Why::Halted { .. }
            | Why::Aborted { .. }
            | Why::Paused
            | Why::NotYet { .. }
            | Why::Closed { .. }
            | Why::Unresolved
            | Why::WaitingApproval { .. }
            | Why::WaitingGate { .. }
            | Why::WaitingStage { .. }
            | Why::WaitingDomain { .. }
            | Why::WaitingBudget { .. }
            | Why::WaitingBatch { .. }
            | Why::WaitingTurn { .. }
            | Why::WaitingRead
            | Why::WithdrawalHeld { .. } => &mut self.waiting,
            Why::UpToDate | Why::Excluded => return,
        };
        *counter += 1;
    }
}

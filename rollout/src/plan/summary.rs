//! The counts: each selected unit in exactly one of them, by its reason.

use super::Pass;
use crate::{Phase, RunState, State, Summary, Unit, UnitId, Why};

impl Pass<'_> {
    pub(super) fn summarize(&self, reasons: &[(UnitId, Why)]) -> Summary {
        let mut summary = Summary {
            charged: self.charged(),
            limit: self.limit(),
            phase: self.phase(),
            ..Summary::default()
        };
        for (unit, (_, why)) in self.units.iter().zip(reasons) {
            if unit.selected() {
                self.count_selected(&mut summary, unit, why);
            } else if !matches!(why, Why::Excluded) && !unit.is_empty() {
                summary.withdrawing += 1;
            }
        }
        summary
    }

    fn count_selected(&self, summary: &mut Summary, unit: &Unit, why: &Why) {
        summary.total += 1;
        if self.is_confirmed(unit) {
            summary.updated += 1;
            let now = unit.state_at_row() == Some(&State::Succeeded);
            summary.ready += u32::from(now && unit.is_eligible());
        }
        let counter = match why {
            Why::Ineligible { .. } => &mut summary.skipped,
            Why::Failed { .. }
            | Why::Overdue { .. }
            | Why::NotPickedUp { .. }
            | Why::AlreadyUnready { .. }
            | Why::Relapsed { .. } => &mut summary.failed,
            Why::Updating { .. } | Why::Soaking { .. } | Why::Withdrawing { .. } => &mut summary.updating,
            Why::KnownBad { .. }
            | Why::Halted { .. }
            | Why::Paused
            | Why::Unresolved
            | Why::WaitingTurn { .. }
            | Why::WaitingRead
            | Why::WithdrawalHeld { .. } => &mut summary.waiting,
            Why::UpToDate | Why::Excluded => return,
        };
        *counter += 1;
    }

    fn phase(&self) -> Phase {
        match self.memory.run.map(|run| run.state) {
            None => Phase::Idle,
            Some(RunState::Halted | RunState::KnownBad) => Phase::Halted,
            Some(RunState::Open) if self.spec.paused => Phase::Paused,
            Some(RunState::Open) => Phase::Rolling,
            Some(RunState::Good) => Phase::Done,
        }
    }
}

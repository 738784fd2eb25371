//! Units that are not in flight although they are not confirmed: returned, relapsed, or written by another actor.
//!
//! A unit that is not in flight counts as confirmed at its assignment. This module keeps that true against everything
//! that the memory lacks, and so also repairs a memory that is older than the assignments.

use super::Pass;
use crate::{Content, Desired, InFlight, Kind, RunState, Stopwatch, Unit};

impl Pass<'_> {
    pub(super) fn adopt_unconfirmed(&mut self) {
        let found: Vec<(&Unit, InFlight)> = self
            .units
            .iter()
            .filter(|unit| unit.is_eligible())
            .filter_map(|unit| Some((*unit, self.unconfirmed(unit)?)))
            .filter(|(unit, _)| self.in_flight_of(unit).is_none() && !self.is_abandoned(unit))
            .collect();
        for (unit, change) in found {
            self.add_in_flight(unit, change);
        }
    }

    /// The change to adopt if the unit is not confirmed at its assignment.
    pub(super) fn unconfirmed(&self, unit: &Unit) -> Option<InFlight> {
        let row = unit.assigned?;
        match row.content {
            Content::Carries { revision, digest } => match unit.state_at_assignment() {
                None => {
                    let change = InFlight::new(unit, Kind::Assign, row.token, self.now);
                    Some(InFlight {
                        revision,
                        digest: Some(digest),
                        doubtful: true,
                        ..running(change, self.now)
                    })
                }
                Some(_) if unit.failure_at_assignment().is_some() && self.relapses(unit) => {
                    let change = InFlight::new(unit, Kind::Relapsed, row.token, self.now);
                    Some(InFlight {
                        revision,
                        digest: Some(digest),
                        picked_up: true,
                        was_ready: true,
                        ..running(change, self.now)
                    })
                }
                Some(_) => None,
            },
            Content::Withdraw if unit.being_withdrawn() => {
                Some(InFlight::new(unit, Kind::Withdraw, row.token, self.now))
            }
            Content::Withdraw | Content::Nothing => None,
        }
    }

    /// Rule 1: it was confirmed at the target of the current run.
    fn relapses(&self, unit: &Unit) -> bool {
        let under_way = |state| matches!(state, RunState::Open | RunState::Halted);
        let Some(run) = self.memory.run.filter(|run| under_way(run.state)) else {
            return false;
        };
        let Desired::Content { revision, digest, .. } = unit.desired else {
            return false;
        };
        revision == run.target && unit.carries().is_some_and(|(_, carried)| carried == digest)
    }
}

fn running(change: InFlight, now: crate::Millis) -> InFlight {
    InFlight {
        clock: Stopwatch {
            from: Some(now),
            ..Stopwatch::default()
        },
        ..change
    }
}

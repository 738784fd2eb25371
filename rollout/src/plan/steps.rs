//! The steps: what the memory intends and the rows do not say yet. So a step that was lost is repeated with its
//! token, and one that was carried out is not.

use super::Pass;
use crate::{Charge, Kind, Step, Unit, UnitId};

impl Pass<'_> {
    pub(super) fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut fresh: Vec<(&UnitId, &Charge, Step)> = Vec::new();
        for (id, charge) in &self.memory.charges {
            let Some(unit) = self.unit_of(id, charge).filter(|unit| !charge.is_written(unit)) else {
                continue;
            };
            let Some(step) = self.step(unit, charge) else {
                continue;
            };
            if charge.counts() && !charge.written {
                fresh.push((id, charge, step));
            } else {
                steps.push(step);
            }
        }
        // A unit that nobody who watches the rows counts yet is written only into a window that has room for it,
        // also when the limit fell, or others came back, since it was charged.
        let others = self
            .charged()
            .saturating_sub(u32::try_from(fresh.len()).unwrap_or(u32::MAX));
        let room = usize::try_from(self.limit().saturating_sub(others)).unwrap_or(usize::MAX);
        fresh.sort_unstable_by_key(|(id, charge, _)| (charge.token, *id));
        let crowded = fresh.split_off(room.min(fresh.len()));
        steps.extend(fresh.into_iter().map(|(_, _, step)| step));
        self.crowded = crowded.into_iter().map(|(id, _, _)| id.clone()).collect();
        steps.sort_unstable_by(|one, other| one.unit().cmp(&other.unit()));
        steps
    }

    fn step(&self, unit: &Unit, charge: &Charge) -> Option<Step> {
        let (id, token) = (unit.id.clone(), charge.token);
        let free = unit.is_eligible() && !self.spec.paused;
        match charge.kind {
            Kind::Fence if charge.skipped || unit.is_eligible() => Some(Step::Fence { unit: id, token }),
            Kind::Withdraw if free && !unit.selected() && self.spec.complete => Some(Step::Withdraw {
                unit: id,
                token,
                how: self.spec.withdraw.how,
            }),
            Kind::Assign | Kind::Join | Kind::Relapsed if free => {
                let wanted = self.wanted(unit, Some(charge))?;
                let still = charge.digest == Some(wanted.digest);
                still.then_some(Step::Assign {
                    unit: id,
                    revision: wanted.revision,
                    digest: wanted.digest,
                    token,
                })
            }
            _ => None,
        }
    }
}

impl Step {
    /// The unit whose row it changes.
    pub fn unit(&self) -> Option<&UnitId> {
        match self {
            Self::Assign { unit, .. } | Self::Withdraw { unit, .. } | Self::Fence { unit, .. } => Some(unit),
            Self::Conclude { .. } => None,
        }
    }
}

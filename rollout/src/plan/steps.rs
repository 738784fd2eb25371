//! The steps: what the memory intends and the rows do not say yet. So a step that was lost is repeated with its
//! token, and one that was carried out is not.

use super::Pass;
use super::limit::count;
use crate::{Charge, Kind, Step, Token, Unit, UnitId};

impl Pass<'_> {
    pub(super) fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut fresh: Vec<(Token, UnitId, Step)> = Vec::new();
        for (id, charge) in &self.memory.charges {
            let unit = self.unit_of(id, charge).filter(|unit| !charge.is_written(unit));
            match unit.and_then(|unit| self.step(unit, charge)) {
                Some(step) if charge.counts() && !charge.sent => fresh.push((charge.token, id.clone(), step)),
                step => steps.extend(step),
            }
        }
        let fitting = self.sort_and_fit(&mut fresh);
        let crowded = fresh.split_off(fitting);
        self.crowded = crowded.into_iter().map(|(_, id, _)| id).collect();
        for (_, id, step) in fresh {
            steps.push(step);
            if let Some(charge) = self.memory.charges.get_mut(&id) {
                charge.sent = true;
            }
        }
        steps.sort_unstable_by(|one, other| one.unit().cmp(&other.unit()));
        steps
    }

    /// A unit to which nothing was sent yet is written only into a window that has room for it, also when the
    /// limit fell, or others came back, since it was charged. The oldest first.
    fn sort_and_fit(&self, fresh: &mut [(Token, UnitId, Step)]) -> usize {
        fresh.sort_unstable();
        let unsent = self
            .memory
            .charges
            .values()
            .filter(|charge| charge.counts() && !charge.sent);
        let sent = self.charged().saturating_sub(count(unsent));
        let room = usize::try_from(self.limit().saturating_sub(sent)).unwrap_or(usize::MAX);
        room.min(fresh.len())
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

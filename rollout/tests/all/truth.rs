//! E12: what makes each reason true, from the facts alone.

use muster_rollout::{
    Charge, Class, Content, Decision, Desired, Eligible, Kind, Memory, Millis, RunState, Spec, State, Unit,
    Why,
};

/// What is known about one unit.
pub struct Facts<'a> {
    pub spec: &'a Spec,
    pub before: &'a Memory,
    pub unit: &'a Unit,
    pub decision: &'a Decision,
    pub now: Millis,
}

pub fn holds(it: &Facts<'_>, why: &Why) -> bool {
    let active = it.charge().filter(|charge| !charge.skipped);
    let changing = |is: &dyn Fn(&Charge) -> bool| it.unit.selected() && active.is_some_and(is);
    match why {
        Why::Ineligible { since, .. } => {
            it.unit.eligible != Eligible::Yes && *since == it.charge().and_then(|charge| charge.absent_since)
        }
        Why::WithdrawalHeld { units, .. } => !it.unit.selected() && *units > 1,
        // One that was given up is on its way out, too, if its row asks for that.
        Why::Withdrawing { .. } => active.is_some_and(|charge| {
            matches!(charge.kind, Kind::Withdraw | Kind::Fence) || it.content() == Some(Content::Withdraw)
        }),
        Why::Failed { class, since, .. } => {
            let told = matches!(it.state(), Some(State::Failed { class: told, .. }) if told == class);
            told && *class != Class::Infra
                && (active.is_some() == since.is_some())
                && (since.is_some() || it.is_there())
        }
        Why::AlreadyUnready { .. } => !it.charge().is_some_and(|charge| charge.was_ready),
        Why::Overdue { .. } => {
            changing(&|charge| charge.picked_up && it.spent(charge) >= it.spec.deadlines.progress)
        }
        Why::NotPickedUp { .. } => {
            changing(&|charge| !charge.picked_up && it.spent(charge) >= it.spec.deadlines.pickup)
        }
        Why::Relapsed { .. } => changing(&|charge| charge.kind == Kind::Relapsed),
        Why::Updating {
            since,
            until,
            picked_up,
            ..
        } => changing(&|charge| {
            (charge.since, charge.picked_up) == (*since, *picked_up) && until.is_none_or(|at| at > it.now)
        }),
        Why::Soaking { until, .. } => {
            it.state() == Some(&State::Succeeded)
                && *until > it.now
                && changing(&|charge| charge.succeeded_since.is_some())
        }
        Why::KnownBad { .. } => it.is_bad() && !it.is_halted(),
        Why::Halted { .. } => it.is_bad() && it.is_halted(),
        Why::Paused => it.spec.paused,
        Why::Unresolved => it.unit.desired == Desired::Unresolved,
        Why::WaitingTurn { holders, limit } => {
            let fills = |charge: &&Charge| {
                if it.unit.selected() {
                    charge.counts()
                } else {
                    charge.kind == Kind::Withdraw && !charge.skipped
                }
            };
            let filled = it.decision.memory.charges.values().filter(fills).count();
            filled >= *limit as usize && holders.len() == filled.min(3)
        }
        Why::WaitingRead => !it.spec.complete || it.before.rebuilt,
        Why::UpToDate => {
            it.is_there()
                && active.is_none()
                && !matches!(it.state(), Some(State::Failed { class, .. }) if *class != Class::Infra)
        }
        Why::Excluded => {
            let nothing = !matches!(it.content(), Some(Content::Carries { .. }));
            !it.unit.selected() && (nothing || it.spec.abandoned.contains(&it.unit.id))
        }
    }
}

impl<'a> Facts<'a> {
    fn charge(&self) -> Option<&'a Charge> {
        let charge = self.decision.memory.charges.get(&self.unit.id)?;
        (charge.incarnation == self.unit.incarnation).then_some(charge)
    }

    fn content(&self) -> Option<Content> {
        self.unit.assigned.map(|row| row.content)
    }

    /// What it reports about what its row says.
    fn state(&self) -> Option<&'a State> {
        let (row, echo) = (self.unit.assigned?, self.unit.observed.as_ref()?);
        let Content::Carries { digest, .. } = row.content else {
            return None;
        };
        (echo.token == Some(row.token) && echo.digest == Some(digest)).then_some(&echo.state)
    }

    fn is_there(&self) -> bool {
        match (self.unit.desired, self.content()) {
            (Desired::Content { digest, .. }, Some(Content::Carries { digest: carried, .. })) => {
                digest == carried
            }
            _ => false,
        }
    }

    fn spent(&self, charge: &Charge) -> Millis {
        let running = charge.clock.from.map_or(Millis(0), |from| self.now.since(from));
        charge.clock.spent.plus(running)
    }

    fn is_bad(&self) -> bool {
        matches!(self.unit.desired, Desired::Content { revision, .. } if self.decision.memory.is_bad(revision))
    }

    /// The run of what it shall get is halted: which of the two is the target is read at different instants.
    fn is_halted(&self) -> bool {
        let run = self
            .decision
            .memory
            .run
            .filter(|run| run.state == RunState::Halted);
        run.is_some_and(
            |run| matches!(self.unit.desired, Desired::Content { revision, .. } if revision == run.target),
        )
    }
}

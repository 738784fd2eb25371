//! E12: what makes each reason true, from the facts alone.

use muster_rollout::{
    Charge, Class, Content, Course, Decision, Desired, Eligible, Kind, Memory, Millis, Place, RunState, Spec,
    Stage, StageId, State, Unit, UnitId, Why,
};

/// What is known about one unit.
pub struct Facts<'a> {
    pub spec: &'a Spec,
    pub before: &'a Memory,
    pub view: &'a [Unit],
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
            let charges = &it.decision.memory.charges;
            let filled = charges.values().filter(fills).count();
            let all = holders
                .iter()
                .all(|id| charges.get(id).as_ref().is_some_and(fills));
            // The window of its stage may be full, in which fewer are charged.
            let of_stage = it.has_stage_limit() && holders.len() >= 3.min(*limit as usize);
            all && filled >= *limit as usize && (holders.len() == filled.min(3) || of_stage)
        }
        Why::Pinned { .. } => it.unit.pinned,
        Why::Reverting { .. } => changing(&|charge| charge.kind == Kind::Revert),
        Why::Aborted { .. } => it.is_refused() && !it.is_bad(),
        Why::NotYet { reason } => it.unit.eligible == Eligible::NotYet(*reason),
        Why::WaitingApproval { stage } => {
            let asked = it
                .open_stage()
                .is_some_and(|open| open.name == *stage && open.approval);
            asked && it.course().clear_since.is_some()
        }
        Why::WaitingGate { stage, passes, .. } => {
            it.open_stage().is_some_and(|open| open.name == *stage) && passes.0 < passes.1
        }
        Why::WaitingStage { stage, units, until } => {
            let open = it.open_stage().is_some_and(|open| open.name == *stage);
            let known =
                |id: &UnitId| it.decision.memory.charges.contains_key(id) || !it.told(id, &Why::UpToDate);
            let soaks = until.is_some_and(|until| until > it.now && it.course().clear_since.is_some());
            open && (soaks || !it.spec.complete || !units.is_empty() && units.iter().all(known))
        }
        Why::WaitingDomain { holders } => {
            it.spec.exclusive
                && !holders.is_empty()
                && it.decision.memory.charges.keys().any(|id| it.is_apart(id))
        }
        Why::WaitingBatch { size, holders } => {
            let open = it.course().batch;
            open.is_some_and(|open| open.size == *size && open.left == 0) && !holders.is_empty()
        }
        Why::WaitingRead => !it.spec.complete || it.before.rebuilt,
        Why::UpToDate => {
            it.is_there()
                && active.is_none()
                && !matches!(it.state(), Some(State::Failed { class, .. }) if *class != Class::Infra)
        }
        Why::Excluded if it.unit.selected() => it.unit.place == Place::Excluded,
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
        (echo.token == row.token && echo.digest == Some(digest)).then_some(&echo.state)
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

    fn told(&self, id: &UnitId, why: &Why) -> bool {
        self.decision
            .reasons
            .iter()
            .any(|told| (&told.0, &told.1) == (id, why))
    }

    fn has_stage_limit(&self) -> bool {
        let Place::Stage(place) = self.unit.place else {
            return false;
        };
        let stage = self.spec.stages.get(usize::from(place));
        stage.is_some_and(|stage| stage.limit.is_some())
    }

    /// A unit of another domain, or of none that can be seen.
    fn is_apart(&self, id: &UnitId) -> bool {
        let domain = |unit: &Unit| unit.domain.ok_or_else(|| unit.id.clone());
        let life = self
            .decision
            .memory
            .charges
            .get(id)
            .map(|charge| charge.incarnation);
        let mut view = self.view.iter();
        let other = view.find(|unit| unit.id == *id && Some(unit.incarnation) == life);
        other.is_none_or(|other| domain(other) != domain(self.unit))
    }

    fn course(&self) -> &Course {
        &self.decision.memory.course
    }

    /// The first stage that is not passed.
    fn open_stage(&self) -> Option<&'a Stage> {
        let passed = &self.decision.memory.course.passed;
        let mut stages = self.spec.stages.iter();
        stages.find(|stage| !passed.contains(&StageId::of(&stage.name)))
    }

    fn is_refused(&self) -> bool {
        matches!(self.unit.desired, Desired::Content { revision, .. } if self.decision.memory.refuses(revision))
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

//! Predicts the order in which clusters would change: runs the shipped decision function from the current state, with
//! every update succeeding.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    reasons::Reason,
    rollout::{Approval, Rollout},
};
use muster_controllers::module::{self, Opening, Prospect};
use muster_rollout::{
    Class, Content, Desired, Millis, Revision, StageId, StagePosition, State, Unit, UnitId, Why, plan,
};
use muster_simulator::{
    Delays, Fault, FleetEvent, Member, Pace, Rest, Simulation, SpecChange, UnitEvent, Witness,
    laws::{Broken, Case, Verdict},
};
use thiserror::Error;

use super::model::{Gives, Step};

/// All clusters take the same time: those that start together end together, so that batches are visible.
const PACE: Pace = Pace {
    pickup: Millis::seconds(1),
    work: Millis::seconds(10),
};
/// The most events per cluster: a cluster is assigned, picks it up, becomes ready, and is decided on.
const EVENTS: u64 = 500;

/// Why the order cannot be predicted.
#[derive(Debug, Error)]
pub(crate) enum OrderError {
    /// The simulation did not settle.
    #[error("the rollout of {module} does not settle after {events} events: please report it")]
    Restless {
        /// Name of the module.
        module: String,
        /// Number of simulated events.
        events: u64,
    },
    /// An invariant of the engine is violated.
    #[error("a bug in muster, please report it: {0}")]
    Broken(#[from] Broken),
}

/// The predicted course of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Course {
    /// The steps, ordered by time.
    pub steps: Vec<Step>,
    /// The final reason of each cluster.
    pub finally: BTreeMap<String, Reason>,
}

impl Course {
    /// The clusters that are up to date in the end.
    pub(crate) fn confirmed(&self) -> BTreeSet<String> {
        let confirmed = self
            .finally
            .iter()
            .filter(|(_, reason)| **reason == Reason::UpToDate);
        confirmed.map(|(cluster, _)| cluster.clone()).collect()
    }
}

/// Simulates the rollout to its end: every update succeeds, approvals and acknowledgements are immediate, gates pass,
/// and change windows open in their order.
pub(crate) fn foretell(
    module: &str,
    prospect: &Prospect,
    rollout: &Rollout,
    now: Millis,
) -> Result<Course, OrderError> {
    let mut spec = prospect.spec.clone();
    // A pause is reported separately; the plan shows what follows it.
    spec.paused = false;
    // Windows open below, one after the other.
    spec.window_change = None;
    let last_good = prospect.memory.last_good;
    let members = prospect
        .units
        .iter()
        .map(|unit| (unit.id.clone(), member(unit, last_good)));
    let mut simulation = Simulation::new(
        &plan,
        spec,
        prospect.memory.clone(),
        members.collect(),
        Member::new(PACE),
        1,
        Watcher::new(prospect, rollout),
    )
    .starting_at(now);
    simulation.surroundings = Delays::FAIR;
    simulation.rouse();
    let most = EVENTS.saturating_mul(u64::try_from(prospect.units.len() + 20).unwrap_or(u64::MAX));
    settle(&mut simulation, module, most)?;
    if let Some((withdrawal, clusters)) = simulation.witness.held.take() {
        simulation
            .witness
            .steps
            .push(Step::Acknowledge { withdrawal, clusters });
        let at = simulation.now();
        simulation.plan_for(at, FleetEvent::Wish(SpecChange::Acknowledge));
        settle(&mut simulation, module, most)?;
    }
    for opening in &prospect.openings {
        open(&mut simulation, opening);
        settle(&mut simulation, module, most)?;
        if matches!(simulation.witness.steps.last(), Some(Step::Open { .. })) {
            // No cluster waited for it.
            simulation.witness.steps.pop();
        }
    }
    let Watcher {
        mut steps, finally, ..
    } = simulation.witness;
    if !steps.iter().any(is_update) {
        // A stage without a cluster to update is passed at once, and needs no approval.
        steps.retain(|step| !matches!(step, Step::Pass { .. }));
    }
    Ok(Course { steps, finally })
}

/// Opens the change windows of some clusters for good.
fn open(simulation: &mut Simulation<'_, Watcher>, opening: &Opening) {
    let Opening {
        at,
        local,
        window,
        clusters,
    } = opening;
    simulation.witness.steps.push(Step::Open {
        at: local.clone(),
        window: window.clone(),
        clusters: clusters.clone(),
    });
    let at = Millis(u64::try_from(at.as_millisecond()).unwrap_or(0)).max(simulation.now());
    for cluster in clusters {
        let unit = UnitId::from(cluster.as_str());
        simulation.plan_for(at, FleetEvent::To(unit, UnitEvent::Returns));
    }
}

/// Whether a cluster gets a version.
const fn is_update(step: &Step) -> bool {
    match step {
        Step::Change { gives, .. } => !matches!(gives, Gives::Withdrawal | Gives::Move),
        Step::Pass { .. } | Step::Open { .. } | Step::Acknowledge { .. } => false,
    }
}

fn settle(simulation: &mut Simulation<'_, Watcher>, module: &str, most: u64) -> Result<(), OrderError> {
    match simulation.settle(most)? {
        Rest::Quiet => Ok(()),
        Rest::Restless => Err(OrderError::Restless {
            module: module.to_owned(),
            events: most,
        }),
    }
}

/// A simulated cluster in its current state. One that fails at its current version keeps failing until it gets another.
fn member(unit: &Unit, last_good: Option<Revision>) -> Member {
    let mut member = Member::of(unit, last_good, PACE);
    let carried = unit.assigned.and_then(|row| match row.content {
        Content::Carries { revision, .. } => revision,
        Content::Nothing | Content::Withdraw => None,
    });
    let failing = unit.observed.as_ref().map(|report| &report.state);
    if let (Some(carried), Some(State::Failed { class, terminal, .. })) = (carried, failing)
        && !matches!(unit.desired, Desired::Content { revision, .. } if revision == carried)
    {
        let fault = Fault {
            class: if *class == Class::Infra {
                Class::Unit
            } else {
                *class
            },
            terminal: *terminal,
        };
        member.faults.insert(carried, fault);
    }
    member
}

/// Records the writes of the simulation.
struct Watcher {
    target: Option<Revision>,
    /// The stage of each cluster, and whether it is pinned.
    places: BTreeMap<UnitId, (Option<String>, bool)>,
    /// What must pass between each stage and the next.
    stages: Vec<(StageId, Step)>,
    /// The clusters where another module takes over.
    moving: BTreeSet<UnitId>,
    passed: BTreeSet<StageId>,
    steps: Vec<Step>,
    /// The time of the last step.
    last: Option<Millis>,
    finally: BTreeMap<String, Reason>,
    /// The withdrawal that waits for an acknowledgement, and its number of clusters.
    held: Option<(String, u32)>,
}

impl Watcher {
    fn new(prospect: &Prospect, rollout: &Rollout) -> Self {
        let stage = |unit: &Unit| match unit.place {
            StagePosition::Stage(place) => rollout.stages.get(usize::from(place)),
            StagePosition::Last | StagePosition::Excluded => None,
        };
        let places = prospect.units.iter().map(|unit| {
            let stage = stage(unit).map(|stage| stage.name.clone());
            (unit.id.clone(), (stage, unit.pinned))
        });
        let stages = rollout.stages.iter().map(|stage| {
            let pass = Step::Pass {
                stage: stage.name.clone(),
                soak: (stage.soak.as_millis() > 0).then_some(stage.soak),
                gates: stage.gates.len(),
                approval: stage.approval == Approval::Required,
            };
            (StageId::of(&stage.name), pass)
        });
        Self {
            target: prospect.spec.target,
            places: places.collect(),
            stages: stages.collect(),
            moving: prospect.spec.withdraw.moving.clone(),
            passed: prospect.memory.course.passed.iter().copied().collect(),
            steps: Vec::new(),
            last: None,
            finally: BTreeMap::new(),
            held: None,
        }
    }

    fn changes(&mut self, unit: &UnitId, given: Gives, now: Millis) {
        let of = self.places.get(unit).and_then(|(stage, _)| stage.clone());
        // Withdrawals follow no order of stages.
        let of = of.filter(|_| !matches!(given, Gives::Withdrawal | Gives::Move));
        let together = self.last.replace(now) == Some(now);
        if let (
            true,
            Some(Step::Change {
                stage,
                gives,
                clusters,
            }),
        ) = (together, self.steps.last_mut())
            && *stage == of
            && *gives == given
        {
            clusters.push(unit.to_string());
            return;
        }
        self.steps.push(Step::Change {
            stage: of,
            gives: given,
            clusters: vec![unit.to_string()],
        });
    }
}

impl Witness for Watcher {
    fn decided(&mut self, case: &Case<'_>, _view: usize) -> Verdict {
        self.held = None;
        let reasons = case.decision.reasons.iter().map(|(unit, why)| {
            if let Why::WithdrawalHeld { acknowledge, units } = why {
                self.held = Some((acknowledge.to_string(), *units));
            }
            (unit.to_string(), module::word(why).0)
        });
        self.finally = reasons.collect();
        let passed: BTreeSet<StageId> = case.decision.memory.course.passed.iter().copied().collect();
        let same_run = case.before.run.map(|run| run.id) == case.decision.memory.run.map(|run| run.id);
        for (id, pass) in &self.stages {
            let is_new = passed.contains(id) && !(same_run && self.passed.contains(id));
            let stops = |pass: &Step| match pass {
                Step::Pass {
                    soak,
                    gates,
                    approval,
                    ..
                } => soak.is_some() || *gates > 0 || *approval,
                Step::Change { .. } | Step::Open { .. } | Step::Acknowledge { .. } => false,
            };
            if is_new && stops(pass) {
                self.steps.push(pass.clone());
            }
        }
        self.passed = passed;
        Ok(())
    }

    fn wrote(&mut self, unit: &UnitId, content: Option<Content>, _view: usize, now: Millis) -> Verdict {
        let pinned = self.places.get(unit).is_some_and(|(_, pinned)| *pinned);
        match content {
            Some(Content::Carries { revision, .. }) if pinned && revision != self.target => {
                self.changes(unit, Gives::Pin, now);
            }
            Some(Content::Carries { revision, .. }) if revision == self.target => {
                self.changes(unit, Gives::Target, now);
            }
            Some(Content::Carries { .. }) => self.changes(unit, Gives::LastGood, now),
            Some(Content::Withdraw) if self.moving.contains(unit) => self.changes(unit, Gives::Move, now),
            Some(Content::Withdraw) => self.changes(unit, Gives::Withdrawal, now),
            // A cleanup of the assignment, or a fence: nothing in the cluster changes.
            Some(Content::Nothing) | None => {}
        }
        Ok(())
    }
}

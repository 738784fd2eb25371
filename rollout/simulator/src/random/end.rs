//! The fair end of a history: from now on everything works, so a good target is reached (EL1), whatever happened
//! before, and a bad one ends condemned (EL2). Time passes only when a decision asked to be woken (EL3).

use muster_rollout::{Content, Eligible, Limit, OnFailure, StagePosition, UnitId};

use super::scenario::Ending;
use crate::laws::{Broken, Law, Verdict};
use crate::{Delays, FleetEvent, Member, Rest, Simulation, SpecChange, UnitEvent, Witness};

/// Events that suffice for one unit: each is written, acknowledged, ended and decided on, a few times over.
const EVENTS: u64 = 400;

/// Runs the fair end of a history.
pub(super) fn well<W: Witness>(simulation: &mut Simulation<'_, W>, ending: &Ending) -> Verdict {
    remove_problems(simulation, ending);
    apply_change(simulation, SpecChange::Target(Some(ending.good)));
    settle(simulation)?;
    reached(simulation, ending)?;
    let needed = simulation
        .members
        .values()
        .filter(|member| is_needed(member))
        .count();
    let Some(bad) = ending
        .bad
        .filter(|_| needed > 0 && simulation.spec.on_failure != OnFailure::Continue)
    else {
        return Ok(());
    };
    simulation.spec.max_failed = Limit::Count(0);
    apply_change(simulation, SpecChange::Target(Some(bad)));
    settle(simulation)?;
    condemned(simulation, ending, bad)
}

/// Removes all problems.
fn remove_problems<W: Witness>(simulation: &mut Simulation<'_, W>, ending: &Ending) {
    simulation.surroundings = Delays {
        think: simulation.surroundings.think,
        carry: simulation.surroundings.carry,
        ..Delays::FAIR
    };
    simulation.spec.withdraw.brake = None;
    simulation.spec.abandoned.clear();
    simulation.spec.controls.clear();
    simulation.forget_approvals();
    for member in simulation.members.values_mut() {
        member.pace.work.0 %= 300_000;
        member.pin = None;
        member.resolved = true;
        member.trouble = None;
        member.available = true;
        member.closed = None;
    }
    for change in [SpecChange::Pause(false), SpecChange::Limit(ending.limit)] {
        apply_change(simulation, change);
    }
    let names: Vec<UnitId> = simulation.members.keys().cloned().collect();
    for name in names {
        let now = simulation.now();
        let away = simulation
            .members
            .get(&name)
            .is_some_and(|member| member.eligible != Eligible::Yes);
        let what = if away {
            UnitEvent::Returns
        } else {
            UnitEvent::Recovers
        };
        simulation.plan_for(now, FleetEvent::To(name, what));
    }
}

fn apply_change<W: Witness>(simulation: &mut Simulation<'_, W>, change: SpecChange) {
    let now = simulation.now();
    simulation.plan_for(now, FleetEvent::Wish(change));
}

fn settle<W: Witness>(simulation: &mut Simulation<'_, W>) -> Verdict {
    let units = u64::try_from(simulation.members.len()).unwrap_or(u64::MAX);
    let most = EVENTS.saturating_mul(units.saturating_add(5));
    match simulation.settle(most)? {
        Rest::Quiet => Ok(()),
        Rest::Restless => Err(Broken::new(
            Law::EL3,
            format!("not settled after {most} events: {:?}", simulation.memory),
        )),
    }
}

fn is_needed(member: &Member) -> bool {
    member.selected && member.place != StagePosition::Excluded
}

fn reached<W: Witness>(simulation: &Simulation<'_, W>, ending: &Ending) -> Verdict {
    let needed = simulation.members.iter().filter(|(_, member)| is_needed(member));
    let behind: Vec<&UnitId> = needed
        .clone()
        .filter(|(_, member)| {
            let wanted = member.digest(ending.good);
            !matches!(member.assignment.map(|row| row.content), Some(Content::Carries { digest, .. }) if digest == wanted)
        })
        .map(|(id, _)| id)
        .collect();
    let in_flight = !simulation.memory.in_flight.is_empty();
    let unproven = needed.count() > 0 && simulation.memory.last_good != Some(ending.good);
    if behind.is_empty() && !in_flight && !unproven {
        return Ok(());
    }
    let what = format!("settled, but {behind:?} do not have it: {:?}", simulation.memory);
    Err(Broken::new(Law::EL1, what))
}

fn condemned<W: Witness>(
    simulation: &Simulation<'_, W>,
    ending: &Ending,
    bad: muster_rollout::Revision,
) -> Verdict {
    let memory = &simulation.memory;
    let back = simulation.spec.on_failure != OnFailure::Revert || simulation.carrying(bad) == 0;
    if memory.is_bad(bad) && memory.last_good == Some(ending.good) && back {
        return Ok(());
    }
    let carry = simulation.carrying(bad);
    let what = format!("{carry} have a bad revision: {memory:?}");
    Err(Broken::new(Law::EL2, what))
}

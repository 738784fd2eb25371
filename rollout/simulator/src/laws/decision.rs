//! Laws of a single decision: E2, E3, E6 to E10, E12, E13.

use std::collections::BTreeSet;

use muster_driver::Change;
use muster_rollout::{
    Absence, Assignment, Content, Desired, Domain, Eligible, InFlight, Kind, MAX_BYTES, MAX_IN_FLIGHT,
    Memory, RunState, Stage, StageId, StagePosition, State, Step, Unit, UnitId,
};

use super::{Broken, Case, Law, Verdict, amount, disrupted, selected, truth};
use crate::steps::{assignment_steps, word};

/// Checks all laws of one decision.
pub fn examine(case: &Case<'_>) -> Verdict {
    let Case {
        decide,
        spec,
        before,
        view,
        decision,
        now,
    } = *case;
    for step in assignment_steps(decision) {
        examine_step(case, step)?;
    }
    let mut permuted = view.to_vec();
    permuted.reverse();
    if decide(spec, before, &permuted, now) != *decision {
        return Err(Broken::new(Law::E9, "the order of the units matters"));
    }
    if decision.memory.seq < before.seq {
        return Err(Broken::new(Law::W2, "the greatest token decreased"));
    }
    examine_brake(case)?;
    if !before.rebuilt {
        // A decision on a rebuilt memory withdraws nothing; the next one may.
        examine_repetition(case)?;
    }
    examine_memory(&decision.memory)?;
    examine_domains(case)?;
    examine_budget(case)?;
    examine_windows(case)?;
    examine_stages(case)?;
    examine_reasons(case)
}

/// E8: without an acknowledgement, no more withdrawals than the brake allows are started at once.
fn examine_brake(case: &Case<'_>) -> Verdict {
    let Case {
        spec,
        before,
        view,
        decision,
        ..
    } = *case;
    let withdrawing = |memory: &Memory| -> BTreeSet<_> {
        let changes = memory.in_flight.iter();
        let those = changes.filter(|(_, change)| change.kind == Kind::Withdraw && !change.picked_up);
        those.map(|(id, _)| id.clone()).collect()
    };
    let begun = withdrawing(before);
    let leaving = view
        .iter()
        .filter(|unit| !unit.selected() && !begun.contains(&unit.id) && !spec.abandoned.contains(&unit.id))
        .filter(|unit| !spec.withdraw.moving.contains(&unit.id))
        .filter(|unit| carries(unit));
    let leaving: BTreeSet<_> = leaving.map(|unit| unit.id.clone()).collect();
    let new = withdrawing(&decision.memory).intersection(&leaving).count();
    let carrying = carrying(case, view);
    let brake = spec.withdraw.brake.map(|brake| amount(brake, carrying).max(1));
    let many = brake.is_some_and(|brake| leaving.len() > brake as usize);
    if new > 0 && many && (spec.withdraw.acknowledged.is_none() || decision.memory.acknowledged.is_none()) {
        let what = format!("{leaving:?} leave, without an acknowledgement");
        return Err(Broken::new(Law::E8, what));
    }
    Ok(())
}

/// Number of units that have content and are not abandoned, which percentages of withdrawals refer to.
fn carrying(case: &Case<'_>, view: &[Unit]) -> u32 {
    let has_something = |unit: &&Unit| {
        let withdrawn = unit
            .assigned
            .zip(unit.observed.as_ref())
            .is_some_and(|(row, report)| report.token == row.token && report.state == State::Withdrawn);
        match unit.assigned.map(|row| row.content) {
            None | Some(Content::Nothing) => false,
            Some(Content::Withdraw) => !withdrawn,
            Some(Content::Carries { .. }) => true,
        }
    };
    let given_up = |unit: &&Unit| !unit.selected() && case.spec.abandoned.contains(&unit.id);
    let carrying = view.iter().filter(|unit| has_something(unit) && !given_up(unit));
    u32::try_from(carrying.count()).unwrap_or(u32::MAX)
}

/// Units that become in flight with this decision, except those that were found in a pending change.
fn begun<'a>(case: &Case<'a>) -> Vec<(&'a Unit, InFlight)> {
    let Case {
        before,
        view,
        decision,
        ..
    } = *case;
    let begun = |unit: &'a Unit| {
        let change = *decision.memory.in_flight.get(&unit.id)?;
        // A unit that was released and has returned is in flight again regardless of other units (rule 4).
        let was = before
            .in_flight
            .get(&unit.id)
            .is_some_and(|was| was.kind != Kind::Withdraw || was.counts());
        let new = change.token > before.seq && change.token == decision.memory.seq;
        let assigned = matches!(change.kind, Kind::Assign | Kind::Join | Kind::Revert);
        (change.counts() && new && assigned && !was && is_quiet(unit)).then_some((unit, change))
    };
    view.iter().filter_map(begun).collect()
}

/// It has nothing, or reports success at its assignment: it is in no change that the memory lacks.
fn is_quiet(unit: &Unit) -> bool {
    unit.assigned.is_none_or(|row| {
        let Content::Carries { digest, .. } = row.content else {
            return true;
        };
        let observed = unit.observed.as_ref();
        observed.is_some_and(|report| {
            (report.token, report.digest, &report.state) == (row.token, Some(digest), &State::Succeeded)
        })
    })
}

fn is_leaving(unit: &Unit) -> bool {
    let is_withdrawn = |row: Assignment| {
        let report = unit.observed.as_ref();
        report.is_some_and(|report| report.token == row.token && report.state == State::Withdrawn)
    };
    unit.assigned
        .is_some_and(|row| row.content == Content::Withdraw && !is_withdrawn(row))
}

/// E2: beside the changes that start, no more domains are changing than allowed, and no more units of one domain; with
/// an order the domain is one of the first that are not done.
fn examine_domains(case: &Case<'_>) -> Verdict {
    let domains = case.spec.domains;
    let counting = case
        .decision
        .memory
        .in_flight
        .iter()
        .filter(|(_, change)| change.counts());
    let in_flight: Vec<Option<Key>> = counting.map(|(id, _)| case.unit(id).map(key)).collect();
    let unknown = in_flight.iter().filter(|key| key.is_none()).count();
    let known: BTreeSet<&Key> = in_flight.iter().flatten().collect();
    for (unit, change) in begun(case) {
        let own = in_flight
            .iter()
            .filter(|other| other.as_ref().is_none_or(|other| *other == key(unit)));
        let of_it = case.view.iter().filter(|other| {
            key(other) == key(unit)
                && other.selected()
                && other.place != StagePosition::Excluded
                && other.is_eligible()
        });
        let of_it = u32::try_from(of_it.count()).unwrap_or(u32::MAX);
        let wide = domains
            .at_once
            .is_some_and(|most| known.len() + unknown > most as usize);
        let many = domains
            .limit
            .is_some_and(|limit| own.count() > amount(limit, of_it) as usize);
        let early = change.kind == Kind::Assign && !unit.pinned && domains.ordered && {
            let before = domains_to_do(case)
                .into_iter()
                .filter(|other| *other < key(unit))
                .count();
            domains.at_once.is_some_and(|most| before >= most as usize)
        };
        if wide || many || early {
            let what = format!(
                "{} is begun beside {in_flight:?}, {:?}",
                unit.id,
                domains_to_do(case)
            );
            return Err(Broken::new(Law::E2, what));
        }
    }
    Ok(())
}

/// The domain; for a unit without one, its name.
type Key = Result<Domain, UnitId>;

fn key(unit: &Unit) -> Key {
    unit.domain.ok_or_else(|| unit.id.clone())
}

/// The domains with units whose stage is open, that are needed, and are not confirmed.
fn domains_to_do(case: &Case<'_>) -> BTreeSet<Key> {
    let memory = &case.decision.memory;
    let open = memory.run.is_some_and(|run| run.state == RunState::Open);
    let passed = |stage: &&Stage| memory.course.passed.contains(&StageId::of(&stage.name));
    let first = case
        .spec
        .stages
        .iter()
        .position(|stage| !passed(&stage))
        .filter(|_| open);
    let undone = case.view.iter().filter(|unit| {
        let needed = unit.selected() && !matches!(unit.eligible, Eligible::No(why) if why.absence != Absence::Wait);
        let come = match (unit.place, first) {
            (StagePosition::Excluded, _) | (StagePosition::Last, Some(_)) => false,
            (_, None) => true,
            (StagePosition::Stage(at), Some(first)) => usize::from(at) <= first,
        };
        let change = memory.in_flight.get(&unit.id).filter(|change| change.incarnation == unit.incarnation);
        let there = matches!(
            (unit.desired, unit.assigned.map(|row| row.content)),
            (Desired::Content { digest, .. }, Some(Content::Carries { digest: carried, .. })) if digest == carried
        );
        needed && come && (change.is_some() || !there)
    });
    undone.map(key).collect()
}

/// E1: a change of an available unit starts only while the budget has room for it.
fn examine_budget(case: &Case<'_>) -> Verdict {
    let Some(budget) = case.spec.unavailable else {
        return Ok(());
    };
    let Case { before, decision, .. } = *case;
    let changed = |change: &InFlight| change.counts() || change.kind == Kind::Withdraw && !change.skipped;
    let uses = |unit: &Unit| {
        let was = before
            .in_flight
            .get(&unit.id)
            .filter(|was| was.incarnation == unit.incarnation);
        let counted = unit.selected()
            && unit.place != StagePosition::Excluded
            && !(unit.available && unit.is_eligible());
        // A unit whose withdrawal is not reported as done is changing, whether the memory has it or not.
        !counted && !was.is_some_and(changed) && !is_leaving(unit)
    };
    let withdrawn = case.view.iter().filter(|unit| {
        let is = decision.memory.in_flight.get(&unit.id);
        is.is_some_and(|change| change.kind == Kind::Withdraw && change.token > before.seq) && is_quiet(unit)
    });
    let begun = begun(case).into_iter().map(|(unit, _)| unit);
    let new = begun.chain(withdrawn).find(|unit| uses(unit));
    let (most, count) = (amount(budget, selected(case.view)), disrupted(case).count());
    match new {
        Some(unit) if count > most as usize => {
            let what = format!(
                "{} is begun, and {count} are changing or not available of {most}",
                unit.id
            );
            Err(Broken::new(Law::E1, what))
        }
        _ => Ok(()),
    }
}

/// E6: no change starts while its window is closed.
fn examine_windows(case: &Case<'_>) -> Verdict {
    let closed = |unit: &Unit, change: InFlight| match unit.eligible {
        Eligible::Closed { reverts, .. } => !(reverts && change.kind == Kind::Revert && carries(unit)),
        _ => false,
    };
    let early = begun(case)
        .into_iter()
        .find(|(unit, change)| closed(unit, *change));
    // A unit that reports its assignment as done is not changing.
    let assigned = case.decision.steps.iter().find_map(|step| {
        let Step::Assign { unit, .. } = step else {
            return None;
        };
        let change = *case.decision.memory.in_flight.get(unit)?;
        case.unit(unit)
            .filter(|unit| is_quiet(unit) && closed(unit, change))
    });
    let left = case.decision.steps.iter().find_map(|step| {
        let Step::Withdraw { unit, .. } = step else {
            return None;
        };
        let shut = |unit: &&Unit| {
            matches!(
                unit.eligible,
                Eligible::Closed {
                    withdrawals: false,
                    ..
                }
            )
        };
        case.unit(unit).filter(shut)
    });
    match early.map(|(unit, _)| unit).or(assigned).or(left) {
        Some(unit) => Err(Broken::new(
            Law::E6,
            format!("{} is started although its window is closed", unit.id),
        )),
        None => Ok(()),
    }
}

fn carries(unit: &Unit) -> bool {
    matches!(
        unit.assigned.map(|row| row.content),
        Some(Content::Carries { .. })
    )
}

/// E7: a change to the target starts only if all earlier stages are passed, and each was passed when it was done.
fn examine_stages(case: &Case<'_>) -> Verdict {
    let Case {
        spec,
        before,
        view,
        decision,
        ..
    } = *case;
    let Some(run) = decision.memory.run.filter(|run| run.state == RunState::Open) else {
        return Ok(());
    };
    let same = before.run.is_some_and(|was| was.id == run.id);
    let (was, is) = (&before.course, &decision.memory.course);
    for (place, stage) in spec.stages.iter().enumerate() {
        let id = StageId::of(&stage.name);
        let of_it = |unit: &&Unit| matches!(unit.place, StagePosition::Stage(at) if usize::from(at) == place);
        if is.passed.contains(&id) && !(same && was.passed.contains(&id)) {
            let open = view.iter().filter(of_it).filter(|unit| {
                let needed = unit.selected()
                    && !matches!(unit.eligible, Eligible::No(why) if why.absence != Absence::Wait);
                needed
                    && before.in_flight.contains_key(&unit.id)
                    && decision.memory.in_flight.contains_key(&unit.id)
            });
            let open: Vec<_> = open.map(|unit| &unit.id).collect();
            let word = !stage.approval || is.approved.contains(&id);
            if !open.is_empty() || !word || !spec.complete {
                let what = format!("{} is passed, {open:?} are not confirmed", stage.name);
                return Err(Broken::new(Law::E7, what));
            }
        }
        if !is.passed.contains(&id) {
            for (unit, change) in begun(case) {
                let later = match unit.place {
                    StagePosition::Stage(at) => usize::from(at) > place,
                    StagePosition::Last => true,
                    StagePosition::Excluded => false,
                };
                // A pin is not part of the rollout.
                let target = change.kind == Kind::Assign && change.revision == Some(run.target);
                if later && target {
                    let what = format!("{} is begun before {} is passed", unit.id, stage.name);
                    return Err(Broken::new(Law::E7, what));
                }
            }
            return Ok(());
        }
    }
    Ok(())
}

/// E3, E6, E8.
fn examine_step(case: &Case<'_>, step: &Step) -> Verdict {
    let Case { spec, decision, .. } = *case;
    let unit = step.unit().and_then(|id| case.unit(id));
    let Some(unit) = unit else {
        return Err(Broken::new(Law::E6, format!("{step:?} is for no unit")));
    };
    let free = unit.is_eligible() && !spec.paused;
    let (law, fine) = match step {
        Step::Assign { revision, .. } if decision.memory.refuses(*revision) => (Law::E3, false),
        Step::Assign { .. } => (Law::E6, free && unit.selected()),
        Step::Withdraw { .. } if !free => (Law::E6, false),
        Step::Withdraw { .. } => (Law::E8, !unit.selected() && spec.complete),
        Step::Abandon { unit: id, .. } => (
            Law::E8,
            !unit.selected() && spec.complete && spec.abandoned.contains(id),
        ),
        Step::Fence { .. } => (Law::E6, true),
        Step::Evaluate { .. } | Step::Conclude { .. } => (Law::E6, false),
    };
    if fine {
        Ok(())
    } else {
        Err(Broken::new(law, format!("{step:?} for {unit:?}")))
    }
}

/// E10: the same input gives the same decision; after its steps are applied, the next decision has none.
fn examine_repetition(case: &Case<'_>) -> Verdict {
    let Case {
        decide,
        spec,
        view,
        decision,
        now,
        ..
    } = *case;
    let again = decide(spec, &decision.memory, view, now);
    if again.memory != decision.memory || assignment_steps(&again) != assignment_steps(decision) {
        let what = format!("decided again: {:?} then {:?}", decision.memory, again.memory);
        return Err(Broken::new(Law::E10, what));
    }
    let mut outcome = view.to_vec();
    for (id, change) in decision.steps.iter().filter_map(Change::of) {
        for unit in outcome.iter_mut().filter(|unit| unit.id == *id) {
            unit.assigned = Some(change.applied(unit.assigned));
        }
    }
    let fences = decision
        .steps
        .iter()
        .any(|step| matches!(step, Step::Fence { .. }));
    let after = decide(spec, &decision.memory, &outcome, now);
    let frees = |memory: &Memory| {
        memory
            .in_flight
            .values()
            .any(|change| matches!(change.kind, Kind::Withdraw | Kind::Abandon) && change.counts())
    };
    // A unit that gets content for the first time changes the base of a percentage.
    let more = carrying(case, &outcome) > carrying(case, view);
    let again = assignment_steps(&after)
        .into_iter()
        .any(|step| !(more && matches!(step, Step::Withdraw { .. })));
    if !fences && !frees(&decision.memory) && again {
        let what = format!("after all steps were applied: {:?}", after.steps);
        return Err(Broken::new(Law::E10, what));
    }
    Ok(())
}

/// E13, and the serialized memory reads back.
fn examine_memory(memory: &Memory) -> Verdict {
    let unreadable = |error: serde_json::Error| Broken::new(Law::E13, error.to_string());
    let text = serde_json::to_string(memory).map_err(unreadable)?;
    let read: Memory = serde_json::from_str(&text).map_err(unreadable)?;
    let bounded = memory.in_flight.len() <= MAX_IN_FLIGHT && text.len() <= MAX_BYTES;
    if bounded && read == *memory {
        Ok(())
    } else {
        Err(Broken::new(Law::E13, text))
    }
}

/// E12: one reason for each unit, and it is true.
fn examine_reasons(case: &Case<'_>) -> Verdict {
    let Case { view, decision, .. } = *case;
    let mut units: Vec<&Unit> = view.iter().collect();
    units.sort();
    if decision.reasons.len() != units.len() {
        return Err(Broken::new(Law::E12, "not one reason for each unit"));
    }
    let shared = truth::SharedFacts::of(case);
    for (unit, (id, why)) in units.into_iter().zip(&decision.reasons) {
        let facts = truth::Facts {
            case: *case,
            shared: &shared,
            unit,
        };
        if unit.id != *id || !truth::holds(&facts, why) {
            let what = format!("{id} is not {}: {unit:?} {:?}", word(why), decision.memory);
            return Err(Broken::new(Law::E12, what));
        }
    }
    let summary = decision.summary;
    let counted = summary.updating + summary.waiting + summary.failed + summary.skipped + summary.held;
    if counted > summary.total {
        Err(Broken::new(Law::E12, format!("{summary:?}")))
    } else {
        Ok(())
    }
}

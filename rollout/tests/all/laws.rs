//! What must hold of every single decision: E2, E3, E6 to E10, E12, E13.

use std::collections::BTreeSet;

use muster_rollout::{
    Absence, Charge, Content, Decision, Eligible, Kind, MAX_BYTES, MAX_CHARGES, Memory, Millis, Place, Row,
    RunState, Spec, StageId, State, Step, Unit, plan,
};

use crate::observer::Verdict;
use crate::truth::{self, Facts};
use crate::world::{row_steps, word, written};

pub fn examine(spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision, now: Millis) -> Verdict {
    for step in row_steps(decision) {
        let unit = view.iter().find(|unit| Some(&unit.id) == step.unit());
        examine_step(spec, &decision.memory, unit.ok_or("a step for nobody")?, step)?;
    }
    let mut permuted = view.to_vec();
    permuted.reverse();
    if plan(spec, before, &permuted, now) != *decision {
        return Err("E9: the order of the units matters".into());
    }
    if decision.memory.seq < before.seq {
        return Err("W2: the greatest token fell".into());
    }
    examine_brake(spec, before, view, decision)?;
    if !before.rebuilt {
        // What is decided on a rebuilt memory withdraws nothing, and the next does.
        examine_repetition(spec, view, decision, now)?;
    }
    examine_memory(&decision.memory)?;
    examine_domains(spec, before, view, decision)?;
    examine_stages(spec, before, view, decision)?;
    examine_reasons(spec, before, view, decision, now)
}

/// E8: more than the brake allows are not begun to be withdrawn from at once, but acknowledged.
fn examine_brake(spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision) -> Verdict {
    let withdrawing = |memory: &Memory| -> BTreeSet<_> {
        let charges = memory.charges.iter();
        let those = charges.filter(|(_, charge)| charge.kind == Kind::Withdraw && !charge.picked_up);
        those.map(|(id, _)| id.clone()).collect()
    };
    let carries = |unit: &&Unit| {
        matches!(
            unit.assigned.map(|row| row.content),
            Some(Content::Carries { .. })
        )
    };
    let begun = withdrawing(before);
    let leaving = view
        .iter()
        .filter(|unit| !unit.selected() && !begun.contains(&unit.id) && !spec.abandoned.contains(&unit.id))
        .filter(carries);
    let leaving: BTreeSet<_> = leaving.map(|unit| unit.id.clone()).collect();
    let new = withdrawing(&decision.memory).intersection(&leaving).count();
    let many = spec.withdraw.brake.is_some() && leaving.len() > 1; // a fifth of four units is none, and one is always free
    if new > 0 && many && (spec.withdraw.acknowledged.is_none() || decision.memory.acknowledged.is_none()) {
        return Err(format!("E8: {leaving:?} leave, and nobody acknowledged it"));
    }
    Ok(())
}

/// Who is charged by this decision, was not before, and is not found in the midst of a change.
fn begun<'a>(before: &Memory, view: &'a [Unit], decision: &Decision) -> Vec<(&'a Unit, Charge)> {
    let begun = |unit: &'a Unit| {
        let charge = *decision.memory.charges.get(&unit.id)?;
        // Who was released and is back is charged again whatever others do (rule 4).
        let was = before
            .charges
            .get(&unit.id)
            .is_some_and(|was| was.kind != Kind::Withdraw || was.counts());
        let new = charge.token > before.seq && charge.token == decision.memory.seq;
        let assigned = matches!(charge.kind, Kind::Assign | Kind::Join | Kind::Revert);
        let quiet = unit.assigned.is_none_or(|row| {
            let told = unit.observed.as_ref().filter(|echo| echo.token == row.token);
            !matches!(row.content, Content::Carries { .. })
                || told.is_some_and(|echo| echo.state == State::Succeeded)
        });
        (charge.counts() && new && assigned && !was && quiet).then_some((unit, charge))
    };
    view.iter().filter_map(begun).collect()
}

/// E2: who is begun shares one domain with all that are charged.
fn examine_domains(spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision) -> Verdict {
    if !spec.exclusive {
        return Ok(());
    }
    let domain = |unit: &Unit| unit.domain.ok_or_else(|| unit.id.clone());
    for (unit, _) in begun(before, view, decision) {
        let charged = decision
            .memory
            .charges
            .iter()
            .filter(|(_, charge)| charge.counts());
        for (id, _) in charged {
            let other = view.iter().find(|unit| unit.id == *id);
            if other.is_none_or(|other| domain(other) != domain(unit)) {
                return Err(format!("E2: {} is begun beside {id}", unit.id));
            }
        }
    }
    Ok(())
}

/// E7: who is begun at the target has all stages before its own behind it, and each was passed when it was done.
fn examine_stages(spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision) -> Verdict {
    let Some(run) = decision.memory.run.filter(|run| run.state == RunState::Open) else {
        return Ok(());
    };
    let same = before.run.is_some_and(|was| was.id == run.id);
    let (was, is) = (&before.course, &decision.memory.course);
    for (place, stage) in spec.stages.iter().enumerate() {
        let id = StageId::of(&stage.name);
        let of_it = |unit: &&Unit| unit.place == Place::Stage(u8::try_from(place).unwrap());
        if is.passed.contains(&id) && !(same && was.passed.contains(&id)) {
            let open = view.iter().filter(of_it).filter(|unit| {
                let needed = unit.selected()
                    && !matches!(unit.eligible, Eligible::No(why) if why.absence != Absence::Wait);
                needed
                    && before.charges.contains_key(&unit.id)
                    && decision.memory.charges.contains_key(&unit.id)
            });
            let open: Vec<_> = open.map(|unit| &unit.id).collect();
            let word = !stage.approval || is.approved.contains(&id);
            if !open.is_empty() || !word || !spec.complete {
                return Err(format!(
                    "E7: {} is passed, {open:?} are not confirmed",
                    stage.name
                ));
            }
        }
        if !is.passed.contains(&id) {
            for (unit, charge) in begun(before, view, decision) {
                let later = match unit.place {
                    Place::Stage(at) => usize::from(at) > place,
                    Place::Last => true,
                    Place::Excluded => false,
                };
                if later && charge.kind == Kind::Assign {
                    return Err(format!(
                        "E7: {} is begun before {} is passed",
                        unit.id, stage.name
                    ));
                }
            }
            return Ok(());
        }
    }
    Ok(())
}

/// E3, E6, E8.
fn examine_step(spec: &Spec, memory: &Memory, unit: &Unit, step: &Step) -> Verdict {
    let free = unit.is_eligible() && !spec.paused;
    let fine = match step {
        Step::Assign { revision, .. } => free && unit.selected() && !memory.refuses(*revision),
        Step::Withdraw { .. } => free && !unit.selected() && spec.complete,
        Step::Abandon { unit: id } => !unit.selected() && spec.complete && spec.abandoned.contains(id),
        Step::Fence { .. } => true,
        Step::Evaluate { .. } | Step::Conclude { .. } => false,
    };
    if fine {
        Ok(())
    } else {
        Err(format!("E3, E6 or E8: {step:?} for {unit:?}"))
    }
}

/// E10: decided again, the same; carried out and decided again, nothing.
fn examine_repetition(spec: &Spec, view: &[Unit], decision: &Decision, now: Millis) -> Verdict {
    let again = plan(spec, &decision.memory, view, now);
    if again.memory != decision.memory || row_steps(&again) != row_steps(decision) {
        return Err(format!(
            "E10: decided again: {:?} then {:?}",
            decision.memory, again.memory
        ));
    }
    let mut outcome = view.to_vec();
    for unit in &mut outcome {
        for step in row_steps(decision)
            .into_iter()
            .filter(|step| step.unit() == Some(&unit.id))
        {
            unit.assigned = written(step, unit.assigned).map(|(token, content)| Row { token, content });
        }
    }
    let fences = decision
        .steps
        .iter()
        .any(|step| matches!(step, Step::Fence { .. }));
    let after = plan(spec, &decision.memory, &outcome, now);
    let frees = |memory: &Memory| {
        memory
            .charges
            .values()
            .any(|charge| matches!(charge.kind, Kind::Withdraw | Kind::Abandon) && charge.counts())
    };
    if !fences && !frees(&decision.memory) && !row_steps(&after).is_empty() {
        return Err(format!("E10: after all was carried out: {:?}", after.steps));
    }
    Ok(())
}

/// E13, and it can be read again.
fn examine_memory(memory: &Memory) -> Verdict {
    let text = serde_json::to_string(memory).map_err(|error| error.to_string())?;
    let read: Memory = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let bounded = memory.charges.len() <= MAX_CHARGES && text.len() <= MAX_BYTES;
    if bounded && read == *memory {
        Ok(())
    } else {
        Err(format!("E13: {text}"))
    }
}

/// E12: one each, and it is true.
fn examine_reasons(spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision, now: Millis) -> Verdict {
    let mut units: Vec<&Unit> = view.iter().collect();
    units.sort();
    if decision.reasons.len() != units.len() {
        return Err("E12: not one reason each".into());
    }
    let summary = decision.summary;
    for (unit, (id, why)) in units.into_iter().zip(&decision.reasons) {
        if unit.id != *id
            || !truth::holds(
                &Facts {
                    spec,
                    before,
                    view,
                    unit,
                    decision,
                    now,
                },
                why,
            )
        {
            return Err(format!(
                "E12: {id} is not {}: {unit:?} {:?}",
                word(why),
                decision.memory
            ));
        }
    }
    let counted = summary.updating + summary.waiting + summary.failed + summary.skipped + summary.held;
    if counted > summary.total {
        Err(format!("E12: {summary:?}"))
    } else {
        Ok(())
    }
}

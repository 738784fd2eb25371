//! What must hold of every single decision: E2, E3, E6 to E10, E12, E13.

use std::collections::BTreeSet;

use muster_driver::Change;
use muster_rollout::{
    Absence, Charge, Content, Eligible, Kind, MAX_BYTES, MAX_CHARGES, Memory, Place, RunState, StageId,
    State, Step, Unit,
};

use super::{Broken, Case, Law, Verdict, amount, truth};
use crate::steps::{row_steps, word};

/// Everything that one decision tells about itself.
pub fn examine(case: &Case<'_>) -> Verdict {
    let Case {
        decide,
        spec,
        before,
        view,
        decision,
        now,
    } = *case;
    for step in row_steps(decision) {
        examine_step(case, step)?;
    }
    let mut permuted = view.to_vec();
    permuted.reverse();
    if decide(spec, before, &permuted, now) != *decision {
        return Err(Broken::new(Law::E9, "the order of the units matters"));
    }
    if decision.memory.seq < before.seq {
        return Err(Broken::new(Law::W2, "the greatest token fell"));
    }
    examine_brake(case)?;
    if !before.rebuilt {
        // What is decided on a rebuilt memory withdraws nothing, and the next does.
        examine_repetition(case)?;
    }
    examine_memory(&decision.memory)?;
    examine_domains(case)?;
    examine_stages(case)?;
    examine_reasons(case)
}

/// E8: more than the brake allows are not begun to be withdrawn from at once, but acknowledged.
fn examine_brake(case: &Case<'_>) -> Verdict {
    let Case {
        spec,
        before,
        view,
        decision,
        ..
    } = *case;
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
        .filter(|unit| !spec.withdraw.moving.contains(&unit.id))
        .filter(carries);
    let leaving: BTreeSet<_> = leaving.map(|unit| unit.id.clone()).collect();
    let new = withdrawing(&decision.memory).intersection(&leaving).count();
    let carrying = carrying(case, view);
    let brake = spec.withdraw.brake.map(|brake| amount(brake, carrying).max(1));
    let many = brake.is_some_and(|brake| leaving.len() > brake as usize);
    if new > 0 && many && (spec.withdraw.acknowledged.is_none() || decision.memory.acknowledged.is_none()) {
        let what = format!("{leaving:?} leave, and nobody acknowledged it");
        return Err(Broken::new(Law::E8, what));
    }
    Ok(())
}

/// How many have something, and are not given up: what percentages of withdrawals are of.
fn carrying(case: &Case<'_>, view: &[Unit]) -> u32 {
    let has_something = |unit: &&Unit| {
        let told = unit
            .assigned
            .zip(unit.observed.as_ref())
            .is_some_and(|(row, echo)| echo.token == row.token && echo.state == State::Withdrawn);
        match unit.assigned.map(|row| row.content) {
            None | Some(Content::Nothing) => false,
            Some(Content::Withdraw) => !told,
            Some(Content::Carries { .. }) => true,
        }
    };
    let given_up = |unit: &&Unit| !unit.selected() && case.spec.abandoned.contains(&unit.id);
    let carrying = view.iter().filter(|unit| has_something(unit) && !given_up(unit));
    u32::try_from(carrying.count()).unwrap_or(u32::MAX)
}

/// Who is charged by this decision, was not before, and is not found in the midst of a change.
fn begun<'a>(case: &Case<'a>) -> Vec<(&'a Unit, Charge)> {
    let Case {
        before,
        view,
        decision,
        ..
    } = *case;
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
            let Content::Carries { digest, .. } = row.content else {
                return true;
            };
            let told = unit.observed.as_ref();
            told.is_some_and(|echo| {
                (echo.token, echo.digest, &echo.state) == (row.token, Some(digest), &State::Succeeded)
            })
        });
        (charge.counts() && new && assigned && !was && quiet).then_some((unit, charge))
    };
    view.iter().filter_map(begun).collect()
}

/// E2: who is begun shares one domain with all that are charged.
fn examine_domains(case: &Case<'_>) -> Verdict {
    let decision = case.decision;
    if !case.spec.exclusive {
        return Ok(());
    }
    let domain = |unit: &Unit| unit.domain.ok_or_else(|| unit.id.clone());
    for (unit, _) in begun(case) {
        let charged = decision
            .memory
            .charges
            .iter()
            .filter(|(_, charge)| charge.counts());
        for (id, _) in charged {
            let other = case.unit(id);
            if other.is_none_or(|other| domain(other) != domain(unit)) {
                return Err(Broken::new(Law::E2, format!("{} is begun beside {id}", unit.id)));
            }
        }
    }
    Ok(())
}

/// E7: who is begun at the target has all stages before its own behind it, and each was passed when it was done.
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
        let of_it = |unit: &&Unit| matches!(unit.place, Place::Stage(at) if usize::from(at) == place);
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
                let what = format!("{} is passed, {open:?} are not confirmed", stage.name);
                return Err(Broken::new(Law::E7, what));
            }
        }
        if !is.passed.contains(&id) {
            for (unit, charge) in begun(case) {
                let later = match unit.place {
                    Place::Stage(at) => usize::from(at) > place,
                    Place::Last => true,
                    Place::Excluded => false,
                };
                // A pin is no part of the rollout.
                let target = charge.kind == Kind::Assign && charge.revision == Some(run.target);
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
        return Err(Broken::new(Law::E6, format!("{step:?} is for nobody")));
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

/// E10: decided again, the same; carried out and decided again, nothing.
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
    if again.memory != decision.memory || row_steps(&again) != row_steps(decision) {
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
            .charges
            .values()
            .any(|charge| matches!(charge.kind, Kind::Withdraw | Kind::Abandon) && charge.counts())
    };
    // Who gets something for the first time makes a percentage of those who have something larger.
    let more = carrying(case, &outcome) > carrying(case, view);
    let again = row_steps(&after)
        .into_iter()
        .any(|step| !(more && matches!(step, Step::Withdraw { .. })));
    if !fences && !frees(&decision.memory) && again {
        let what = format!("after all was carried out: {:?}", after.steps);
        return Err(Broken::new(Law::E10, what));
    }
    Ok(())
}

/// E13, and it can be read again.
fn examine_memory(memory: &Memory) -> Verdict {
    let unreadable = |error: serde_json::Error| Broken::new(Law::E13, error.to_string());
    let text = serde_json::to_string(memory).map_err(unreadable)?;
    let read: Memory = serde_json::from_str(&text).map_err(unreadable)?;
    let bounded = memory.charges.len() <= MAX_CHARGES && text.len() <= MAX_BYTES;
    if bounded && read == *memory {
        Ok(())
    } else {
        Err(Broken::new(Law::E13, text))
    }
}

/// E12: one each, and it is true.
fn examine_reasons(case: &Case<'_>) -> Verdict {
    let Case { view, decision, .. } = *case;
    let mut units: Vec<&Unit> = view.iter().collect();
    units.sort();
    if decision.reasons.len() != units.len() {
        return Err(Broken::new(Law::E12, "not one reason each"));
    }
    let told = truth::Told::of(case);
    for (unit, (id, why)) in units.into_iter().zip(&decision.reasons) {
        let facts = truth::Facts {
            case: *case,
            told: &told,
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

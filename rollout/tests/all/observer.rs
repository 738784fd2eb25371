//! A world in which things happen, and somebody who sees only row writes and reports and holds the engine to its word.

use std::collections::{BTreeMap, BTreeSet};

use muster_rollout::{
    Charge, Class, Content, Decision, Desired, Echo, Eligible, Ineligible, Kind, Limit, MAX_BYTES,
    MAX_CHARGES, Memory, Millis, OnJoin, Row, Spec, State, Step, Token, Unit, Why, plan,
};

use crate::histories::Event;
use crate::world::{World, failure, label, row_steps, word, written};

type Verdict = Result<(), String>;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A write on its way: it fails if the row is not as it was seen (W3).
#[derive(Clone)]
struct Flying {
    step: Step,
    seen: Option<Token>,
    life: u32,
    /// The number of the view that it was decided on.
    view: usize,
}

pub struct Observed {
    pub world: World,
    views: Vec<Vec<Unit>>,
    flying: Vec<Flying>,
    /// Units whose last token is written and not reported as succeeded.
    counted: BTreeSet<String>,
    /// Since when a unit is away.
    away: BTreeMap<String, Millis>,
    /// Since when a unit was away that came back while nobody looked: if it leaves again unseen, its absence was one.
    unseen: BTreeMap<String, Millis>,
    /// Who came back, or was selected again, and in which view that is seen: what was decided before did not know.
    lifted: BTreeMap<String, usize>,
    /// Who came back, or was selected again, since all was calm.
    returned: BTreeSet<String>,
    /// The greatest limit since nobody was counted and nothing was on its way.
    limit: u32,
    broken: BTreeSet<String>,
    /// Who failed on what, or had it long enough to be late; and was ready (or had nothing) before.
    failed_on: BTreeMap<String, BTreeSet<String>>,
    written_at: BTreeMap<String, Millis>,
    max_failed: u32,
}

impl Observed {
    pub fn new(min_ready: u64, max_failed: u32) -> Self {
        let mut world = World::new(&NAMES, "r1");
        world.spec.min_ready = Millis::seconds(min_ready);
        world.spec.max_failed = Limit::Count(max_failed);
        Self {
            views: vec![world.view()],
            world,
            flying: Vec::new(),
            counted: BTreeSet::new(),
            away: BTreeMap::new(),
            unseen: BTreeMap::new(),
            lifted: BTreeMap::new(),
            returned: BTreeSet::new(),
            limit: 1,
            broken: BTreeSet::new(),
            failed_on: BTreeMap::new(),
            written_at: BTreeMap::new(),
            max_failed,
        }
    }

    /// Let it happen, and look.
    pub fn happen(&mut self, event: &Event) -> Verdict {
        self.note_late();
        match event {
            Event::Lead { lag, sent } => self.lead(*lag, *sent)?,
            Event::Crash => self.lead(0, 0)?,
            Event::Deliver(at) => self.deliver(*at)?,
            Event::Lose(at) if *at < self.flying.len() => drop(self.flying.remove(*at)),
            Event::Lose(_) => {}
            Event::Time(seconds) => self.world.pass(Millis::seconds(*seconds)),
            Event::Target(number) => self
                .world
                .aim(["r1", "r2", "r3-bad", "r4", "r5-bad", "r6"][*number]),
            Event::Limit(limit) => {
                self.world.spec.limit = Limit::Count(*limit);
                self.limit = self.limit.max(*limit);
            }
            Event::Pause(paused) => self.world.spec.paused = *paused,
            Event::Join(at) => self.join(NAMES[*at]),
            Event::Agent(at)
            | Event::Break(at)
            | Event::Mend(at)
            | Event::Absent(at)
            | Event::Back(at)
            | Event::Gone(at)
            | Event::Deselect(at)
            | Event::Reselect(at)
            | Event::Values(at) => self.happen_to(NAMES[*at], event),
        }
        if self.counted.is_empty() && self.flying.is_empty() && self.world.memory.charges.is_empty() {
            let Limit::Count(limit) = self.world.spec.limit else {
                unreachable!()
            };
            self.limit = limit;
            self.returned.clear();
        }
        self.views.push(self.world.view());
        Ok(())
    }

    fn join(&mut self, name: &str) {
        if !self.world.members.contains_key(name) {
            self.world.join(name);
            let life = u32::try_from(self.views.len()).unwrap();
            self.world.member(name).life = life;
        }
    }

    fn happen_to(&mut self, name: &str, event: &Event) {
        if !self.world.members.contains_key(name) {
            return;
        }
        match event {
            Event::Agent(_) => self.agent(name),
            Event::Break(_) => {
                self.broken.insert(name.into());
                self.agent(name);
            }
            Event::Mend(_) => drop(self.broken.remove(name)),
            Event::Absent(_) => {
                self.world.member(name).eligible = Eligible::No(Ineligible {
                    code: "Unreachable",
                    rank: 5,
                });
                let since = self.unseen.remove(name).unwrap_or(self.world.now);
                self.away.entry(name.into()).or_insert(since);
            }
            Event::Back(_) => {
                self.world.find(name);
                if let Some(since) = self.away.remove(name) {
                    self.unseen.insert(name.into(), since);
                }
                self.lifted.insert(name.into(), self.views.len());
                self.returned.insert(name.into());
            }
            Event::Gone(_) => {
                self.world.members.remove(name);
                self.counted.remove(name);
                self.away.remove(name);
                self.broken.remove(name);
            }
            Event::Deselect(_) => self.world.deselect(&[name]),
            Event::Reselect(_) => {
                self.world.reselect(name);
                self.lifted.insert(name.into(), self.views.len());
                self.returned.insert(name.into());
            }
            Event::Values(_) => self.world.member(name).values += 1,
            _ => unreachable!(),
        }
    }

    /// The agent sees a new row: it is on its way. It sees it again: it is done, or failed.
    fn agent(&mut self, name: &str) {
        let broken = self.broken.contains(name);
        let member = self.world.member(name);
        let (Some(row), Eligible::Yes) = (member.row, member.eligible) else {
            return;
        };
        let (digest, revision) = match row.content {
            Content::Carries { digest, revision } => (Some(digest), revision.map(label).unwrap_or_default()),
            Content::Withdraw | Content::Nothing => (None, String::new()),
        };
        let known = member
            .echo
            .as_ref()
            .is_some_and(|echo| echo.token == Some(row.token));
        let state = match row.content {
            Content::Nothing => return,
            _ if !known => State::Updating,
            Content::Withdraw => State::Withdrawn,
            Content::Carries { .. } if revision.ends_with("bad") => failure(Class::Revision, true),
            Content::Carries { .. } if broken => failure(Class::Unit, false),
            Content::Carries { .. } => State::Succeeded,
        };
        match &state {
            State::Succeeded | State::Withdrawn => drop(self.counted.remove(name)),
            State::Failed { .. } => drop(self.failed_on.entry(revision).or_default().insert(name.into())),
            State::Updating | State::Unknown => {}
        }
        member.echo = Some(Echo {
            digest,
            token: Some(row.token),
            state,
        });
    }

    /// Who has had a row for as long as the shortest deadline may be late at it.
    fn note_late(&mut self) {
        for (name, at) in &self.written_at {
            let Some(row) = self.world.members.get(name).and_then(|member| member.row) else {
                continue;
            };
            if let Content::Carries {
                revision: Some(revision),
                ..
            } = row.content
                && self.world.now.since(*at) >= self.world.spec.deadlines.pickup
            {
                self.failed_on
                    .entry(label(revision))
                    .or_default()
                    .insert(name.clone());
            }
        }
    }

    fn lead(&mut self, lag: usize, sent: u8) -> Verdict {
        let view = match lag {
            0 => self.world.view(),
            lag => self.views[self.views.len().saturating_sub(lag)].clone(),
        };
        // What is wished is read with the memory; only rows, reports and fitness may be old.
        let wishes: BTreeMap<_, _> = self
            .world
            .view()
            .into_iter()
            .map(|unit| (unit.id.clone(), unit))
            .collect();
        let view: Vec<Unit> = view
            .into_iter()
            .map(|unit| {
                match wishes
                    .get(&unit.id)
                    .filter(|now| now.incarnation == unit.incarnation)
                {
                    Some(now) => Unit {
                        desired: now.desired,
                        ..unit
                    },
                    None => unit,
                }
            })
            .collect();
        let spec = Spec {
            complete: lag == 0,
            ..self.world.spec.clone()
        };
        if lag == 0 {
            self.unseen.clear();
        }
        let before = self.world.memory.clone();
        let decision = plan(&spec, &before, &view, self.world.now);
        self.examine(&spec, &before, &view, &decision)?;
        self.world.memory = decision.memory.clone();
        for (at, step) in row_steps(&decision).into_iter().enumerate() {
            let Some(unit) = view.iter().find(|unit| Some(&unit.id) == step.unit()) else {
                return Err(format!("{step:?} is for nobody"));
            };
            let life = self
                .world
                .members
                .get(unit.id.as_str())
                .map_or(0, |member| member.life);
            if sent & (1 << at) != 0 {
                self.flying.push(Flying {
                    step: step.clone(),
                    seen: unit.assigned.map(|row| row.token),
                    life,
                    view: self.views.len().saturating_sub(lag),
                });
            }
        }
        Ok(())
    }

    /// E1, for who sees only rows and reports.
    fn deliver(&mut self, at: usize) -> Verdict {
        if at >= self.flying.len() {
            return Ok(());
        }
        let Flying {
            step,
            seen,
            life,
            view,
        } = self.flying.remove(at);
        let name = step.unit().unwrap().to_string();
        let Some(member) = self.world.members.get(&name).filter(|member| member.life == life) else {
            return Ok(());
        };
        if member.row.map(|row| row.token) != seen {
            return Ok(());
        }
        let Some((token, content)) = written(&step, member.row) else {
            let member = self.world.member(&name);
            (member.row, member.echo) = (None, None);
            self.counted.remove(&name);
            return Ok(());
        };
        if member.row.is_some_and(|row| row.token >= token) {
            return Ok(());
        }
        let (selected, new) = (member.selected, !self.counted.contains(&name));
        self.world.member(&name).row = Some(Row { token, content });
        self.written_at.insert(name.clone(), self.world.now);
        if !matches!(content, Content::Carries { .. }) {
            self.counted.remove(&name);
            return Ok(());
        }
        self.counted.insert(name.clone());
        let known = |other: &&String| **other == name || self.lifted.get(*other).is_none_or(|at| *at <= view);
        let here = self
            .counted
            .iter()
            .filter(|name| self.counts(name))
            .filter(known)
            .count();
        // A unit that returned may lift the number above the limit, also by a write that was decided while it was charged
        // for its return and that comes when it is confirmed: no test of a row can know that. Until all is calm again.
        let returned = self.returned.contains(&name);
        if new && selected && !returned && self.counts(&name) && here > self.limit as usize {
            return Err(format!(
                "E1: {:?} are counted at {step:?}, the limit is {}",
                self.counted, self.limit
            ));
        }
        Ok(())
    }

    fn counts(&self, name: &str) -> bool {
        let long = |since: &Millis| self.world.now.since(*since) >= self.world.spec.deadlines.absence;
        !self.away.get(name).is_some_and(long) && self.world.members[name].selected
    }

    fn examine(&self, spec: &Spec, before: &Memory, view: &[Unit], decision: &Decision) -> Verdict {
        let memory = &decision.memory;
        for step in row_steps(decision) {
            let unit = view
                .iter()
                .find(|unit| Some(&unit.id) == step.unit())
                .ok_or("a step for nobody")?;
            examine_step(spec, memory, unit, step)?;
        }
        self.examine_verdicts(before, memory)?;
        let mut permuted = view.to_vec();
        permuted.reverse();
        if plan(spec, before, &permuted, self.world.now) != *decision {
            return Err("E9: the order of the units matters".into());
        }
        examine_repetition(spec, view, decision, self.world.now)?;
        examine_memory(memory)?;
        examine_reasons(spec, view, decision)
    }

    /// E4: nothing is condemned without as many units that failed on it.
    fn examine_verdicts(&self, before: &Memory, after: &Memory) -> Verdict {
        for revision in after.bad.keys().filter(|revision| !before.is_bad(**revision)) {
            let failed = self.failed_on.get(&label(*revision)).map_or(0, BTreeSet::len);
            if failed <= self.max_failed as usize {
                return Err(format!("E4: {} is condemned by {failed}", label(*revision)));
            }
        }
        Ok(())
    }

    /// Everything works from now on; a fair time is bounded.
    pub fn fair_run(&mut self, target: &str) -> Verdict {
        self.broken.clear();
        self.away.clear();
        self.world.spec.paused = false;
        self.world.spec.limit = Limit::Count(1);
        self.limit = 4;
        self.world.spec.withdraw.brake = None;
        self.world.aim(target);
        self.world.names().iter().for_each(|name| self.world.find(name));
        for _ in 0..60 {
            self.happen(&Event::Lead {
                lag: 0,
                sent: u8::MAX,
            })?;
            while !self.flying.is_empty() {
                self.happen(&Event::Deliver(0))?;
            }
            for at in (0..NAMES.len()).flat_map(|at| [at, at]) {
                self.happen(&Event::Agent(at))?;
            }
            self.happen(&Event::Time(1))?;
        }
        Ok(())
    }
}

/// E3, E6, E8.
fn examine_step(spec: &Spec, memory: &Memory, unit: &Unit, step: &Step) -> Verdict {
    let free = unit.eligible == Eligible::Yes && !spec.paused;
    let fine = match step {
        Step::Assign { revision, .. } => free && unit.selected() && !memory.is_bad(*revision),
        Step::Withdraw { .. } => free && !unit.selected() && spec.complete,
        Step::Abandon { unit: id } => !unit.selected() && spec.complete && spec.abandoned.contains(id),
        Step::Fence { .. } => true,
        Step::Conclude { .. } => false,
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
            "E10: decided again: {:#?} then {:#?}",
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
    if !fences && !row_steps(&after).is_empty() {
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
fn examine_reasons(spec: &Spec, view: &[Unit], decision: &Decision) -> Verdict {
    let mut units: Vec<&Unit> = view.iter().collect();
    units.sort();
    if decision.reasons.len() != units.len() {
        return Err("E12: not one reason each".into());
    }
    let summary = decision.summary;
    for (unit, (id, why)) in units.into_iter().zip(&decision.reasons) {
        if unit.id != *id || !is_true(spec, unit, why, decision) {
            return Err(format!(
                "E12: {id} is not {}: {unit:?} {:?}",
                word(why),
                decision.memory
            ));
        }
    }
    let counted = summary.updating + summary.waiting + summary.failed + summary.skipped;
    if counted > summary.total {
        Err(format!("E12: {summary:?}"))
    } else {
        Ok(())
    }
}

fn is_true(spec: &Spec, unit: &Unit, why: &Why, decision: &Decision) -> bool {
    let memory = &decision.memory;
    let charge = memory
        .charges
        .get(&unit.id)
        .filter(|charge| charge.incarnation == unit.incarnation);
    let active = charge.is_some_and(|charge| !charge.skipped);
    let there = match (unit.desired, unit.assigned.map(|row| row.content)) {
        (Desired::Content { digest, .. }, Some(Content::Carries { digest: carried, .. })) => {
            digest == carried
        }
        _ => false,
    };
    let filled = memory.charges.values().filter(|charge| charge.counts()).count();
    let leaving = memory
        .charges
        .values()
        .filter(|charge| charge.kind == Kind::Withdraw)
        .count();
    let bad = matches!(unit.desired, Desired::Content { revision, .. } if memory.is_bad(revision));
    match why {
        Why::Ineligible { .. } => unit.eligible != Eligible::Yes,
        Why::WithdrawalHeld { units, .. } => !unit.selected() && *units > 1,
        Why::Withdrawing { .. } => active,
        Why::Failed { .. } => active || there,
        Why::AlreadyUnready { .. } => !charge.is_some_and(|charge: &Charge| charge.was_ready),
        Why::Overdue { .. }
        | Why::NotPickedUp { .. }
        | Why::Relapsed { .. }
        | Why::Updating { .. }
        | Why::Soaking { .. } => active && unit.selected(),
        Why::KnownBad { .. } | Why::Halted { .. } => bad,
        Why::Paused => spec.paused,
        Why::Unresolved => unit.desired == Desired::Unresolved,
        Why::WaitingTurn { limit, .. } if unit.selected() => filled >= *limit as usize || *limit == 0,
        Why::WaitingTurn { limit, .. } => leaving >= *limit as usize,
        Why::WaitingRead => !spec.complete,
        Why::UpToDate => there && !active,
        Why::Excluded => !unit.selected() && (OnJoin::Target == spec.on_join || !there),
    }
}

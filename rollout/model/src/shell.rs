//! A leader runs the released shell ([`muster_driver`], W1 to W7): it decides on its view, writes the memory by
//! compare-and-swap, and then assignments, each with a precondition.
//!
//! A decision and the write of its memory are one step: a leader whose write loses the race changes nothing and reads
//! again, and one whose write wins has decided on the current memory. Its view of assignments and of the registry may
//! be of any age.

use std::{convert::Infallible, sync::Arc};

use muster_driver::{Assignments, Change, Decided, Facts, Holder, NewContent, Planned, Tested, Verdicts};
use muster_rollout::{
    Assignment, Content, Decision, Evidence, InFlight, Kind, Memory, Report, Spec, State as Phase, Step,
    Token, Unit, UnitId, Verdict,
};

use muster_simulator::laws::{self, Case, Law};

use crate::normal::NOW;
use crate::observer::{Assigned, Judged};
use crate::pending_write::PendingWrite;
use crate::set::Set;
use crate::state::{Assemblage, Entry, Leader, RecordedVerdicts, State};
use crate::world::{RETRY, World, entries, incarnation, life, number_of, revision, sheets};
use crate::wrong::Wrong;

/// The input of a leader's decision.
pub(crate) struct LeaderView {
    pub(crate) spec: Spec,
    pub(crate) memory: Arc<Memory>,
    pub(crate) units: Vec<Unit>,
    sheets: Arc<Vec<Assemblage>>,
    entries: Arc<Vec<Entry>>,
    returned: Set,
    confirmed: Set,
    rebuilt: bool,
}

impl World {
    /// The view of a leader. Without separate views leaders see the current state.
    pub(crate) fn see(&self, state: &State, leader: Option<&Leader>) -> LeaderView {
        let mut sheets = leader.map_or_else(|| Arc::new(sheets(state)), |leader| Arc::clone(&leader.sheets));
        let entries = leader.map_or_else(|| Arc::new(entries(state)), |leader| Arc::clone(&leader.entries));
        let mut confirmed = leader.map(|leader| leader.confirmed).unwrap_or_default();
        let memory = match leader.and_then(|leader| leader.memory.clone()) {
            Some(memory) => Some(memory),
            None => state.module.memory.clone(),
        };
        let rebuilt = memory.is_none();
        let memory = memory.unwrap_or_else(|| {
            // W7: from a list of all assignments, not from the state of a watch.
            let mut list = crate::world::sheets(state);
            if let Some(last) = list.last_mut().filter(|_| self.wrong == Wrong::PartialList) {
                (last.assignment, last.report) = (None, None);
            }
            (sheets, confirmed) = (Arc::new(list), Set::default());
            let empty = Memory::default();
            let units = self.units(&state.module, &empty, &sheets, &entries);
            Arc::new(rebuilt_from(&units, state.module.verdicts))
        });
        // The recorded last good revision is part of the memory: a rebuilt one has none on this pass.
        let known = if rebuilt {
            Memory::default()
        } else {
            (*memory).clone()
        };
        let units = self.units(&state.module, &known, &sheets, &entries);
        LeaderView {
            spec: self.spec(&state.module),
            memory,
            units,
            sheets,
            entries,
            returned: leader.map(|leader| leader.returned).unwrap_or_default(),
            confirmed,
            rebuilt,
        }
    }

    /// The registry view lacks a cluster that is in flight, or from whose assemblage the memory is rebuilt, and reading
    /// that cluster shows that it exists: then nothing is decided until the view has it.
    fn is_behind(&self, state: &State, view: &LeaderView) -> bool {
        let memory = (!view.rebuilt).then_some(&*view.memory);
        let holders = self.names.iter().zip(view.sheets.iter());
        let holders = holders
            .filter(|(_, sheet)| sheet.assignment.is_some())
            .map(|(id, sheet)| Holder {
                unit: id.clone(),
                incarnation: Some(life(sheet.life)),
            });
        let read = |id: &UnitId| {
            view.entries
                .get(self.number(id)?)
                .map(|entry| incarnation(*entry))
        };
        let plan = self.wrong.decision();
        let missing = muster_driver::missing(memory, holders, read, &self.wrong.rules(&plan));
        missing.iter().any(|holder| {
            let there = self.number(&holder.unit).map(|at| state.clusters[at].entry);
            there.is_some_and(|entry| entry.present && holder.is(incarnation(entry)))
        })
    }

    /// A leader decides and writes the memory; the first `sent` of its writes become pending.
    pub(crate) fn decide(&self, state: &mut State, leader: Option<usize>, sent: usize) -> Option<Decision> {
        let view = self.see(state, leader.and_then(|at| state.leaders.get(at)));
        if self.is_behind(state, &view) {
            return None;
        }
        let decided = self.decided(&view);
        let decision = decided.decision();
        if let Err(broken) = self.check_decision(state, &view, decision) {
            state.broken.get_or_insert_with(|| broken.into());
        }
        let returned = state.eye.returned;
        for at in returned.iter() {
            let in_flight = self
                .names
                .get(at)
                .is_some_and(|id| decision.memory.in_flight.contains_key(id));
            if !in_flight && !view.returned.contains(at) {
                state.eye.returned.remove(at);
            }
        }
        for (at, entry) in view.entries.iter().enumerate() {
            if entry.fit.is_eligible() {
                state.eye.unobserved[at] = None;
            }
        }
        state.module.memory = Some(Arc::new(decision.memory.clone()));
        let all = decided.assignment_count();
        // The decision and the write of its memory are one step.
        let Ok(remembered) = decided.written(Ok::<(), Infallible>(()));
        let writes = remembered.writes(&View {
            world: self,
            view: &view,
        });
        for write in writes.iter().take(sent) {
            state
                .flying
                .insert(state.eye.decided_before(write.write().clone()));
        }
        if sent >= all {
            // A leader that dies before reports it with the next plan.
            state.module.verdicts = recorded_verdicts(&remembered.decision().memory);
        }
        Some(remembered.decision().clone())
    }

    pub(crate) fn decided(&self, view: &LeaderView) -> Decided {
        let facts = Facts {
            spec: &view.spec,
            memory: &view.memory,
            units: &view.units,
            now: NOW,
        };
        let plan = self.wrong.decision();
        muster_driver::decide(facts, &self.wrong.rules(&plan))
    }

    /// The number of writes that a leader would send now.
    pub(crate) fn writes(&self, state: &State, leader: Option<usize>) -> usize {
        let view = self.see(state, leader.and_then(|at| state.leaders.get(at)));
        self.decided(&view).assignment_count()
    }

    fn check_decision(
        &self,
        state: &mut State,
        view: &LeaderView,
        decision: &Decision,
    ) -> Result<(), String> {
        let plan = self.wrong.decision();
        let case = Case {
            decide: &plan,
            spec: &view.spec,
            before: &view.memory,
            view: &view.units,
            decision,
            now: NOW,
        };
        match laws::examine(&case) {
            // A deliberate error would break this law at once, and must be shown to break its own.
            Err(broken) if broken.law == Law::E10 && !self.wrong.is_of_repetition() => {}
            held => held?,
        }
        if view.rebuilt {
            for at in self.in_flight_set(&view.memory).iter() {
                state.eye.returned.insert(at);
            }
        }
        let taken = |word: usize, command: &crate::state::RevisionCommand| {
            let id = crate::normal::number(word, command.fresh);
            decision.taken.contains(&(id, true)) && word == RETRY
        };
        self.observe_failures(state, view, decision);
        let mut judged = Judged {
            bad: recorded_verdicts(&decision.memory).bad,
            good: decision.steps.iter().find_map(concluded_good),
            tried: Set::default(),
        };
        for (word, command) in state.module.commands.iter().enumerate() {
            if let Some(command) = command.as_ref().filter(|command| taken(word, command)) {
                judged.tried.insert(usize::from(command.revision));
            }
        }
        let mut assigned = Vec::new();
        for step in &decision.steps {
            if let (Step::Assign { revision, .. }, Some(cluster)) = (step, self.cluster_of(step)) {
                assigned.push(Assigned {
                    cluster,
                    gets: usize::from(number_of(*revision)),
                    shall: usize::from(state.module.target),
                });
            }
        }
        state.eye.decided(&judged, &assigned, self.measure())
    }

    /// Rules 3 and 6: readiness is read when a unit becomes in flight; failures are read while it is.
    fn observe_failures(&self, state: &mut State, view: &LeaderView, decision: &Decision) {
        for (at, id) in self.names.iter().enumerate() {
            let (Some(change), Some(sheet)) = (decision.memory.in_flight.get(id), view.sheets.get(at)) else {
                continue;
            };
            let before = view.memory.in_flight.get(id);
            let relapsed = change.kind == Kind::Relapsed && !state.eye.counted.contains(at);
            // A slot may end and another begin in one decision.
            if before.is_none() || is_ready(sheet) && before.map(|was| was.token) != Some(change.token) {
                state.eye.becomes_in_flight(at, is_ready(sheet) || relapsed);
            }
            let Some(row) = sheet.assignment else { continue };
            let fails = matches!(reported_phase(sheet, row.token), Some(Phase::Failed { .. }));
            if let (
                Content::Carries {
                    revision: Some(of), ..
                },
                true,
            ) = (row.content, fails)
            {
                state.eye.failed_on(at, usize::from(number_of(of)));
            }
        }
    }

    pub(crate) fn in_flight_set(&self, memory: &Memory) -> Set {
        let mut in_flight = Set::default();
        for (at, id) in self.names.iter().enumerate() {
            if memory.in_flight.contains_key(id) {
                in_flight.insert(at);
            }
        }
        in_flight
    }

    fn cluster_of(&self, step: &Step) -> Option<usize> {
        self.number(step.unit()?)
    }

    fn number(&self, id: &UnitId) -> Option<usize> {
        self.names.iter().position(|name| name == id)
    }

    /// A write arrives: it is applied if its precondition is met (W3).
    pub(crate) fn deliver(&self, state: &mut State, flying: &PendingWrite) {
        state.flying.remove(flying);
        let cluster = &mut state.clusters[flying.cluster];
        if !cluster.entry.present || cluster.entry.life != flying.life {
            return;
        }
        let sheet = &mut cluster.sheet;
        let plan = self.wrong.decision();
        let Some(row) = flying.write.arrive(sheet.assignment, &self.wrong.rules(&plan)) else {
            return;
        };
        let Change { token, then } = flying.write.change;
        let marked =
            then == NewContent::Fenced && matches!(self.wrong, Wrong::FenceOfSameToken | Wrong::FenceFrees);
        sheet.fence = marked.then_some(token);
        sheet.assignment = Some(row);
        let content = row.content;
        if let Err(broken) = state.eye.wrote(flying, content, self.measure()) {
            state.broken.get_or_insert_with(|| broken.into());
        }
        // By chance a re-created module writes the same assignment that its cluster has, and has reported as done.
        let sheet = &state.clusters[flying.cluster].sheet;
        let carried = match content {
            Content::Carries { digest, .. } => Some(digest),
            Content::Nothing | Content::Withdraw => None,
        };
        let same = sheet.report.as_ref().filter(|report| report.digest == carried);
        if same.is_some_and(|report| report.token == token && report.state == Phase::Succeeded) {
            state.eye.succeeded(flying.cluster);
        }
    }

    /// The assignment as the shell reads it.
    pub(crate) fn observed_assignment(&self, row: Assignment, sheet: &Assemblage) -> Assignment {
        let raised = sheet.fence.filter(|_| self.wrong == Wrong::FenceOfSameToken);
        Assignment {
            token: row.token.max(raised.unwrap_or_default()),
            ..row
        }
    }

    /// What a deliberately wrong shell makes of an assignment and its report.
    pub(crate) fn mistaken(&self, unit: &mut Unit, sheet: &Assemblage) {
        let Some(row) = unit.assigned else { return };
        let Content::Carries { digest, .. } = row.content else {
            return;
        };
        let fenced = sheet.fence == Some(row.token);
        match (self.wrong, &mut unit.observed) {
            (Wrong::NoTokenInReport, Some(report)) if report.digest == Some(digest) => {
                report.token = row.token;
            }
            (Wrong::FenceFrees, observed) if fenced => {
                *observed = Some(Report {
                    digest: Some(digest),
                    token: row.token,
                    state: Phase::Succeeded,
                });
            }
            _ => {}
        }
    }
}

/// The assignments as a leader has read them.
struct View<'a> {
    world: &'a World,
    view: &'a LeaderView,
}

impl View<'_> {
    /// The assemblage of a cluster, its registry entry, and the assignment in it; an assignment of another incarnation
    /// is ignored.
    fn row(&self, cluster: usize) -> Option<(&Assemblage, Entry, Option<Assignment>)> {
        let (sheet, entry) = (self.view.sheets.get(cluster)?, *self.view.entries.get(cluster)?);
        let row = sheet
            .assignment
            .filter(|_| sheet.life == entry.life || !entry.present);
        Some((sheet, entry, row))
    }
}

impl Assignments for View<'_> {
    type Write = PendingWrite;

    fn token(&self, unit: &UnitId) -> Option<Token> {
        let (sheet, _, row) = self.row(self.world.number(unit)?)?;
        row.map(|row| self.world.observed_assignment(row, sheet).token)
    }

    fn write(&self, planned: &Planned) -> Option<PendingWrite> {
        let (cluster, change) = (self.world.number(&planned.unit)?, planned.change?);
        let (_, entry, row) = self.row(cluster)?;
        let read = row.map(|row| row.token);
        Some(PendingWrite {
            cluster,
            life: entry.life,
            write: Tested { change, read },
            returned: self.view.returned,
            confirmed: self.view.confirmed.contains(cluster),
        })
    }
}

fn concluded_good(step: &Step) -> Option<usize> {
    match step {
        Step::Conclude {
            revision,
            verdict: Verdict::Good,
            ..
        } => Some(usize::from(number_of(*revision))),
        _ => None,
    }
}

fn is_ready(sheet: &Assemblage) -> bool {
    match sheet.assignment.map(|row| (row.token, row.content)) {
        None | Some((_, Content::Nothing)) => true,
        Some((token, Content::Withdraw)) => {
            reported_phase(sheet, token).is_some_and(|phase| *phase == Phase::Withdrawn)
        }
        Some((token, Content::Carries { .. })) => {
            reported_phase(sheet, token).is_some_and(|phase| *phase == Phase::Succeeded)
        }
    }
}

fn reported_phase(sheet: &Assemblage, token: Token) -> Option<&Phase> {
    let report = sheet.report.as_ref().filter(|report| report.token == token)?;
    Some(&report.state)
}

/// Verdicts as they are recorded after a decision.
pub(crate) fn recorded_verdicts(memory: &Memory) -> RecordedVerdicts {
    let mut bad = Set::default();
    for revision in memory.bad.keys() {
        bad.insert(usize::from(number_of(*revision)));
    }
    RecordedVerdicts {
        good: memory.last_good.map(number_of),
        bad,
    }
}

fn rebuilt_from(units: &[Unit], recorded: RecordedVerdicts) -> Memory {
    let evidence = |number: usize| {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        let evidence = Evidence::new("a".into(), "told", NOW);
        (revision(number), evidence)
    };
    let verdicts = Verdicts {
        last_good: recorded.good.map(revision),
        bad: recorded.bad.iter().map(evidence).collect(),
    };
    muster_driver::rebuild(units, verdicts, NOW)
}

/// The in-flight change of a cluster.
pub(crate) fn in_flight_of<'a>(world: &World, state: &'a State, at: usize) -> Option<&'a InFlight> {
    let memory = state.module.memory.as_ref()?;
    memory.in_flight.get(world.names.get(at)?)
}

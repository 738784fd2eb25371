//! The agent of a node: it gets all rows of the node, changes at most one of them at a time, and reports the state of
//! each.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use crate::{
    change::{self, Means, milliseconds},
    clock::Clock,
    config::Config,
    conflicts,
    content::{Assignment, Change, Key, OnDelete},
    disk::{Disk, DiskError},
    hold,
    host::Host,
    journal::{Identity, Record, Step},
    lock::{Lock, LockError},
    memory::{PAUSE, Try},
    outcome::{ChangeOutcome, RowRefusal, Verdict},
    own::Own,
    plan,
    report::{Report, State, Waiting},
    secrets::Secrets,
    start::{Services, Started},
};

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another process has the lock, or it cannot be made.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The agent's own directory cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The environment of an agent.
#[derive(Clone)]
pub struct AgentEnvironment {
    /// The agent's own directory, absolute; it exists.
    pub directory: String,
    /// The disk: the own directory and all prefixes.
    pub disk: Rc<dyn Disk>,
    /// The clocks.
    pub clock: Rc<dyn Clock>,
    /// Programs, links and connections.
    pub host: Rc<dyn Host>,
    /// The identity of the boot and the machine.
    pub identity: Identity,
}

/// Reports that a row is about to change; `false` if that could not be reported, so the change does not start.
pub type Acknowledge<'a> = &'a mut dyn FnMut(&Report) -> bool;

/// The state of all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One report for each row, in order.
    pub reports: Vec<Report>,
    /// When to call again without an event; `None` if only an event changes something.
    pub again: Option<Duration>,
}

/// The agent. It holds the lock of its directory during its lifetime.
pub struct Agent {
    own: Own,
    clock: Rc<dyn Clock>,
    host: Rc<dyn Host>,
    config: Config,
    identity: Identity,
    state: Started,
    _lock: Option<Lock>,
}

/// The next action for a row.
enum Next {
    Stands(State),
    /// Its state stays, and it is tried again after this time.
    Later(State, Duration),
    Try {
        change: Box<Change>,
        tries: u32,
    },
}

impl Agent {
    /// Starts the agent: restores unconfirmed changes, and nothing else. `lock` is `None` only if there can be no other
    /// process.
    pub fn start(
        surroundings: AgentEnvironment,
        config: Config,
        services: Services,
        lock: Option<Lock>,
    ) -> Result<Self, AgentError> {
        let AgentEnvironment {
            directory,
            disk,
            clock,
            host,
            identity,
        } = surroundings;
        let own = Own {
            disk,
            path: directory,
        };
        let (state, damaged) = Started::read(&own, &identity.machine_id)?;
        let mut agent = Self {
            own,
            clock,
            host,
            config,
            identity,
            state,
            _lock: lock,
        };
        if !agent.state.newer {
            let (state, means) = agent.parts();
            // A failed cleanup is retried at the next change or start.
            let _ = state.settle(&means, damaged, services);
        }
        Ok(agent)
    }

    /// Switches to another configuration of the node.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// Restores what could not be restored before. Whether nothing is left to restore.
    pub fn restore(&mut self) -> bool {
        let (state, means) = self.parts();
        if state.last.as_ref().is_some_and(|last| !last.step.is_settled()) {
            let _ = state.settle(&means, false, Services::Running);
        }
        state.last.as_ref().is_none_or(|last| last.step.is_settled())
    }

    /// The last record of the journal.
    pub fn journal(&self) -> Option<&Record> {
        self.state.last.as_ref()
    }

    fn parts(&mut self) -> (&mut Started, Means<'_>) {
        let means = Means {
            own: &self.own,
            clock: self.clock.as_ref(),
            host: self.host.as_ref(),
            config: &self.config,
            identity: &self.identity,
        };
        (&mut self.state, means)
    }

    /// Reports the state of all rows of the node, and changes at most one of them. It returns when that change is
    /// confirmed or restored.
    pub fn assign(&mut self, rows: &[Assignment], acknowledge: Acknowledge<'_>) -> Answer {
        let conflicts = conflicts::find(rows, &self.state.originals);
        let mut pass = Pass {
            acknowledge,
            changed: None,
            again: None,
        };
        let mut reports = Vec::new();
        for row in rows {
            let state = match self.admit(row, &conflicts) {
                Ok(change) => self.carry_on(row, change, &mut pass),
                Err(state) => pass.not_yet(state),
            };
            let state = self.leave(row, state);
            let mut report = self.report(row, state);
            if report.state == State::Confirmed {
                report.drift = self.drift(row);
                report.note = self.read_after_boot(row, &report.drift);
            }
            reports.push(report);
        }
        Answer {
            reports,
            again: pass.again,
        }
    }

    /// Runs the next action for a row, and returns its state.
    fn carry_on(&mut self, row: &Assignment, change: Box<Change>, pass: &mut Pass<'_>) -> State {
        match self.next(row, change) {
            Next::Stands(state) => state,
            Next::Later(state, pause) => {
                pass.ask_again(pause);
                state
            }
            Next::Try { change, tries } => {
                if let Some(other) = pass.changed.clone() {
                    pass.ask_again(Duration::ZERO);
                    return State::Waiting(Waiting::BusyWith(other));
                }
                match self.try_change(row, &change, tries, pass.acknowledge) {
                    Ok(state) => {
                        pass.changed = Some(row.name.clone());
                        // The state of the row after the change is reported by the next pass.
                        pass.ask_again(Duration::ZERO);
                        state
                    }
                    Err(state) => pass.not_yet(state),
                }
            }
        }
    }

    /// The change that the row requests, or why it is not admitted.
    fn admit(&self, row: &Assignment, conflicts: &BTreeMap<String, Waiting>) -> Result<Box<Change>, State> {
        if self.state.newer {
            return Err(State::Waiting(Waiting::JournalFromNewer));
        }
        if row.deleting && row.content.on_delete == OnDelete::Orphan {
            // Only the memory is written, so the content need not be allowed.
            return Err(State::Confirmed);
        }
        if let Some(waiting) = conflicts.get(&row.name) {
            return Err(State::Waiting(waiting.clone()));
        }
        let admitted = row.admit(&self.config, self.host.as_ref());
        admitted.map(Box::new).map_err(State::Refused)
    }

    /// The next action for a row whose change is admitted; only the memory is read.
    fn next(&mut self, row: &Assignment, change: Box<Change>) -> Next {
        let memory = self.state.memory.rows.get(&row.name);
        if row.deleting && memory.is_none() && self.state.originals.all().all(|head| head.row != row.name) {
            return Next::Stands(State::Confirmed);
        }
        if let Some(bad) = self.state.memory.known_bad(&change.key) {
            return Next::Stands(State::Ended(bad.outcome.clone()));
        }
        let last = memory.and_then(|memory| memory.last.as_ref());
        match last.filter(|last| is_same(&last.key, &change.key, last.outcome.verdict)) {
            None => Next::Try { change, tries: 0 },
            Some(last) => self.after(last, change),
        }
    }

    /// The next action after a try of the same key.
    fn after(&self, last: &Try, change: Box<Change>) -> Next {
        match last.outcome.verdict.class() {
            None => Next::Stands(State::Confirmed),
            Some(_) if last.is_repeated() => {
                let pause = PAUSE * 2_u32.pow(last.tries);
                let now = milliseconds(self.clock.since_boot());
                let waited = if last.boot_id == self.identity.boot_id {
                    now.saturating_sub(last.ended)
                } else {
                    u64::MAX
                };
                match pause
                    .checked_sub(Duration::from_millis(waited))
                    .filter(|left| !left.is_zero())
                {
                    Some(left) => Next::Later(State::Ended(last.outcome.clone()), left),
                    None => Next::Try {
                        change,
                        tries: last.tries + 1,
                    },
                }
            }
            Some(_) => Next::Stands(State::Ended(last.outcome.clone())),
        }
    }

    /// Tries a change. `Err`: it did not start, because the node is held, something else must be restored first, the
    /// draft is refused, or the start cannot be reported.
    fn try_change(
        &mut self,
        row: &Assignment,
        change: &Change,
        tries: u32,
        acknowledge: Acknowledge<'_>,
    ) -> Result<State, State> {
        match hold::active(&self.own, &self.identity.boot_id, self.clock.as_ref()) {
            Ok(None) => {}
            Ok(Some(hold)) => return Err(State::Waiting(Waiting::HeldLocally(hold))),
            Err(error) => return Err(State::Waiting(Waiting::CannotRemember(error.to_string()))),
        }
        if !self.restore() {
            let row = self.state.last.as_ref().map(|last| last.row.clone());
            return Err(State::Waiting(Waiting::BusyWith(row.unwrap_or_default())));
        }
        let draft = self.draft(change, tries)?;
        if !acknowledge(&self.report(row, State::Changing)) {
            return Err(State::Waiting(Waiting::NotAcknowledged));
        }
        let (state, means) = self.parts();
        state
            .run_change(&means, &draft, tries, change)
            .map_err(State::Refused)
    }

    fn report(&self, row: &Assignment, state: State) -> Report {
        let memory = self.state.memory.rows.get(&row.name);
        let last = memory.and_then(|memory| memory.last.as_ref());
        let repeated =
            |ended: &ChangeOutcome| last.is_some_and(|last| last.outcome == *ended && last.is_repeated());
        Report {
            confirmed: memory
                .and_then(|memory| memory.confirmed.as_ref())
                .map(|key| key.digest.clone()),
            retries: matches!(&state, State::Ended(ended) if repeated(ended)),
            ..Report::new(row, state)
        }
    }

    /// The plan of the change. The disk is only read, except for pending memory of the previous change.
    fn draft(&mut self, change: &Change, tries: u32) -> Result<plan::Draft, State> {
        let (state, means) = self.parts();
        if !state.remember(&means) {
            let text = "the memory of the last change cannot be written".to_owned();
            return Err(State::Waiting(Waiting::CannotRemember(text)));
        }
        if let Ok(Some(stale)) = means.own.get_json::<plan::Plan>(plan::FILE) {
            let ended = state.last.as_ref().filter(|last| last.plan == stale.id);
            let confirmed = ended.is_some_and(|last| last.step == Step::Confirmed);
            state
                .clear(&stale, confirmed, means.own)
                .map_err(|error| State::Refused(plan::failed(&error)))?;
        }
        let memory = state
            .memory
            .rows
            .get(&change.row)
            .and_then(|row| row.last.as_ref());
        // What the services last read is known only if the last try was confirmed.
        let reload_anyway = memory.is_some_and(|last| last.outcome.verdict != Verdict::Confirmed);
        let failing = crate::checks::failing(&change.procedure.checks, means.config, means.host);
        if tries > 0
            && let Some(first) = failing.first()
        {
            // The environment has the same problem as before: another try would prove nothing.
            let message = change.secrets.mask(&format!("{}: {}", first.name, first.message));
            let outcome = ChangeOutcome::new(Verdict::Inconclusive, &message, &change::names(&failing));
            return Err(State::Ended(outcome));
        }
        let id = state.journal.next();
        let before = (id, reload_anyway, change::names(&failing));
        plan::draft(change, &state.originals, means.own.disk.as_ref(), before).map_err(State::Refused)
    }

    /// Forgets a deleted row that has nothing left to do.
    fn leave(&mut self, row: &Assignment, state: State) -> State {
        if !row.deleting || state != State::Confirmed {
            return state;
        }
        match self.forget_row(&row.name) {
            Ok(()) => State::Gone,
            Err(error) => State::Waiting(Waiting::CannotRemember(error.to_string())),
        }
    }

    fn forget_row(&mut self, row: &str) -> Result<(), DiskError> {
        let state = &mut self.state;
        let paths: Vec<String> = state
            .originals
            .all()
            .filter(|head| head.row == row)
            .map(|head| head.path.clone())
            .collect();
        for path in paths {
            state.originals.release(&path)?;
        }
        if state.memory.rows.remove(row).is_some() {
            state.unsaved = true;
            state.memory.save(&self.own)?;
            state.unsaved = false;
        }
        Ok(())
    }

    /// Reloads the services of a confirmed row once in each boot, as their state since the boot is unknown. Files that
    /// differ from what was confirmed are not reloaded. Returns what failed.
    fn read_after_boot(&mut self, row: &Assignment, drift: &[String]) -> Option<String> {
        let boot_id = self.identity.boot_id.clone();
        let memory = self.state.memory.rows.get(&row.name)?;
        let held = hold::active(&self.own, &boot_id, self.clock.as_ref());
        if memory.read_in_boot == boot_id || !matches!(held, Ok(None)) || !drift.is_empty() {
            return None;
        }
        let (state, means) = self.parts();
        if let Some(memory) = state.memory.rows.get_mut(&row.name) {
            memory.read_in_boot = boot_id;
            state.unsaved = true;
            state.remember(&means);
        }
        let secrets = Secrets::all(means.config, means.host);
        let failed = means.reload_all(&row.content.reload, &secrets).err();
        failed.or_else(|| {
            let failing = crate::checks::failing(&row.content.checks, means.config, means.host);
            let first = failing.first()?;
            Some(secrets.mask(&format!("{}: {}", first.name, first.message)))
        })
    }

    /// The files of a confirmed row that differ from what was confirmed.
    fn drift(&self, row: &Assignment) -> Vec<String> {
        let Ok(change) = row.admit(&self.config, self.host.as_ref()) else {
            return Vec::new();
        };
        let differs =
            |file: &&crate::content::DesiredFile| !plan::is_in_desired_state(file, self.own.disk.as_ref());
        change
            .files
            .iter()
            .filter(differs)
            .map(|file| file.path.clone())
            .collect()
    }
}

/// Whether a try of this key would repeat that one. A confirmed row stays confirmed even if the meaning of its names
/// changes.
fn is_same(last: &Key, key: &Key, verdict: Verdict) -> bool {
    let definitions = last.definitions == key.definitions || verdict == Verdict::Confirmed;
    last.digest == key.digest && last.token == key.token && last.attempt == key.attempt && definitions
}

/// The results of a pass over the rows.
struct Pass<'a> {
    acknowledge: Acknowledge<'a>,
    /// The row that was changed.
    changed: Option<String>,
    again: Option<Duration>,
}

impl Pass<'_> {
    fn ask_again(&mut self, pause: Duration) {
        self.again = Some(self.again.map_or(pause, |again| again.min(pause)));
    }

    /// A row that was not changed: its obstacle may disappear on its own.
    fn not_yet(&mut self, state: State) -> State {
        if state != State::Confirmed {
            self.ask_again(PAUSE);
        }
        state
    }
}

impl Started {
    fn run_change(
        &mut self,
        means: &Means<'_>,
        draft: &plan::Draft,
        tries: u32,
        change: &Change,
    ) -> Result<State, RowRefusal> {
        let Self {
            journal, originals, ..
        } = self;
        let record = means.run(draft, tries, &change.secrets, journal, originals)?;
        let outcome = record.outcome.clone();
        let (settled, confirmed) = (record.step.is_settled(), record.step == Step::Confirmed);
        self.last = Some(record);
        // A full disk prevents both now: the journal has the result, and the next change starts with them.
        self.remember(means);
        if settled {
            let _ = self.clear(&draft.plan, confirmed, means.own);
        }
        Ok(match outcome {
            Some(outcome) if outcome.verdict != Verdict::Confirmed => State::Ended(outcome),
            _ => State::Confirmed,
        })
    }
}

//! The agent of a node: it is given all rows of the node, changes at most one of them at a time, and says how each stands.

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
    outcome::{Outcome, Refusal, Verdict},
    own::Own,
    plan,
    report::{Report, State, Waiting},
    secrets::Secrets,
    start::{Services, Started},
};

/// What keeps an agent from starting.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another process has the lock, or it cannot be made.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The agent's own folder cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The surroundings of an agent.
#[derive(Clone)]
pub struct Surroundings {
    /// The agent's own folder, absolute; it exists.
    pub folder: String,
    /// The disk: the own folder and all prefixes.
    pub disk: Rc<dyn Disk>,
    /// Time.
    pub clock: Rc<dyn Clock>,
    /// Programs, links and connections.
    pub host: Rc<dyn Host>,
    /// Which boot of which machine.
    pub identity: Identity,
}

/// Reports that a row is about to be changed; `false`: that could not be reported, and the change does not begin.
pub type Acknowledge<'a> = &'a mut dyn FnMut(&Report) -> bool;

/// How all rows stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One for each row that was given, in their order.
    pub reports: Vec<Report>,
    /// When to ask again although nothing changed; `None`: not before something does.
    pub again: Option<Duration>,
}

/// The agent. It holds the lock of its folder for as long as it lives.
pub struct Agent {
    own: Own,
    clock: Rc<dyn Clock>,
    host: Rc<dyn Host>,
    config: Config,
    identity: Identity,
    state: Started,
    _lock: Option<Lock>,
}

/// What to do about a row.
enum Next {
    Stands(State),
    /// It stands, and is tried again after this time.
    Later(State, Duration),
    Try {
        change: Box<Change>,
        tries: u32,
    },
}

impl Agent {
    /// Starts: restores what is unconfirmed, and nothing else. `lock` is `None` only where no other process can be.
    pub fn start(
        surroundings: Surroundings,
        config: Config,
        services: Services,
        lock: Option<Lock>,
    ) -> Result<Self, AgentError> {
        let Surroundings {
            folder,
            disk,
            clock,
            host,
            identity,
        } = surroundings;
        let own = Own { disk, path: folder };
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
            // What cannot be cleared away now is at the next change or start.
            let _ = state.settle(&means, damaged, services);
        }
        Ok(agent)
    }

    /// Takes another configuration of the node.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// Brings back what could not be brought back before. Whether nothing is left unrestored.
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

    /// Says how all rows of the node stand, and changes at most one that has to be. It returns when that change is confirmed or taken back.
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

    /// How a row stands after what is to be done about it now.
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
                        // How the row stands from now on.
                        pass.ask_again(Duration::ZERO);
                        state
                    }
                    Err(state) => pass.not_yet(state),
                }
            }
        }
    }

    /// The change that the row asks for, or why it is out of the question.
    fn admit(&self, row: &Assignment, conflicts: &BTreeMap<String, Waiting>) -> Result<Box<Change>, State> {
        if self.state.newer {
            return Err(State::Waiting(Waiting::JournalFromNewer));
        }
        if row.deleting && row.content.on_delete == OnDelete::Orphan {
            // Nothing is written but the memory: what is asked need not be allowed.
            return Err(State::Confirmed);
        }
        if let Some(waiting) = conflicts.get(&row.name) {
            return Err(State::Waiting(waiting.clone()));
        }
        let admitted = row.admit(&self.config, self.host.as_ref());
        admitted.map(Box::new).map_err(State::Refused)
    }

    /// What to do about a row whose change is admitted; it only reads the memory.
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

    /// What follows a try of the same key.
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

    /// Tries a change. `Err`: it did not begin, because the node is held, something else has to be brought back first, the draft is
    /// refused, or its begin cannot be reported.
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
            .carry_out(&means, &draft, tries, change)
            .map_err(State::Refused)
    }

    fn report(&self, row: &Assignment, state: State) -> Report {
        let memory = self.state.memory.rows.get(&row.name);
        let last = memory.and_then(|memory| memory.last.as_ref());
        let repeated =
            |ended: &Outcome| last.is_some_and(|last| last.outcome == *ended && last.is_repeated());
        Report {
            confirmed: memory
                .and_then(|memory| memory.confirmed.as_ref())
                .map(|key| key.digest.clone()),
            retries: matches!(&state, State::Ended(ended) if repeated(ended)),
            ..Report::new(row, state)
        }
    }

    /// The plan of the change; the disk is only read, but for what has to be remembered of the change before.
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
        // What the services read last is known only where the last try was confirmed.
        let reload_anyway = memory.is_some_and(|last| last.outcome.verdict != Verdict::Confirmed);
        let failing = crate::checks::failing(&change.procedure.checks, means.config, means.host);
        if tries > 0
            && let Some(first) = failing.first()
        {
            // The surroundings are as bad as they were: another try would prove nothing.
            let message = change.secrets.mask(&format!("{}: {}", first.name, first.message));
            let outcome = Outcome::new(Verdict::Inconclusive, &message, &change::names(&failing));
            return Err(State::Ended(outcome));
        }
        let id = state.journal.next();
        let before = (id, reload_anyway, change::names(&failing));
        plan::draft(change, &state.originals, means.own.disk.as_ref(), before).map_err(State::Refused)
    }

    /// Forgets a row that is deleted and has nothing left to do.
    fn leave(&mut self, row: &Assignment, state: State) -> State {
        if !row.deleting || state != State::Confirmed {
            return state;
        }
        match self.forget(&row.name) {
            Ok(()) => State::Gone,
            Err(error) => State::Waiting(Waiting::CannotRemember(error.to_string())),
        }
    }

    fn forget(&mut self, row: &str) -> Result<(), DiskError> {
        let state = &mut self.state;
        let paths: Vec<String> = state
            .originals
            .all()
            .filter(|head| head.row == row)
            .map(|head| head.path.clone())
            .collect();
        for path in paths {
            state.originals.forget(&path)?;
        }
        if state.memory.rows.remove(row).is_some() {
            state.unsaved = true;
            state.memory.save(&self.own)?;
            state.unsaved = false;
        }
        Ok(())
    }

    /// Has the services read a confirmed row's files once in each boot: what they have done since the boot is not known. Files that are not
    /// as they were confirmed are left unread. Says what failed.
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

    /// The files of a confirmed row that are not as they were confirmed.
    fn drift(&self, row: &Assignment) -> Vec<String> {
        let Ok(change) = row.admit(&self.config, self.host.as_ref()) else {
            return Vec::new();
        };
        let differs = |file: &&crate::content::Wanted| !plan::stands(file, self.own.disk.as_ref());
        change
            .files
            .iter()
            .filter(differs)
            .map(|file| file.path.clone())
            .collect()
    }
}

/// Whether a try of this key would be that one again. What is confirmed stays so whatever its names mean by now.
fn is_same(last: &Key, key: &Key, verdict: Verdict) -> bool {
    let definitions = last.definitions == key.definitions || verdict == Verdict::Confirmed;
    last.digest == key.digest && last.token == key.token && last.attempt == key.attempt && definitions
}

/// What a pass over the rows has come to.
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

    /// A row that did not change: what stands in its way may go by itself.
    fn not_yet(&mut self, state: State) -> State {
        if state != State::Confirmed {
            self.ask_again(PAUSE);
        }
        state
    }
}

impl Started {
    fn carry_out(
        &mut self,
        means: &Means<'_>,
        draft: &plan::Draft,
        tries: u32,
        change: &Change,
    ) -> Result<State, Refusal> {
        let Self {
            journal, originals, ..
        } = self;
        let record = means.carry_out(draft, tries, &change.secrets, journal, originals)?;
        let outcome = record.outcome.clone();
        let (settled, confirmed) = (record.step.is_settled(), record.step == Step::Confirmed);
        self.last = Some(record);
        // A full disk keeps both from being done now: the journal remembers, and the next change does them first.
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

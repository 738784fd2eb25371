//! The start of the agent: it restores unconfirmed changes, and records the result of the last change.

use crate::{
    change::{Means, milliseconds, plan_is_lost},
    disk::DiskResult,
    journal::{Journal, Reading, Record, Step},
    memory::Memory,
    originals::Originals,
    own::Own,
    plan::{self, Plan},
    swap,
};

/// Whether the services of the host run at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// They run: after a restore they are reloaded, and the checks are run.
    Running,
    /// The host is booting, and they will read their files on their own: only files are restored.
    NotStarted,
}

/// The state after reading the journal.
pub(crate) struct Started {
    pub journal: Journal,
    pub last: Option<Record>,
    pub memory: Memory,
    pub originals: Originals,
    /// A newer version wrote the journal.
    pub newer: bool,
    /// The memory on the disk is incomplete.
    pub unsaved: bool,
}

impl Started {
    /// Reads journal, memory and originals. A journal of another machine is renamed: the disk is a copy.
    pub(crate) fn read(own: &Own, machine_id: &str) -> DiskResult<(Self, bool)> {
        let (mut journal, reading) = Journal::open(own.clone())?;
        let mut damaged = false;
        let mut newer = false;
        let mut last = match reading {
            Reading::Record(record) => Some(*record),
            Reading::Empty => None,
            Reading::Newer => {
                newer = true;
                None
            }
            Reading::Damaged => {
                damaged = true;
                None
            }
        };
        if last
            .as_ref()
            .is_some_and(|last| last.identity.machine_id != machine_id)
        {
            journal = Journal::set_aside(own.clone())?;
            if own.disk.entry(&own.path(plan::FILE))?.is_some() {
                own.disk
                    .rename(&own.path(plan::FILE), &own.path("plan.other-machine"))?;
                own.disk.sync_dir(&own.path)?;
            }
            last = None;
        }
        let memory = Memory::open(own, machine_id)?;
        journal.go_on_from(memory.taken);
        let started = Self {
            journal,
            last,
            memory,
            originals: Originals::open(own)?,
            newer,
            unsaved: false,
        };
        Ok((started, damaged))
    }

    /// Restores unconfirmed changes, and cleans up after an interruption.
    pub(crate) fn settle(&mut self, means: &Means<'_>, damaged: bool, services: Services) -> DiskResult<()> {
        let plan: Option<Plan> = means.own.get_json(plan::FILE)?;
        if damaged && let Some(plan) = &plan {
            if self.memory.has_confirmed(&plan.row, &plan.key) {
                return self.clear(plan, true, means.own);
            }
            // The current step is lost: all files of the plan are restored, and those that never moved stay.
            let mut record = unknown(plan, means);
            record.swapped = plan.swaps.len();
            self.last = Some(record);
        }
        let Some(last) = &mut self.last else {
            return plan.map_or(Ok(()), |plan| self.clear(&plan, false, means.own));
        };
        let about = plan.filter(|plan| plan.id == last.plan || last.step.is_settled());
        if !last.step.is_settled() {
            match &about {
                Some(plan) => means.restore(plan, last, services == Services::Running, &mut self.journal),
                None => plan_is_lost(last, &mut self.journal),
            }
        }
        self.remember(means);
        let Some(last) = &self.last else {
            return Ok(());
        };
        match about {
            Some(plan) if last.step.is_settled() => {
                let confirmed = last.step == Step::Confirmed && last.plan == plan.id;
                self.clear(&plan, confirmed, means.own)
            }
            _ => Ok(()),
        }
    }

    /// Merges the result of the last change into the memory. On a full disk the journal keeps it.
    pub(crate) fn remember(&mut self, means: &Means<'_>) -> bool {
        if let Some(last) = &self.last {
            self.unsaved |= self.memory.take(last, milliseconds(means.clock.since_boot()));
        }
        if self.unsaved && self.memory.save(means.own).is_ok() {
            self.unsaved = false;
        }
        !self.unsaved
    }

    /// Cleans up after a plan whose change has ended.
    pub(crate) fn clear(&mut self, plan: &Plan, confirmed: bool, own: &Own) -> DiskResult<()> {
        swap::finish(plan, confirmed, &mut self.originals, own)
    }
}

fn unknown(plan: &Plan, means: &Means<'_>) -> Record {
    Record {
        seq: 0,
        identity: means.identity.clone(),
        row: plan.row.clone(),
        key: plan.key.clone(),
        plan: plan.id,
        tries: 0,
        step: Step::Restoring,
        swapped: 0,
        deadline: 0,
        outcome: None,
    }
}

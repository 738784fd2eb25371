//! One change: prepared, swapped, reloaded, and then confirmed by its checks, or restored.
//!
//! ```text
//!   Prepared ─► Swapping(i) ─► Swapped ─► Reloaded ─► Confirmed
//!       └───────────┴────────────┴───────────┴─► Restoring ─► Restored | RestoreFailed
//! ```
//!
//! Invariant: the record of a step is durable before the step begins.
//! Invariant: once a file may have been swapped, every path ends with Confirmed or Restoring.

use std::time::Duration;

use crate::{
    checks::{self, Failing},
    clock::Clock,
    config::Config,
    disk::DiskResult,
    host::Host,
    journal::{Identity, Journal, Record, Step},
    originals::Originals,
    outcome::{ChangeOutcome, RowRefusal, Verdict},
    own::Own,
    plan::{self, Draft, Plan},
    secrets::Secrets,
    swap,
};

/// The minimum timeout of a check: systems reject a timeout of zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// The dependencies of a change.
pub(crate) struct Means<'a> {
    pub own: &'a Own,
    pub clock: &'a dyn Clock,
    pub host: &'a dyn Host,
    pub config: &'a Config,
    pub identity: &'a Identity,
}

/// Why the new files do not stay.
struct Failure {
    message: String,
    failing: Vec<String>,
}

impl Failure {
    fn of(message: &dyn ToString) -> Self {
        Self {
            message: message.to_string(),
            failing: Vec::new(),
        }
    }
}

/// The verdict about a change whose old files are restored, from the checks that failed before it and fail now.
pub fn verdict(changed: bool, before: &[String], after: &[String]) -> Verdict {
    let same = before.len() == after.len() && before.iter().all(|name| after.contains(name));
    match (after.is_empty(), same) {
        (true, _) if changed => Verdict::Failed,
        (false, true) => Verdict::FailsBefore,
        // Without any changed file, a temporary failure was not caused by the revision.
        (true, _) | (false, false) => Verdict::Inconclusive,
    }
}

pub(crate) fn names(failing: &[Failing]) -> Vec<String> {
    failing.iter().map(|failing| failing.name.clone()).collect()
}

impl Means<'_> {
    /// Runs a change. A refusal leaves all targets unchanged; the record has the result.
    pub(crate) fn run(
        &self,
        draft: &Draft,
        tries: u32,
        secrets: &Secrets,
        journal: &mut Journal,
        originals: &mut Originals,
    ) -> Result<Record, RowRefusal> {
        let plan = &draft.plan;
        let mut record = Record {
            seq: 0,
            identity: self.identity.clone(),
            row: plan.row.clone(),
            key: plan.key.clone(),
            plan: plan.id,
            tries,
            step: Step::Prepared,
            swapped: 0,
            deadline: 0,
            outcome: None,
        };
        let prepared = swap::prepare(draft, originals, self.own).and_then(|()| {
            let deadline = self.clock.since_boot() + plan.procedure.confirm_within;
            record.deadline = milliseconds(deadline);
            journal.write(&mut record)
        });
        if let Err(error) = prepared {
            // Nothing was swapped; a failed cleanup is retried at the next start.
            let _ = swap::finish(plan, false, originals, self.own);
            return Err(plan::failed(&error));
        }
        match self.new_files(plan, &mut record, secrets, journal) {
            Ok(()) => {
                record.outcome = Some(ChangeOutcome::new(Verdict::Confirmed, "", &[]));
                record.step = Step::Confirmed;
                if let Err(error) = journal.write(&mut record) {
                    record.outcome = None;
                    self.restore_after_failure(plan, &mut record, &Failure::of(&error), secrets, journal);
                }
            }
            Err(failure) => self.restore_after_failure(plan, &mut record, &failure, secrets, journal),
        }
        Ok(record)
    }

    /// From the first swap to successful checks.
    fn new_files(
        &self,
        plan: &Plan,
        record: &mut Record,
        secrets: &Secrets,
        journal: &mut Journal,
    ) -> Result<(), Failure> {
        let disk = self.own.disk.as_ref();
        let mut swapped = || -> DiskResult<()> {
            for (number, file) in plan.swaps.iter().enumerate() {
                record.step = Step::Swapping(number);
                record.swapped = number + 1;
                journal.write(record)?;
                // A file that was not swapped is not restored: another file may be there.
                swap::swap(file, disk).inspect_err(|_| record.swapped = number)?;
            }
            swap::sync(plan, disk)?;
            record.step = Step::Swapped;
            journal.write(record)
        };
        swapped().map_err(|error| Failure::of(&error))?;
        if plan.reloads() {
            self.reload(plan, secrets).map_err(|error| Failure::of(&error))?;
        }
        record.step = Step::Reloaded;
        journal.write(record).map_err(|error| Failure::of(&error))?;
        self.hold(plan, Duration::from_millis(record.deadline))
            .map_err(|not| Failure {
                message: secrets.mask(&not.message),
                failing: names(&not.failing),
            })
    }

    fn hold(&self, plan: &Plan, deadline: Duration) -> Result<(), checks::NotHeld> {
        let times = (plan.procedure.settle, plan.procedure.hold_for);
        let left = || deadline.saturating_sub(self.clock.since_boot()).max(SHORTEST);
        let checks = &plan.procedure.checks;
        let run = || checks::failing_within(checks, self.config, self.host, &left);
        checks::hold(&run, self.clock, times, deadline)
    }

    /// The checks of the plan that fail now.
    pub(crate) fn failing(&self, plan: &Plan) -> Vec<Failing> {
        checks::failing(&plan.procedure.checks, self.config, self.host)
    }

    /// Runs the reloaders in order, and stops at the first failure.
    fn reload(&self, plan: &Plan, secrets: &Secrets) -> Result<(), String> {
        for name in &plan.procedure.reload {
            self.reload_one(name).map_err(|error| secrets.mask(&error))?;
        }
        Ok(())
    }

    fn reload_one(&self, name: &str) -> Result<(), String> {
        let Some(program) = self.config.reloaders.get(name) else {
            return Err(format!(
                "reload {name}: the node's configuration defines no such reloader"
            ));
        };
        self.host
            .run(program)
            .map_err(|error| format!("reload {name}: {error}"))
    }

    /// Runs all reloaders again, even if some fail.
    pub(crate) fn reload_all(&self, reload: &[String], secrets: &Secrets) -> Result<(), String> {
        let failed: Vec<String> = reload
            .iter()
            .filter_map(|name| self.reload_one(name).err())
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(secrets.mask(&failed.join("; ")))
        }
    }

    /// Restores the old files, and determines the verdict.
    fn restore_after_failure(
        &self,
        plan: &Plan,
        record: &mut Record,
        failure: &Failure,
        secrets: &Secrets,
        journal: &mut Journal,
    ) {
        if let Err(error) = self.old_files(plan, record, true, secrets, journal) {
            let message = format!("{error}; it followed {}", failure.message);
            end(
                Step::RestoreFailed,
                ChangeOutcome::new(Verdict::RestoreFailed, &message, &failure.failing),
                record,
                journal,
            );
            return;
        }
        let deadline = self.clock.since_boot() + plan.procedure.confirm_within;
        let after = match self.hold(plan, deadline) {
            Ok(()) => Vec::new(),
            // Checks that succeed at the end but were unstable prove as little as failing ones.
            Err(not) if not.failing.is_empty() => vec!["holding".to_owned()],
            Err(not) => names(&not.failing),
        };
        let verdict = verdict(record.swapped > 0, &plan.before, &after);
        let failing = if after.is_empty() {
            &failure.failing
        } else {
            &after
        };
        end(
            Step::Restored,
            ChangeOutcome::new(verdict, &failure.message, failing),
            record,
            journal,
        );
    }

    /// Restores the old files after a restart; with `reload` the services read them again.
    pub(crate) fn restore(&self, plan: &Plan, record: &mut Record, reload: bool, journal: &mut Journal) {
        let failed_before = record.outcome.take();
        let secrets = Secrets::all(self.config, self.host);
        if let Err(error) = self.old_files(plan, record, reload, &secrets, journal) {
            let failed = || ChangeOutcome::new(Verdict::RestoreFailed, &error, &[]);
            end(
                Step::RestoreFailed,
                failed_before.unwrap_or_else(failed),
                record,
                journal,
            );
            return;
        }
        let failing = if reload {
            names(&self.failing(plan))
        } else {
            Vec::new()
        };
        let text = "the agent or the host went down during the change";
        let interrupted = || ChangeOutcome::new(Verdict::Interrupted, text, &failing);
        end(
            Step::Restored,
            failed_before.unwrap_or_else(interrupted),
            record,
            journal,
        );
    }

    fn old_files(
        &self,
        plan: &Plan,
        record: &mut Record,
        reload: bool,
        secrets: &Secrets,
        journal: &mut Journal,
    ) -> Result<(), String> {
        // The previous step is sufficient for a restore: a failing journal does not stop it.
        record.step = Step::Restoring;
        let journalled = journal.write(record);
        swap::restore(plan, record.swapped, self.own.disk.as_ref()).map_err(|error| error.to_string())?;
        let changed = record.swapped > 0 || plan.reload_anyway;
        if reload && changed {
            self.reload_all(&plan.procedure.reload, secrets)?;
        }
        journalled.map_err(|error| error.to_string())
    }
}

/// Ends a change whose plan is unreadable: nothing can be restored.
pub(crate) fn plan_is_lost(record: &mut Record, journal: &mut Journal) {
    let lost = ChangeOutcome::new(
        Verdict::RestoreFailed,
        "the plan of the change cannot be read",
        &[],
    );
    let outcome = record.outcome.take().unwrap_or(lost);
    end(Step::RestoreFailed, outcome, record, journal);
}

/// Ends a change. If this cannot be journalled, the next start restores again, which changes nothing.
fn end(step: Step, outcome: ChangeOutcome, record: &mut Record, journal: &mut Journal) {
    record.outcome = Some(outcome);
    record.step = step;
    if let Err(error) = journal.write(record) {
        let message = format!("cannot write the end of the change to the journal: {error}");
        record.step = Step::RestoreFailed;
        record.outcome = Some(ChangeOutcome::new(Verdict::RestoreFailed, &message, &[]));
    }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

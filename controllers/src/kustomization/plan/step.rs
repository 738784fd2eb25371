//! One try of a step: its objects are applied, or deleted, and judged.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use muster_api::{
    assemblage::FailureClass,
    labels::label,
    plan::{PlanRunStatus, RunProgress},
};
use muster_sync::{
    apply::{self, ApplyError, ApplyOutcome as Of, Jobs, ObjectFailure, Options},
    health::{
        State, check,
        evidence::{Need, Target, Watch},
    },
    inventory::{Inventory, ObjectId},
    plan::{Attempt, Deleted, Plan, Step, StepOutcome, Task},
};
use serde_json::Value;

use super::{Applying, Failure, Held, Trouble, Writer, current};
use crate::kustomization::{
    Error,
    prune::{self, Pruning},
    recorder::{Recorder, admit},
};

/// A try whose objects are applied and are being judged.
pub(super) struct Underway {
    number: u32,
    watch: Watch,
    jobs: Jobs,
}

impl Underway {
    /// How long until an object without evidence can be assumed to be healthy.
    pub(super) fn until_settled(&self, now: Timestamp, applying: &Applying<'_>) -> Option<Duration> {
        self.watch.until_settled(now, applying.work.settings.settle)
    }
}

impl Held {
    /// Applies the rest of a try, and judges it once.
    pub(super) async fn run_attempt(
        &mut self,
        plan: &Plan,
        task: &Task,
        uid: &str,
        applying: &Applying<'_>,
        writer: &mut Writer,
    ) -> Result<StepOutcome, Trouble> {
        let Some(step) = plan.step(&task.step) else {
            return Ok(fatal(format!("plan {} has no step {}", plan.name, task.step)));
        };
        let is_known = |underway: &Underway| underway.number == task.attempt;
        if !self.steps.get(&task.step).is_some_and(is_known) {
            let attempt = Attempt {
                uid,
                step: &task.step,
                number: task.attempt,
            };
            let objects = self.planned.objects(&plan.name, step, &attempt);
            match applying
                .begin(step, objects, task.attempt, &mut self.absent, writer)
                .await?
            {
                Ok(underway) => self.steps.insert(task.step.clone(), underway),
                Err(outcome) => return Ok(outcome),
            };
        }
        let Some(underway) = self.steps.get_mut(&task.step) else {
            return Ok(fatal("it is not running".to_owned()));
        };
        let outcome = match applying.delete(step, writer).await? {
            Some(outcome) => outcome,
            None => applying.judge(underway).await,
        };
        if !matches!(
            outcome,
            StepOutcome::Waiting { .. } | StepOutcome::Transient { .. }
        ) {
            self.steps.remove(&task.step);
        }
        Ok(outcome)
    }
}

impl Applying<'_> {
    /// Applies and deletes what a step declares. An `Err` is what blocks it. `absent` are Jobs that are recorded and
    /// were rejected: their absence does not tell whether they ran.
    async fn begin(
        &self,
        step: &Step,
        objects: Vec<Value>,
        number: u32,
        absent: &mut BTreeSet<ObjectId>,
        writer: &mut Writer,
    ) -> Result<Result<Underway, StepOutcome>, Trouble> {
        let settings = &self.work.settings;
        let options = Options {
            owner: self.owner.clone(),
            target_namespace: settings.target_namespace.clone(),
            force: settings.force,
            timeout: settings.timeout.min(step.timeout),
        };
        let plan = match apply::plan(self.cluster, objects, options).await {
            Ok(plan) => plan,
            Err(error) => return Ok(Err(away(error.to_string()))),
        };
        let plan = match self.mark {
            Some(mark) => plan.applied_from(mark),
            None => plan,
        };
        let jobs = Jobs::default();
        let plan = plan.knowing(jobs.clone(), false);
        if let Some(lost) = self.lost(&plan.inventory(), absent, writer).await? {
            return Ok(Err(lost));
        }
        let before = writer.inventory();
        admit(&before, &plan.inventory())?;
        let recorder = Recorder::new(writer, self.work, self.kustomizations, self.others.identity());
        let run = apply::run(self.cluster, &plan, &recorder, self.others);
        let applied = match tokio::time::timeout(settings.timeout, run).await {
            Ok(Ok(applied)) => applied,
            Ok(Err(ApplyError::Ledger(error))) => return Err(Trouble::Error(Error::Ledger(error))),
            Ok(Err(ApplyError::Objects { failures, not_tried })) => {
                if failures.iter().all(ObjectFailure::is_answered) {
                    self.note_absent(&plan.inventory(), absent).await;
                }
                return Ok(Err(refused(&failures, not_tried)));
            }
            Err(_elapsed) => {
                return Ok(Err(away(format!(
                    "applying took longer than {:?}",
                    settings.timeout
                ))));
            }
        };
        let applied_at = self.kustomizations.context.clock.now();
        let skipped = |id: &ObjectId| {
            applied
                .outcomes
                .iter()
                .any(|(one, outcome)| one == id && *outcome == Of::Skipped)
        };
        let targets = plan
            .managed()
            .filter(|(id, _)| !skipped(id))
            .map(|(id, version)| {
                let change = applied.changes.get(id);
                let need = Need::after(change, id, true);
                let expressions = settings.expressions.get(&(id.group.clone(), id.kind.clone()));
                Target::new(id.clone(), version.to_owned(), need, change.map(|_| applied_at))
                    .judged_by(expressions.cloned())
            });
        Ok(Ok(Underway {
            number,
            watch: Watch::new(targets.collect(), None),
            jobs,
        }))
    }

    /// Jobs of this try that are recorded and do not exist: it is unknown whether they ran, so another try is due, with
    /// new Jobs.
    async fn lost(
        &self,
        planned: &Inventory,
        absent: &BTreeSet<ObjectId>,
        writer: &Writer,
    ) -> Result<Option<StepOutcome>, Trouble> {
        let recorded = writer.inventory();
        for (id, version) in planned
            .iter()
            .filter(|(id, _)| id.is_job() && recorded.contains(id))
            .filter(|(id, _)| !absent.contains(id))
        {
            match self.read(id, version).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let message = format!("{id} is gone, and it is unknown whether it ran");
                    return Ok(Some(StepOutcome::Lost { message }));
                }
                Err(error) => return Ok(Some(away(error.to_string()))),
            }
        }
        Ok(None)
    }

    /// The Jobs of a try that do not exist after every request of it was answered: they were rejected, or not tried.
    async fn note_absent(&self, planned: &Inventory, absent: &mut BTreeSet<ObjectId>) {
        for (id, version) in planned.iter().filter(|(id, _)| id.is_job()) {
            if let Ok(None) = self.read(id, version).await {
                absent.insert(id.clone());
            }
        }
    }

    async fn read(&self, id: &ObjectId, version: &str) -> Result<Option<Value>, apply::CallError> {
        match self.cluster.kind(&id.api_version(version), &id.kind).await? {
            Some(kind) => self.cluster.get(&kind, id).await,
            None => Ok(None),
        }
    }

    /// Deletes the objects of the inventory that a step names; `None` when none of them is left.
    async fn delete(&self, step: &Step, writer: &mut Writer) -> Result<Option<StepOutcome>, Trouble> {
        let inventory = writer.inventory();
        let settings = &self.work.settings;
        let target = settings.target_namespace.as_deref();
        let named = |id: &ObjectId| step.delete.iter().any(|object| names(object, id, target));
        let unwanted: Vec<(ObjectId, String)> = inventory
            .iter()
            .filter(|(id, _)| named(id))
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect();
        if unwanted.is_empty() {
            return Ok(None);
        }
        Ok(match self.remove(unwanted, inventory, writer).await? {
            Ok(left) => left.map(|message| StepOutcome::Waiting { message }),
            Err(message) => Some(StepOutcome::Transient {
                message,
                class: FailureClass::Unit,
            }),
        })
    }

    /// Deletes objects of the inventory. Returns what is still waited for, as text; an `Err` is the refusal.
    async fn remove(
        &self,
        unwanted: Vec<(ObjectId, String)>,
        inventory: Inventory,
        writer: &mut Writer,
    ) -> Result<Result<Option<String>, String>, Trouble> {
        let pruning = Pruning {
            cluster: self.cluster,
            owner: self.owner,
            others: self.others,
            kustomizations: self.kustomizations,
        };
        let deleted = pruning
            .delete(writer, &self.work.settings, unwanted, inventory)
            .await;
        let (inventory, pruned) = match deleted {
            Ok(deleted) => deleted,
            Err(Trouble::Failure(failure)) => return Ok(Err(failure.message)),
            Err(trouble) => return Err(trouble),
        };
        let mut status = writer.status();
        status.inventory = Some(inventory.to_status());
        writer.write(status).await.map_err(Trouble::Error)?;
        Ok(Ok(prune::prune_wait(&pruned, true)))
    }

    /// What a new run waits for, as text: Jobs of previous runs that have not ended. A Job of a failed run, or one
    /// whose time is up, is deleted: it may hang, and the fix should not wait for a manual action.
    pub(super) async fn at_work(
        &self,
        status: &PlanRunStatus,
        writer: &mut Writer,
    ) -> Result<Option<String>, Trouble> {
        let inventory = writer.inventory();
        let mut over = Vec::new();
        for (id, version) in inventory.iter().filter(|(id, _)| id.is_job()) {
            let live = self.read(id, version).await;
            let live = live.map_err(|error| Failure::reconciliation(error.to_string()).soon())?;
            let of = live
                .filter(|live| !has_ended(live))
                .and_then(|live| Some(live["metadata"]["labels"][label::PLAN_RUN].as_str()?.to_owned()));
            let Some(of) = of else { continue };
            let runs = [&status.run, &status.by_hand].into_iter().flatten();
            let run = runs.into_iter().find(|run| run.progress.uid == of);
            match run.filter(|run| self.goes_on(&run.progress)) {
                Some(run) => {
                    return Ok(Some(format!(
                        "{id} of run {} (plan {}) is still active; the new run starts when it has ended, or after {:?}",
                        run.progress.uid, run.progress.plan, self.work.settings.timeout
                    )));
                }
                None => over.push((id.clone(), version.to_owned())),
            }
        }
        if over.is_empty() {
            return Ok(None);
        }
        let left = self.remove(over, inventory, writer).await?;
        left.map_err(|message| Failure::reconciliation(message).soon().into())
    }

    /// Whether the current step of a run may still be active.
    fn goes_on(&self, progress: &RunProgress) -> bool {
        let since = current(progress).and_then(|(_, _, step)| step.since.as_ref());
        let now = self.kustomizations.context.clock.now();
        let elapsed = since.map(|since| Duration::try_from(now.duration_since(since.0)).unwrap_or_default());
        !progress.status.is_terminal() && elapsed.is_some_and(|elapsed| elapsed < self.work.settings.timeout)
    }

    /// Reads the objects of a try once.
    async fn judge(&self, underway: &mut Underway) -> StepOutcome {
        let settings = &self.work.settings;
        let now = self.kustomizations.context.clock.now();
        let Underway { watch, jobs, .. } = underway;
        let checked = check::check(self.cluster, watch, settings.settle, jobs, now);
        let checked = match tokio::time::timeout(settings.timeout, checked).await {
            Ok(Ok(report)) => report,
            Ok(Err(error)) => {
                watch.missed();
                return away(error.to_string());
            }
            Err(_elapsed) => {
                watch.missed();
                return away(format!("no answer within {:?}", settings.timeout));
            }
        };
        if !settings.assumes && watch.assumes() {
            let assumed = watch.assumed(settings.settle).map(|assumed| assumed.to_string());
            return fatal(format!("{}; assume is Never", assumed.unwrap_or_default()));
        }
        let gone = checked
            .unhealthy
            .iter()
            .find(|one| one.id.is_job() && one.health.state == State::NotFound);
        if let Some(gone) = gone {
            let message = format!("{} is gone before it was observed to complete", gone.id);
            return StepOutcome::Lost { message };
        }
        match checked.summary() {
            _ if checked.is_healthy() => StepOutcome::Done,
            message if checked.is_terminal() => StepOutcome::Failed { message },
            message => StepOutcome::Waiting { message },
        }
    }
}

fn has_ended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed")
    })
}

/// The outcome of objects that were rejected.
fn refused(failures: &[ObjectFailure], not_tried: usize) -> StepOutcome {
    let message = apply::error::summary(failures, not_tried);
    let is_invalid = |failure: &ObjectFailure| ["Invalid", "BadRequest"].contains(&failure.reason.as_str());
    if failures
        .iter()
        .any(|failure| is_invalid(failure) && !failure.is_transient())
    {
        return fatal(message);
    }
    let class = if failures.iter().all(|failure| failure.of_cluster) {
        FailureClass::Infra
    } else if failures
        .iter()
        .any(|failure| failure.is_shared() || failure.reason == "Forbidden" || failure.reason == "NotFound")
    {
        FailureClass::Unit
    } else {
        FailureClass::Revision
    };
    StepOutcome::Transient { message, class }
}

fn away(message: String) -> StepOutcome {
    StepOutcome::Transient {
        message,
        class: FailureClass::Infra,
    }
}

fn fatal(message: String) -> StepOutcome {
    StepOutcome::Fatal { message }
}

/// The Jobs of an inventory.
pub(super) fn jobs(inventory: &Inventory) -> Vec<ObjectId> {
    inventory
        .iter()
        .map(|(id, _)| id.clone())
        .filter(ObjectId::is_job)
        .collect()
}

/// Whether a step's deletion names an object.
fn names(object: &Deleted, id: &ObjectId, target: Option<&str>) -> bool {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    (id.group.as_str(), &id.kind, &id.name) == (group, &object.kind, &object.name)
        && (id.namespace == object.namespace || Some(id.namespace.as_str()) == target)
}

//! Runs the plan of a directory: docs/plans.md.
//!
//! ```text
//!   PlanRun ─► record ──┐
//!   files   ─► planned ─┴► next: the current run, or a new one ─────────► execute ─► store ─► step ─┐
//!                                                                            ▲                       │
//!                                                                            └────── its outcome ◄───┘
//! ```
//!
//! When a run is complete, the remaining objects of the directory are applied, pruned and judged like a directory
//! without a plan.
//!
//! Invariant: what a step is about to do, and the run that it belongs to, are stored before its first write. Invariant:
//! a Job has one object for each try of its step. Invariant: no Job of a run starts while one of a previous run is
//! active: it is waited for, or deleted once its time is up.

mod by_hand;
mod cleanup;
mod record;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use muster_api::{
    assemblage::FailureClass,
    conditions::{Status, bounded},
    digest,
    evidence::Progress,
    plan::{
        Completed, MAX_HISTORY, MAX_ITEMS, PastRun, PlanReport, PlanRunStatus, Run, RunProgress, RunState,
        StepProgress,
    },
    schema::{MAX_MESSAGE, MAX_PLAN_LINE},
};
use muster_sync::{
    apply::{Cluster, Owner},
    build::BuildOptions,
    inventory::{Inventory, ObjectId},
    plan::{CLEANUP, Ended, Next, Observed, Planned, PlannedError, Planning, StepId, ended, execute},
    source::Files,
};
use serde_json::Value;

pub(super) use self::cleanup::cleanup;
use self::{
    by_hand::{Content, Of, Taken},
    record::Record,
    step::Underway,
};
use super::{
    Kustomizations,
    declarers::Others,
    outcome::{Failure, Line, NOT_READY, ReconcileOutcome, Trouble},
    status::Writer,
    variables,
    work::{Aim, Work},
};
use crate::runtime::{Event, Key};

/// The first wait before a run is advanced again.
const POLL_MIN: Duration = Duration::from_millis(250);
/// The longest such wait, when a step takes long.
const POLL_MAX: Duration = Duration::from_secs(5);
/// The wait before a PlanRun that does not exist yet, or a run that is still active, is read again.
const WAIT: Duration = Duration::from_secs(2);

/// The context of an application.
pub(super) struct Applying<'a> {
    pub work: &'a Work,
    pub owner: &'a Owner,
    pub cluster: &'a Cluster,
    pub others: &'a Others<'a>,
    pub mark: Option<&'a str>,
    pub kustomizations: &'a Kustomizations,
}

/// What remains to be applied when a run is complete.
pub(super) struct Settled {
    /// All objects of the directory except Jobs, which belong to runs.
    pub manifests: Vec<Value>,
    /// The Jobs that are kept.
    pub kept: Inventory,
}

/// The in-memory state of a plan, between two passes.
pub(super) struct Held {
    pub(super) aim: Aim,
    planned: Arc<Planned>,
    record: Record,
    steps: BTreeMap<StepId, Underway>,
    /// Jobs that are recorded and were rejected: they are created under the same name.
    absent: BTreeSet<ObjectId>,
    /// The wait before a run that was started by hand is advanced again.
    pub(super) due: Option<Duration>,
}

/// Advances the run as far as possible now. `Err` also if it is not finished.
pub(super) async fn advance(
    applying: &Applying<'_>,
    files: &Files,
    digest: &str,
    writer: &mut Writer,
) -> Result<Settled, Trouble> {
    let runs = &applying.kustomizations.runs;
    let key = Key::of(writer.object());
    let held = runs.take_plan(&key).filter(|held| held.aim == applying.work.aim);
    let mut held = match held {
        Some(held) => held,
        None => begin(applying, files, digest, writer).await?,
    };
    let went = held.go(applying, writer, Want::Content).await;
    // After a refused write everything is read again.
    if !matches!(went, Err(Trouble::Error(_))) {
        runs.put_plan(key, held);
    }
    went
}

/// Reads the PlanRun and the directory.
async fn begin(
    applying: &Applying<'_>,
    files: &Files,
    digest: &str,
    writer: &Writer,
) -> Result<Held, Trouble> {
    let work = applying.work;
    let record = match Record::read(writer, digest).await.map_err(Trouble::Error)? {
        Ok(record) => record,
        Err(message) => return Err(waits(NOT_READY, message)),
    };
    let namespace = writer.object().namespace().unwrap_or_default();
    begin_with(record, work, files, &namespace, applying.kustomizations).await
}

/// Reads the directory.
async fn begin_with(
    record: Record,
    work: &Work,
    files: &Files,
    namespace: &str,
    kustomizations: &Kustomizations,
) -> Result<Held, Trouble> {
    let substitute = variables::gather(&work.settings, namespace, &kustomizations.context).await?;
    let spec = record.spec();
    let planning = Planning {
        directory: &work.settings.path,
        file: &spec.file,
        timeout: work.settings.timeout,
        deadline: spec.deadline.map(muster_api::Duration::to_std),
    };
    let options = BuildOptions {
        substitute,
        ..BuildOptions::default()
    };
    let planned = Planned::read(files, &planning, &options).map_err(unreadable)?;
    Ok(Held {
        aim: work.aim.clone(),
        planned: Arc::new(planned),
        record,
        steps: BTreeMap::new(),
        absent: BTreeSet::new(),
        due: None,
    })
}

/// Which run is desired.
#[derive(Clone, Copy)]
enum Want {
    /// The content, by the plan that leads to it.
    Content,
    /// The plan with this name, once.
    Plan(&'static str),
}

fn unreadable(error: PlannedError) -> Failure {
    match error {
        PlannedError::Build(errors) if errors.only_misread_names() => {
            Failure::misread_name(errors.to_string())
        }
        error => Failure::build(error.to_string()),
    }
}

fn waits(reason: &'static str, message: String) -> Trouble {
    Trouble::Plan(Box::new(ReconcileOutcome::Waiting {
        reason,
        message,
        after: Some(WAIT),
    }))
}

impl Held {
    async fn go(
        &mut self,
        applying: &Applying<'_>,
        writer: &mut Writer,
        want: Want,
    ) -> Result<Settled, Trouble> {
        let attempt = self.record.spec().attempt.unwrap_or_default();
        let mut status = self.record.status();
        if self.take(&mut status, Content::Open) == Taken::Changed {
            self.steps.clear();
            self.store(&status, writer).await?;
            // The rest of an aborted run.
            applying.at_work(&status, writer).await?;
        }
        let next = match want {
            Want::Content => self.planned.next(&status, attempt),
            Want::Plan(name) => self.planned.next_of(name, &status, attempt),
        };
        if let Next::Begin(name) = next {
            if let Some(message) = applying.at_work(&status, writer).await? {
                writer.plan = line(&status);
                return Err(waits("PlanRunning", message));
            }
            self.steps.clear();
            status = self.begun(status, &name, attempt, writer, applying);
        }
        let progress = self.passes(Of::Content, status, applying, writer).await?;
        match progress.status {
            RunState::Complete => {
                if matches!(want, Want::Content) {
                    self.by_hand(applying, writer).await?;
                }
                Ok(self.settled(writer, applying))
            }
            RunState::FatalError => {
                let mut status = self.record.status();
                if self.take(&mut status, Content::Failed) == Taken::Changed {
                    self.store(&status, writer).await?;
                }
                Err(failed(&progress).into())
            }
            _ => Err(Trouble::Plan(Box::new(self.stepping(&progress, applying)))),
        }
    }

    /// Advances a run that was started by hand as far as possible now. However it ends, the health of the applied
    /// objects does not change.
    async fn by_hand(&mut self, applying: &Applying<'_>, writer: &mut Writer) -> Result<(), Trouble> {
        let mut status = self.record.status();
        match self.take(&mut status, Content::Complete) {
            Taken::No => {}
            Taken::Changed => self.store(&status, writer).await?,
            Taken::Start(name) => {
                self.steps.clear();
                status = self.begun_by_hand(status, &name, writer, applying);
            }
        }
        let has_plan = status
            .by_hand
            .as_ref()
            .is_some_and(|run| self.planned.plan(&run.progress.plan).is_some());
        if !has_plan {
            self.due = None;
            return Ok(());
        }
        let progress = self.passes(Of::Hand, status, applying, writer).await?;
        self.due = (!progress.status.is_terminal()).then(|| self.poll(&progress, applying));
        Ok(())
    }

    fn take(&self, status: &mut PlanRunStatus, content: Content) -> Taken {
        by_hand::take(
            status,
            self.record.spec().control.as_ref(),
            &self.planned,
            content,
        )
    }

    fn begun_by_hand(
        &self,
        mut status: PlanRunStatus,
        name: &str,
        writer: &Writer,
        applying: &Applying<'_>,
    ) -> PlanRunStatus {
        let now = applying.kustomizations.context.clock.now();
        let before = status.by_hand.take();
        remember(&mut status, before, &writer.inventory(), now);
        let control = self.record.spec().control.as_ref();
        let uid = digest::short_hash(&[
            &writer.object().uid().unwrap_or_default(),
            &now.to_string(),
            control.map_or("", |control| &control.id),
        ]);
        status.by_hand = Some(by_hand::run(
            &self.planned,
            name,
            uid,
            &applying.work.aim.revision,
            0,
            now,
        ));
        status
    }

    /// The status with a new run of a plan.
    fn begun(
        &self,
        mut status: PlanRunStatus,
        name: &str,
        attempt: u64,
        writer: &Writer,
        applying: &Applying<'_>,
    ) -> PlanRunStatus {
        let now = applying.kustomizations.context.clock.now();
        let inventory = writer.inventory();
        let before = [status.run.take(), status.by_hand.take()];
        for run in before {
            remember(&mut status, run, &inventory, now);
        }
        let uid = digest::short_hash(&[
            &writer.object().uid().unwrap_or_default(),
            self.planned.digest(),
            &now.to_string(),
        ]);
        status.run = Some(by_hand::run(
            &self.planned,
            name,
            uid,
            &applying.work.aim.revision,
            attempt,
            now,
        ));
        status
    }

    /// Advances the plan until it is finished or must wait.
    async fn passes(
        &mut self,
        of: Of,
        mut status: PlanRunStatus,
        applying: &Applying<'_>,
        writer: &mut Writer,
    ) -> Result<RunProgress, Trouble> {
        let now = applying.kustomizations.context.clock.now();
        let mut observed = Observed::new();
        loop {
            let Some(run) = of.run_mut(&mut status) else {
                return Ok(RunProgress::default());
            };
            let Some(plan) = self.planned.plan(&run.progress.plan) else {
                return Err(Failure::build(format!(
                    "the plan file no longer has plan {}, which is running; next: add it again, or change a document",
                    run.progress.plan
                ))
                .into());
            };
            let before = run.progress.clone();
            let pass = execute(&plan, before.clone(), &observed, now);
            run.progress = pass.progress.clone();
            run.plans_digest = self.planned.plans_digest().to_owned();
            let (documents_digest, revision) = (run.documents_digest.clone(), run.revision.clone());
            if of == Of::Content
                && pass.progress.status == RunState::Complete
                && pass.progress.plan != CLEANUP
            {
                let completed = Completed {
                    documents_digest,
                    revision,
                };
                status
                    .completed
                    .retain(|one| one.documents_digest != completed.documents_digest);
                status.completed.insert(0, completed);
                status.completed.truncate(MAX_HISTORY);
            }
            self.store(&status, writer).await?;
            publish_step_events(&ended(&before, &pass.progress), &pass.progress, writer).await;
            let Some(task) = pass.task else {
                return Ok(pass.progress);
            };
            let outcome = self
                .run_attempt(&plan, &task, &pass.progress.uid, applying, writer)
                .await?;
            observed.insert(task.step, outcome);
        }
    }

    async fn store(&mut self, status: &PlanRunStatus, writer: &mut Writer) -> Result<(), Trouble> {
        writer.plan = line(status);
        self.record.store(status).await.map_err(Trouble::Error)
    }

    /// The report of a run in progress, with the wait before it is advanced again.
    fn stepping(&self, progress: &RunProgress, applying: &Applying<'_>) -> ReconcileOutcome {
        let why = current(progress)
            .and_then(|(_, _, step)| step.message.as_deref())
            .unwrap_or_default();
        let (done, total) = counted(progress);
        ReconcileOutcome::Stepping {
            aim: applying.work.aim.clone(),
            message: match why {
                "" => text(progress),
                why => format!("{}: {why}", text(progress)),
            },
            progress: Progress {
                done,
                total,
                waiting: None,
            },
            after: self.poll(progress, applying),
        }
    }

    /// The wait before a run in progress is advanced again: the longer its step takes, the longer.
    fn poll(&self, progress: &RunProgress, applying: &Applying<'_>) -> Duration {
        let now = applying.kustomizations.context.clock.now();
        let since = current(progress).and_then(|(_, _, step)| step.since.as_ref());
        let since = since.map_or(now, |since| since.0);
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let poll = (elapsed / 8).clamp(POLL_MIN, POLL_MAX);
        let settled = self
            .steps
            .values()
            .filter_map(|step| step.until_settled(now, applying))
            .min();
        settled.map_or(poll, |settled| settled.min(poll))
    }

    /// What remains: the objects of the directory, and the Jobs that are kept.
    fn settled(&self, writer: &Writer, applying: &Applying<'_>) -> Settled {
        let manifests = self.planned.lasting().map(|manifest| manifest.object.clone());
        Settled {
            manifests: manifests.collect(),
            kept: self.kept(&writer.inventory(), applying.kustomizations.context.clock.now()),
        }
    }

    /// The Jobs of this run, and those of runs that ended within `keep`.
    fn kept(&self, inventory: &Inventory, now: Timestamp) -> Inventory {
        let keep = self.record.spec().keep.map(muster_api::Duration::to_std);
        let is_over = |past: &PastRun| {
            let ended = past.ended.as_ref().map_or(now, |ended| ended.0);
            let age = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
            keep.is_none_or(|keep| age >= keep)
        };
        let history = self.record.status().history;
        let over: Vec<&String> = history
            .iter()
            .filter(|past| is_over(past))
            .flat_map(|past| &past.jobs)
            .collect();
        let jobs = inventory.iter().filter(|(id, _)| id.is_job());
        jobs.filter(|(id, _)| !over.contains(&&id.to_string()))
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect()
    }
}

/// Moves a run that is finished or replaced into the history.
fn remember(status: &mut PlanRunStatus, run: Option<Run>, inventory: &Inventory, now: Timestamp) {
    let Some(run) = run else { return };
    let known = |id: &String| !status.history.iter().any(|past| past.jobs.contains(id));
    let jobs = step::jobs(inventory)
        .iter()
        .map(ToString::to_string)
        .filter(known)
        .take(MAX_ITEMS)
        .collect();
    status.history.insert(0, past(run, jobs, now));
    status.history.truncate(MAX_HISTORY);
}

/// The history entry of a run.
fn past(run: Run, jobs: Vec<String>, now: Timestamp) -> PastRun {
    let message = match run.progress.status {
        RunState::Complete => None,
        _ => current(&run.progress).map(|(phase, id, step)| {
            let why = step.message.as_deref().unwrap_or("replaced by another run");
            bounded(&format!("{phase}/{id}: {why}"), MAX_MESSAGE).into_owned()
        }),
    };
    PastRun {
        plan: run.progress.plan,
        uid: run.progress.uid,
        status: run.progress.status,
        revision: run.revision,
        message,
        ended: Some(Time(now)),
        jobs,
    }
}

/// The current step of a run: the failed one, or else the first that is not complete. With the name of its phase and
/// its own.
fn current(progress: &RunProgress) -> Option<(&str, &str, &StepProgress)> {
    let steps = || {
        let phases = progress.phases.iter();
        phases.flat_map(|phase| {
            phase
                .steps
                .iter()
                .map(move |step| (phase.name.as_str(), step.name.as_str(), step))
        })
    };
    let failed = steps().find(|(_, _, step)| step.status == RunState::FatalError);
    let failed = failed.filter(|_| progress.status == RunState::FatalError);
    failed.or_else(|| steps().find(|(_, _, step)| !step.status.is_terminal()))
}

/// The number of finished steps, and of all steps.
fn counted(progress: &RunProgress) -> (u32, u32) {
    let steps = || progress.phases.iter().flat_map(|phase| &phase.steps);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let done = steps().filter(|step| step.status.is_terminal()).count();
    (count(done), count(steps().count()))
}

/// The progress of a run: `update 2/3 schema/migrate InProgress`.
fn text(progress: &RunProgress) -> String {
    let (done, total) = counted(progress);
    let plan = &progress.plan;
    let text = match current(progress) {
        Some((phase, step, at)) => {
            let number = done.saturating_add(u32::from(!at.status.is_terminal())).max(1);
            format!("{plan} {number}/{total} {phase}/{step} {}", at.status)
        }
        None => format!("{plan} {done}/{total} {}", progress.status),
    };
    let steps = progress.phases.iter().flat_map(|phase| {
        let assumed = phase.steps.iter().filter(|step| step.assumed);
        assumed.map(|step| format!("{}/{}", phase.name, step.name))
    });
    let skipped: Vec<String> = steps.collect();
    let text = match skipped.as_slice() {
        [] => text,
        skipped => format!("{text}, skipped: {}", skipped.join(" ")),
    };
    bounded(&text, MAX_PLAN_LINE).into_owned()
}

/// The progress of the run that started last, and the control that was handled last.
fn line(status: &PlanRunStatus) -> Option<Line> {
    let run = status.by_hand.as_ref().or(status.run.as_ref())?;
    let progress = &run.progress;
    let control = &status.control;
    let (condition, reason) = match progress.status {
        RunState::Complete => (Status::True, RunState::Complete.as_str().to_owned()),
        RunState::FatalError => (Status::False, format!("{:?}", class(progress))),
        state => (Status::Unknown, state.as_str().to_owned()),
    };
    let report = PlanReport {
        line: text(progress),
        run: progress.uid.clone(),
        control: control.clone(),
    };
    Some(Line {
        status: condition,
        reason,
        text: report.to_string(),
    })
}

/// The class of a failed run.
fn class(progress: &RunProgress) -> FailureClass {
    current(progress)
        .and_then(|(_, _, step)| step.class)
        .unwrap_or(FailureClass::Revision)
}

fn failed(progress: &RunProgress) -> Failure {
    let plan = &progress.plan;
    let why = current(progress).map_or_else(
        || "it failed".to_owned(),
        |(phase, step, at)| {
            format!(
                "step {phase}/{step} failed: {}",
                at.message.as_deref().unwrap_or("no reason was given")
            )
        },
    );
    Failure::plan(format!("plan {plan} (run {}): {why}", progress.uid))
}

/// Publishes one event for each step that has ended.
async fn publish_step_events(steps: &[Ended], progress: &RunProgress, writer: &Writer) {
    for Ended {
        step,
        status,
        message,
    } in steps
    {
        let plan = &progress.plan;
        let why = message
            .as_ref()
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        let note = format!("plan {plan}, step {step}: {status}{why}");
        let event = match status {
            RunState::FatalError => Event::warning("StepFailed", "Plan", note),
            _ => Event::normal("StepComplete", "Plan", note),
        };
        writer.context().events.publish(writer.object(), event).await;
    }
}

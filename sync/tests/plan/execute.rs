//! Promise: steps run in order, with evidence; a permanent failure stops the run; timeouts, attempts and controls are
//! honored.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::{
    assemblage::FailureClass,
    plan::{RunProgress, RunState, StepProgress},
};
use muster_sync::plan::{
    Control, ControlError, Observed, OnFailure, Pass, Phase, Plan, Step, StepId, StepOutcome, Strategy, Task,
    began, control, ended, execute, reshape,
};
use proptest::prelude::*;

const MINUTE: Duration = Duration::from_mins(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn step(name: &str) -> Step {
    Step {
        name: name.into(),
        timeout: 5 * MINUTE,
        digest: format!("{name} of version 1"),
        ..Step::default()
    }
}

/// One phase for each list of steps.
fn plan(phases: &[(&str, &[Step])]) -> Plan {
    Plan {
        name: "deploy".into(),
        phases: phases
            .iter()
            .map(|(name, steps)| Phase {
                name: (*name).into(),
                steps: steps.to_vec(),
                ..Phase::default()
            })
            .collect(),
        ..Plan::default()
    }
}

fn schema() -> Plan {
    plan(&[
        ("schema", &[step("backup"), step("migrate")]),
        ("app", &[step("rest")]),
    ])
}

fn id(text: &str) -> StepId {
    let (phase, step) = text.split_once('/').unwrap_or_default();
    StepId::new(phase, step)
}

fn waits() -> StepOutcome {
    StepOutcome::Waiting {
        message: "Job db/migrate: 1 active".into(),
    }
}

/// A complete pass: `outcome` answers each task; returns the applied steps, in order.
fn pass(
    plan: &Plan,
    progress: RunProgress,
    now: Timestamp,
    outcome: impl Fn(&Task) -> StepOutcome,
) -> (Pass, Vec<Task>) {
    let mut observed = Observed::new();
    let mut applied = Vec::new();
    let mut pass = execute(plan, progress, &observed, now);
    while let Some(task) = pass.task.take() {
        observed.insert(task.step.clone(), outcome(&task));
        applied.push(task);
        pass = execute(plan, pass.progress, &observed, now);
    }
    (pass, applied)
}

fn one<'a>(progress: &'a RunProgress, name: &str) -> &'a StepProgress {
    let id = id(name);
    let phase = progress
        .phases
        .iter()
        .find(|phase| phase.name == id.phase)
        .unwrap();
    phase.steps.iter().find(|step| step.name == id.step).unwrap()
}

fn names(tasks: &[Task]) -> Vec<String> {
    tasks
        .iter()
        .map(|task| format!("{} {}", task.step, task.attempt))
        .collect()
}

#[test]
fn the_progress_says_that_a_step_is_under_way_before_it_is_applied() {
    let first = execute(
        &schema(),
        began(&schema(), "run-1", at(0)),
        &Observed::new(),
        at(1),
    );
    assert_eq!(
        first.task,
        Some(Task {
            step: id("schema/backup"),
            attempt: 1
        })
    );
    assert_eq!(first.progress.uid, "run-1");
    assert_eq!(one(&first.progress, "schema/backup").status, RunState::InProgress);
    assert_eq!(one(&first.progress, "schema/migrate").status, RunState::Pending);
}

#[test]
fn a_serial_plan_goes_no_further_than_what_is_unfinished() {
    let (waiting, applied) = pass(
        &schema(),
        began(&schema(), "run-1", at(0)),
        at(1),
        |task| match task.step.step.as_str() {
            "backup" => StepOutcome::Done,
            _ => waits(),
        },
    );
    assert_eq!(names(&applied), ["schema/backup 1", "schema/migrate 1"]);
    assert_eq!(waiting.progress.status, RunState::InProgress);
    assert_eq!(
        one(&waiting.progress, "schema/migrate").message.as_deref(),
        Some("Job db/migrate: 1 active")
    );
    let (done, applied) = pass(&schema(), waiting.progress, at(2), |_| StepOutcome::Done);
    assert_eq!(names(&applied), ["schema/migrate 1", "app/rest 1"]);
    assert_eq!((done.progress.status, done.wake), (RunState::Complete, None));
}

#[test]
fn a_parallel_phase_waits_for_its_steps_together() {
    let mut plan = schema();
    plan.phases[0].strategy = Strategy::Parallel;
    let (waiting, applied) = pass(&plan, began(&plan, "run-1", at(0)), at(1), |_| waits());
    assert_eq!(names(&applied), ["schema/backup 1", "schema/migrate 1"]);
    assert_eq!(one(&waiting.progress, "app/rest").status, RunState::Pending);
}

#[test]
fn what_failed_for_good_stops_the_run_and_is_left_alone() {
    let fatal = |_: &Task| StepOutcome::Fatal {
        message: "Job db/backup: image not found".into(),
    };
    let (failed, applied) = pass(&schema(), began(&schema(), "run-1", at(0)), at(1), fatal);
    assert_eq!(names(&applied), ["schema/backup 1"]);
    assert_eq!(failed.progress.status, RunState::FatalError);
    assert_eq!(
        one(&failed.progress, "schema/backup").class,
        Some(FailureClass::Revision)
    );
    let (later, applied) = pass(&schema(), failed.progress.clone(), at(1_000), |_| {
        StepOutcome::Done
    });
    assert_eq!((later.progress, applied), (failed.progress, Vec::new()));
}

#[test]
fn a_job_that_gave_up_is_tried_as_often_as_the_step_says() {
    let mut plan = schema();
    plan.phases[0].steps[0].retries = 2;
    let mut progress = began(&plan, "run-1", at(0));
    let mut attempts = Vec::new();
    for second in 1..6 {
        let gave_up = |_: &Task| StepOutcome::Failed {
            message: "BackoffLimitExceeded".into(),
        };
        let (after, applied) = pass(&plan, progress, at(second), gave_up);
        attempts.extend(names(&applied));
        progress = after.progress;
    }
    assert_eq!(
        attempts,
        ["schema/backup 1", "schema/backup 2", "schema/backup 3"]
    );
    assert_eq!(progress.status, RunState::FatalError);
}

#[test]
fn the_class_of_a_timeout_is_that_of_the_last_cause() {
    for (outcome, class) in [
        (waits(), FailureClass::Revision),
        (
            StepOutcome::Transient {
                message: "quota".into(),
                class: FailureClass::Unit,
            },
            FailureClass::Unit,
        ),
        (
            StepOutcome::Transient {
                message: "503".into(),
                class: FailureClass::Infra,
            },
            FailureClass::Infra,
        ),
    ] {
        let (before, _) = pass(&schema(), began(&schema(), "run-1", at(0)), at(0), |_| {
            outcome.clone()
        });
        let (still, _) = pass(&schema(), before.progress, at(299), |_| outcome.clone());
        assert_eq!(
            still.progress.status,
            RunState::InProgress,
            "a second before its timeout"
        );
        assert_eq!(still.wake, Some(at(300)), "no pass is due later than the timeout");
        let (late, _) = pass(&schema(), still.progress, at(300), |_| outcome.clone());
        let backup = one(&late.progress, "schema/backup");
        assert_eq!((backup.status, backup.class), (RunState::FatalError, Some(class)));
        assert!(
            backup
                .message
                .as_deref()
                .unwrap()
                .starts_with("not done within 5m: "),
            "{:?}",
            backup.message
        );
    }
}

#[test]
fn the_deadline_bounds_the_whole_and_begins_nothing_after_it() {
    let mut plan = schema();
    plan.deadline = Some(MINUTE);
    let (first, _) = pass(&plan, began(&plan, "run-1", at(0)), at(0), |_| waits());
    assert!(first.wake <= Some(at(60)));
    let (late, applied) = pass(&plan, first.progress, at(61), |_| StepOutcome::Done);
    assert_eq!(
        names(&applied),
        ["schema/backup 1"],
        "what was under way is judged, and nothing begins"
    );
    assert_eq!(late.progress.status, RunState::FatalError);
    assert_eq!(one(&late.progress, "schema/backup").status, RunState::Complete);
    let migrate = one(&late.progress, "schema/migrate").message.clone();
    assert_eq!(
        migrate.as_deref(),
        Some("the plan did not end within its deadline of 1m")
    );
}

#[test]
fn a_step_that_may_fail_stops_nothing_and_still_says_that_it_failed() {
    let mut plan = schema();
    plan.phases[0].steps[0].on_failure = OnFailure::Continue;
    let (done, _) = pass(&plan, began(&plan, "run-1", at(0)), at(1), |task| {
        match task.step.step.as_str() {
            "backup" => StepOutcome::Fatal {
                message: "no space".into(),
            },
            _ => StepOutcome::Done,
        }
    });
    assert_eq!(done.progress.status, RunState::Complete);
    assert_eq!(one(&done.progress, "schema/backup").status, RunState::FatalError);
    assert_eq!(
        one(&done.progress, "schema/backup").message.as_deref(),
        Some("no space")
    );
}

/// R27: progress is reshaped to fit the current plan.
#[test]
fn progress_gets_the_shape_of_the_plan_and_completed_steps_stay() {
    let (run, _) = pass(
        &schema(),
        began(&schema(), "run-1", at(0)),
        at(1),
        |task| match task.step.step.as_str() {
            "backup" => StepOutcome::Done,
            _ => waits(),
        },
    );
    let changed = plan(&[("schema", &[step("backup"), step("check"), step("migrate")])]);
    let shaped = reshape(&changed, run.progress.clone());
    let states: Vec<_> = shaped
        .phases
        .iter()
        .flat_map(|phase| &phase.steps)
        .map(|step| (step.name.as_str(), step.status))
        .collect();
    assert_eq!(
        states,
        [
            ("backup", RunState::Complete),
            ("check", RunState::Pending),
            ("migrate", RunState::InProgress)
        ]
    );
    let mut other = schema();
    other.phases[0].steps[0].digest = "backup of version 2".into();
    let (_, applied) = pass(&other, run.progress, at(2), |_| waits());
    assert_eq!(
        names(&applied),
        ["schema/backup 1"],
        "a step that has changed runs again"
    );
}

#[test]
fn a_control_is_for_one_run_and_one_step() {
    let fatal = |_: &Task| StepOutcome::Fatal { message: "no".into() };
    let (failed, _) = pass(&schema(), began(&schema(), "run-1", at(0)), at(1), fatal);
    let failed = failed.progress;
    let retry = Control::Retry(id("schema/backup"));
    let other = control(failed.clone(), "run-0", &retry, "r").unwrap_err();
    assert!(matches!(other, ControlError::OtherRun { .. }), "{other}");
    let missing = control(failed.clone(), "run-1", &Control::Skip(id("schema/nope")), "r").unwrap_err();
    assert_eq!(
        missing.to_string(),
        "plan deploy has no step schema/nope: it has schema/backup, schema/migrate, app/rest"
    );
    let again = control(failed.clone(), "run-1", &retry, "the registry is back").unwrap();
    let (done, applied) = pass(&schema(), again, at(2), |_| StepOutcome::Done);
    assert_eq!(
        names(&applied),
        ["schema/backup 2", "schema/migrate 1", "app/rest 1"]
    );
    assert_eq!(done.progress.status, RunState::Complete);
    let skipped = control(
        failed,
        "run-1",
        &Control::Skip(id("schema/backup")),
        "made by hand",
    )
    .unwrap();
    let (done, applied) = pass(&schema(), skipped, at(2), |_| StepOutcome::Done);
    assert_eq!(names(&applied), ["schema/migrate 1", "app/rest 1"]);
    assert!(one(&done.progress, "schema/backup").assumed);
    let ended = control(done.progress, "run-1", &Control::Abort, "r").unwrap_err();
    assert_eq!(ended.to_string(), "run run-1 of plan deploy is Complete already");
}

#[test]
fn an_aborted_run_has_failed_where_it_was() {
    let (run, _) = pass(&schema(), began(&schema(), "run-1", at(0)), at(1), |_| waits());
    let aborted = control(run.progress.clone(), "run-1", &Control::Abort, "wrong database").unwrap();
    assert_eq!(aborted.status, RunState::FatalError);
    let backup = one(&aborted, "schema/backup");
    assert_eq!(backup.message.as_deref(), Some("aborted: wrong database"));
    assert_eq!(ended(&run.progress, &aborted).len(), 1);
    assert_eq!(execute(&schema(), aborted, &Observed::new(), at(2)).task, None);
}

proptest! {
    /// Whatever the outcomes: a run is complete only if each step is, a complete step is not applied again, and in a
    /// serial plan a step is applied only after all previous ones are complete.
    #[test]
    fn no_step_overtakes_and_none_is_done_twice(outcomes in prop::collection::vec(0_u8..5, 1..40), serial in any::<bool>()) {
        let mut plan = schema();
        if !serial {
            plan.strategy = Strategy::Parallel;
            plan.phases[0].strategy = Strategy::Parallel;
        }
        let mut progress = began(&plan, "run-1", at(0));
        let mut outcomes = outcomes.into_iter().cycle();
        let mut complete: Vec<StepId> = Vec::new();
        let order = [id("schema/backup"), id("schema/migrate"), id("app/rest")];
        for second in 0..30 {
            let mut observed = Observed::new();
            let mut pass = execute(&plan, progress, &observed, at(second));
            while let Some(task) = pass.task.take() {
                prop_assert!(!complete.contains(&task.step), "{} twice", task.step);
                let before = order.iter().take_while(|step| **step != task.step);
                prop_assert!(!serial || before.into_iter().all(|step| complete.contains(step)));
                let outcome = match outcomes.next().unwrap() {
                    0 => StepOutcome::Done,
                    1 => StepOutcome::Transient { message: "503".into(), class: FailureClass::Infra },
                    2 if second > 20 => StepOutcome::Fatal { message: "refused".into() },
                    _ => waits(),
                };
                if outcome == StepOutcome::Done {
                    complete.push(task.step.clone());
                }
                observed.insert(task.step, outcome);
                pass = execute(&plan, pass.progress, &observed, at(second));
            }
            progress = pass.progress;
            prop_assert_eq!(progress.status == RunState::Complete, complete.len() == order.len());
            prop_assert_eq!(pass.wake.is_none(), progress.status.is_terminal());
            prop_assert!(pass.wake.is_none_or(|wake| wake > at(second)));
        }
    }
}

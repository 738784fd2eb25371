//! The status of a Job.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::super::plan::{Plan, Verb, nonzero, object_count, time};
use super::super::pod;
use super::{JobOutcome, Row, indexes};

/// When a Job succeeded or failed.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let mut conditions = job.status.as_ref()?.conditions.iter().flatten();
    let over =
        conditions.find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    over.last_transition_time.as_ref().map(|time| time.0)
}

/// Writes the status if it has changed.
pub(super) fn write(plan: &mut Plan, row: &Row<'_>, outcome: JobOutcome, now: Timestamp) {
    let old = row.job.status.clone().unwrap_or_default(); // none yet
    let is_still = row.active.is_empty() && row.terminating == 0;
    let conditions = conditions(&old, outcome, is_still, now);
    let is_complete = outcome == JobOutcome::Complete && is_still;
    // Pods that are about to be deleted do not count.
    let active: &[&Pod] = if outcome == JobOutcome::Open {
        &row.active
    } else {
        &[]
    };
    let ready = active
        .iter()
        .filter(|pod| pod::ready_since(pod).is_some())
        .count();
    let start = if outcome == JobOutcome::Suspended {
        None
    } else {
        old.start_time.clone().or_else(|| Some(time(now)))
    };
    let status = JobStatus {
        active: nonzero(object_count(active.len())),
        ready: Some(object_count(ready)),
        succeeded: nonzero(object_count(row.succeeded.len())),
        failed: nonzero(object_count(row.failed.len())),
        terminating: Some(object_count(row.terminating)),
        completed_indexes: row
            .is_indexed()
            .then(|| indexes::format_indexes(&indexes::done(&row.succeeded))),
        start_time: start,
        completion_time: is_complete.then(|| time(now)),
        uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
        conditions: (!conditions.is_empty()).then_some(conditions),
        ..old
    };
    if row.job.status.as_ref() != Some(&status) {
        plan.write(
            Verb::Status,
            Job {
                status: Some(status),
                ..row.job.clone()
            },
        );
    }
}

/// The conditions: the expected result, and, when no pod is left, the final one.
fn conditions(old: &JobStatus, outcome: JobOutcome, is_still: bool, now: Timestamp) -> Vec<JobCondition> {
    let wanted: Vec<(&str, &str, &str, &str)> = match outcome {
        JobOutcome::Complete => {
            let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
            vec![
                ("SuccessCriteriaMet", "True", reason, message),
                ("Complete", "True", reason, message),
            ]
        }
        JobOutcome::Failed(reason, message) => {
            vec![
                ("FailureTarget", "True", reason, message),
                ("Failed", "True", reason, message),
            ]
        }
        JobOutcome::Suspended => vec![("Suspended", "True", "JobSuspended", "Job suspended")],
        JobOutcome::Open if find(old, "Suspended").is_some() => {
            vec![("Suspended", "False", "JobResumed", "Job resumed")]
        }
        JobOutcome::Open => Vec::new(),
    };
    let due = wanted
        .into_iter()
        .filter(|(kind, ..)| is_still || !matches!(*kind, "Complete" | "Failed"));
    due.map(|(kind, status, reason, message)| {
        let same =
            find(old, kind).filter(|old| old.status == status && old.reason.as_deref() == Some(reason));
        same.cloned().unwrap_or_else(|| JobCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(time(now)),
            last_transition_time: Some(time(now)),
        })
    })
    .collect()
}

fn find<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind)
}

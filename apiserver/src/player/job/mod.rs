//! Jobs: pods until enough of them have succeeded, or too many have failed.
//!
//! Pods have no tracking finalizer: one that is deleted before its Job is finished is run again.

mod indexes;
mod status;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::plan::{Plan, Verb, after, object_count};
use super::pod;
use super::settings::Settings;
use super::template::{from_template, owner};

/// A Job and its pods.
#[derive(Clone, Debug)]
struct Row<'a> {
    job: &'a Job,
    spec: JobSpec,
    active: Vec<&'a Pod>,
    succeeded: Vec<&'a Pod>,
    failed: Vec<&'a Pod>,
    /// Number of terminating pods that have not finished.
    terminating: usize,
}

/// Result of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobOutcome {
    /// Still running.
    Open,
    /// Enough pods have succeeded.
    Complete,
    /// Failed: reason and message.
    Failed(&'static str, &'static str),
    /// Suspended.
    Suspended,
}

/// Decides what to do about a Job that controls these pods.
pub(super) fn decide(job: &Job, pods: &[&Pod], settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if job.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if let Some(end) = status::finished_at(job) {
        expire(&mut plan, job, end, now);
        return plan;
    }
    let row = Row::of(job, pods);
    let outcome = row.outcome(now);
    match outcome {
        JobOutcome::Open => {
            row.start(&mut plan, settings, now);
            if let Some(deadline) = row.deadline() {
                plan.wake_at(deadline);
            }
        }
        JobOutcome::Failed(..) | JobOutcome::Suspended | JobOutcome::Complete => {
            for pod in &row.active {
                plan.write(Verb::Delete, (*pod).clone());
            }
        }
    }
    status::write(&mut plan, &row, outcome, now);
    plan
}

/// Deletes a finished Job once its TTL is over.
fn expire(plan: &mut Plan, job: &Job, end: Timestamp, now: Timestamp) {
    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let Some(seconds) = ttl.and_then(|seconds| u64::try_from(seconds).ok()) else {
        return;
    }; // negative values are rejected
    let at = after(end, Duration::from_secs(seconds));
    if at <= now {
        plan.write(Verb::Delete, job.clone());
    } else {
        plan.wake_at(at);
    }
}

/// Default number of failed pods before a Job fails.
const BACKOFF_LIMIT: i32 = 6;

impl<'a> Row<'a> {
    fn of(job: &'a Job, pods: &[&'a Pod]) -> Self {
        let with =
            |wanted: fn(&Pod) -> bool| pods.iter().copied().filter(|pod| wanted(pod)).collect::<Vec<_>>();
        Self {
            job,
            spec: job.spec.clone().unwrap_or_default(), // the server requires one
            active: with(pod::is_active),
            succeeded: with(|pod| pod::phase(pod) == "Succeeded"),
            failed: with(|pod| pod::phase(pod) == "Failed"),
            terminating: with(|pod| !pod::is_over(pod) && pod.metadata.deletion_timestamp.is_some()).len(),
        }
    }

    fn outcome(&self, now: Timestamp) -> JobOutcome {
        if self.is_complete() {
            return JobOutcome::Complete;
        }
        if object_count(self.failed.len()) > self.spec.backoff_limit.unwrap_or(BACKOFF_LIMIT) {
            return JobOutcome::Failed(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            );
        }
        if self.spec.suspend == Some(true) {
            return JobOutcome::Suspended;
        }
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return JobOutcome::Failed(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            );
        }
        JobOutcome::Open
    }

    fn is_complete(&self) -> bool {
        match self.spec.completions {
            Some(_) if self.is_indexed() => indexes::done(&self.succeeded).len() >= self.desired_active(),
            Some(_) => self.succeeded.len() >= self.desired_active(),
            // A work queue: the first pod that succeeds means that no work is left.
            None => !self.succeeded.is_empty() && self.active.is_empty(),
        }
    }

    fn desired_active(&self) -> usize {
        usize::try_from(self.spec.completions.unwrap_or(1)).unwrap_or_default() // negative values are rejected
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = u64::try_from(self.spec.active_deadline_seconds?).ok()?; // negative values are rejected
        let start = self.job.status.as_ref()?.start_time.as_ref()?;
        Some(after(start.0, Duration::from_secs(seconds)))
    }

    /// Starts as many pods as may run at once; after a failure only after the backoff.
    fn start(&self, plan: &mut Plan, settings: &Settings, now: Timestamp) {
        let parallelism = usize::try_from(self.spec.parallelism.unwrap_or(1)).unwrap_or_default(); // never negative
        let open = match self.spec.completions {
            Some(_) if self.is_indexed() => {
                self.desired_active() - indexes::done(&self.succeeded).len().min(self.desired_active())
            }
            Some(_) => self.desired_active().saturating_sub(self.succeeded.len()),
            None if self.succeeded.is_empty() => parallelism,
            None => 0,
        };
        let wanted = open.min(parallelism);
        for pod in self.active.iter().skip(wanted) {
            plan.write(Verb::Delete, (*pod).clone());
        }
        let missing = wanted.saturating_sub(self.active.len() + self.terminating);
        if missing == 0 {
            return;
        }
        if let Some(again) = self
            .failed
            .iter()
            .map(|pod| after(ended(pod, now), settings.retry_after))
            .max()
            && again > now
        {
            plan.wake_at(again);
            return;
        }
        let free = self.free_indexes();
        for number in 0..missing {
            plan.write(Verb::Create, self.pod(free.get(number).copied()));
        }
    }

    /// The indexes that no pod has or has completed; empty if pods have no index.
    fn free_indexes(&self) -> Vec<usize> {
        if !self.is_indexed() {
            return Vec::new();
        }
        let taken: BTreeSet<usize> = self
            .active
            .iter()
            .chain(&self.succeeded)
            .filter_map(|pod| indexes::pod_index(pod))
            .collect();
        (0..self.desired_active())
            .filter(|index| !taken.contains(index))
            .collect()
    }

    fn pod(&self, index: Option<usize>) -> Pod {
        let name = self.job.name_any();
        let metadata = ObjectMeta {
            generate_name: Some(index.map_or_else(|| format!("{name}-"), |index| format!("{name}-{index}-"))),
            namespace: self.job.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let mut pod = from_template(&self.spec.template, metadata, owner(self.job));
        if let Some(index) = index {
            indexes::set_pod_index(&mut pod, index);
        }
        pod
    }
}

/// When a pod has finished, by its containers.
fn ended(pod: &Pod, now: Timestamp) -> Timestamp {
    let containers = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let ends =
        containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    ends.map(|end| end.0).max().unwrap_or(now)
}

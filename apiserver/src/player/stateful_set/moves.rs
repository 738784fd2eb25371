//! Which pods are created and deleted next.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::super::plan::{Plan, Verb};
use super::super::pod;
use super::super::revision::LABEL;
use super::{Row, pods};

/// Plans the next changes: missing pods from the first ordinal up, then surplus pods from the last down, then pods of
/// another revision from the last down. An ordered set makes one change and waits until its pod is ready.
pub(super) fn plan(plan: &mut Plan, row: &Row<'_>, is_claimed: &impl Fn(&str) -> bool) {
    if fill(plan, row, is_claimed) || shrink(plan, row) || !row.rolls() {
        return;
    }
    for (number, pod) in row
        .pods
        .iter()
        .rev()
        .filter(|(number, _)| (row.partition()..row.end()).contains(number))
    {
        let is_old = pod.labels().get(LABEL) != Some(&row.update);
        if is_old && !is_going(pod) {
            plan.write(Verb::Delete, (*pod).clone());
            return;
        }
        if is_going(pod) || !is_available(plan, row, pod) {
            tracing::trace!(number, "the rollout waits");
            return;
        }
    }
}

/// Creates missing pods. Returns whether nothing else may be done now.
fn fill(plan: &mut Plan, row: &Row<'_>, is_claimed: &impl Fn(&str) -> bool) -> bool {
    let mut waits = false;
    for number in row.start()..row.end() {
        let there = row
            .pods
            .iter()
            .find(|(own, _)| *own == number)
            .map(|(_, pod)| *pod);
        match there {
            None => make(plan, row, number, is_claimed),
            Some(pod) if pod::is_over(pod) && !is_going(pod) => plan.write(Verb::Delete, pod.clone()),
            Some(pod) if !is_going(pod) && is_available(plan, row, pod) => continue,
            // A starting or terminating pod blocks the next ones only in an ordered set.
            Some(_) if !row.is_ordered() => continue,
            Some(_) => {}
        }
        waits = true;
        if row.is_ordered() {
            break;
        }
    }
    waits
}

fn make(plan: &mut Plan, row: &Row<'_>, number: i32, is_claimed: &impl Fn(&str) -> bool) {
    for claim in pods::claims(row.set, number).filter(|claim| !is_claimed(&claim.name_any())) {
        plan.write(Verb::Create, claim);
    }
    let keeps_current = row.rolls() && number < row.partition();
    let (revision, template) = if keeps_current {
        (&row.current.0, &row.current.1)
    } else {
        (&row.update, &row.spec.template)
    };
    plan.write(Verb::Create, pods::new(row.set, number, revision, template));
}

/// Deletes surplus pods. Returns whether nothing else may be done now. An ordered set deletes only the last one, if it
/// is available or all other surplus pods are.
fn shrink(plan: &mut Plan, row: &Row<'_>) -> bool {
    let range = row.start()..row.end();
    let extra = row.pods.iter().filter(|(number, _)| !range.contains(number));
    let extra: Vec<&Pod> = extra.map(|(_, pod)| *pod).collect();
    if !row.is_ordered() {
        for pod in extra.iter().rev().filter(|pod| !is_going(pod)) {
            plan.write(Verb::Delete, (**pod).clone());
        }
        return false;
    }
    let Some(last) = extra.last() else {
        return false;
    };
    let is_fine = |plan: &mut Plan, pod: &Pod| !is_going(pod) && is_available(plan, row, pod);
    let first_unavailable = extra.iter().find(|pod| !is_fine(plan, pod));
    let may_go =
        first_unavailable.is_none_or(|first| first.metadata.uid == last.metadata.uid) || is_fine(plan, last);
    if may_go && !is_going(last) {
        plan.write(Verb::Delete, (*last).clone());
    }
    true
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether a pod is available; if only time is missing, schedules the next check.
fn is_available(plan: &mut Plan, row: &Row<'_>, pod: &Pod) -> bool {
    match pod::available_from(pod, row.spec.min_ready_seconds.unwrap_or_default()) {
        Some(from) if from <= row.now => true,
        Some(from) => {
            plan.wake_at(from);
            false
        }
        None => false,
    }
}

//! Selects the pods of the current set that are deleted now.

use super::{
    Delete,
    reasons::{Reasons, code},
};
use crate::model::{Group, Pod, Set};

/// Checks disruption budgets for pods that the rollout wants to delete.
pub trait Budget {
    /// Whether the pod is under a budget that counts by partition; an error if the budget cannot be determined.
    fn counts_by_partition(&mut self, pod: &Pod) -> Result<bool, String>;
    /// Whether the pod may be deleted; an error with the reason if not. `if_zero`: the limit to use if the budget's own
    /// limit is 0.
    fn allows(&mut self, pod: &Pod, if_zero: u32) -> Result<(), String>;
}

/// The pods to delete now, in natural order.
///
/// Their number is the limit minus the unready pods in the set's status, as in rollout-operator; additionally, the pods
/// themselves must not exceed the limit of unavailable pods. A terminating pod uses up its turn.
pub(super) fn batch(
    group: &Group,
    set: &Set,
    unavailable: u32,
    budget: &mut dyn Budget,
    reasons: &mut Reasons,
) -> Result<Vec<Delete>, String> {
    let limit = group.limit(set);
    let not_ready = set.status.replicas.saturating_sub(set.status.ready_replicas);
    let turns = usize::try_from(limit.saturating_sub(not_ready)).unwrap_or(usize::MAX);
    let mut left = limit.saturating_sub(unavailable);
    let mut delete = Vec::new();
    let outdated: Vec<&Pod> = set.outdated().collect();
    if turns == 0 {
        reasons.of_set(
            set,
            code::LIMIT,
            &format!("{not_ready} pods are not ready; the limit is {limit}"),
        );
    }
    for pod in outdated.into_iter().take(turns) {
        if pod.terminating || group.is_in_flight(pod) {
            continue;
        }
        // A pod that is not available costs nothing, but may become available before it is deleted, and is counted
        // then.
        let costs = u32::from(pod.is_available());
        if costs > left || unavailable > limit {
            reasons.of_pod(
                set,
                pod,
                code::LIMIT,
                &format!("{unavailable} pods are unavailable; the limit is {limit}"),
            );
            break;
        }
        let by_partition = budget
            .counts_by_partition(pod)
            .map_err(|error| format!("failed to determine pod zpdb configuration {}: {error}", pod.name))?;
        match budget.allows(pod, if by_partition { 1 } else { limit }) {
            Ok(()) => {
                left -= costs;
                delete.push(Delete::of(set, pod));
                reasons.of_pod(
                    set,
                    pod,
                    code::REPLACING,
                    "it is deleted, to be re-created at the new revision",
                );
            }
            Err(why) => reasons.of_pod(set, pod, code::BUDGET, &why),
        }
    }
    Ok(delete)
}

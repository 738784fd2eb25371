//! PodDisruptionBudgets: how many of their pods are healthy, and how many more may be evicted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use super::plan::{Plan, Verb, after, object_count, time};
use super::pod;

/// How long an evicted pod that is not deleted yet counts as disrupted.
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);

const ALLOWED: &str = "DisruptionAllowed";

/// Decides what to do about a budget, in a namespace with these pods. `scale` is the total number of pods that the
/// controllers of these pods want; the error names the pod without its controller.
pub(super) fn decide(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scale: impl Fn(&[&Pod]) -> Result<i32, String>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if budget.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let pods: Vec<&Pod> = pods.iter().copied().filter(|pod| guards(budget, pod)).collect();
    let old = budget.status.clone().unwrap_or_default(); // none yet
    let disrupted = disrupted(&mut plan, &old, &pods, now);
    let healthy = pods.iter().filter(|pod| {
        let is_going = pod.metadata.deletion_timestamp.is_some() || disrupted.contains_key(&pod.name_any());
        !is_going && pod::ready_since(pod).is_some()
    });
    let healthy = object_count(healthy.count());
    let status = match expected_and_desired(budget, &pods, scale) {
        Ok((expected, desired)) => {
            let spare = if expected > 0 {
                (healthy - desired).max(0)
            } else {
                0
            };
            let status = PodDisruptionBudgetStatus {
                current_healthy: Some(healthy),
                desired_healthy: Some(desired),
                expected_pods: Some(expected),
                disruptions_allowed: Some(spare),
                disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
                observed_generation: budget.metadata.generation,
                conditions: old.conditions.clone(),
            };
            let reason = if spare > 0 {
                "SufficientPods"
            } else {
                "InsufficientPods"
            };
            with_condition(status, spare > 0, reason, "", now)
        }
        Err(why) => {
            let status = PodDisruptionBudgetStatus {
                disruptions_allowed: Some(0),
                ..old.clone()
            };
            with_condition(status, false, "SyncFailed", &why, now)
        }
    };
    if old != status {
        plan.write(
            Verb::Status,
            PodDisruptionBudget {
                status: Some(status),
                ..budget.clone()
            },
        );
    }
    plan
}

/// Whether a budget selects a pod.
pub(super) fn guards(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok()); // absent or invalid: no match
    selector.is_some_and(|selector| selector.matches(pod.labels()))
}

/// The evicted pods that still must be deleted.
fn disrupted(
    plan: &mut Plan,
    old: &PodDisruptionBudgetStatus,
    pods: &[&Pod],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let mut left = BTreeMap::new();
    for (name, since) in old.disrupted_pods.iter().flatten() {
        let is_there = |pod: &&&Pod| pod.name_any() == *name && pod.metadata.deletion_timestamp.is_none();
        let end = after(since.0, DELETION_TIMEOUT);
        if end >= now && pods.iter().any(|pod| is_there(&pod)) {
            plan.wake_at(after(end, Duration::from_secs(1)));
            left.insert(name.clone(), since.clone());
        }
    }
    left
}

/// Expected number of pods, and how many of them must be healthy.
fn expected_and_desired(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scale: impl Fn(&[&Pod]) -> Result<i32, String>,
) -> Result<(i32, i32), String> {
    let spec = budget.spec.clone().unwrap_or_default(); // the server requires one
    match (spec.max_unavailable, spec.min_available) {
        (Some(most), _) => {
            let expected = scale(pods)?;
            Ok((expected, (expected - part(&most, expected)?).max(0)))
        }
        (None, Some(IntOrString::Int(least))) => Ok((object_count(pods.len()), least)),
        (None, Some(least)) => {
            let expected = scale(pods)?;
            Ok((expected, part(&least, expected)?))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// A number, or a percentage of `all`, rounded up.
fn part(value: &IntOrString, all: i32) -> Result<i32, String> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent: Option<i32> = text.strip_suffix('%').and_then(|number| number.parse().ok()); // no percentage
            let percent = percent.ok_or_else(|| {
                format!("invalid value for IntOrString: invalid type: string is not a percentage ({text:?})")
            })?;
            Ok((all * percent + 99).div_euclid(100))
        }
    }
}

fn with_condition(
    mut status: PodDisruptionBudgetStatus,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let text = if is_true { "True" } else { "False" };
    let mut conditions = status.conditions.take().unwrap_or_default(); // none yet
    let old = conditions.iter().find(|condition| condition.type_ == ALLOWED);
    let same = old.filter(|old| old.status == text);
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: text.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: same.map_or_else(|| time(now), |old| old.last_transition_time.clone()),
        observed_generation: status.observed_generation,
    };
    conditions.retain(|condition| condition.type_ != ALLOWED);
    conditions.push(condition);
    status.conditions = Some(conditions);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(part(&percent("50%"), 3), Ok(2));
        assert_eq!(part(&percent("0%"), 3), Ok(0));
        assert_eq!(part(&IntOrString::Int(7), 3), Ok(7));
        assert!(part(&percent("half"), 3).is_err());
    }
}

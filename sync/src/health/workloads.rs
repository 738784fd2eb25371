//! The rules for workloads: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job.

use muster_api::labels::annotation;
use serde_json::Value;

use super::{
    Health,
    fields::{conditions, integer, integer_or, string_at},
};

/// The value that the deployment controller treats as "no deadline".
const NO_DEADLINE: i64 = i32::MAX as i64;

/// A count that must reach another one; if it does not, the reason and the verb of the message.
struct Step {
    have: i64,
    want: i64,
    reason: &'static str,
    word: &'static str,
}

pub(super) fn deployment(object: &Value) -> Health {
    let health = rollout(object);
    // A pause does not explain pods that exist and are not ready.
    let may_be_held = ["LessReplicas", "LessUpdated", "ReplicaSetNotAvailable"];
    if may_be_held.contains(&health.reason.as_str()) && is_true(object, "/spec/paused") {
        health.because("the Deployment is paused (spec.paused)")
    } else {
        health
    }
}

fn rollout(object: &Value) -> Health {
    let deadline = integer_or(object, "/spec/progressDeadlineSeconds", NO_DEADLINE);
    let mut progressed = deadline == NO_DEADLINE;
    let mut available = false;
    for condition in conditions(object) {
        match (condition.kind, condition.status, condition.reason) {
            ("Progressing", _, "ProgressDeadlineExceeded") => {
                return Health::stalled("ProgressDeadlineExceeded", "Progress deadline exceeded");
            }
            ("Progressing", "True", "NewReplicaSetAvailable") => progressed = true,
            ("Available", "True", _) => available = true,
            _ => {}
        }
    }
    let wanted = integer_or(object, "/spec/replicas", 1);
    let count = |field: &str| integer_or(object, &format!("/status/{field}"), 0);
    let (replicas, updated) = (count("replicas"), count("updatedReplicas"));
    first_short(&[
        Step {
            have: replicas,
            want: wanted,
            reason: "LessReplicas",
            word: "Replicas",
        },
        Step {
            have: updated,
            want: wanted,
            reason: "LessUpdated",
            word: "Updated",
        },
    ])
    .or_else(|| surplus(replicas, wanted))
    .or_else(|| {
        first_short(&[
            Step {
                have: count("availableReplicas"),
                want: updated,
                reason: "LessAvailable",
                word: "Available",
            },
            Step {
                have: count("readyReplicas"),
                want: wanted,
                reason: "LessReady",
                word: "Ready",
            },
        ])
    })
    .or_else(|| {
        (!progressed).then(|| Health::in_progress("ReplicaSetNotAvailable", "ReplicaSet not Available"))
    })
    .or_else(|| {
        (!available).then(|| Health::in_progress("DeploymentNotAvailable", "Deployment not Available"))
    })
    .unwrap_or_else(|| Health::current(format!("Deployment is available. Replicas: {replicas}")))
}

pub(super) fn stateful_set(object: &Value) -> Health {
    let by_hand = is_updated_by_hand(object);
    if by_hand && !waits_for_pods(object) {
        return Health::current("StatefulSet is using the ondelete update strategy");
    }
    let wanted = integer_or(object, "/spec/replicas", 1);
    let count = |field: &str| integer_or(object, &format!("/status/{field}"), 0);
    let replicas = count("replicas");
    let unfinished = first_short(&[
        Step {
            have: replicas,
            want: wanted,
            reason: "LessReplicas",
            word: "Replicas",
        },
        Step {
            have: count("readyReplicas"),
            want: wanted,
            reason: "LessReady",
            word: "Ready",
        },
    ])
    .or_else(|| surplus(replicas, wanted));
    if let Some(unfinished) = unfinished {
        return unfinished;
    }
    if by_hand {
        let step = Step {
            have: count("updatedReplicas"),
            want: wanted,
            reason: "LessUpdated",
            word: "Updated",
        };
        return first_short(&[step]).map_or_else(
            || Health::current(format!("All pods are at the new revision. Replicas: {replicas}")),
            |unfinished| unfinished.because(BY_HAND),
        );
    }
    if let Some(partition) = integer(object, "/spec/updateStrategy/rollingUpdate/partition") {
        let updated = count("updatedReplicas");
        let step = Step {
            have: updated,
            want: wanted - partition,
            reason: "PartitionRollout",
            word: "updated",
        };
        return first_short(&[step])
            .unwrap_or_else(|| Health::current(format!("Partition rollout complete. updated: {updated}")));
    }
    let step = Step {
        have: count("currentReplicas"),
        want: wanted,
        reason: "LessCurrent",
        word: "current",
    };
    if let Some(unfinished) = first_short(&[step]) {
        return unfinished;
    }
    if string_at(object, "/status/currentRevision") != string_at(object, "/status/updateRevision") {
        return Health::in_progress(
            "RevisionMismatch",
            "Waiting for updated revision to match current",
        );
    }
    Health::current(format!(
        "All replicas scheduled as expected. Replicas: {replicas}"
    ))
}

pub(super) fn daemon_set(object: &Value) -> Health {
    // Other kinds accept missing generations. A DaemonSet that its controller has observed has both.
    if integer(object, "/metadata/generation").is_none() {
        return Health::in_progress("NoGeneration", "DaemonSet metadata.generation not found");
    }
    if integer(object, "/status/observedGeneration").is_none() {
        return Health::in_progress(
            "NoObservedGeneration",
            "DaemonSet status.observedGeneration not found",
        );
    }
    let Some(wanted) = integer(object, "/status/desiredNumberScheduled") else {
        return Health::in_progress("NoDesiredNumber", "Missing .status.desiredNumberScheduled");
    };
    let count = |field: &str| integer_or(object, &format!("/status/{field}"), 0);
    // With `OnDelete` a pod keeps its revision until it is deleted by hand, so that is not waited for unless requested,
    // as for a StatefulSet. kstatus waits forever.
    let by_hand = is_updated_by_hand(object);
    let updated = if by_hand && !waits_for_pods(object) {
        wanted
    } else {
        count("updatedNumberScheduled")
    };
    let unfinished = first_short(&[
        Step {
            have: count("currentNumberScheduled"),
            want: wanted,
            reason: "LessCurrent",
            word: "Current",
        },
        Step {
            have: updated,
            want: wanted,
            reason: "LessUpdated",
            word: "Updated",
        },
        Step {
            have: count("numberAvailable"),
            want: wanted,
            reason: "LessAvailable",
            word: "Available",
        },
        Step {
            have: count("numberReady"),
            want: wanted,
            reason: "LessReady",
            word: "Ready",
        },
    ]);
    let unfinished = unfinished.map(|unfinished| {
        if by_hand && unfinished.reason == "LessUpdated" {
            unfinished.because(BY_HAND)
        } else {
            unfinished
        }
    });
    unfinished
        .unwrap_or_else(|| Health::current(format!("All replicas scheduled as expected. Replicas: {wanted}")))
}

pub(super) fn replica_set(object: &Value) -> Health {
    if conditions(object).any(|condition| condition.kind == "ReplicaFailure" && condition.status == "True") {
        return Health::in_progress("ReplicaFailure", "Replica Failure condition. Check Pods");
    }
    let wanted = integer_or(object, "/spec/replicas", 1);
    let count = |field: &str| integer_or(object, &format!("/status/{field}"), 0);
    let replicas = count("replicas");
    first_short(&[
        Step {
            have: count("fullyLabeledReplicas"),
            want: wanted,
            reason: "LessLabelled",
            word: "Labelled",
        },
        Step {
            have: count("availableReplicas"),
            want: wanted,
            reason: "LessAvailable",
            word: "Available",
        },
        Step {
            have: count("readyReplicas"),
            want: wanted,
            reason: "LessReady",
            word: "Ready",
        },
    ])
    .or_else(|| surplus(replicas, wanted))
    .unwrap_or_else(|| Health::current(format!("ReplicaSet is available. Replicas: {replicas}")))
}

pub(super) fn job(object: &Value) -> Health {
    let parallelism = integer_or(object, "/spec/parallelism", 1);
    let completions = integer_or(object, "/spec/completions", parallelism);
    let count = |field: &str| integer_or(object, &format!("/status/{field}"), 0);
    let (succeeded, failed) = (count("succeeded"), count("failed"));
    for condition in conditions(object).filter(|condition| condition.status == "True") {
        match condition.kind {
            "Complete" => {
                return Health::current(format!("Job Completed. succeeded: {succeeded}/{completions}"));
            }
            "Failed" => {
                return Health::stalled("JobFailed", format!("Job Failed. failed: {failed}/{completions}"));
            }
            _ => {}
        }
    }
    let health = if string_at(object, "/status/startTime").is_none() {
        Health::in_progress("JobNotStarted", "Job not started")
    } else {
        let active = count("active");
        Health::in_progress(
            "JobInProgress",
            format!("Job in progress. success: {succeeded}, active: {active}, failed: {failed}"),
        )
    };
    if is_true(object, "/spec/suspend") {
        health.because("the Job is suspended (spec.suspend)")
    } else {
        health
    }
}

/// Why pods keep their old revision.
const BY_HAND: &str = "pods are replaced when they are deleted (spec.updateStrategy.type OnDelete)";

fn is_updated_by_hand(object: &Value) -> bool {
    string_at(object, "/spec/updateStrategy/type") == Some("OnDelete")
}

/// Whether pods that are replaced by hand are waited for.
fn waits_for_pods(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations[annotation::WAIT_FOR_PODS].as_str()) == Some("true")
}

fn is_true(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer) == Some(&Value::Bool(true))
}

fn first_short(steps: &[Step]) -> Option<Health> {
    let step = steps.iter().find(|step| step.have < step.want)?;
    Some(Health::in_progress(
        step.reason,
        format!("{}: {}/{}", step.word, step.have, step.want),
    ))
}

fn surplus(replicas: i64, wanted: i64) -> Option<Health> {
    (replicas > wanted)
        .then(|| Health::in_progress("ExtraPods", format!("Pending termination: {}", replicas - wanted)))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn check(kind: &str, spec: Value, status: Value, expect: &str) {
        let waits = json!({"fleet.muster.dev/wait-for-pods": "true"});
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "generation": 2, "annotations": waits},
            "spec": spec, "status": status,
        });
        let health = super::super::health_of(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(
            format!("{}: {}", health.state.as_str(), health.message),
            expect,
            "{object:#}"
        );
    }

    #[test]
    fn pods_that_are_replaced_by_hand_are_waited_for_where_it_is_asked_for() {
        let by_hand = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        let counts = |replicas: u8, ready: u8, updated: u8| {
            json!({
                "observedGeneration": 2, "replicas": replicas, "readyReplicas": ready, "updatedReplicas": updated,
                "currentRevision": "a", "updateRevision": "b",
            })
        };
        let why = "pods are replaced when they are deleted (spec.updateStrategy.type OnDelete)";
        for (status, expect) in [
            (
                counts(3, 3, 3),
                "Current: All pods are at the new revision. Replicas: 3".to_owned(),
            ),
            (counts(3, 3, 2), format!("InProgress: Updated: 2/3: {why}")),
            (counts(3, 2, 3), "InProgress: Ready: 2/3".to_owned()),
            (counts(2, 2, 2), "InProgress: Replicas: 2/3".to_owned()),
        ] {
            check("StatefulSet", by_hand.clone(), status, &expect);
        }
        let counts = |ready: u8, updated: u8| {
            json!({
                "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberAvailable": ready,
                "numberReady": ready, "updatedNumberScheduled": updated,
            })
        };
        for (status, expect) in [
            (
                counts(3, 3),
                "Current: All replicas scheduled as expected. Replicas: 3".to_owned(),
            ),
            (counts(3, 0), format!("InProgress: Updated: 0/3: {why}")),
            (counts(2, 3), "InProgress: Available: 2/3".to_owned()),
        ] {
            check("DaemonSet", by_hand.clone(), status, &expect);
        }
    }

    #[test]
    fn a_paused_deployment_with_a_changed_template_says_so() {
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 0, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [
                {"type": "Available", "status": "True"}, {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}],
        });
        let paused = json!({"replicas": 3, "paused": true});
        check(
            "Deployment",
            paused,
            status,
            "InProgress: Updated: 0/3: the Deployment is paused (spec.paused)",
        );
    }
}

//! Health of objects is what kstatus says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use jiff::Timestamp;
use muster_sync::health::{self, State};
use serde_json::{Value, json};

/// Checks one object against `<state> <reason>: <message>`, with `!` after the state where waiting is of no use.
#[track_caller]
fn check(object: Value, expect: &str) {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let health = health::of(&object, now);
    let terminal = if health.terminal { "!" } else { "" };
    let got = format!(
        "{}{terminal} {}: {}",
        health.state.as_str(),
        health.reason,
        health.message
    );
    assert_eq!(got, expect, "{object:#}");
}

fn object(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ns", "generation": 2},
        "spec": spec,
        "status": status,
    })
}

#[test]
fn deployments() {
    let deployment = |spec, status| object("apps/v1", "Deployment", spec, status);
    let done = json!([
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
    ]);
    let spec = json!({"replicas": 2, "progressDeadlineSeconds": 600});
    let counts = |replicas, updated, ready, available| {
        json!({"observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready,
            "availableReplicas": available, "conditions": done})
    };
    check(
        deployment(spec.clone(), json!({})),
        "InProgress LessReplicas: Replicas: 0/2",
    );
    check(
        deployment(spec.clone(), json!({"observedGeneration": 1})),
        "InProgress LatestGenerationNotObserved: Deployment generation is 2, but latest observed generation is 1",
    );
    check(
        deployment(spec.clone(), counts(2, 1, 2, 2)),
        "InProgress LessUpdated: Updated: 1/2",
    );
    check(
        deployment(spec.clone(), counts(3, 2, 2, 2)),
        "InProgress ExtraPods: Pending termination: 1",
    );
    check(
        deployment(spec.clone(), counts(2, 2, 2, 1)),
        "InProgress LessAvailable: Available: 1/2",
    );
    check(
        deployment(spec.clone(), counts(2, 2, 1, 2)),
        "InProgress LessReady: Ready: 1/2",
    );
    check(
        deployment(spec.clone(), counts(2, 2, 2, 2)),
        "Current : Deployment is available. Replicas: 2",
    );
    let mut not_available = counts(2, 2, 2, 2);
    not_available["conditions"][1]["status"] = json!("False");
    check(
        deployment(spec.clone(), not_available),
        "InProgress DeploymentNotAvailable: Deployment not Available",
    );
    let mut not_progressed = counts(2, 2, 2, 2);
    not_progressed["conditions"][0]["reason"] = json!("ReplicaSetUpdated");
    check(
        deployment(spec.clone(), not_progressed.clone()),
        "InProgress ReplicaSetNotAvailable: ReplicaSet not Available",
    );
    // Without a deadline the controller never says Progressing, so nothing is expected of it.
    check(
        deployment(json!({"replicas": 2}), not_progressed),
        "Current : Deployment is available. Replicas: 2",
    );
    let mut exceeded = counts(2, 1, 1, 1);
    exceeded["conditions"][0] =
        json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
    check(
        deployment(spec, exceeded),
        "Failed! ProgressDeadlineExceeded: Progress deadline exceeded",
    );
    check(
        deployment(
            json!({"replicas": 0, "progressDeadlineSeconds": 600}),
            counts(0, 0, 0, 0),
        ),
        "Current : Deployment is available. Replicas: 0",
    );
}

#[test]
fn stateful_sets() {
    let set = |spec, status| object("apps/v1", "StatefulSet", spec, status);
    let spec = json!({"replicas": 3});
    let status = |replicas, ready, current, from: &str, to: &str| {
        json!({"observedGeneration": 2, "replicas": replicas, "readyReplicas": ready, "currentReplicas": current,
            "updatedReplicas": 1, "currentRevision": from, "updateRevision": to})
    };
    check(
        set(spec.clone(), status(2, 2, 2, "a", "a")),
        "InProgress LessReplicas: Replicas: 2/3",
    );
    check(
        set(spec.clone(), status(3, 2, 3, "a", "a")),
        "InProgress LessReady: Ready: 2/3",
    );
    check(
        set(spec.clone(), status(4, 4, 3, "a", "a")),
        "InProgress ExtraPods: Pending termination: 1",
    );
    check(
        set(spec.clone(), status(3, 3, 2, "a", "b")),
        "InProgress LessCurrent: current: 2/3",
    );
    check(
        set(spec.clone(), status(3, 3, 3, "a", "b")),
        "InProgress RevisionMismatch: Waiting for updated revision to match current",
    );
    check(
        set(spec, status(3, 3, 3, "b", "b")),
        "Current : All replicas scheduled as expected. Replicas: 3",
    );
    let partition = |n: i64| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": n}}});
    check(
        set(partition(1), status(3, 3, 1, "a", "b")),
        "InProgress PartitionRollout: updated: 1/2",
    );
    check(
        set(partition(2), status(3, 3, 1, "a", "b")),
        "Current : Partition rollout complete. updated: 1",
    );
    check(
        set(
            json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}),
            status(0, 0, 0, "a", "b"),
        ),
        "Current : StatefulSet is using the ondelete update strategy",
    );
}

#[test]
fn daemon_sets() {
    let set = |status| object("apps/v1", "DaemonSet", json!({}), status);
    let status = |desired, current, updated, available, ready| {
        json!({"observedGeneration": 2, "desiredNumberScheduled": desired, "currentNumberScheduled": current,
            "updatedNumberScheduled": updated, "numberAvailable": available, "numberReady": ready})
    };
    check(
        set(json!({})),
        "InProgress NoObservedGeneration: DaemonSet status.observedGeneration not found",
    );
    check(
        set(json!({"observedGeneration": 2})),
        "InProgress NoDesiredNumber: Missing .status.desiredNumberScheduled",
    );
    check(set(status(3, 2, 2, 2, 2)), "InProgress LessCurrent: Current: 2/3");
    check(set(status(3, 3, 2, 2, 2)), "InProgress LessUpdated: Updated: 2/3");
    check(
        set(status(3, 3, 3, 2, 3)),
        "InProgress LessAvailable: Available: 2/3",
    );
    check(set(status(3, 3, 3, 3, 2)), "InProgress LessReady: Ready: 2/3");
    check(
        set(status(3, 3, 3, 3, 3)),
        "Current : All replicas scheduled as expected. Replicas: 3",
    );
    check(
        set(status(0, 0, 0, 0, 0)),
        "Current : All replicas scheduled as expected. Replicas: 0",
    );
}

#[test]
fn replica_sets() {
    let set = |status| object("apps/v1", "ReplicaSet", json!({"replicas": 2}), status);
    let status = |replicas, labelled, available, ready| {
        json!({"observedGeneration": 2, "replicas": replicas, "fullyLabeledReplicas": labelled,
            "availableReplicas": available, "readyReplicas": ready})
    };
    check(set(status(2, 1, 2, 2)), "InProgress LessLabelled: Labelled: 1/2");
    check(
        set(status(2, 2, 1, 2)),
        "InProgress LessAvailable: Available: 1/2",
    );
    check(set(status(2, 2, 2, 1)), "InProgress LessReady: Ready: 1/2");
    check(
        set(status(3, 3, 3, 3)),
        "InProgress ExtraPods: Pending termination: 1",
    );
    check(
        set(status(2, 2, 2, 2)),
        "Current : ReplicaSet is available. Replicas: 2",
    );
    check(
        set(json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]})),
        "InProgress ReplicaFailure: Replica Failure condition. Check Pods",
    );
}

#[test]
fn jobs() {
    let job = |status| object("batch/v1", "Job", json!({"completions": 2}), status);
    let condition =
        |kind: &str| json!({"succeeded": 1, "failed": 1, "conditions": [{"type": kind, "status": "True"}]});
    check(job(json!({})), "InProgress JobNotStarted: Job not started");
    check(
        job(json!({"startTime": "2026-11-21T11:00:00Z", "active": 1})),
        "InProgress JobInProgress: Job in progress. success: 0, active: 1, failed: 0",
    );
    check(
        job(condition("Complete")),
        "Current : Job Completed. succeeded: 1/2",
    );
    check(
        job(condition("Failed")),
        "Failed! JobFailed: Job Failed. failed: 1/2",
    );
    check(job(condition("Suspended")), "Current : Job is suspended");
}

#[test]
fn pods() {
    let pod = |status| object("v1", "Pod", json!({}), status);
    check(
        pod(json!({})),
        "InProgress PodNotObserved: Pod phase not available",
    );
    check(
        pod(json!({"phase": "Succeeded"})),
        "Current : Pod has completed successfully",
    );
    check(
        pod(json!({"phase": "Failed"})),
        "Current : Pod has completed, but not successfully",
    );
    check(
        pod(json!({"phase": "Pending"})),
        "InProgress PodPending: Pod is in the Pending phase",
    );
    check(
        pod(json!({"phase": "Running"})),
        "InProgress PodRunningNotReady: Pod is running but is not Ready",
    );
    check(
        pod(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
        "Current : Pod is Ready",
    );
    check(
        pod(json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "state": {"running": {}}},
            {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]})),
        "Failed ContainerCrashLooping: Containers in CrashLoop state: b",
    );
    let unschedulable = |created: &str| {
        let status = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        let mut pod = pod(status);
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod
    };
    check(
        unschedulable("2026-11-21T11:59:50Z"),
        "InProgress PodNotScheduled: Pod has not been scheduled",
    );
    check(
        unschedulable("2026-11-21T11:59:40Z"),
        "Failed PodUnschedulable: Pod could not be scheduled",
    );
}

#[test]
fn what_workloads_lean_on() {
    check(
        object("v1", "Service", json!({}), json!({})),
        "Current : Service is ready",
    );
    check(
        object("v1", "Service", json!({"type": "LoadBalancer"}), json!({})),
        "InProgress NoIPAssigned: ClusterIP not set. Service type: LoadBalancer",
    );
    check(
        object(
            "v1",
            "Service",
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
            json!({}),
        ),
        "Current : Service is ready",
    );
    let claim = |status| object("v1", "PersistentVolumeClaim", json!({}), status);
    check(
        claim(json!({})),
        "InProgress NotBound: PVC is not Bound. phase: unknown",
    );
    check(
        claim(json!({"phase": "Pending"})),
        "InProgress NotBound: PVC is not Bound. phase: Pending",
    );
    check(claim(json!({"phase": "Bound"})), "Current : PVC is Bound");
    check(
        object("v1", "ConfigMap", json!({}), json!({})),
        "Current : Resource is always ready",
    );
    check(
        object("v1", "Secret", json!({}), json!({})),
        "Current : Resource is always ready",
    );
    check(
        object("batch/v1", "CronJob", json!({}), json!({})),
        "Current : Resource is always ready",
    );
    check(
        object("policy/v1", "PodDisruptionBudget", json!({}), json!({})),
        "Current : AllowedDisruptions has been computed.",
    );
    check(
        object(
            "policy/v1",
            "PodDisruptionBudget",
            json!({}),
            json!({"observedGeneration": 1}),
        ),
        "InProgress LatestGenerationNotObserved: PodDisruptionBudget generation is 2, but latest observed generation is 1",
    );
}

#[test]
fn definitions() {
    let crd = |conditions| {
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({}),
            json!({"conditions": conditions}),
        )
    };
    check(crd(json!([])), "InProgress Installing: Install in progress");
    check(
        crd(json!([{"type": "Established", "status": "False", "reason": "Installing"}])),
        "InProgress Installing: Install in progress",
    );
    check(
        crd(json!([{"type": "NamesAccepted", "status": "False", "reason": "Conflict", "message": "taken"}])),
        "Failed! Conflict: taken",
    );
    check(
        crd(json!([{"type": "Established", "status": "False", "reason": "NotAccepted", "message": "no"}])),
        "Failed! NotAccepted: no",
    );
    check(
        crd(json!([{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}])),
        "Current : CRD is established",
    );
}

#[test]
fn autoscalers() {
    let autoscaler = |kind: &str, status: &str| {
        let conditions = json!([{"type": kind, "status": status, "reason": "FailedGetScale", "message": "no such target"}]);
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({}),
            json!({"conditions": conditions}),
        )
    };
    check(
        autoscaler("AbleToScale", "False"),
        "InProgress FailedGetScale: no such target",
    );
    check(
        autoscaler("AbleToScale", "True"),
        "Current : Autoscaler is able to scale",
    );
    check(
        autoscaler("ScalingActive", "False"),
        "Current : Autoscaler is able to scale",
    );
}

#[test]
fn any_kind() {
    let thing = |status| object("example.org/v1", "Thing", json!({}), status);
    let with = |kind: &str, status: &str| {
        thing(
            json!({"conditions": [{"type": kind, "status": status, "reason": "Why", "message": "because"}]}),
        )
    };
    check(thing(json!({})), "Current : Resource is current");
    check(with("Ready", "True"), "Current : Resource is Ready");
    check(with("Ready", "False"), "InProgress Why: because");
    check(with("Ready", "Unknown"), "InProgress Why: because");
    check(with("Reconciling", "True"), "InProgress Why: because");
    check(with("Stalled", "True"), "Failed! Why: because");
    check(with("Stalled", "False"), "Current : Resource is current");
    check(
        thing(json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]})),
        "InProgress LatestGenerationNotObserved: Thing generation is 2, but latest observed generation is 1",
    );
    // A kind of another group that only shares the name of a built-in one has no rule.
    check(
        object("example.org/v1", "Deployment", json!({"replicas": 2}), json!({})),
        "Current : Resource is current",
    );
    let mut leaving = with("Ready", "True");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
    check(
        leaving,
        "Terminating Terminating: Resource scheduled for deletion",
    );
}

#[test]
fn what_is_no_object_is_no_trouble() {
    for odd in [
        json!(null),
        json!([]),
        json!({"status": {"conditions": "none"}}),
        json!({"status": {"conditions": [1]}}),
    ] {
        assert_eq!(
            health::of(&odd, Timestamp::UNIX_EPOCH).state,
            State::Current,
            "{odd}"
        );
    }
}

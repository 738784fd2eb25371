//! The verdict of a row, by real messages of Flux's controllers and muster's own.

use muster_api::{
    assemblage::{FailureClass, SyncPhase},
    plan::PlanReport,
};
use muster_controllers::expand::{
    observed::{KustomizationRow, ObservedPlan, Ready, Report},
    verdict::{Evidence, Verdict, row_verdict},
};
use serde_json::json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const GENERATION: i64 = 3;

fn ready(status: Option<bool>, reason: &str, message: &str) -> Ready {
    Ready {
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        generation: Some(GENERATION),
        since: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn report(ready: Ready) -> Report {
    Report {
        ready: Some(ready),
        observed_generation: Some(GENERATION),
        handled: None,
        shared: None,
        assumed: None,
        has_custom: false,
        rolls_out: None,
        progress: None,
        plan: None,
        applied_commit: Some(COMMIT.to_owned()),
    }
}

fn of(report: &Report, source: Option<&str>, away: Option<&str>) -> Verdict {
    row_verdict(&Evidence {
        generation: GENERATION,
        report,
        commit: COMMIT,
        source,
        away,
    })
}

/// A verdict, in one line.
fn line(verdict: &Verdict) -> String {
    let phase = match verdict.phase {
        SyncPhase::Succeeded => "succeeded",
        SyncPhase::Failed => "failed",
        SyncPhase::Updating => "updating",
        SyncPhase::Withdrawing | SyncPhase::Withdrawn => "impossible",
    };
    let class = match verdict.class {
        Some(FailureClass::Revision) => " Revision",
        Some(FailureClass::Unit) => " Unit",
        Some(FailureClass::Infra) => " Infra",
        None => "",
    };
    format!(
        "{phase}{class}{}",
        if verdict.terminal { " terminal" } else { "" }
    )
}

#[track_caller]
fn check(reason: &str, message: &str, expect: &str) {
    let verdict = of(&report(ready(Some(false), reason, message)), None, None);
    assert_eq!(line(&verdict), expect, "{reason}: {message}");
    assert_eq!(verdict.reason.as_deref(), Some(reason), "{message}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn failures_by_reason_and_words() {
    for (reason, message, expect) in [
        // The content cannot be built, or does not exist.
        (
            "BuildFailed",
            "kustomize build failed: accumulating resources: accumulation err='accumulating resources from 'deploy.yaml'",
            "failed Revision terminal",
        ),
        (
            "BuildFailed",
            "web/app.yaml:3:1: duplicate key \"data\"",
            "failed Revision terminal",
        ),
        (
            "MisreadName",
            "app/b.yaml:4:9: metadata.name \"a__b\" would be recorded as the name of another object",
            "failed Unit",
        ),
        (
            "EmptyWouldPruneAll",
            "the path contains no objects, and applying it would prune everything that was applied",
            "failed Revision terminal",
        ),
        (
            "ArtifactFailed",
            "kustomization path not found: stat /tmp/kustomization-1845/nope: no such file or directory",
            "failed Revision terminal",
        ),
        // The source is unavailable.
        (
            "ArtifactFailed",
            "Source artifact not found, retrying in 30s",
            "updating Infra",
        ),
        (
            "ArtifactFailed",
            "failed to download archive: GET http://source-controller/x.tar.gz giving up after 10 attempt(s): connection refused",
            "updating Infra",
        ),
        (
            "DependencyNotReady",
            "dependency 'flux-system/base' is not ready",
            "updating Infra",
        ),
        (
            "HealthCheckCanceled",
            "New reconciliation triggered by GitRepository/flux-system/app",
            "updating Infra",
        ),
        // Another module of this cluster declares an object differently.
        (
            "SharedObject",
            "Namespace/web is managed by Kustomization fleet/base, and metadata.labels.team is declared differently there",
            "failed Unit",
        ),
        // Health.
        (
            "HealthCheckFailed",
            "failed early due to stalled resources: [Deployment/shop/web status: 'Failed']",
            "failed Revision terminal",
        ),
        (
            "HealthCheckFailed",
            "failed early due to stalled resources: [Job/shop/migrate status: 'Failed': dial tcp: connection refused]",
            "failed Revision terminal",
        ),
        (
            "HealthCheckFailed",
            "timeout waiting for: [Deployment/shop/web status: 'InProgress']",
            "failed Revision",
        ),
        (
            "HealthCheckFailed",
            "timeout waiting for: [Deployment/shop/web status: 'InProgress': context deadline exceeded]",
            "failed Revision",
        ),
        (
            "HealthCheckFailed",
            "timeout waiting for: [Deployment/shop/web status: 'Unknown': Get \"https://10.0.0.1:443/apis\": dial tcp 10.0.0.1:443: connect: connection refused]",
            "updating Infra",
        ),
        // Applying: the content.
        (
            "ReconciliationFailed",
            "Deployment/shop/web dry-run failed (Invalid): Deployment.apps \"web\" is invalid: spec.selector: Invalid value: field is immutable",
            "failed Revision",
        ),
        (
            "ReconciliationFailed",
            "StatefulSet/shop/db dry-run failed (Invalid): StatefulSet.apps \"db\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas'",
            "failed Revision",
        ),
        (
            "ReconciliationFailed",
            "Widget/shop/w dry-run failed: no matches for kind \"Widget\" in version \"t.example/v1\"",
            "failed Revision",
        ),
        // Applying: the cluster.
        (
            "ReconciliationFailed",
            "Deployment/shop/web dry-run failed (Forbidden): deployments.apps \"web\" is forbidden: User \"system:serviceaccount:a:b\" cannot patch resource \"deployments\"",
            "failed Unit",
        ),
        (
            "ReconciliationFailed",
            "ConfigMap/shop/a dry-run failed (Forbidden): configmaps \"a\" is forbidden: exceeded quota: small, requested: configmaps=1",
            "failed Unit",
        ),
        (
            "ReconciliationFailed",
            "ConfigMap/nope/a not found: namespaces \"nope\" not found",
            "failed Unit",
        ),
        (
            "PruneFailed",
            "delete failed, errors: ConfigMap/shop/a delete failed: admission webhook denied the request",
            "failed Unit",
        ),
        // An object blocked by a finalizer says nothing about the version that removes it, or re-creates it.
        (
            "PruneFailed",
            "pruning is not done after 5m: waiting for the termination of Widget/a; see metadata.finalizers of the object for what blocks it",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Widget/a is being deleted; it is created again once it is gone; 3 of later stages not tried",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Widget/a was deleted to be re-created, but is not gone yet; its finalizers are still pending",
            "updating Infra",
        ),
        // Applying: the network.
        (
            "ReconciliationFailed",
            "failed to build kube client: unable to read KubeConfig secret 'fleet/eu-1-kubeconfig'",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Namespace/shop dry-run failed: Patch \"https://10.0.0.1:443/api\": dial tcp 10.0.0.1:443: i/o timeout",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Namespace/shop dry-run failed: Patch \"https://10.0.0.1:443/api\": context deadline exceeded",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Namespace/shop dry-run failed (Unauthorized): Unauthorized",
            "updating Infra",
        ),
        (
            "PruneFailed",
            "delete failed: Delete \"https://10.0.0.1:443/api\": read: connection reset by peer",
            "updating Infra",
        ),
        // A webhook that cannot be called says nothing about the reviewed object; one that denies it does.
        (
            "ReconciliationFailed",
            "Deployment/shop/a dry-run failed (InternalError): Internal error occurred: failed calling webhook \"policy.example.com\": no endpoints available for service \"policy\"",
            "updating Infra",
        ),
        (
            "ReconciliationFailed",
            "Deployment/shop/a dry-run failed (Invalid): admission webhook \"policy.example.com\" denied the request: no such label",
            "failed Revision",
        ),
        // Messages that say nothing about the row.
        ("SomethingNew", "whatever", "updating"),
    ] {
        check(reason, message, expect);
    }
}

/// A finalizer may take longer than a rollout waits: meanwhile no deadline of it runs, and the message names what is
/// waited for.
#[test]
fn the_end_of_a_pruned_object_is_waited_for_without_a_deadline() {
    let awaited = "waiting for the termination of Widget/a";
    let verdict = of(&report(ready(None, "Progressing", awaited)), None, None);
    assert_eq!(line(&verdict), "updating Infra");
    assert_eq!(verdict.message.as_deref(), Some(awaited));
}

#[test]
fn a_failure_does_not_count_while_source_or_cluster_are_unreachable() {
    let failed = report(ready(Some(false), "BuildFailed", "broken"));
    for (source, away) in [
        (Some("GitFailed: no such host"), None),
        (None, Some("Unreachable: five failures in a row")),
        (Some("x"), Some("y")),
    ] {
        assert_eq!(
            line(&of(&failed, source, away)),
            "updating Infra",
            "{source:?} {away:?}"
        );
    }
}

#[test]
fn success_counts_only_at_the_current_generation_and_commit() {
    let good = report(ready(Some(true), "ReconciliationSucceeded", "Applied revision"));
    assert_eq!(line(&of(&good, None, None)), "succeeded");
    assert_eq!(
        line(&of(
            &good,
            Some("it cannot be fetched any more"),
            Some("unreachable")
        )),
        "succeeded",
        "an observed result remains"
    );

    assert_eq!(of(&good, None, None).message, None);
    let mut shared = good.clone();
    shared.shared = Some("Namespace/web is managed by Kustomization fleet/base".to_owned());
    assert_eq!(line(&of(&shared, None, None)), "succeeded");
    assert_eq!(of(&shared, None, None).message, shared.shared, "a note");

    let mut other = good.clone();
    other.applied_commit = Some("f".repeat(40));
    assert_eq!(line(&of(&other, None, None)), "updating", "another commit");
    other.applied_commit = None;
    assert_eq!(line(&of(&other, None, None)), "updating", "no commit");

    let mut other = good.clone();
    other.observed_generation = Some(GENERATION - 1);
    assert_eq!(
        line(&of(&other, None, None)),
        "updating",
        "status is of an earlier generation"
    );

    let mut other = good.clone();
    other.ready.as_mut().unwrap().generation = Some(GENERATION - 1);
    assert_eq!(
        line(&of(&other, None, None)),
        "updating",
        "Ready is of an earlier generation"
    );
    other.ready.as_mut().unwrap().generation = None;
    assert_eq!(
        line(&of(&other, None, None)),
        "updating",
        "Ready of no generation"
    );
    other.ready = None;
    assert_eq!(line(&of(&other, None, None)), "updating", "no condition at all");
}

#[test]
fn what_is_in_progress_changes_nothing() {
    let verdict = of(
        &report(ready(None, "Progressing", "Reconciliation in progress")),
        None,
        None,
    );
    assert_eq!(line(&verdict), "updating");
    assert_eq!(verdict.message.as_deref(), Some("Reconciliation in progress"));
    let mut old = report(ready(Some(false), "BuildFailed", "of the commit before"));
    old.ready.as_mut().unwrap().generation = Some(GENERATION - 1);
    assert_eq!(
        line(&of(&old, None, None)),
        "updating",
        "a failure of the generation before is none of this one"
    );
}

#[test]
fn the_failing_object_comes_first() {
    #[track_caller]
    fn check(status: Option<bool>, message: &str, expect: &str) {
        let verdict = of(&report(ready(status, "HealthCheckFailed", message)), None, None);
        assert_eq!(verdict.message.as_deref(), Some(expect), "{message}");
    }
    const FAILED: &str =
        "Deployment/shop/web status: 'Failed': Progress deadline exceeded: pod web-1: container app: [oops]";
    check(
        Some(false),
        &format!("health check failed: failed early due to stalled resources: [{FAILED}]"),
        FAILED,
    );
    check(
        Some(false),
        "health check failed after 1m30s: timeout waiting for: [Job/shop/a status: 'InProgress', Job/shop/b status: 'Unknown']",
        "Job/shop/a status: 'InProgress', Job/shop/b status: 'Unknown' (after 1m30s)",
    );
    check(
        None,
        "Running health checks for revision v1@sha1:0123 with a timeout of 5m: Job/shop/a status: 'InProgress': 0/1",
        "Job/shop/a status: 'InProgress': 0/1",
    );
    // Other messages stay as they are.
    for message in [
        "Running health checks for revision main@sha1:0123 with a timeout of 29.95s",
        "health check failed after 30s: context canceled",
        "unable to read: [a, b]",
        "",
    ] {
        check(Some(false), message, message);
    }
}

/// Objects assumed healthy without evidence are reported with the success, and with nothing else; they are of the
/// current generation.
#[test]
fn what_was_assumed_is_passed_on() {
    let object = |healthy: serde_json::Value| {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "app", "namespace": "ns", "generation": GENERATION},
            "spec": {"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}},
            "status": {"conditions": [healthy]},
        });
        KustomizationRow::of(&serde_json::from_value(object).unwrap())
    };
    let words = "2 objects without evidence from their controllers within 30s: Widget/web/a (Ready=True is from before), and 1 more";
    let condition = |status: &str, reason: &str, generation: i64, message: &str| {
        json!({
            "type": "Healthy", "status": status, "reason": reason, "observedGeneration": generation, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let assumed = object(condition("True", "Assumed", GENERATION, words))
        .report
        .assumed;
    assert_eq!(assumed.as_ref().unwrap().to_string(), words);
    for other in [
        condition("True", "Assumed", GENERATION - 1, words),
        condition("Unknown", "Assumed", GENERATION, words),
        condition("True", "Succeeded", GENERATION, words),
        condition("True", "Assumed", GENERATION, "others said so"),
    ] {
        assert_eq!(object(other).report.assumed, None);
    }
    for (status, expect) in [(Some(true), assumed.clone()), (Some(false), None), (None, None)] {
        let report = Report {
            assumed: assumed.clone(),
            ..report(ready(status, "HealthCheckFailed", ""))
        };
        assert_eq!(of(&report, None, None).assumed, expect);
    }
}

#[test]
fn a_plan_that_failed_is_of_the_class_of_its_step() {
    for (class, expect) in [
        (FailureClass::Revision, "failed Revision terminal"),
        (FailureClass::Unit, "failed Unit"),
        (FailureClass::Infra, "updating Infra"),
    ] {
        // These are messages of an unreachable API: they have no meaning here.
        let ready = ready(
            Some(false),
            "PlanFailed",
            "plan deploy: step a/b failed: connection refused",
        );
        let report = Report {
            plan: Some(ObservedPlan {
                report: PlanReport::parse("deploy 1/2 a/b FatalError (run 1a2b)"),
                class: Some(class),
            }),
            ..report(ready)
        };
        let verdict = of(&report, None, None);
        assert_eq!(line(&verdict), expect);
        let plan = verdict.plan.unwrap();
        assert_eq!((&*plan.line, &*plan.run), ("deploy 1/2 a/b FatalError", "1a2b"));
    }
}

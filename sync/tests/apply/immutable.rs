//! An immutable field is named; with force the object is deleted and created again.

use kube::core::Status;
use muster_sync::apply::{ApplyError, ApplyOutcome, immutable};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, deployment, secret};

const PATH: &str = "/apis/apps/v1/namespaces/default/deployments/d";

fn with_other_selector() -> Value {
    let mut other = deployment("d", "nginx");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    other
}

#[tokio::test(start_paused = true)]
async fn without_force_the_field_is_named() {
    let bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    let error = bed.apply(&[with_other_selector()]).await.unwrap_err().to_string();
    let advice = "spec.selector cannot be changed: set spec.force, or the annotation \
                  kustomize.toolkit.fluxcd.io/force: enabled on the object, to delete it and create it again";
    assert!(
        error.starts_with("Deployment/default/d dry-run failed (Invalid): "),
        "{error}"
    );
    assert!(error.ends_with(advice), "{error}");
}

#[tokio::test(start_paused = true)]
async fn with_force_the_object_is_another_one() {
    let mut bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    let before = bed.read(PATH).await.unwrap();
    bed.options.force = true;
    assert_eq!(
        bed.applied(&[with_other_selector()]).await["Deployment/default/d"],
        ApplyOutcome::Recreated
    );
    let after = bed.read(PATH).await.unwrap();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(after["spec"]["selector"]["matchLabels"], json!({"app": "other"}));
}

#[tokio::test(start_paused = true)]
async fn an_object_may_ask_for_force_by_itself() {
    let bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    let mut other = with_other_selector();
    other["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/force": "enabled"});
    assert_eq!(
        bed.applied(&[other]).await["Deployment/default/d"],
        ApplyOutcome::Recreated
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_will_not_go_is_waited_for_no_longer_than_allowed() {
    let mut bed = Bed::new();
    bed.options.force = true;
    let mut held = deployment("d", "nginx");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    bed.applied(&[held]).await;
    let error = bed.apply(&[with_other_selector()]).await.unwrap_err();
    insta::assert_snapshot!(error, @"Deployment/default/d was deleted to be re-created, but is not gone yet; its finalizers are still pending");
    let again = bed.apply(&[with_other_selector()]).await.unwrap_err();
    insta::assert_snapshot!(again, @"Deployment/default/d is being deleted; it is created again once it is gone");
}

#[tokio::test(start_paused = true)]
async fn the_live_object_may_ask_for_force_too() {
    let bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    let annotations = json!({"kustomize.toolkit.fluxcd.io/force": "enabled"});
    bed.edit(PATH, json!({"metadata": {"annotations": annotations}}))
        .await;
    assert_eq!(
        bed.applied(&[with_other_selector()]).await["Deployment/default/d"],
        ApplyOutcome::Recreated
    );
}

/// It would be deleted, and could not be created again.
#[tokio::test(start_paused = true)]
async fn an_immutable_change_that_is_also_invalid_deletes_nothing() {
    let mut bed = Bed::new();
    bed.applied(&[deployment("d", "nginx")]).await;
    bed.options.force = true;
    let before = bed.read(PATH).await;
    let mut worse = with_other_selector();
    worse["spec"]["replicas"] = json!(-1);
    let error = bed.apply(&[worse]).await.unwrap_err();
    let ApplyError::Objects { failures, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(failures[0].reason, "Invalid");
    assert!(!error.to_string().contains("set spec.force"), "{error}");
    assert_eq!(bed.read(PATH).await, before);
}

/// The most common kinds with immutable fields.
#[tokio::test(start_paused = true)]
async fn with_force_any_kind_is_another_one() {
    let mut bed = Bed::new();
    bed.options.force = true;
    let fixed = |value: &str| {
        let mut object = config_map("c", &json!({"k": value}));
        object["immutable"] = json!(true);
        object
    };
    let typed = |of: &str| {
        let mut object = secret("s", &json!({"k": "v"}));
        object["type"] = json!(of);
        object
    };
    let binding = |role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
    };
    bed.applied(&[fixed("one"), typed("example.org/one"), binding("one")])
        .await;
    let outcomes = bed
        .applied(&[fixed("two"), typed("example.org/two"), binding("two")])
        .await;
    assert!(
        outcomes
            .values()
            .all(|outcome| *outcome == ApplyOutcome::Recreated),
        "{outcomes:?}"
    );
}

fn refusal(code: u16, message: &str, causes: &[(&str, &str)]) -> Status {
    let causes: Vec<Value> = causes
        .iter()
        .map(|(field, message)| json!({"reason": "FieldValueInvalid", "field": field, "message": message}))
        .collect();
    let status = json!({"status": "Failure", "code": code, "message": message, "reason": "Invalid",
        "details": {"causes": causes}});
    serde_json::from_value(status).unwrap()
}

/// Messages of kube-apiserver 1.36, one for each rule that has its own wording.
#[test]
fn the_words_of_every_rule_are_known() {
    #[track_caller]
    fn check(status: &Status, expect: &[&str]) {
        let fields = immutable::fields(status).unwrap_or_default();
        assert_eq!(fields, expect);
    }
    for (field, message) in [
        (
            "spec.selector",
            r#"Invalid value: {"matchLabels":{"app":"x"}}: field is immutable"#,
        ),
        ("data", "Forbidden: field is immutable when `immutable` is set"),
        ("roleRef", "Invalid value: {}: cannot change roleRef"),
        (
            "spec.clusterIPs[0]",
            r#"Invalid value: ["10.0.0.1"]: may not change once set"#,
        ),
        (
            "spec",
            "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
        (
            "spec",
            "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
        ),
        ("parameters", "Forbidden: updates to parameters are forbidden."),
        (
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
        ),
        ("value", "Forbidden: may not be changed in an update."),
        ("spec.size", "Invalid value: 3: Value is immutable"),
    ] {
        check(&refusal(422, "is invalid", &[(field, message)]), &[field]);
    }
    let immutable = ("spec.a", "Invalid value: 1: field is immutable");
    let twice = [
        immutable,
        immutable,
        ("spec.b", "Invalid value: 1: field is immutable"),
    ];
    check(&refusal(422, "is invalid", &twice), &["spec.a", "spec.b"]);
    let besides = [immutable, ("spec.b", "Required value")];
    check(&refusal(422, "is invalid", &besides), &[]);
    check(&refusal(422, "is invalid", &[("spec.b", "Required value")]), &[]);
    check(
        &refusal(422, "is invalid", &[("", "a is immutable")]),
        &["the object"],
    );
    // Policies and webhooks only have the message, with any status code.
    check(
        &refusal(422, "denied: the class is immutable", &[]),
        &["the object"],
    );
    check(
        &refusal(
            403,
            "admission webhook \"w\" denied the request: immutable field x",
            &[],
        ),
        &["the object"],
    );
    check(&refusal(403, "is forbidden: cannot change anything", &[]), &[]);
    check(&refusal(500, "failed calling webhook: x is immutable", &[]), &[]);
}

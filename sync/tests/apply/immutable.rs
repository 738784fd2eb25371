//! A field that cannot be changed is named; with force the object is created anew.

use muster_sync::apply::Outcome;
use serde_json::{Value, json};

use crate::support::{Bed, deployment};

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
        Outcome::Recreated
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
        Outcome::Recreated
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
    insta::assert_snapshot!(error, @"Deployment/default/d was deleted to be created again, and is not gone yet; its finalizers hold it");
    let again = bed.apply(&[with_other_selector()]).await.unwrap_err();
    insta::assert_snapshot!(again, @"Deployment/default/d is being deleted; it is created again once it is gone");
}

//! Promise: a control by annotation takes effect, is shown in the status, and expires on time; an invalid one stops its
//! module, and no other.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use muster_api::Module;
use serde_json::{Value, json};

use crate::bed::*;

async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web", "other"], tag);
    }
    bed.deploy("other", "one", json!({})).await;
    bed.deploy("web", "one", json!({"rollout": {"minReadySeconds": 30}}))
        .await;
    bed
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_until_its_time_and_is_said_back_once() {
    let mut bed = deployed().await;
    let until = bed.clock.now() + Duration::from_mins(20);
    let control = json!({"by": "ann", "reason": "freeze", "at": bed.clock.now(), "until": until});
    bed.annotate("web", "paused", Some(&control.to_string())).await;
    bed.patch("web", version("two")).await;
    let message = bed.until_said("web", "Paused", "True Paused").await;
    let at = control["at"].as_str().unwrap();
    let expect = format!(
        "the rollout is paused by ann (freeze) since {at} until {until}; to resume: kubectl annotate --namespace fleet \
         --field-manager=muster-cli module/web fleet.muster.dev/paused-; no new updates start, those in progress finish"
    );
    assert_eq!(message, expect);
    pass(Duration::from_mins(4)).await;
    bed.crash_controller();
    bed.start_controller();
    pass(Duration::from_mins(12)).await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    assert_eq!(
        bed.event_notes("ControlApplied").await,
        [format!("fleet.muster.dev/paused: {expect}")]
    );
    // It expires at that time.
    bed.until("it goes on", || async {
        (bed.text("eu-1", "web").await.as_deref() == Some("two")).then_some(())
    })
    .await;
    assert!((bed.clock.now().duration_since(until)).as_secs() < 5);
    let module = bed.until_ready("web").await;
    assert_eq!(condition(&module, "Paused"), None);
}

/// `kubectl get` distinguishes a module that is done because it is paused or held from one that is simply done.
#[tokio::test(start_paused = true)]
async fn a_pause_and_a_hold_are_in_the_state_of_a_module_at_rest() {
    let bed = deployed().await;
    let until = async |state: &str| {
        bed.until(state, || async {
            let module = bed.module("web").await?;
            (module["status"]["state"] == state).then_some(())
        })
        .await;
    };
    until("Succeeded").await;
    bed.annotate("web", "hold", Some("eu-1")).await;
    until("Succeeded,Held").await;
    bed.annotate("web", "paused", Some("true")).await;
    until("Succeeded,Paused,Held").await;
    bed.annotate("web", "hold", None).await;
    until("Succeeded,Paused").await;
    bed.patch("web", json!({"spec": {"suspend": true}})).await;
    until("Suspended").await;
    bed.patch("web", json!({"spec": {"suspend": false}})).await;
    bed.annotate("web", "paused", None).await;
    until("Succeeded").await;
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_module_finishes_in_flight_clusters_and_starts_none() {
    let bed = deployed().await;
    bed.patch("web", version("two")).await;
    bed.until("eu-1 is being changed", || async {
        (bed.text("eu-1", "web").await.as_deref() == Some("two")).then_some(())
    })
    .await;
    bed.annotate("web", "paused", Some("true")).await;
    pass(Duration::from_mins(4)).await;
    assert_eq!(bed.texts("web").await, ["two", "one", "one"]);
    assert_eq!(
        bed.module("web").await.unwrap()["status"]["summary"]["updated"],
        1
    );
    bed.annotate("web", "paused", None).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_control_stops_its_module_and_no_other() {
    let bed = deployed().await;
    let cases = [
        (
            "paused",
            "{nonsense",
            "False InvalidControl",
            "annotation fleet.muster.dev/paused cannot be read: it begins with { but is not valid JSON",
        ),
        (
            "acknowledge-withdrawal",
            "{\"fro\": \"x\"}",
            "False InvalidControl",
            "annotation fleet.muster.dev/acknowledge-withdrawal cannot be read: unknown field `fro`",
        ),
        (
            "abandon",
            "{",
            "False InvalidControl",
            "annotation fleet.muster.dev/abandon cannot be read",
        ),
        (
            "hold",
            "{",
            "False InvalidControl",
            "annotation fleet.muster.dev/hold cannot be read",
        ),
        (
            "pin",
            "x",
            "False InvalidControl",
            "annotation fleet.muster.dev/pin cannot be read: \"x\" is not of the form CLUSTER@REVISION",
        ),
        (
            "pin",
            "eu-1@01234567,eu-1@89abcdef",
            "False InvalidControl",
            "annotation fleet.muster.dev/pin cannot be read: it names cluster eu-1 twice",
        ),
        (
            "hold",
            r#"{"for": "eu-1", "until": "2270-01-01T00:00:00Z"}"#,
            "False InvalidControl",
            "annotation fleet.muster.dev/hold cannot be read: until is 2270-01-01T00:00:00Z, more than a year from now",
        ),
        (
            "paused",
            r#"{"for": "true", "until": "2270-01-01T00:00:00Z"}"#,
            "False InvalidControl",
            "annotation fleet.muster.dev/paused cannot be read: until is 2270-01-01T00:00:00Z, more than a year from now",
        ),
        (
            "abort",
            "x",
            "False InvalidControl",
            "annotation fleet.muster.dev/abort cannot be read: \"x\" is not a revision: write 8 or more digits of its hash",
        ),
        (
            "approve",
            "01234567",
            "False InvalidControl",
            "annotation fleet.muster.dev/approve cannot be read: \"01234567\" is not of the form STAGE@REVISION",
        ),
        (
            "promote",
            "",
            "False InvalidControl",
            "annotation fleet.muster.dev/promote cannot be read: it does not say what it is for",
        ),
        (
            "retry",
            "canary@01234567",
            "False InvalidControl",
            "annotation fleet.muster.dev/retry cannot be read: \"canary@01234567\" is not of the form REVISION",
        ),
    ];
    bed.patch("other", version("two")).await;
    for (key, value, expect, prefix) in cases {
        bed.annotate("web", key, Some(value)).await;
        bed.patch("web", version("two")).await;
        let message = bed.until_said("web", "Ready", expect).await;
        assert!(message.starts_with(prefix), "{message}");
        assert!(condition(&bed.module("web").await.unwrap(), "Stalled").is_some());
        pass(Duration::from_mins(1)).await;
        assert_eq!(bed.texts("web").await, ["one", "one", "one"], "{key}");
        bed.patch("web", version("one")).await;
        bed.annotate("web", key, None).await;
        bed.until_ready("web").await;
    }
    assert_eq!(bed.texts("other").await, ["two", "two", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_control_that_flux_would_remove_is_reported_with_the_command_that_keeps_it() {
    let bed = deployed().await;
    let write = async |manager: &str, patch: Value| {
        let by = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        bed.api::<Module>()
            .patch("web", &by, &Patch::Merge(patch))
            .await
            .unwrap();
    };
    let paused =
        |value: Option<&str>| json!({"metadata": {"annotations": {"fleet.muster.dev/paused": value}}});
    // No other manager applies it: it does not matter who writes.
    write("kubectl-annotate", paused(Some("true"))).await;
    bed.until_said("web", "Paused", "True Paused").await;
    write("kubectl-annotate", paused(None)).await;
    let gone = async || {
        bed.until("it is not paused", || async {
            condition(&bed.module("web").await?, "Paused")
                .is_none()
                .then_some(())
        })
        .await;
    };
    gone().await;
    assert_eq!(bed.event_notes("ControlAtRisk").await, Vec::<String>::new());
    write(
        "kustomize-controller",
        json!({"metadata": {"labels": {"from": "git"}}}),
    )
    .await;
    write("muster-cli", paused(Some("true"))).await;
    bed.until_said("web", "Paused", "True Paused").await;
    write("muster-cli", paused(None)).await;
    gone().await;
    assert_eq!(bed.event_notes("ControlAtRisk").await, Vec::<String>::new());
    write("kubectl-annotate", paused(Some("true"))).await;
    bed.until_said("web", "Paused", "True Paused").await;
    pass(Duration::from_mins(5)).await;
    let command = "kubectl annotate --namespace fleet --field-manager=muster-cli module/web";
    let expect = format!(
        "fleet.muster.dev/paused was written by kubectl-annotate, and Flux reverts what that manager writes: write it as muster-cli: \
         {command} fleet.muster.dev/paused- && {command} --overwrite fleet.muster.dev/paused=true"
    );
    assert_eq!(bed.event_notes("ControlAtRisk").await, [expect]);
}

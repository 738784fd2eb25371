//! Promise: a cluster that is no longer selected loses the module's objects, and gets them back when it is selected
//! again; many at once are held by the brake; a cluster that is only unreachable or not ready for a while loses
//! nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::{Value, json};

use crate::bed::*;

async fn deployed(clusters: &[&str]) -> Bed {
    let bed = Bed::new(clusters).await;
    bed.release("v1", &["web", "other"], "one");
    bed.deploy("other", "v1", json!({"selector": {"matchLabels": null}}))
        .await;
    bed.deploy("web", "v1", json!({})).await;
    bed
}

async fn label(bed: &Bed, cluster: &str, env: &str) {
    bed.patch_cluster(cluster, json!({"metadata": {"labels": {"env": env}}}))
        .await;
}

async fn until_texts(bed: &Bed, expect: &[&str]) {
    bed.until(&format!("web says {expect:?}"), || async {
        (bed.texts("web").await == expect).then_some(())
    })
    .await;
}

fn token(row: Option<&Value>) -> u64 {
    row.unwrap()["token"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn by_its_label_or_by_the_selector_and_back() {
    let bed = deployed(&CLUSTERS).await;
    let (web, other) = (bed.marks("web").await, bed.marks("other").await);
    let before = token(bed.row("eu-2", "web").await.as_ref());
    label(&bed, "eu-2", "dev").await;
    until_texts(&bed, &["one", "", "one"]).await;
    bed.until_ready("web").await;
    // The tombstone: only name and token, and the token did not decrease.
    let row = bed.row("eu-2", "web").await;
    bed.until("the withdrawal is confirmed", || async {
        let module = bed.module("web").await?;
        (module["status"]["summary"]["withdrawing"] == 0).then_some(())
    })
    .await;
    let left = token(row.as_ref());
    assert!(left > before);
    label(&bed, "eu-2", "prod").await;
    until_texts(&bed, &["one", "one", "one"]).await;
    assert!(token(bed.row("eu-2", "web").await.as_ref()) > left);

    bed.until_ready("web").await;
    label(&bed, "us-1", "dev").await;
    until_texts(&bed, &["one", "one", ""]).await;
    bed.until_ready("web").await;
    bed.patch("web", json!({"spec": {"selector": {"matchLabels": null, "matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "dev"]}]}}}))
        .await;
    until_texts(&bed, &["one", "one", "one"]).await;
    bed.until_ready("web").await;
    assert_eq!(bed.mark("eu-1", "web").await, web[0], "eu-1 was never touched");
    assert_eq!(bed.marks("other").await, other);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn selected_again_while_it_is_withdrawn_it_comes_back() {
    let mut bed = deployed(&CLUSTERS).await;
    bed.crash_agent("eu-2");
    label(&bed, "eu-2", "dev").await;
    bed.until("the row asks for withdrawal", || async {
        bed.row("eu-2", "web")
            .await
            .filter(|row| row["withdraw"] == "Prune")
    })
    .await;
    label(&bed, "eu-2", "prod").await;
    pass(Duration::from_mins(1)).await;
    bed.start_agent("eu-2");
    until_texts(&bed, &["one", "one", "one"]).await;
    bed.until_ready("web").await;
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn many_at_once_are_held_until_that_is_acknowledged() {
    let bed = deployed(&CLUSTERS).await;
    let web = bed.marks("web").await;
    bed.patch(
        "web",
        json!({"spec": {"selector": {"matchLabels": {"env": "pord"}}}}),
    )
    .await;
    let held = bed
        .until("it is held", || async {
            let module = bed.module("web").await?;
            let first = module["status"]["attention"][0].clone();
            (first["reason"] == "WithdrawalHeld").then_some(first)
        })
        .await;
    pass(Duration::from_mins(6)).await;
    assert_eq!(bed.marks("web").await, web);
    // A typo that is fixed has no effect at all.
    bed.patch(
        "web",
        json!({"spec": {"selector": {"matchLabels": {"env": "prod"}}}}),
    )
    .await;
    bed.until_ready("web").await;
    assert_eq!(bed.marks("web").await, web);

    bed.patch(
        "web",
        json!({"spec": {"selector": {"matchLabels": {"env": "pord"}}}}),
    )
    .await;
    let (_, digest) = held["message"].as_str().unwrap().rsplit_once('=').unwrap();
    bed.annotate("web", "acknowledge-withdrawal", Some(digest)).await;
    until_texts(&bed, &["", "", ""]).await;
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_for_a_while_loses_nothing() {
    let bed = deployed(&CLUSTERS).await;
    let (web, row) = (bed.marks("web").await, bed.row("eu-2", "web").await);
    let check = async |reason: &str| {
        bed.until(&format!("eu-2 is {reason}"), || async {
            let module = bed.module("web").await?;
            let first = &module["status"]["attention"][0];
            (first["cluster"] == "eu-2" && first["reason"] == reason).then_some(())
        })
        .await;
        pass(Duration::from_mins(6)).await;
        assert_eq!(bed.marks("web").await, web, "{reason}");
        assert_eq!(bed.row("eu-2", "web").await, row, "{reason}");
    };
    let back = async || {
        bed.until("eu-2 is back", || async {
            let module = bed.module("web").await?;
            (is_ready(&module) && module["status"]["attention"].is_null()).then_some(())
        })
        .await;
    };
    bed.patch_cluster(
        "eu-2",
        json!({"metadata": {"annotations": {"fleet.muster.dev/enrolled": null}}}),
    )
    .await;
    check("ControlPlaneNotReady").await;
    bed.patch_cluster(
        "eu-2",
        json!({"metadata": {"annotations": {"fleet.muster.dev/enrolled": ""}}}),
    )
    .await;
    back().await;

    bed.api::<Secret>()
        .delete("eu-2-kubeconfig", &DeleteParams::default())
        .await
        .unwrap();
    check("NoKubeconfig").await;
    bed.give_secret("eu-2").await;
    back().await;

    bed.patch_cluster("eu-2", json!({"spec": {"paused": true}})).await;
    check("ClusterPaused").await;
    // Also not from a cluster that was deselected meanwhile: nothing is done in a paused cluster.
    label(&bed, "eu-2", "dev").await;
    pass(Duration::from_mins(6)).await;
    assert_eq!(bed.marks("web").await, web);
    label(&bed, "eu-2", "prod").await;
    bed.patch_cluster("eu-2", json!({"spec": {"paused": false}}))
        .await;
    back().await;

    let gone = bed.clusters["eu-2"].faults().add(Rule::always(
        Match {
            client: Some("controller".to_owned()),
            ..Match::default()
        },
        Fault::Refuse,
    ));
    check("Unreachable").await;
    bed.clusters["eu-2"].faults().remove(gone);
    back().await;
    assert_eq!(bed.marks("web").await, web);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_person_wants_kept_is_kept() {
    let bed = deployed(&CLUSTERS).await;
    for (key, reason, expected) in [
        (
            "hold",
            "Held",
            "held for all modules; to release it: kubectl annotate --namespace fleet --field-manager=muster-cli cluster/eu-2 fleet.muster.dev/hold-",
        ),
        (
            "pin.web",
            "Pinned",
            "annotation fleet.muster.dev/pin.web on Cluster eu-2: \"x\" is not a revision: write 8 or more digits",
        ),
    ] {
        let key = format!("fleet.muster.dev/{key}");
        let annotate = async |value: Option<&str>| {
            let patch = json!({"metadata": {"annotations": {&key: value}, "labels": {"env": if value.is_some() { "dev" } else { "prod" }}}});
            bed.cluster_objects()
                .patch("eu-2", &PatchParams::default(), &Patch::Merge(patch))
                .await
                .unwrap();
        };
        annotate(Some("x")).await;
        let entry = bed
            .until(&format!("eu-2 is {reason}"), || async {
                let module = bed.module("web").await?;
                let first = module["status"]["attention"][0].clone();
                (first["cluster"] == "eu-2" && first["reason"] == reason).then_some(first)
            })
            .await;
        let message = entry["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
        pass(Duration::from_mins(2)).await;
        assert_eq!(bed.texts("web").await, ["one", "one", "one"], "{key}");
        annotate(None).await;
        bed.until_ready("web").await;
    }
}

/// Held clusters are kept through a rollout, which succeeds without them; when the hold ends they take their turn.
#[tokio::test(start_paused = true)]
async fn a_held_cluster_is_kept_until_the_hold_ends() {
    let bed = deployed(&CLUSTERS).await;
    bed.release("two", &["web", "other"], "two");
    let now = bed.clock.now();
    let until = now.checked_add(Duration::from_mins(5)).unwrap();
    let hold = json!({"for": "eu-2, eu-9", "by": "ann", "reason": "migration", "until": until}).to_string();
    bed.annotate("web", "hold", Some(&hold)).await;
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "one", "two"]);
    let module = bed.module("web").await.unwrap();
    let first = &module["status"]["attention"][0];
    assert_eq!(
        (&first["cluster"], &first["reason"]),
        (&json!("eu-2"), &json!("Held"))
    );
    let message = first["message"].as_str().unwrap();
    let expected = format!("held for this module by ann (migration) until {until}; to release it: kubectl");
    assert!(
        message.starts_with(&expected) && message.ends_with("fleet.muster.dev/hold=eu-9"),
        "{message}"
    );
    assert_eq!(module["status"]["summary"]["held"], 1);
    pass(Duration::from_mins(6)).await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}

/// The hold ends before any other event of the cluster: only the time changes.
#[tokio::test(start_paused = true)]
async fn a_hold_of_seconds_ends_by_itself() {
    let bed = deployed(&CLUSTERS).await;
    bed.release("two", &["web", "other"], "two");
    let until = bed.clock.now().checked_add(Duration::from_secs(3)).unwrap();
    let hold = json!({"for": "eu-2", "by": "ann", "until": until}).to_string();
    bed.annotate("web", "hold", Some(&hold)).await;
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "one", "two"]);
    pass(Duration::from_secs(5)).await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
}

//! Promise: a deleted module removes its objects, or leaves them, as `onDelete` says; from many clusters at once only
//! if that was set explicitly or is acknowledged; a cluster that cannot be reached is waited for by name, until a user
//! abandons it. No other module is touched.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams};
use muster_api::{Module, ModuleRevision};
use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::{Value, json};

use crate::bed::*;

async fn deployed(clusters: &[&str], spec: Value) -> Bed {
    let bed = Bed::new(clusters).await;
    bed.release("v1", &["web", "other"], "one");
    bed.deploy("other", "v1", json!({})).await;
    bed.deploy("web", "v1", spec).await;
    bed
}

async fn delete(bed: &Bed) {
    bed.api::<Module>()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
}

async fn nothing_of_web_is_left(bed: &Bed) {
    for cluster in bed.clusters.keys() {
        assert_eq!(bed.row(cluster, "web").await, None);
        assert!(bed.row(cluster, "other").await.is_some());
    }
    let revisions = bed
        .api::<ModuleRevision>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let modules: Vec<&str> = revisions
        .items
        .iter()
        .map(|one| one.spec.module_ref.name.as_str())
        .collect();
    assert_eq!(modules, ["other"]);
}

#[tokio::test(start_paused = true)]
async fn withdraw_removes_exactly_the_modules_objects() {
    let bed = deployed(&CLUSTERS, json!({"onDelete": "Withdraw"})).await;
    let others = bed.marks("other").await;
    delete(&bed).await;
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, ["", "", ""]);
    assert_eq!(bed.marks("other").await, others);
    bed.settled().await;
    nothing_of_web_is_left(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn orphan_touches_nothing() {
    let bed = deployed(&CLUSTERS, json!({"onDelete": "Orphan"})).await;
    let (web, others) = (bed.marks("web").await, bed.marks("other").await);
    delete(&bed).await;
    bed.until_gone("web").await;
    bed.settled().await;
    assert_eq!(bed.marks("web").await, web);
    assert_eq!(bed.marks("other").await, others);
    nothing_of_web_is_left(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn unset_it_withdraws_from_as_many_as_the_brake_allows() {
    let bed = deployed(&["eu-1"], json!({})).await;
    delete(&bed).await;
    bed.until_gone("web").await;
    assert_eq!(bed.text("eu-1", "web").await, None);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn unset_it_is_held_above_the_brake_until_it_is_acknowledged() {
    let mut bed = deployed(&CLUSTERS, json!({})).await;
    let web = bed.marks("web").await;
    delete(&bed).await;
    let message = bed.until_said("web", "Ready", "False WithdrawalHeld").await;
    let begin = "being deleted: 3 clusters would be withdrawn at once, more than rollout.withdraw.brake allows; nothing is withdrawn until \
                 this is acknowledged: kubectl annotate --namespace fleet --field-manager=muster-cli module/web --overwrite \
                 fleet.muster.dev/acknowledge-withdrawal=";
    let digest = message
        .strip_prefix(begin)
        .unwrap_or_else(|| panic!("{message}"))
        .to_owned();
    // Another digest acknowledges nothing, and a new leader knows that as well.
    bed.annotate("web", "acknowledge-withdrawal", Some("0123456789abcdef"))
        .await;
    pass(Duration::from_mins(2)).await;
    bed.crash_controller();
    bed.start_controller();
    pass(Duration::from_mins(2)).await;
    assert_eq!(bed.marks("web").await, web);
    let notes = bed.event_notes("WithdrawalHeld").await;
    assert!(
        !notes.is_empty() && notes.iter().all(|note| note.contains(&digest)),
        "{notes:?}"
    );
    assert_eq!(bed.event_notes("ControlApplied").await, Vec::<String>::new());

    let control = json!({"for": digest, "by": "ann", "reason": "it is over"}).to_string();
    bed.annotate("web", "acknowledge-withdrawal", Some(&control))
        .await;
    bed.until("the first is withdrawn", || async {
        (bed.texts("web").await.concat().len() < 9).then_some(())
    })
    .await;
    bed.crash_controller();
    bed.start_controller();
    bed.until_gone("web").await;
    assert_eq!(bed.texts("web").await, ["", "", ""]);
    assert_eq!(
        bed.event_notes("ControlApplied").await,
        [format!(
            "fleet.muster.dev/acknowledge-withdrawal: the withdrawal {digest} is acknowledged by ann (it is over), and begins"
        )]
    );
    bed.settled().await;
}

/// How to keep what a held deletion would remove, as printed by `muster why`.
#[tokio::test(start_paused = true)]
async fn held_and_then_orphaned_it_keeps_its_objects_and_git_takes_them_over() {
    let bed = deployed(&CLUSTERS, json!({})).await;
    let uids = async || -> Vec<String> {
        let marks = bed.marks("web").await;
        marks.into_iter().map(|(uid, _)| uid).collect()
    };
    let before = uids().await;
    delete(&bed).await;
    bed.until_said("web", "Ready", "False WithdrawalHeld").await;
    bed.patch("web", json!({"spec": {"onDelete": "Orphan"}})).await;
    bed.until_gone("web").await;
    nothing_of_web_is_left(&bed).await;
    bed.deploy("web", "v1", json!({})).await;
    assert_eq!(uids().await, before);
    for cluster in CLUSTERS {
        assert_eq!(bed.story(cluster, "web"), [Some("one".to_owned())], "{cluster}");
    }
    // It has an owner again: a new version changes it.
    bed.release("v2", &["web"], "two");
    bed.patch(
        "web",
        json!({"spec": {"sync": {"source": {"git": {"version": {"tag": "v2"}}}}}}),
    )
    .await;
    bed.until("all have the new version", || async {
        (bed.texts("web").await == ["two", "two", "two"]).then_some(())
    })
    .await;
    assert_eq!(uids().await, before);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_is_waited_for_by_name_until_it_is_given_up() {
    let bed = deployed(&CLUSTERS, json!({"onDelete": "Withdraw"})).await;
    let away = bed.clusters["eu-2"].faults().add(Rule::always(
        Match {
            client: Some("controller".to_owned()),
            ..Match::default()
        },
        Fault::Refuse,
    ));
    let mark = bed.mark("eu-2", "web").await;
    bed.until("eu-2 is unreachable", || async {
        let module = bed.module("web").await?;
        (module["status"]["attention"][0]["reason"] == "Unreachable").then_some(())
    })
    .await;
    let module = bed.until_ready("web").await;
    assert_eq!(
        condition(&module, "Ready").unwrap(),
        "True Succeeded: v1 is on 3 of 3 clusters, ready on 2; 1 skipped: eu-2 (Unreachable)"
    );
    assert_eq!(module["status"]["summary"]["ready"], 2);
    delete(&bed).await;
    let text = bed
        .until("only eu-2 is left", || async {
            let text = condition(&bed.module("web").await?, "Ready")?;
            let texts = bed.texts("web").await;
            (texts == ["", "one", ""]
                && text.starts_with("False Terminating: being deleted: 1 clusters still to be withdrawn"))
            .then_some(text)
        })
        .await;
    let command = "kubectl annotate --namespace fleet --field-manager=muster-cli module/web --overwrite fleet.muster.dev/abandon=eu-2";
    assert!(
        text.contains("waiting for eu-2 (Unreachable since 1970-01-01T00:"),
        "{text}"
    );
    assert!(text.ends_with(command), "{text}");
    pass(Duration::from_mins(20)).await;
    assert!(
        bed.module("web").await.is_some(),
        "nothing is abandoned automatically"
    );

    bed.annotate("web", "abandon", Some("eu-2")).await;
    bed.until_gone("web").await;
    let notes = bed.event_notes("ControlApplied").await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("fleet.muster.dev/abandon: eu-2 is abandoned: sync web at revision "),
        "{notes:?}"
    );
    assert_eq!(bed.row("eu-2", "web").await, None);
    // The cluster returns, and its objects stay, without an owner.
    bed.clusters["eu-2"].faults().remove(away);
    pass(Duration::from_mins(5)).await;
    assert_eq!(bed.mark("eu-2", "web").await, mark);
    bed.settled().await;
}

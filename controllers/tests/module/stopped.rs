//! Promise: a rollout that ends shows why, cause before effect, and which clusters it leaves unchanged: those count as
//! ready.

use kube::api::ListParams;
use muster_api::ModuleRevision;
use serde_json::json;

use crate::bed::*;

/// All clusters at `v1`.
async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("v1", &["web"], "one");
    bed.release("v2", &["web"], "two");
    bed.release_files("bad", [("web/all.yaml".to_owned(), "kind: [".to_owned())]);
    bed.deploy("web", "v1", json!({"rollout": {"minReadySeconds": 30}}))
        .await;
    bed
}

/// The reasons and notes of the events, starting with the first of this reason.
async fn since(bed: &Bed, reason: &str) -> Vec<String> {
    let events = bed.events().await;
    let last = events
        .iter()
        .rposition(|(event_reason, _)| event_reason == reason)
        .unwrap();
    events[last..]
        .iter()
        .map(|(reason, note)| format!("{reason}: {note}"))
        .collect()
}

fn begin_with(events: &[String], expect: &[&str]) {
    let fits = events.len() == expect.len()
        && events
            .iter()
            .zip(expect)
            .all(|(event, begin)| event.starts_with(begin));
    assert!(fits, "{events:#?} are not {expect:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_halted_rollout_names_the_failed_cluster_and_is_not_an_outage() {
    let bed = deployed().await;
    begin_with(
        &since(&bed, "RolloutStarted").await[3..],
        &[
            "ClusterUpdated: us-1: ready at v1",
            "RolloutFinished: v1 is ready on 3/3 clusters",
        ],
    );
    bed.patch("web", version("bad")).await;
    bed.until_said("web", "Halted", "True Halted").await;
    begin_with(
        &since(&bed, "RolloutStarted").await,
        &[
            "RolloutStarted: rolling out bad to 3 clusters",
            "ClusterFailed: eu-1: Failed: ",
            "RevisionCondemned: bad failed: eu-1: ",
            "RolloutHalted: bad is rolled out no further: it failed on eu-1; 2 clusters keep what they have",
        ],
    );
    let summary = bed.module("web").await.unwrap()["status"]["summary"].clone();
    assert_eq!(
        (&summary["clusters"], &summary["ready"], &summary["failed"]),
        (&json!("0/3"), &json!(2), &json!(1)),
        "the others have what they had, and it is well"
    );
}

#[tokio::test(start_paused = true)]
async fn an_aborted_rollout_reports_its_author_and_reason() {
    let bed = deployed().await;
    bed.patch("web", version("v2")).await;
    bed.until("eu-1 has it", || async {
        (bed.text("eu-1", "web").await.as_deref() == Some("two")).then_some(())
    })
    .await;
    let revision = bed.module("web").await.unwrap()["status"]["revision"].clone();
    let at = bed.clock.now();
    let control = json!({"for": revision, "by": "ann", "reason": "wrong branch", "at": at});
    bed.annotate("web", "abort", Some(&control.to_string())).await;
    let message = bed.until_said("web", "Halted", "True Aborted").await;
    let by = format!("aborted by ann (wrong branch) since {at}");
    let expect = format!("the rollout of v2 was {by}; next: commit another version");
    assert!(message.starts_with(&expect), "{message}");
    let note = format!("v2 is rolled out no further: it was {by}; 2 clusters keep what they have");
    assert_eq!(bed.event_notes("RolloutAborted").await, [note]);
    // The revision still shows it after the annotation was removed and other things have changed.
    bed.annotate("web", "abort", None).await;
    bed.patch("web", version("v1")).await;
    bed.until_ready("web").await;
    let revisions = bed.api::<ModuleRevision>();
    let revisions = revisions.list(&ListParams::default()).await.unwrap().items;
    let mut ready = revisions
        .iter()
        .filter(|one| revision == one.spec.revision)
        .flat_map(|one| &one.status.as_ref().unwrap().conditions);
    assert_eq!(ready.next().unwrap().message, by);
}

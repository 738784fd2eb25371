//! Promise: a pinned cluster gets its revision in its turn, keeps it until the pin ends, and then gets the target; an
//! invalid pin changes nothing there, and is reported.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use muster_api::ModuleRevision;
use serde_json::{Value, json};

use crate::bed::*;

/// All clusters at `two`; they had `one` before.
async fn deployed(rollout: Value) -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web"], tag);
    }
    bed.deploy("web", "one", json!({"rollout": rollout})).await;
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    bed
}

/// The hash of the revision of a tag.
async fn revision(bed: &Bed, tag: &str) -> String {
    let all = bed
        .api::<ModuleRevision>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let of_tag = all
        .into_iter()
        .find(|revision| revision.spec.sync.source.version().tag.as_deref() == Some(tag));
    of_tag.unwrap().spec.revision
}

async fn on_cluster(bed: &Bed, cluster: &str, key: &str, value: Option<&str>) {
    let key = format!("fleet.muster.dev/{key}");
    bed.patch_cluster(cluster, json!({"metadata": {"annotations": {key: value}}}))
        .await;
}

async fn until_texts(bed: &Bed, expect: [&str; 3]) {
    bed.until(&format!("{expect:?}"), || async {
        (bed.texts("web").await == expect).then_some(())
    })
    .await;
}

/// Waits until a module reports this about a cluster; returns the message.
async fn until_attention(bed: &Bed, cluster: &str, reason: &str, expected: &str) -> String {
    bed.until(&format!("{cluster} is {reason}: {expected}"), || async {
        let module = bed.module("web").await?;
        let mut entries = module["status"]["attention"].as_array()?.iter();
        let entry = entries.find(|entry| entry["cluster"] == cluster && entry["reason"] == reason)?;
        let message = entry["message"].as_str()?;
        message.contains(expected).then(|| message.to_owned())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_pinned_cluster_gets_its_revision_and_keeps_it_until_the_pin_ends() {
    let mut bed = deployed(json!({})).await;
    let one = revision(&bed, "one").await;
    let until = bed.clock.now() + Duration::from_mins(20);
    let pin = json!({"for": &one[..8], "by": "ann", "reason": "crashes there", "until": until}).to_string();
    on_cluster(&bed, "eu-2", "pin.web", Some(&pin)).await;
    until_texts(&bed, ["two", "one", "two"]).await;
    let module = bed.until_ready("web").await;
    let (summary, text) = (&module["status"]["summary"], condition(&module, "Ready").unwrap());
    assert_eq!(
        (&summary["held"], &summary["clusters"], &summary["ready"]),
        (&json!(1), &json!("2/3"), &json!(3))
    );
    assert_eq!(
        text,
        "True Succeeded: two is ready on 2 of 3 clusters; 1 held: eu-2 (Pinned)"
    );
    let expected = format!(
        "pinned to one (revision {}) by ann (crashes there) until {until}; to unpin it: kubectl annotate",
        &one[..8]
    );
    let message = until_attention(&bed, "eu-2", "Pinned", &expected).await;
    assert!(
        message.ends_with("cluster/eu-2 fleet.muster.dev/pin.web-"),
        "{message}"
    );
    assert_eq!(module["status"]["controls"][0]["effect"], "Applied");

    // Another version, and another leader, do not change it.
    bed.patch("web", version("three")).await;
    until_texts(&bed, ["three", "one", "three"]).await;
    bed.crash_controller();
    bed.start_controller();
    bed.until_ready("web").await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(bed.texts("web").await, ["three", "one", "three"]);
    let applied = bed.event_notes("ControlApplied").await;
    let expect = format!(
        "fleet.muster.dev/pin.web: eu-2: pinned to revision {} by ann (crashes there) until {until}",
        &one[..8]
    );
    assert_eq!(applied, [expect]);

    // It expires at that time.
    assert!(bed.clock.now() < until);
    until_texts(&bed, ["three", "three", "three"]).await;
    assert!(bed.clock.now().duration_since(until).as_secs() < 30);
    let module = bed.until_ready("web").await;
    assert_eq!(module["status"]["controls"][0]["effect"], "Over");
    assert_eq!(
        bed.event_notes("ControlWithoutEffect").await,
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn pins_in_the_module_keep_the_limit_and_end_with_the_annotation() {
    let bed = deployed(json!({"minReadySeconds": 30})).await;
    let one = revision(&bed, "one").await;
    let before = bed.marks("web").await;
    let pin = format!("eu-1@{one},us-1@{}, eu-9@{one}", &one[..12]);
    bed.annotate("web", "pin", Some(&pin)).await;
    until_texts(&bed, ["one", "two", "two"]).await;
    let message = until_attention(&bed, "us-1", "Pinned", "it waits for eu-1 (at most 1 at a time)").await;
    assert!(
        message.contains(&format!("fleet.muster.dev/pin=eu-1@{one},eu-9@{one}")),
        "{message}"
    );
    until_attention(&bed, "eu-1", "Pinned", "it is on its way there").await;
    until_texts(&bed, ["one", "two", "one"]).await;
    assert_eq!(
        bed.mark("eu-2", "web").await,
        before[1],
        "a cluster that is not named is not touched"
    );
    let without = bed.event_notes("ControlWithoutEffect").await;
    assert_eq!(
        without,
        ["fleet.muster.dev/pin: eu-9: the module selects no cluster of this name"]
    );
    bed.annotate("web", "pin", None).await;
    until_texts(&bed, ["two", "two", "two"]).await;
    let module = bed.until_ready("web").await;
    assert_eq!(module["status"]["controls"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_meant_moves_nothing_there_and_is_said() {
    let bed = deployed(json!({})).await;
    let (one, two) = (revision(&bed, "one").await, revision(&bed, "two").await);
    let before = bed.mark("eu-2", "web").await;
    let cases = [
        (json!({"pin.web": "v1"}), "Pinned", "\"v1\" is not a revision"),
        (
            json!({"pin.web": "0123456789"}),
            "Pinned",
            "this module has no revision 0123456789",
        ),
        (json!({"pin.web": "{"}), "Pinned", "it begins with {"),
        (
            json!({"pin.web": json!({"for": one, "until": "2270-01-01T00:00:00Z"}).to_string()}),
            "Pinned",
            "until is 2270-01-01T00:00:00Z, more than a year from now",
        ),
        (
            json!({"hold": json!({"until": "2270-01-01T00:00:00Z"}).to_string()}),
            "Held",
            "until is 2270-01-01T00:00:00Z, more than a year from now",
        ),
        (
            json!({"hold": "true", "pin.web": one}),
            "Held",
            "held for all modules",
        ),
    ];
    for (number, (annotations, reason, expected)) in cases.iter().enumerate() {
        for (key, value) in annotations.as_object().unwrap() {
            on_cluster(&bed, "eu-2", key, value.as_str()).await;
        }
        until_attention(&bed, "eu-2", reason, expected).await;
        bed.patch("web", version(if number % 2 == 0 { "three" } else { "two" }))
            .await;
        bed.until_ready("web").await;
        pass(Duration::from_mins(1)).await;
        assert_eq!(bed.mark("eu-2", "web").await, before, "{annotations}");
        let without = bed.event_notes("ControlWithoutEffect").await;
        assert_eq!(without.len(), number + 1, "{without:#?}");
        // Back to the former version, so that it needs no change when its annotations are removed, the hold last.
        bed.patch("web", version("two")).await;
        until_texts(&bed, ["two", "two", "two"]).await;
        for key in annotations.as_object().unwrap().keys().rev() {
            on_cluster(&bed, "eu-2", key, None).await;
        }
        bed.until_ready("web").await;
        assert_eq!(bed.mark("eu-2", "web").await, before);
    }
    let last = bed.event_notes("ControlWithoutEffect").await;
    assert!(
        last.last()
            .unwrap()
            .contains("it is also held, and a hold takes precedence over a pin"),
        "{last:#?}"
    );

    // The Cluster and the module disagree.
    on_cluster(&bed, "eu-2", "pin.web", Some(&one)).await;
    bed.annotate("web", "pin", Some(&format!("eu-2@{two}"))).await;
    until_attention(&bed, "eu-2", "Pinned", "the Cluster says").await;
    pass(Duration::from_mins(1)).await;
    bed.annotate("web", "pin", None).await;
    until_texts(&bed, ["two", "one", "two"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_already_expired_control_changes_nothing_and_is_reported_once() {
    let mut bed = deployed(json!({})).await;
    let one = revision(&bed, "one").await;
    let before = bed.marks("web").await;
    let past = |what: &str| json!({"for": what, "by": "ann", "until": "1969-12-31T00:00:00Z"}).to_string();
    on_cluster(&bed, "eu-1", "hold", Some(&past("true"))).await;
    on_cluster(&bed, "eu-2", "pin.web", Some(&past(&one))).await;
    bed.annotate("web", "hold", Some(&past("us-1"))).await;
    bed.until("all are said", || async {
        (bed.event_notes("ControlWithoutEffect").await.len() == 3).then_some(())
    })
    .await;
    bed.crash_controller();
    bed.start_controller();
    pass(Duration::from_mins(2)).await;
    assert_eq!(bed.marks("web").await, before);
    let mut notes = bed.event_notes("ControlWithoutEffect").await;
    notes.sort();
    let rest =
        "expired by ann until 1969-12-31T00:00:00Z; it expired before it was observed, and has no effect";
    assert_eq!(
        notes,
        [
            format!("fleet.muster.dev/hold: eu-1: {rest}"),
            format!("fleet.muster.dev/hold: {rest}"),
            format!("fleet.muster.dev/pin.web: eu-2: {rest}"),
        ]
    );
    bed.patch("web", version("three")).await;
    until_texts(&bed, ["three", "three", "three"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pinned_cluster_neither_goes_back_nor_gets_what_is_condemned() {
    let bed = deployed(json!({"onFailure": {"action": "Revert"}, "deadlines": {"progress": "12m"}})).await;
    let one = revision(&bed, "one").await;
    on_cluster(&bed, "us-1", "pin.web", Some(&one)).await;
    until_texts(&bed, ["two", "two", "one"]).await;
    bed.until_ready("web").await;
    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: nowhere}\n";
    bed.release_files(
        "bad",
        [("web/all.yaml".to_owned(), format!("kind: {{\n---\n{bad}"))],
    );
    bed.patch("web", version("bad")).await;
    bed.until_said("web", "Halted", "True Halted").await;
    let bad = revision(&bed, "bad").await;
    on_cluster(&bed, "us-1", "pin.web", Some(&bad)).await;
    until_attention(
        &bed,
        "us-1",
        "Pinned",
        &format!("revision {bad} is known bad and is not assigned"),
    )
    .await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(bed.texts("web").await, ["two", "two", "one"]);
}

/// A pinned revision stays recorded, and a cluster that is deselected is withdrawn, pinned or not.
#[tokio::test(start_paused = true)]
async fn pinned_revisions_are_kept_and_a_pin_selects_no_cluster() {
    let bed = deployed(json!({"historyLimit": 1, "withdraw": {"brake": 3}})).await;
    let tags = async || {
        let all = bed
            .api::<ModuleRevision>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        let tag = |revision: ModuleRevision| revision.spec.sync.source.version().tag.unwrap();
        let mut tags: Vec<String> = all.into_iter().map(tag).collect();
        tags.sort();
        tags
    };
    let one = revision(&bed, "one").await;
    bed.annotate("web", "pin", Some(&format!("eu-1@{one}"))).await;
    until_texts(&bed, ["one", "two", "two"]).await;
    bed.release("four", &["web"], "four");
    for tag in ["three", "four"] {
        bed.patch("web", version(tag)).await;
        until_texts(&bed, ["one", tag, tag]).await;
        bed.until_ready("web").await;
    }
    pass(Duration::from_mins(1)).await;
    assert_eq!(tags().await, ["four", "one", "three"]);
    let labels = json!({"metadata": {"labels": {"env": "dev"}}});
    bed.cluster_objects()
        .patch("eu-1", &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
    bed.until("it is withdrawn from", || async {
        bed.config_map("eu-1", "web").await.is_none().then_some(())
    })
    .await;
}

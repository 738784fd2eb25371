//! Promise: a row that the API server rejects permanently is reported with its message, keeps its slot, and never marks
//! the version bad.

use std::time::Duration;

use kube::api::PostParams;
use muster_api::{
    Module, ProxyAssemblage, Shared,
    assemblage::{SyncPhase, SyncRow},
    conditions::{RECONCILING, STALLED},
};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule, RuleId},
};
use serde_json::{Value, json};

use crate::bed::*;

fn refuse(bed: &Bed, path: &str, verbs: &[Verb], failure: Failure) -> RuleId {
    let matching = Match {
        client: Some("controller".to_owned()),
        verbs: verbs.to_vec(),
        path: Some(path.to_owned()),
        ..Match::default()
    };
    let rule = Rule::always(matching, Fault::Status(failure));
    bed.management.faults().add(rule)
}

async fn status(bed: &Bed) -> Value {
    bed.module("web").await.unwrap()["status"].clone()
}

/// The clusters with a reason, from `status.reasons`.
async fn clusters_of(bed: &Bed, reason: &str) -> Option<String> {
    let status = status(bed).await;
    let mut groups = status["reasons"].as_array()?.iter();
    let group = groups.find(|group| group["reason"] == reason)?;
    Some(group["clusters"].as_str()?.to_owned())
}

async fn until_reason(bed: &Bed, reason: &str, clusters: &str) {
    bed.until(&format!("{clusters} {reason}"), || async {
        (clusters_of(bed, reason).await.as_deref() == Some(clusters)).then_some(())
    })
    .await;
}

fn status_writes(bed: &Bed) -> usize {
    let events = bed.management.recorder().events();
    let of_web = |resource: &str, object: &Value| resource == "modules" && name(object) == "web";
    let events = events.iter();
    events
        .filter(|event| of_web(&event.resource.resource, event.object()))
        .count()
}

async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web"], tag);
    }
    bed.deploy("web", "one", json!({"rollout": {"maxUnreadyClusters": 1}}))
        .await;
    bed
}

#[tokio::test(start_paused = true)]
async fn it_is_reported_and_condemns_nothing_and_is_written_once_it_is_taken() {
    let bed = deployed().await;
    let fault = refuse(&bed, "/proxyassemblages/eu-1", &[Verb::Patch], Failure::Forbidden);
    bed.patch("web", version("two")).await;
    until_reason(&bed, "WriteFailed", "eu-1").await;
    assert_eq!(clusters_of(&bed, "WaitingTurn").await.unwrap(), "eu-2,us-1");
    let message = bed.until_said("web", "Ready", "False WriteFailed").await;
    assert!(message.contains("eu-1: its row cannot be written: "), "{message}");
    assert_eq!(condition(&bed.module("web").await.unwrap(), STALLED), None);
    let events = bed.event_notes("WriteFailed").await;
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(
        event.starts_with("eu-1: the row cannot be written into ProxyAssemblage eu-1: "),
        "{event}"
    );

    pass(Duration::from_mins(6)).await;
    let module = bed.module("web").await.unwrap();
    assert!(
        condition(&module, STALLED)
            .unwrap()
            .starts_with("True WriteFailed: ")
    );
    assert_eq!(condition(&module, RECONCILING), None);

    // It is retried, but no status with the same content is written.
    let writes = status_writes(&bed);
    pass(Duration::from_hours(3)).await;
    assert_eq!(status_writes(&bed), writes);
    assert_eq!(bed.event_notes("WriteFailed").await.len(), 1);
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);

    bed.management.faults().remove(fault);
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    let condemned = bed.event_notes("RevisionCondemned").await;
    assert_eq!(condemned, Vec::<String>::new());
    assert_eq!(clusters_of(&bed, "WriteFailed").await, None);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_taken_harms_no_other_version_and_no_other_cluster() {
    let bed = deployed().await;
    bed.patch("web", json!({"spec": {"rollout": {"maxUnreadyClusters": 2}}}))
        .await;
    refuse(&bed, "/proxyassemblages/eu-1", &[Verb::Patch], Failure::Forbidden);
    bed.patch("web", version("two")).await;
    bed.until("the others have it", || async {
        (bed.texts("web").await == ["one", "two", "two"]).then_some(())
    })
    .await;
    pass(Duration::from_hours(1)).await;
    bed.patch("web", version("three")).await;
    bed.until("the others have the next", || async {
        (bed.texts("web").await == ["one", "three", "three"]).then_some(())
    })
    .await;
    assert_eq!(bed.event_notes("RevisionCondemned").await, Vec::<String>::new());
    until_reason(&bed, "WriteFailed", "eu-1").await;
}

#[tokio::test(start_paused = true)]
async fn a_first_row_that_is_refused_is_reported_and_frees_its_slot_when_it_is_abandoned() {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("one", &["web"], "one");
    // A quota: no ProxyAssemblage can be created.
    let fault = refuse(&bed, "/proxyassemblages", &[Verb::Create], Failure::Forbidden);
    bed.create::<Module>(module("web", "one", json!({}))).await;
    until_reason(&bed, "WriteFailed", "eu-1").await;
    pass(Duration::from_hours(1)).await;
    until_reason(&bed, "WriteFailed", "eu-1").await;

    bed.patch_cluster("eu-1", json!({"metadata": {"labels": {"env": "none"}}}))
        .await;
    pass(Duration::from_mins(5)).await;
    until_reason(&bed, "WriteFailed", "eu-1").await;
    bed.annotate("web", "abandon", Some("eu-1")).await;
    until_reason(&bed, "WriteFailed", "eu-2").await;
    bed.management.faults().remove(fault);
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["", "one", "one"]);
}

/// Reports a withdrawal in place of the agent.
async fn report_withdrawn(bed: &Bed, cluster: &str) {
    let mut proxy: ProxyAssemblage = bed.api().get(cluster).await.unwrap();
    let states = &mut proxy.status.as_mut().unwrap().syncs;
    let state = states.iter_mut().find(|state| state.name == "web").unwrap();
    state.state = SyncPhase::Withdrawn;
    state.token = proxy
        .spec
        .syncs
        .iter()
        .find(|row| row.name == "web")
        .unwrap()
        .token;
    bed.api::<ProxyAssemblage>()
        .replace_status(cluster, &PostParams::default(), &proxy)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_removed_is_named_by_the_module_that_goes() {
    let mut bed = deployed().await;
    bed.patch("web", json!({"spec": {"onDelete": "Withdraw"}})).await;
    bed.crash_agent("eu-2");
    bed.api::<Module>()
        .delete("web", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    bed.until("the row of eu-2 says so", || async {
        let row = bed.row("eu-2", "web").await?;
        (row["withdraw"] == "Prune").then_some(())
    })
    .await;
    let fault = refuse(&bed, "/proxyassemblages/eu-2", &[Verb::Patch], Failure::Forbidden);
    report_withdrawn(&bed, "eu-2").await;
    let message = bed.until_said("web", "Ready", "False WriteFailed").await;
    assert!(
        message.starts_with("being deleted: the row of eu-2 cannot be removed: "),
        "{message}"
    );
    bed.management.faults().remove(fault);
    bed.start_agent("eu-2");
    bed.until_gone("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_or_broken_server_refuses_nothing() {
    let failures = [
        Failure::Unauthorized,
        Failure::Conflict,
        Failure::TooManyRequests(1),
        Failure::Internal,
        Failure::Unavailable,
    ];
    for failure in failures {
        let bed = deployed().await;
        let fault = refuse(&bed, "/proxyassemblages/eu-1", &[Verb::Patch], failure);
        bed.patch("web", version("two")).await;
        pass(Duration::from_mins(10)).await;
        assert_eq!(clusters_of(&bed, "WriteFailed").await, None, "{failure:?}");
        assert_eq!(
            clusters_of(&bed, "Updating").await.unwrap(),
            "eu-1",
            "{failure:?}"
        );
        bed.management.faults().remove(fault);
        bed.until_ready("web").await;
        assert_eq!(bed.texts("web").await, ["two", "two", "two"], "{failure:?}");
    }
}

fn row_of_another(number: usize) -> Shared<SyncRow> {
    let row = SyncRow {
        name: format!("of-another-{number}"),
        ..SyncRow::default()
    };
    row.into()
}

/// An assemblage has room for 256 rows: the API server refuses one more.
#[tokio::test(start_paused = true)]
async fn a_full_assemblage_is_named_and_harms_no_other_cluster() {
    let bed = Bed::new(&CLUSTERS).await;
    bed.release("one", &["web", "other"], "one");
    bed.deploy("other", "one", json!({})).await;
    let proxies = bed.api::<ProxyAssemblage>();
    let mut full = proxies.get("eu-1").await.unwrap();
    let more = (full.spec.syncs.len()..256).map(row_of_another);
    full.spec.syncs.extend(more);
    let full = proxies
        .replace("eu-1", &PostParams::default(), &full)
        .await
        .unwrap();
    let other = bed.marks("other").await;

    let spec = json!({"rollout": {"maxUnreadyClusters": 3}});
    bed.create::<Module>(module("web", "one", spec)).await;
    bed.until("the others have it", || async {
        (bed.texts("web").await == ["", "one", "one"]).then_some(())
    })
    .await;
    until_reason(&bed, "WriteFailed", "eu-1").await;
    let message = bed.until_said("web", "Ready", "False WriteFailed").await;
    assert!(message.contains("must have at most 256 items"), "{message}");
    pass(Duration::from_hours(1)).await;
    assert_eq!(proxies.get("eu-1").await.unwrap().spec, full.spec);
    assert_eq!(bed.marks("other").await, other);
    assert!(is_ready(&bed.module("other").await.unwrap()));

    let mut roomy = proxies.get("eu-1").await.unwrap();
    roomy.spec.syncs.pop();
    proxies
        .replace("eu-1", &PostParams::default(), &roomy)
        .await
        .unwrap();
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
}

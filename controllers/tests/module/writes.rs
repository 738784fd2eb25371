//! Promise: what is written, and in which order (W1 to W7): the memory before any row, a row only as observed and with
//! an increasing token, rows of several modules together, an abandoned assignment behind a fence, and a lost memory
//! rebuilt from the rows.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use muster_api::{Module, ProxyAssemblage};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule, RuleId},
};
use serde_json::{Value, json};

use crate::bed::*;

fn to(path: &str, verbs: &[Verb]) -> Match {
    Match {
        client: Some("controller".to_owned()),
        verbs: verbs.to_vec(),
        path: Some(path.to_owned()),
        ..Match::default()
    }
}

/// Stops the controller's view of assemblages.
async fn blind(bed: &Bed, verbs: &[Verb]) -> RuleId {
    let id = bed
        .management
        .faults()
        .add(Rule::always(to("/proxyassemblages", verbs), Fault::Refuse));
    bed.management.faults().close_watches(to("proxyassemblages", &[]));
    pass(Duration::from_secs(1)).await;
    id
}

async fn deployed(rollout: Value) -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web"], tag);
    }
    bed.deploy("web", "one", json!({"rollout": rollout})).await;
    bed
}

/// One state of a module's row, from the event log: when, in which cluster, its token, its digest, and whether it is
/// being withdrawn.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    revision: u64,
    cluster: String,
    token: u64,
    digest: Option<String>,
    withdraw: bool,
}

fn written(bed: &Bed) -> Vec<Written> {
    let events = bed.management.recorder().events();
    let mut all: Vec<Written> = Vec::new();
    for event in events
        .iter()
        .filter(|event| event.resource.resource == "proxyassemblages")
    {
        let rows = event.object()["spec"]["syncs"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let Some(row) = rows.into_iter().find(|row| row["name"] == "web") else {
            continue;
        };
        let one = Written {
            revision: event.revision(),
            cluster: name(event.object()).to_owned(),
            token: row["token"].as_u64().unwrap(),
            digest: row["digest"].as_str().map(str::to_owned),
            withdraw: !row["withdraw"].is_null(),
        };
        let last = all.iter().rev().find(|last| last.cluster == one.cluster);
        if last.is_none_or(|last| {
            (last.token, &last.digest, last.withdraw) != (one.token, &one.digest, one.withdraw)
        }) {
            all.push(one);
        }
    }
    all
}

/// The greatest token in the memory, by the revision of each of its writes.
fn remembered(bed: &Bed) -> Vec<(u64, u64)> {
    let events = bed.management.recorder().events();
    let of_web = events
        .iter()
        .filter(|event| event.resource.resource == "modules" && name(event.object()) == "web");
    of_web
        .filter_map(|event| {
            let memory = event.object()["status"]["rollout"]["memory"].as_str()?;
            // Skips values that a test wrote.
            let memory: Value = serde_json::from_str(memory).ok()?;
            Some((event.revision(), memory["seq"].as_u64()?))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_memory_is_written_before_any_row_whatever_fails() {
    let mut bed = deployed(json!({"maxUnreadyClusters": 2})).await;
    let faults = [
        (
            to("/modules/web/status", &[Verb::Patch]),
            Fault::Status(Failure::Conflict),
        ),
        (to("/modules/web/status", &[Verb::Patch]), Fault::DropResponse),
        (
            to("/proxyassemblages/eu-2", &[Verb::Patch]),
            Fault::Status(Failure::Internal),
        ),
        (to("/proxyassemblages/us-1", &[Verb::Patch]), Fault::DropResponse),
    ];
    for (matching, fault) in faults {
        bed.management.faults().add(Rule::times(matching, fault, 3));
    }
    for tag in ["two", "three", "one"] {
        bed.patch("web", version(tag)).await;
        pass(Duration::from_millis(700)).await;
        bed.crash_controller();
        bed.start_controller();
    }
    bed.until_ready("web").await;
    let (rows, memory) = (written(&bed), remembered(&bed));
    for row in &rows {
        let before = memory
            .iter()
            .any(|(revision, seq)| *revision < row.revision && *seq >= row.token);
        assert!(before, "{row:?} before {memory:?}");
    }
    for cluster in CLUSTERS {
        let tokens: Vec<u64> = rows
            .iter()
            .filter(|row| row.cluster == cluster)
            .map(|row| row.token)
            .collect();
        assert!(
            tokens.len() > 1 && tokens.is_sorted_by(|a, b| a < b),
            "{cluster} {tokens:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_differs_from_the_observed_one_is_not_written() {
    let bed = deployed(json!({})).await;
    let before = bed.row("eu-1", "web").await.unwrap();
    let token = before["token"].as_u64().unwrap() + 40;
    let blind = blind(&bed, &[Verb::Watch, Verb::List]).await;
    // Another leader was here, and this one does not know that yet.
    let raised = json!([{"op": "replace", "path": "/spec/syncs/0/token", "value": token}]);
    bed.api::<ProxyAssemblage>()
        .patch(
            "eu-1",
            &PatchParams::default(),
            &Patch::Json::<()>(serde_json::from_value(raised).unwrap()),
        )
        .await
        .unwrap();
    bed.patch("web", version("two")).await;
    pass(Duration::from_mins(2)).await;
    let row = bed.row("eu-1", "web").await.unwrap();
    assert_eq!(
        (&row["token"], &row["digest"]),
        (&json!(token), &before["digest"])
    );
    assert_eq!(
        bed.texts("web").await,
        ["one", "one", "one"],
        "and its slot is not taken by another cluster"
    );
    bed.management.faults().remove(blind);
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    assert!(bed.row("eu-1", "web").await.unwrap()["token"].as_u64().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn rows_of_several_modules_go_together() {
    let clusters: Vec<String> = (0..4).map(|number| format!("c-{number:02}")).collect();
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let mut bed = Bed::without_controller(&names).await;
    let apps: Vec<String> = (0..5).map(|number| format!("app-{number}")).collect();
    bed.release("v1", &apps.iter().map(String::as_str).collect::<Vec<_>>(), "one");
    for app in &apps {
        bed.create::<Module>(module(app, "v1", json!({"rollout": {"strategy": "Replace"}})))
            .await;
    }
    // An API server as slow as real ones.
    bed.management.faults().add(Rule::always(
        to("/proxyassemblages", &[Verb::Patch, Verb::Create, Verb::Get]),
        Fault::Delay(Duration::from_millis(20)),
    ));
    bed.start_controller();
    for app in &apps {
        bed.until_ready(app).await;
    }
    let requests = bed.management.recorder().requests();
    let of_rows = requests.iter().filter(|request| {
        request.is_write() && request.path.contains("/proxyassemblages") && !request.path.ends_with("/status")
    });
    let (writes, refused): (Vec<_>, Vec<_>) = of_rows.partition(|request| request.code() < 300);
    println!(
        "5 modules on 4 clusters: {} writes of rows, {} refused",
        writes.len(),
        refused.len()
    );
    assert!(writes.len() < 20, "{} writes of 20 rows", writes.len());
    assert!(writes.len() >= 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_leaves_the_window_only_behind_what_keeps_a_late_write_out() {
    let bed = deployed(json!({"minReadySeconds": 5})).await;
    let carried = bed.row("eu-2", "web").await.unwrap()["token"].as_u64().unwrap();
    let refused = bed.management.faults().add(Rule::always(
        to("/proxyassemblages/eu-2", &[Verb::Patch]),
        Fault::Status(Failure::Internal),
    ));
    bed.patch("web", version("two")).await;
    bed.until("eu-2 is to be changed", || async {
        let module = bed.module("web").await?;
        (module["status"]["summary"]["updated"] == 1 && module["status"]["summary"]["updating"] == 1)
            .then_some(())
    })
    .await;
    let before = written(&bed).len();
    bed.patch_cluster("eu-2", json!({"metadata": {"labels": {"env": "dev"}}}))
        .await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(written(&bed).len(), before, "the slot is kept until then");
    bed.management.faults().remove(refused);
    bed.until_ready("web").await;
    bed.until("eu-2 is withdrawn from", || async {
        bed.text("eu-2", "web").await.is_none().then_some(())
    })
    .await;
    let later: Vec<Written> = written(&bed).split_off(before);
    let of_eu_2: Vec<&Written> = later.iter().filter(|row| row.cluster == "eu-2").collect();
    // Its row goes beyond the token of the intent, and never contains the abandoned content.
    assert!(of_eu_2.iter().all(|row| row.token > carried + 1), "{of_eu_2:?}");
    let new = bed.row("eu-1", "web").await.unwrap()["digest"].clone();
    assert!(of_eu_2.iter().all(|row| json!(row.digest) != new), "{of_eu_2:?}");
    assert!(of_eu_2.last().unwrap().withdraw, "{of_eu_2:?}");
    assert_eq!(
        later[0].cluster, "eu-2",
        "and no other cluster started before: {later:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_memory_is_rebuilt_from_live_objects_and_not_from_the_cache() {
    for memory in [Value::Null, json!({"version": 1, "memory": "{nonsense"})] {
        let bed = deployed(json!({"minReadySeconds": 60})).await;
        let blind = blind(&bed, &[Verb::Watch]).await;
        bed.patch("web", version("two")).await;
        bed.until("eu-1 is written", || async {
            bed.row("eu-1", "web")
                .await
                .filter(|row| row["token"].as_u64() > Some(3))
        })
        .await;
        let token = bed.row("eu-1", "web").await.unwrap()["token"].as_u64().unwrap();
        bed.api::<Module>()
            .patch_status(
                "web",
                &PatchParams::default(),
                &Patch::Merge(json!({"status": {"rollout": memory}})),
            )
            .await
            .unwrap();
        pass(Duration::from_secs(30)).await;
        let (_, seq) = *remembered(&bed).last().unwrap();
        assert!(seq >= token, "{seq} is below an assigned token: {token}");
        assert_eq!(
            bed.texts("web").await[1..],
            ["one", "one"],
            "eu-1 is not confirmed"
        );
        bed.management.faults().remove(blind);
        bed.until_ready("web").await;
        assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_module_that_is_made_again_adopts_its_rows_and_leaves_what_it_does_not_select() {
    let mut bed = deployed(json!({})).await;
    let before = bed.marks("web").await;
    let stored = bed.module("web").await.unwrap()["status"].clone();
    bed.crash_controller();
    bed.patch("web", json!({"metadata": {"finalizers": null}})).await;
    bed.api::<Module>()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    bed.until_gone("web").await;
    bed.patch_cluster("us-1", json!({"metadata": {"labels": {"env": "dev"}}}))
        .await;
    // Restored with its status: the memory belongs to an earlier object.
    bed.create::<Module>(module("web", "one", json!({}))).await;
    bed.api::<Module>()
        .patch_status(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": stored})),
        )
        .await
        .unwrap();
    bed.start_controller();
    bed.until("us-1 is left", || async {
        (bed.texts("web").await == ["one", "one", ""]).then_some(())
    })
    .await;
    bed.until_ready("web").await;
    assert_eq!(
        [bed.mark("eu-1", "web").await, bed.mark("eu-2", "web").await],
        before[..2]
    );
    // Not in the pass in which it was rebuilt: the memory was written before, without that intent.
    let left = written(&bed).into_iter().find(|row| row.withdraw).unwrap();
    let events = bed.management.recorder().events();
    let uid = bed.module("web").await.unwrap()["metadata"]["uid"].clone();
    let of_life = events.iter().filter(|event| {
        event.resource.resource == "modules"
            && event.object()["status"]["rollout"]["uid"] == uid
            && event.revision() < left.revision
    });
    let seqs: Vec<u64> = of_life
        .filter_map(|event| {
            let memory = event.object()["status"]["rollout"]["memory"].as_str()?;
            serde_json::from_str::<Value>(memory).unwrap()["seq"].as_u64()
        })
        .collect();
    assert!(seqs.first().unwrap() < &left.token, "{seqs:?} {left:?}");
    bed.settled().await;
}

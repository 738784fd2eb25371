//! Promise: while a RolloutWindow is closed no change starts in the clusters that it selects, and nothing else happens
//! to them; at its opening, by its bypass, or without it they continue. One that cannot be parsed is closed.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_api::{BootstrapModule, RolloutWindow};
use muster_apiserver::fault::{Fault, Match, Rule};
use serde_json::{Value, json};

use crate::bed::*;

/// The tests start at midnight.
const NIGHT: [(&str, &str); 3] = [("from", "00:00"), ("to", "02:00"), ("timeZone", "UTC")];

fn night() -> Value {
    NIGHT
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub(crate) async fn close(bed: &Bed, name: &str, spec: Value) {
    let mut all = json!({"selector": {}});
    json_patch::merge(&mut all, &spec);
    let window = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "RolloutWindow", "metadata": {"name": name}, "spec": all,
    });
    bed.create::<RolloutWindow>(window).await;
    // The watch has received it by now.
    pass(Duration::from_secs(1)).await;
}

async fn change(bed: &Bed, name: &str, spec: Value) {
    let windows = bed.api::<RolloutWindow>();
    let patch = Patch::Merge(json!({"spec": spec}));
    windows
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    pass(Duration::from_secs(1)).await;
}

async fn open(bed: &Bed, name: &str) {
    let windows = bed.api::<RolloutWindow>();
    windows.delete(name, &DeleteParams::default()).await.unwrap();
}

/// `web` and `db` at one in all clusters; two is released.
async fn deployed(rollout: Value) -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web", "db"], tag);
    }
    for name in ["web", "db"] {
        bed.deploy(name, "one", json!({"rollout": rollout})).await;
    }
    bed
}

/// The group of this reason in the status of a module.
async fn group(bed: &Bed, module: &str, reason: &str) -> Option<Value> {
    let module = bed.module(module).await?;
    let groups = module["status"]["reasons"].as_array()?.clone();
    groups.into_iter().find(|group| group["reason"] == reason)
}

async fn until_closed(bed: &Bed, module: &str, clusters: &str) -> String {
    bed.until(&format!("{module} waits in {clusters}"), || async {
        let group = group(bed, module, "WindowClosed").await?;
        (group["clusters"] == clusters).then(|| group["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// What the controller has written so far.
fn writes(bed: &Bed) -> Vec<String> {
    bed.management.recorder().writes("controller")
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

async fn pass_until(bed: &Bed, text: &str) {
    pass(Duration::try_from(instant(text).duration_since(bed.clock.now())).unwrap()).await;
}

/// No cluster has anything of version two.
async fn is_untouched(bed: &Bed, app: &str) {
    assert_eq!(bed.texts(app).await, ["one"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_fleet_waits_without_a_write_and_goes_on_when_its_window_opens() {
    let bed = deployed(json!({})).await;
    close(&bed, "freeze", json!({"deny": [night()], "message": "the audit"})).await;
    bed.patch("web", version("two")).await;
    let message = until_closed(&bed, "web", "eu-{1..2},us-1").await;
    assert_eq!(message, "until 1970-01-01T02:00 UTC (freeze): the audit");
    let status = bed.module("web").await.unwrap()["status"].clone();
    let counted =
        ["waiting", "updating", "failed", "skipped"].map(|bucket| status["summary"][bucket].clone());
    assert_eq!(counted, [3, 0, 0, 0].map(Value::from), "{status}");
    pass(Duration::from_mins(5)).await;
    let before = writes(&bed).len();
    pass_until(&bed, "1970-01-01T01:59:59Z").await;
    assert_eq!(writes(&bed).split_off(before), [""; 0], "nothing changed");
    is_untouched(&bed, "web").await;
    bed.until_ready("web").await;
    let took = bed.clock.now().duration_since(instant("1970-01-01T02:00:00Z"));
    assert!(took.as_secs() < 300, "{took}");
    assert_eq!(bed.event_notes("ClusterFailed").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn stop_the_line_lets_what_is_in_flight_finish_and_nothing_else_begin() {
    let bed = deployed(json!({"minReadySeconds": 30})).await;
    bed.patch("web", version("two")).await;
    bed.until("eu-1 has two", || async {
        (bed.text("eu-1", "web").await? == "two").then_some(())
    })
    .await;
    close(&bed, "stop", json!({"deny": [{}]})).await;
    let message = until_closed(&bed, "web", "eu-2,us-1").await;
    assert_eq!(message, "with no opening in sight (stop)");
    bed.until("eu-1 is confirmed", || async {
        (group(&bed, "web", "UpToDate").await?["clusters"] == "eu-1").then_some(())
    })
    .await;
    pass(Duration::from_hours(2)).await;
    assert_eq!(bed.texts("web").await, ["two", "one", "one"]);
    open(&bed, "stop").await;
    bed.until_ready("web").await;
    assert_eq!(bed.event_notes("RevisionCondemned").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_bypass_lets_its_module_through_until_it_ends() {
    let bed = deployed(json!({})).await;
    close(&bed, "stop", json!({"deny": [{}]})).await;
    for name in ["web", "db"] {
        bed.patch(name, version("two")).await;
        until_closed(&bed, name, "eu-{1..2},us-1").await;
    }
    let until = bed.clock.now() + Duration::from_hours(1);
    let bypass = json!({"module": {"kind": "Module", "name": "web"}, "reason": "CVE", "until": until});
    change(&bed, "stop", json!({"bypasses": [bypass]})).await;
    bed.until_ready("web").await;
    is_untouched(&bed, "db").await;
    pass(Duration::from_hours(1)).await;
    bed.patch("web", version("one")).await;
    until_closed(&bed, "web", "eu-{1..2},us-1").await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(bed.texts("web").await, ["two"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_cannot_be_read_closes_what_it_selects_and_says_so() {
    let bed = deployed(json!({})).await;
    let entry = json!({"from": "03:00", "to": "04:00", "timeZone": "Europe/Nowhere"});
    close(&bed, "typo", json!({"deny": [entry]})).await;
    bed.patch("web", version("two")).await;
    let group = bed
        .until("it is closed", || group(&bed, "web", "WindowInvalid"))
        .await;
    assert_eq!(
        group["message"],
        "with no opening in sight (typo): spec.deny[0].timeZone: time zone \"Europe/Nowhere\" does not exist: use a name such as Europe/Berlin or UTC"
    );
    pass(Duration::from_mins(10)).await;
    is_untouched(&bed, "web").await;
    change(
        &bed,
        "typo",
        json!({"deny": [{"from": "03:00", "to": "04:00", "timeZone": "UTC"}]}),
    )
    .await;
    bed.until_ready("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_annotation_of_its_time_zone_is_closed() {
    let bed = deployed(json!({"maxUnreadyClusters": 3})).await;
    let zone = |zone: &str| json!({"metadata": {"annotations": {"example.org/zone": zone}}});
    bed.patch_cluster("eu-1", zone("Asia/Tokyo")).await;
    bed.patch_cluster("eu-2", zone("UTC")).await;
    let entry = json!({"from": "00:00", "to": "02:00", "timeZoneFrom": {"annotation": "example.org/zone"}});
    close(&bed, "local-night", json!({"deny": [entry]})).await;
    bed.patch("web", version("two")).await;
    assert_eq!(
        until_closed(&bed, "web", "eu-2").await,
        "until 1970-01-01T02:00 UTC (local-night)"
    );
    let invalid = bed
        .until("us-1 is closed", || group(&bed, "web", "WindowInvalid"))
        .await;
    assert_eq!(invalid["clusters"], "us-1");
    bed.until("eu-1 has two", || async {
        (bed.text("eu-1", "web").await? == "two").then_some(())
    })
    .await;
    bed.patch_cluster("us-1", zone("Asia/Tokyo")).await;
    bed.until("us-1 has two", || async {
        (bed.text("us-1", "web").await? == "two").then_some(())
    })
    .await;
    assert_eq!(bed.texts("web").await, ["two", "one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn stages_go_on_without_closed_clusters_where_the_window_says_so() {
    let stages = json!([
        {"name": "first", "selector": {"matchLabels": {"ring": "first"}}},
        {"name": "rest", "selector": {}},
    ]);
    for (while_closed, expect) in [("Skip", ["one", "two", "two"]), ("Wait", ["one", "one", "one"])] {
        let bed = Bed::new(&CLUSTERS).await;
        for tag in ["one", "two"] {
            bed.release(tag, &["web"], tag);
        }
        bed.patch_cluster("eu-1", json!({"metadata": {"labels": {"ring": "first"}}}))
            .await;
        bed.deploy("web", "one", json!({"rollout": {"stages": stages}}))
            .await;
        let selector = json!({"matchLabels": {"ring": "first"}});
        close(
            &bed,
            "night",
            json!({"selector": selector, "deny": [night()], "whileClosed": while_closed}),
        )
        .await;
        bed.patch("web", version("two")).await;
        until_closed(&bed, "web", "eu-1").await;
        pass(Duration::from_mins(10)).await;
        assert_eq!(bed.texts("web").await, expect, "{while_closed}");
        pass_until(&bed, "1970-01-01T02:00:00Z").await;
        bed.until_ready("web").await;
        assert_eq!(bed.texts("web").await, ["two"; 3], "{while_closed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_starts_begins_nothing_before_it_has_read_the_windows() {
    let mut bed = deployed(json!({"maxUnreadyClusters": 3})).await;
    close(&bed, "stop", json!({"deny": [{}]})).await;
    bed.crash_controller();
    bed.patch("web", version("two")).await;
    // Everything else is known before the windows are.
    let windows = Match {
        path: Some("rolloutwindows".into()),
        ..Match::default()
    };
    let delay = Fault::Delay(Duration::from_secs(30));
    bed.management.faults().add(Rule::always(windows, delay));
    bed.start_controller();
    until_closed(&bed, "web", "eu-{1..2},us-1").await;
    for cluster in CLUSTERS {
        assert_eq!(bed.story(cluster, "web"), [Some("one".to_owned())], "{cluster}");
    }
}

#[tokio::test(start_paused = true)]
async fn withdrawals_wait_unless_the_window_says_otherwise() {
    for (withdrawals, expect) in [("Wait", Some("one")), ("Allow", None)] {
        let bed = deployed(json!({})).await;
        close(&bed, "stop", json!({"deny": [{}], "withdrawals": withdrawals})).await;
        bed.patch_cluster("us-1", json!({"metadata": {"labels": {"env": "test"}}}))
            .await;
        pass(Duration::from_mins(10)).await;
        assert_eq!(bed.text("us-1", "web").await.as_deref(), expect, "{withdrawals}");
        open(&bed, "stop").await;
        bed.until("us-1 is empty", || async {
            bed.text("us-1", "web").await.is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_selects_modules_of_both_kinds_by_their_labels() {
    let bed = deployed(json!({})).await;
    let mut boot = module("boot", "one", json!({}));
    bed.release("boot-one", &["boot"], "one");
    bed.release("boot-two", &["boot"], "two");
    boot["kind"] = json!("BootstrapModule");
    boot["spec"]["sync"]["source"]["git"]["version"]["tag"] = json!("boot-one");
    boot["metadata"]["labels"] = json!({"tier": "base"});
    bed.create::<BootstrapModule>(boot).await;
    bed.until("boot has one", || async {
        (bed.texts("boot").await == ["one"; 3]).then_some(())
    })
    .await;
    let selector = json!({"matchLabels": {"tier": "base"}});
    close(
        &bed,
        "base",
        json!({"moduleSelector": selector, "deny": [night()]}),
    )
    .await;
    let modules = bed.api::<BootstrapModule>();
    let patch = Patch::Merge(version("boot-two"));
    modules
        .patch("boot", &PatchParams::default(), &patch)
        .await
        .unwrap();
    bed.patch("web", version("two")).await;
    bed.until_ready("web").await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(bed.texts("boot").await, ["one"; 3]);
    // The label of the module decides, and does not change its generation.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": null}}}));
    modules
        .patch("boot", &PatchParams::default(), &patch)
        .await
        .unwrap();
    bed.until("boot has two", || async {
        (bed.texts("boot").await == ["two"; 3]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_in_a_closed_cluster_waits_for_what_it_depends_on_as_ever() {
    let bed = Bed::new(&["eu-1"]).await;
    for tag in ["one", "three"] {
        bed.release(tag, &["web", "base"], tag);
    }
    // A change is in flight until it has reported success: the Deployment of the second version never becomes ready.
    let waits = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
                 template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}\n";
    bed.release_files(
        "two",
        [
            ("web/all.yaml".to_owned(), config_map("web", "two")),
            ("web/waits.yaml".to_owned(), waits.to_owned()),
            ("base/all.yaml".to_owned(), config_map("base", "two")),
        ],
    );
    bed.deploy("base", "one", json!({})).await;
    let needs = json!({"dependsOn": [{"kind": "Module", "name": "base"}]});
    bed.deploy("web", "one", needs).await;
    bed.patch("web", version("two")).await;
    bed.until("two is in flight", || async {
        (bed.text("eu-1", "web").await? == "two").then_some(())
    })
    .await;
    close(&bed, "stop", json!({"deny": [{}]})).await;
    bed.patch("base", version("three")).await;
    until_closed(&bed, "base", "eu-1").await;
    bed.patch("web", version("three")).await;
    pass(Duration::from_mins(3)).await;
    assert_eq!(
        bed.text("eu-1", "web").await.as_deref(),
        Some("two"),
        "base is not at three"
    );
    open(&bed, "stop").await;
    bed.until_ready("web").await;
    assert_eq!(bed.text("eu-1", "web").await.as_deref(), Some("three"));
}

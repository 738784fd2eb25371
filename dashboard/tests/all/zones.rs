//! Promise: a zone group is shown as its ZoneRollout reports it, down to the pod, with what to do next; the page and
//! `why` agree.

use std::sync::Arc;

use crate::fixture::served;
use muster_api::ZoneRollout;
use muster_dashboard::{Objects, Shape, ZonesView, why_zones};
use serde_json::{Value, json};

const CRASH: &str = "container ingester: CrashLoopBackOff: bad flag <x>";

/// A group of two zones; `reasons` have set, pod, reason and message.
fn rollout(spec: &Value, conditions: &[(&str, &str, &str)], condemned: bool, reasons: &Value) -> ZoneRollout {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-02T03:00:00Z"})
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout",
        "metadata": {"name": "ingester-1", "namespace": "mimir"}, "spec": spec,
        "status": {
            "conditions": conditions, "progress": {"done": 3, "total": 6}, "reasons": reasons,
            "sets": {
                "zone-a": {"uid": "a", "updateRevision": "a-2", "condemned": condemned},
                "zone-b": {"uid": "b", "updateRevision": "b-1", "done": true},
            },
        },
    }))
    .unwrap()
}

fn crashing(conditions: &[(&str, &str, &str)], condemned: bool) -> ZoneRollout {
    let reasons = json!([
        {"set": "zone-a", "pod": "zone-a-0", "reason": "Unavailable", "message": CRASH},
        {"set": "zone-b", "reason": "UpToDate", "message": "3 of 3 pods are Ready"},
    ]);
    rollout(&json!({"group": "ingester"}), conditions, condemned, &reasons)
}

#[test]
fn the_next_command_follows_from_the_state() {
    let updating = [("Ready", "False", "Progressing")];
    let stalled = [
        ("Ready", "False", "ProgressDeadlineExceeded"),
        ("Stalled", "True", "ProgressDeadlineExceeded"),
    ];
    let all_is_done = json!([{"set": "zone-a", "reason": "UpToDate", "message": "m"}, {"set": "zone-b", "reason": "UpToDate", "message": "m"}]);
    let soaks = json!([{"set": "zone-b", "reason": "Soaking", "message": "m"}]);
    let group = json!({"group": "ingester"});
    let paused = json!({"group": "ingester", "paused": true});
    let held = json!([{"set": "zone-a", "reason": "Paused", "message": "m"}]);
    for (rollout, shape, steps, command) in [
        (
            crashing(&updating, false),
            Shape::Updating,
            &[("zone-a-0", Shape::Updating), ("zone-b", Shape::Ready)][..],
            Some("kubectl describe pod zone-a-0 -n mimir"),
        ),
        (
            crashing(&stalled, true),
            Shape::Failed,
            &[("zone-a-0", Shape::Failed), ("zone-b", Shape::Ready)][..],
            Some("muster rollout retry zonerollout/ingester-1 -n mimir"),
        ),
        (
            rollout(&group, &[("Ready", "True", "UpToDate")], false, &all_is_done),
            Shape::Ready,
            &[("zone-a, zone-b", Shape::Ready)][..],
            None,
        ),
        (
            rollout(&group, &[("Ready", "False", "Soaking")], false, &soaks),
            Shape::Waiting,
            &[("zone-b", Shape::Waiting)][..],
            None,
        ),
        (
            rollout(&paused, &[("Ready", "False", "Paused")], false, &held),
            Shape::Held,
            &[("zone-a", Shape::Held)][..],
            Some("muster rollout resume zonerollout/ingester-1 -n mimir"),
        ),
        (
            rollout(&group, &[], false, &json!([])),
            Shape::Unknown,
            &[("ingester-1", Shape::Unknown)][..],
            None,
        ),
    ] {
        let why = why_zones(&rollout);
        assert_eq!(ZonesView::of(&rollout).shape, shape, "{why:?}");
        let shown: Vec<(&str, Shape)> = why.steps.iter().map(|step| (&*step.who, step.shape)).collect();
        assert_eq!(shown, steps, "{why:?}");
        assert_eq!(why.command.as_deref(), command, "{why:?}");
    }
}

#[tokio::test]
async fn the_page_and_the_json_say_the_same() {
    let zones = vec![Arc::new(crashing(&[("Ready", "False", "Progressing")], false))];
    let app = served(Objects {
        zones,
        ..crate::fixture::objects()
    });
    let page = app.text("/zones").await;
    for words in [
        "zone-a-0",
        "CrashLoopBackOff: bad flag &lt;x&gt;",
        "3 of 6 pods are available",
        "kubectl describe pod zone-a-0 -n mimir",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let json: Value = serde_json::from_str(&app.text("/api/v1/zones.json").await).unwrap();
    assert_eq!(json["schema"], "zones/v1");
    assert_eq!(json["groups"][0]["zones"][0]["steps"][0]["message"], CRASH);
    // Other pages link to it, but not if there are no zone groups.
    assert!(app.text("/").await.contains("href=\"./zones\""));
    let without = served(crate::fixture::objects());
    assert!(!without.text("/").await.contains("href=\"./zones\""));
    assert!(without.text("/zones").await.contains("has no ZoneRollout"));
}

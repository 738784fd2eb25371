//! Promise: the verbs for modules also work for a ZoneRollout, by its name or its group, and write only to its spec.

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use muster_api::{ZoneRollout, crds, names};
use serde_json::{Value, json};

use crate::bed::{Bed, create};

const REVISION: &str = "0123456789abcdef";

/// A group whose first zone has a crashing pod, and whose revision was marked bad for it.
async fn bed() -> (Bed, Api<ZoneRollout>) {
    let bed = Bed::new().await;
    bed.management.add(crds::zones()).unwrap();
    let name = names::zone_rollout_name("ingester");
    create(
        &bed.management.client(),
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"group": "ingester"}}),
    )
    .await;
    let rollouts: Api<ZoneRollout> = Api::namespaced(bed.management.client(), "default");
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "ProgressDeadlineExceeded", "message": "no progress for 10m",
            "lastTransitionTime": "2026-01-02T03:00:00Z"})
    };
    let status = json!({"status": {
        "observedGeneration": 1,
        "conditions": [condition("Ready", "False"), condition("Stalled", "True")],
        "progress": {"done": 3, "total": 6}, "revision": REVISION,
        "sets": {
            "ingester-zone-a": {"uid": "a", "updateRevision": "a-2", "condemned": true},
            "ingester-zone-b": {"uid": "b", "updateRevision": "b-1", "done": true},
        },
        "reasons": [
            {"set": "ingester-zone-a", "reason": "Condemned", "message": "revision a-2 is condemned: the rollout made no progress"},
            {"set": "ingester-zone-a", "pod": "ingester-zone-a-0", "reason": "Unavailable",
                "message": "container ingester: CrashLoopBackOff: back-off 10s: bad flag"},
            {"set": "ingester-zone-b", "reason": "UpToDate", "message": "3 of 3 pods are Ready at revision b-1"},
        ],
    }});
    rollouts
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    (bed, rollouts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn why_leads_to_the_pod_and_the_words_of_its_container() {
    let (bed, _) = bed().await;
    let name = names::zone_rollout_name("ingester");
    let output = bed.types("why zonerollout/ingester", 0).await;
    insta::assert_snapshot!(output);
    assert_eq!(bed.types(&format!("why zr/{name}"), 0).await, output);
    let output = bed.types("why zonerollout/ingester -o json", 0).await;
    let why: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(why["schema"], "why/v1");
    assert_eq!(
        why["command"],
        format!("muster rollout retry zonerollout/{name} -n default")
    );
    let output = bed.types("why zonerollout/ingestr", 2).await;
    assert!(output.contains(&format!("did you mean {name}?")), "{output}");
    let output = bed.types("why zonerollout/ingester --cluster eu-1", 2).await;
    assert!(output.contains("--cluster is for modules"), "{output}");
    let output = bed.types("get zonerollouts", 0).await;
    assert!(output.contains(&name) && output.contains("ingester"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_group_is_paused_and_resumed_in_its_spec() {
    let (bed, rollouts) = bed().await;
    let name = names::zone_rollout_name("ingester");
    let paused = async || rollouts.get(&name).await.unwrap().spec.paused;
    for (words, code, expected, then) in [
        (
            "rollout pause zonerollout/ingester --reason freeze",
            2,
            "omit --reason",
            false,
        ),
        (
            "rollout pause zonerollout/ingester --dry-run",
            0,
            "(dry run)",
            false,
        ),
        ("rollout pause zonerollout/ingester", 0, "paused", true),
        ("rollout pause zonerollout/ingester", 0, "is already paused", true),
        ("rollout resume zonerollout/ingester", 0, "resumed", false),
        ("rollout resume zonerollout/ingester", 0, "is not paused", false),
        (
            "rollout abort zonerollout/ingester",
            2,
            "not a kind of module",
            false,
        ),
    ] {
        let output = bed.types(words, code).await;
        assert!(output.contains(expected), "{words}: {output}");
        assert_eq!(paused().await, then, "{words}");
    }
    let managers: Vec<String> = rollouts
        .get(&name)
        .await
        .unwrap()
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.clone())
        .collect();
    assert!(managers.contains(&"muster-cli".to_owned()), "{managers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn only_a_condemned_revision_is_tried_again() {
    let (bed, rollouts) = bed().await;
    let name = names::zone_rollout_name("ingester");
    let objects: Api<DynamicObject> = Api::namespaced_with(
        bed.management.client(),
        "default",
        &ApiResource::erase::<ZoneRollout>(&()),
    );
    let retry = async || objects.get(&name).await.unwrap().data["spec"]["retry"].clone();
    for (words, code, expected) in [
        (
            "rollout retry zonerollout/ingester --reason x",
            2,
            "omit --reason",
        ),
        (
            "rollout retry zonerollout/ingester --revision ffffffff",
            1,
            "nothing was written",
        ),
        (
            "rollout retry zonerollout/ingester --revision 0123",
            1,
            "nothing was written",
        ),
        ("rollout retry zonerollout/ingester --dry-run", 0, "(dry run)"),
    ] {
        let output = bed.types(words, code).await;
        assert!(output.contains(expected), "{words}: {output}");
        assert_eq!(retry().await, Value::Null, "{words}");
    }
    let output = bed
        .types("rollout retry zonerollout/ingester --revision 01234567", 0)
        .await;
    assert!(output.contains("is retried"), "{output}");
    assert_eq!(retry().await, REVISION);
    let sets = json!({"status": {"sets": {"ingester-zone-a": {"condemned": false}}}});
    rollouts
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(sets))
        .await
        .unwrap();
    let output = bed.types("rollout retry zonerollout/ingester", 1).await;
    assert!(output.contains("is not marked bad"), "{output}");
}

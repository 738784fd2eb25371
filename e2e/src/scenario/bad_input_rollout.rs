//! Promise: invalid rollout settings and controls are rejected, by the API server where it can tell, otherwise by the
//! controller with a typed reason or an event; no cluster is changed. This is the complete list; separate tests cover
//! each setting in detail.

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, ROLLED, condition, status_text, workload},
};

const CLUSTERS: [&str; 3] = ["eu-1", "eu-2", "us-1"];

/// The stage that needs a manual approval.
fn canary() -> Value {
    json!({"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "approval": "Required"})
}

/// Per case: what is wrong, the settings, and the field named in the message.
fn refused_at_the_door() -> Vec<(&'static str, Value, &'static str)> {
    let all = || json!({"matchLabels": {}});
    let many: Vec<Value> = (0..17)
        .map(|n| json!({"name": format!("s{n}"), "selector": all()}))
        .collect();
    vec![
        (
            "two stages of one name",
            json!({"stages": [canary(), canary()]}),
            "spec.rollout.stages[1]",
        ),
        (
            "a stage without a selector",
            json!({"stages": [{"name": "canary"}]}),
            "selector",
        ),
        (
            "a stage without a name",
            json!({"stages": [{"selector": all()}]}),
            "name",
        ),
        (
            "a name that is none",
            json!({"stages": [{"name": "a b", "selector": all()}]}),
            "spec.rollout.stages[0].name",
        ),
        ("17 stages", json!({"stages": many}), "spec.rollout.stages"),
        (
            "more than all of a stage",
            json!({"stages": [{"name": "a", "selector": all(), "maxUnreadyClusters": "101%"}]}),
            "spec.rollout.stages[0].maxUnreadyClusters",
        ),
        (
            "a soak before it begins",
            json!({"stages": [{"name": "a", "selector": all(), "soak": "-3s"}]}),
            "spec.rollout.stages[0].soak",
        ),
        (
            "an approval of another kind",
            json!({"stages": [{"name": "a", "selector": all(), "approval": "Maybe"}]}),
            "approval",
        ),
        (
            "more than all",
            json!({"maxUnreadyClusters": "101%"}),
            "spec.rollout.maxUnreadyClusters",
        ),
        (
            "no number",
            json!({"maxUnreadyClusters": "some"}),
            "spec.rollout.maxUnreadyClusters",
        ),
        (
            "more than all may fail",
            json!({"onFailure": {"maxFailed": "150%"}}),
            "spec.rollout.onFailure.maxFailed",
        ),
        (
            "half a cluster may fail",
            json!({"onFailure": {"maxFailed": "0.5"}}),
            "spec.rollout.onFailure.maxFailed",
        ),
        (
            "more than all are withdrawn",
            json!({"withdraw": {"max": "101%"}}),
            "spec.rollout.withdraw.max",
        ),
        (
            "a brake of words",
            json!({"withdraw": {"brake": "few"}}),
            "spec.rollout.withdraw.brake",
        ),
        (
            "empty batches",
            json!({"batch": {"start": 0}}),
            "spec.rollout.batch.start",
        ),
        (
            "no history",
            json!({"historyLimit": 0}),
            "spec.rollout.historyLimit",
        ),
    ]
}

/// Stages and numbers that the API server rejects.
pub async fn stages_and_numbers_at_the_door(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    for (what, rollout, place) in refused_at_the_door() {
        let mut spec = bed.spec("web", "web-v1");
        spec["rollout"] = rollout;
        let module = json!({"metadata": {"name": "web"}, "spec": spec});
        let refused = bed
            .fleet()
            .try_create(kinds::MODULE, module)
            .await
            .expect_err(what);
        println!("{what}: {refused}");
        assert!(
            refused.contains("422 Invalid") && refused.contains(place),
            "{what}: {refused}"
        );
    }
    assert_eq!(bed.fleet().list(kinds::MODULE).await, Vec::<Value>::new());
}

/// A module at its second version, which the canary has, and which waits for approval.
async fn waiting(ground: Ground) -> (Bed, String, String) {
    let mut bed = Bed::new(ground).await;
    bed.prepare(&CLUSTERS).await;
    for (name, stage) in CLUSTERS.into_iter().zip(["canary", "most", "most"]) {
        bed.join(name, &[("env", "prod"), ("stage", stage)], &[]).await;
    }
    bed.deploy(&["web"]).await;
    let most =
        json!({"name": "most", "selector": {"matchLabels": {"stage": "most"}}, "approval": "Required"});
    let rollout = json!({"stages": [canary(), most]});
    bed.fleet()
        .patch(kinds::MODULE, "web", json!({"spec": {"rollout": rollout}}))
        .await;
    bed.until_ready("web", "web-v1").await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let module = bed.until_reason("web", "WaitingApproval", ROLLED).await;
    let revision = module["status"]["revision"].as_str().unwrap().to_owned();
    (bed, version, revision)
}

/// Controls with stages, revisions and clusters that do not exist, come at the wrong time, or contradict each other.
pub async fn words_that_cannot_be_meant(ground: Ground) {
    let (bed, version, revision) = waiting(ground).await;
    let (before, pin) = (all(&bed).await, &revision[..12]);
    let past = |what: &str| json!({"for": what, "until": "2020-01-01T00:00:00Z"}).to_string();
    let far = |what: &str| json!({"for": what, "until": "2326-01-01T00:00:00Z"}).to_string();
    let of_module: [(&str, String, &str); 9] = [
        (
            "approve",
            "canary@0123456789".to_owned(),
            "approve: stage canary of revision 0123456789",
        ),
        (
            "approve",
            format!("canari@{pin}"),
            "approve: stage canari of revision",
        ),
        (
            "promote",
            format!("canari@{pin}"),
            "promote: stage canari of revision",
        ),
        ("retry", "0123456789".to_owned(), "retry: revision 0123456789"),
        ("abort", "0123456789".to_owned(), "abort: revision 0123456789"),
        ("paused", past("true"), "paused: expired"),
        ("hold", past("eu-2"), "hold: expired"),
        (
            "hold",
            "eu-9".to_owned(),
            "hold: eu-9: the module selects no cluster of this name",
        ),
        ("pin", past(&format!("eu-2@{pin}")), "pin: expired"),
    ];
    for (key, value, message) in of_module {
        annotate(&bed, kinds::MODULE, "web", key, Some(&value)).await;
        until_without_effect(&bed, message).await;
        assert_eq!(all(&bed).await, before, "{key}={value}");
        annotate(&bed, kinds::MODULE, "web", key, None).await;
    }
    let of_cluster = [
        ("hold", past("true"), "hold: eu-2: expired"),
        (
            "hold",
            far("true"),
            "hold: eu-2: it cannot be read: until is 2326",
        ),
        ("pin.web", past(pin), "pin.web: eu-2: expired"),
        ("pin.web", far(pin), "until is 2326"),
        (
            "pin.web",
            "0123456789".to_owned(),
            "this module has no revision 0123456789",
        ),
        ("pin.web", "v1.0.0".to_owned(), "\"v1.0.0\" is not a revision"),
    ];
    for (key, value, message) in of_cluster {
        annotate(&bed, kinds::CLUSTER, "eu-2", key, Some(&value)).await;
        until_without_effect(&bed, message).await;
        assert_eq!(all(&bed).await, before, "{key}={value}");
        annotate(&bed, kinds::CLUSTER, "eu-2", key, None).await;
    }
    // Both held and pinned: hold takes precedence.
    annotate(&bed, kinds::MODULE, "web", "hold", Some("eu-2,eu-2")).await;
    annotate(&bed, kinds::CLUSTER, "eu-2", "pin.web", Some(pin)).await;
    until_without_effect(&bed, "it is also held, and a hold takes precedence over a pin").await;
    bed.until_named("web", "eu-2", "Held", &["held for this module"], ROLLED)
        .await;
    assert_eq!(
        bed.module("web").await["status"]["summary"]["held"],
        1,
        "named twice, held once"
    );
    assert_eq!(all(&bed).await, before);
    annotate(&bed, kinds::CLUSTER, "eu-2", "pin.web", None).await;
    annotate(&bed, kinds::MODULE, "web", "hold", None).await;
    assert_eq!(
        bed.order(&workload("web"), &version),
        ["eu-1"],
        "no other cluster has begun"
    );
    bed.until_reason("web", "WaitingApproval", ROLLED).await;
}

/// Input that stops the whole module until it is fixed.
pub async fn settings_that_cannot_be_meant(ground: Ground) {
    let (bed, version, revision) = waiting(ground).await;
    let before = all(&bed).await;
    let far = |what: &str| json!({"for": what, "until": "2326-01-01T00:00:00Z"}).to_string();
    let approval = format!("canary@{}", &revision[..12]);
    let pin = format!("eu-2@{0},eu-2@{0}", &revision[..12]);
    for (key, value, message) in [
        (
            "paused",
            far("true"),
            "fleet.muster.dev/paused cannot be read: until is 2326",
        ),
        (
            "hold",
            far("eu-2"),
            "fleet.muster.dev/hold cannot be read: until is 2326",
        ),
        (
            "pin",
            far("eu-2@0123456789"),
            "fleet.muster.dev/pin cannot be read: until is 2326",
        ),
        ("pin", pin, "it names cluster eu-2 twice"),
        ("pin", "eu-2".to_owned(), "is not of the form CLUSTER@REVISION"),
        ("retry", "now".to_owned(), "\"now\" is not a revision"),
    ] {
        annotate(&bed, kinds::MODULE, "web", key, Some(&value)).await;
        stalled(&bed, "InvalidControl", message).await;
        // A valid control is ignored as well, as long as the invalid one is present.
        annotate(&bed, kinds::MODULE, "web", "approve", Some(&approval)).await;
        bed.pass(ROLLED).await;
        assert_eq!(all(&bed).await, before, "{key}={value}");
        annotate(&bed, kinds::MODULE, "web", "approve", None).await;
        annotate(&bed, kinds::MODULE, "web", key, None).await;
        bed.until_reason("web", "WaitingApproval", ROLLED).await;
    }
    let stage =
        |name: &str, value: &str| json!({"name": name, "selector": {"matchLabels": {"stage": value}}});
    for (what, stages, message) in [
        (
            "a stage that no cluster matches",
            json!([stage("canary", "canari")]),
            "spec.rollout.stages[0]: no selected cluster is of stage canary",
        ),
        (
            "a stage whose clusters are all of the one before",
            json!([stage("canary", "canary"), stage("again", "canary")]),
            "spec.rollout.stages[1]: no selected cluster is of stage again",
        ),
    ] {
        let patch = json!({"spec": {"rollout": {"stages": stages}}});
        bed.fleet().patch(kinds::MODULE, "web", patch).await;
        stalled(&bed, "InvalidSpec", message).await;
        bed.pass(ROLLED).await;
        assert_eq!(all(&bed).await, before, "{what}");
    }
    // Overlapping stages are valid: a cluster belongs to the first.
    let all_clusters = json!({"name": "all", "selector": {"matchLabels": {"env": "prod"}}});
    let patch = json!({"spec": {"rollout": {"stages": [stage("canary", "canary"), all_clusters]}}});
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.order(&workload("web"), &version)[0], "eu-1");
}

async fn annotate(bed: &Bed, kind: crate::bed::Kind, name: &str, key: &str, value: Option<&str>) {
    let annotations = json!({format!("fleet.muster.dev/{key}"): value});
    bed.fleet()
        .patch(kind, name, json!({"metadata": {"annotations": annotations}}))
        .await;
}

/// Waits until a Warning reports that a control has no effect, with this text.
async fn until_without_effect(bed: &Bed, message: &str) {
    let poll = async || {
        let events = bed.fleet().list(kinds::EVENT).await;
        let mut without = events
            .iter()
            .filter(|event| event["reason"] == "ControlWithoutEffect");
        let found = without
            .any(|event| event["type"] == "Warning" && event["note"].as_str().unwrap().contains(message));
        if found {
            Ok(())
        } else {
            Err(format!("{events:#?}"))
        }
    };
    bed.wait_until(message, ROLLED, poll).await;
}

async fn stalled(bed: &Bed, reason: &str, message: &str) {
    let poll = async || {
        let module = bed.module("web").await;
        let is = condition(&module, "Stalled").is_some_and(|stalled| {
            stalled["reason"] == reason && stalled["message"].as_str().unwrap().contains(message)
        });
        if is { Ok(()) } else { Err(status_text(&module)) }
    };
    bed.wait_until(message, ROLLED, poll).await;
}

async fn all(bed: &Bed) -> Vec<Vec<String>> {
    let mut versions = Vec::new();
    for cluster in CLUSTERS {
        versions.push(bed.resource_versions(cluster, "web").await);
    }
    versions
}

//! Promise: a Module's `rollout` settings determine the course: stages, batches, domains, going back, and one-time
//! controls.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, Moment, Obstacle, kinds},
    fleet::{Quality, ROLLED, condition, status_text, workload},
};

/// Four clusters in two regions; the first by name is not a canary.
const FLEET: [(&str, &str, &str); 4] = [
    ("eu-1", "eu", "most"),
    ("eu-2", "eu", "most"),
    ("us-1", "us", "canary"),
    ("us-2", "us", "most"),
];

/// The fleet at its first version, with these settings for the next ones.
async fn deployed(ground: Ground, rollout: Value) -> Bed {
    let mut bed = Bed::new(ground).await;
    bed.prepare(&FLEET.map(|(name, ..)| name)).await;
    for (name, region, stage) in FLEET {
        let labels = [("env", "prod"), ("region", region), ("stage", stage)];
        bed.join(name, &labels, &[]).await;
    }
    bed.deploy(&["web"]).await;
    bed.fleet()
        .patch(kinds::MODULE, "web", json!({"spec": {"rollout": rollout}}))
        .await;
    bed
}

/// The canary, its approval, and then all others; none begins earlier.
pub async fn stages_with_approval(ground: Ground) {
    let stages = json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "approval": "Required", "soak": "3s"}]);
    let bed = deployed(ground, json!({"stages": stages, "maxUnreadyClusters": 4})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let module = bed.until_reason("web", "WaitingApproval", ROLLED).await;
    assert_eq!(bed.order(&workload("web"), &version), ["us-1"]);
    let word = command(&module, "approve");
    assert!(word.starts_with("canary@"), "{word}");

    say(&bed, "approve", "canary@0123456789").await;
    until_event(&bed, "ControlWithoutEffect").await;
    assert_eq!(
        bed.order(&workload("web"), &version),
        ["us-1"],
        "another revision is approved"
    );
    say(&bed, "approve", &word).await;
    bed.until_ready("web", &version).await;
    until_event(&bed, "ControlApplied").await;
    let order = bed.order(&workload("web"), &version);
    assert_eq!((order.len(), order[0].as_str()), (4, "us-1"));
}

/// Two modules of one commit, of which one depends on the other: in each cluster it is applied after the other, and
/// removed before it.
pub async fn depends_on(ground: Ground) {
    let mut bed = Bed::new(ground).await;
    bed.prepare(&FLEET.map(|(name, ..)| name)).await;
    for (name, region, _) in FLEET {
        bed.join(name, &[("env", "prod"), ("region", region)], &[]).await;
    }
    bed.deploy(&["base", "web"]).await;
    let needs = json!({"spec": {"dependsOn": [{"name": "base"}], "rollout": {"maxUnreadyClusters": 4}}});
    bed.fleet().patch(kinds::MODULE, "web", needs).await;
    let (base, web) = (
        bed.roll("base", 2, Quality::Good).await,
        bed.roll("web", 2, Quality::Good).await,
    );
    bed.until_ready("web", &web).await;
    let (needed, needing) = (bed.moments(&workload("base")), bed.moments(&workload("web")));
    for (cluster, ..) in FLEET {
        let of = |moment: &&Moment| moment.cluster == cluster;
        let done = needed
            .iter()
            .filter(of)
            .find(|moment| moment.version == base && moment.healthy);
        let begun = needing.iter().filter(of).find(|moment| moment.version == web);
        assert!(done.unwrap().at <= begun.unwrap().at, "{cluster}");
    }
    for module in ["base", "web"] {
        bed.fleet().delete(kinds::MODULE, module).await;
    }
    bed.wait_until("both are gone", ROLLED, async || {
        let left = bed.fleet().list(kinds::MODULE).await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
}

/// After the canary no cluster begins before the gate passes twice in a row; a gate that never answers blocks only its
/// own module.
pub async fn gates_hold_back(ground: Ground) {
    const TOKEN: &str = "hunter2-of-the-gate";
    let gate = json!({
        "http": {
            "url": "", "secretRef": {"name": "monitoring"}, "jsonPath": "$.data.result[0].value[1]", "op": "<", "value": "0.01",
        },
        "interval": "1s", "timeout": "3s", "passes": 2,
    });
    let health = json!({
        "condition": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "us-1", "type": "Observed"},
        "interval": "1s",
    });
    let bed = deployed(ground, json!({"maxUnreadyClusters": 4})).await;
    let secret = json!({"metadata": {"name": "monitoring"}, "stringData": {"token": TOKEN}});
    bed.fleet().create(kinds::SECRET, secret).await;
    let mut gate = gate;
    gate["http"]["url"] = json!(bed.monitoring.url("errors"));
    let stages = json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "gates": [gate, health]}]);
    let spec = json!({"spec": {"rollout": {"stages": stages}}});
    bed.fleet().patch(kinds::MODULE, "web", spec).await;

    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_named(
        "web",
        "eu-1",
        "WaitingGate",
        &["no complete response within 3 s"],
        ROLLED,
    )
    .await;
    // Other modules are not blocked by an unresponsive host.
    bed.deploy(&["other"]).await;
    bed.monitoring.set_answer("errors", "0.25");
    let read = [
        "gate 1 of stage canary",
        "passed 0 of 2 times",
        "it read 0.25, which is not < 0.01",
    ];
    bed.until_named("web", "eu-1", "WaitingGate", &read, ROLLED).await;
    until_event(&bed, "GateNotPassed").await;
    assert_eq!(bed.order(&workload("web"), &version), ["us-1"]);

    bed.monitoring.set_answer("errors", "0.004");
    let read = ["gate 2 of stage canary", "Cluster us-1 has no condition Observed"];
    bed.until_named("web", "eu-1", "WaitingGate", &read, ROLLED).await;
    assert_eq!(bed.order(&workload("web"), &version), ["us-1"]);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let observed = json!({"type": "Observed", "status": "True", "reason": "Looks", "message": "", "lastTransitionTime": now});
    let status = json!({"status": {"conditions": [observed]}});
    bed.fleet().patch_status(kinds::CLUSTER, "us-1", status).await;
    bed.until_ready("web", &version).await;
    let order = bed.order(&workload("web"), &version);
    assert_eq!((order.len(), order[0].as_str()), (4, "us-1"));

    let tokens = bed.monitoring.query_tokens("errors");
    assert!(tokens.len() >= 4, "{tokens:?}");
    assert!(
        tokens.iter().all(|token| token.as_deref() == Some(TOKEN)),
        "{tokens:?}"
    );
    for kind in [
        kinds::MODULE,
        kinds::EVENT,
        kinds::PROXY_ASSEMBLAGE,
        kinds::MODULE_REVISION,
    ] {
        let objects = bed.fleet().list(kind).await;
        assert!(!json!(objects).to_string().contains(TOKEN), "{objects:#?}");
    }
}

/// Batches of one, two, and the rest.
pub async fn batches_grow(ground: Ground) {
    let bed = deployed(
        ground,
        json!({"batch": {"start": 1, "factor": 2}, "maxUnreadyClusters": 4}),
    )
    .await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    let moments = bed.moments(&workload("web"));
    let healthy = |name: &str| {
        moments
            .iter()
            .position(|moment| moment.healthy && moment.version == version && moment.cluster == name)
    };
    let begun = |name: &str| {
        moments
            .iter()
            .position(|moment| moment.version == version && moment.cluster == name)
    };
    for (before, after) in [
        ("eu-1", "eu-2"),
        ("eu-1", "us-1"),
        ("eu-2", "us-2"),
        ("us-1", "us-2"),
    ] {
        assert!(
            healthy(before) < begun(after),
            "{after} began before {before} was healthy"
        );
    }
    assert!(begun("us-1") < healthy("eu-2") || bed.is_real(), "two at a time");
}

/// Only clusters of one region change at once.
pub async fn domains_are_exclusive(ground: Ground) {
    let bed = deployed(ground, json!({"exclusive": "region", "maxUnreadyClusters": 4})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    for changing in bed.changing(&workload("web")) {
        let regions: BTreeSet<&str> = changing.iter().map(|name| &name[..2]).collect();
        assert!(regions.len() <= 1, "{changing:?} were changing at once");
    }
    assert!(
        bed.most_changing(&workload("web")) == 2 || bed.is_real(),
        "those of one region together"
    );
}

/// A bad version is automatically reverted where it was applied; a retry is honored, and is reverted again.
pub async fn goes_back(ground: Ground) {
    let stages = json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}}]);
    let bed = deployed(
        ground,
        json!({"stages": stages, "onFailure": {"action": "Revert"}}),
    )
    .await;
    let version = bed.roll("web", 2, Quality::Bad).await;
    let poll = async || {
        let module = bed.module("web").await;
        let back = bed.version_in("us-1", "web").await.as_deref() == Some("web-v1");
        let rests = module["status"]["summary"]["updating"] == 0 && condition(&module, "Halted").is_some();
        if back && rests {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("the canary has gone back", ROLLED, poll).await;
    assert_eq!(
        bed.order(&workload("web"), &version),
        ["us-1"],
        "no other cluster ever had it"
    );
    let module = bed.module("web").await;
    let reasons: BTreeSet<&str> = attention(&module)
        .map(|entry| entry["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, BTreeSet::from(["Halted"]));
    assert_eq!(verdict(&bed, &version).await, "Bad");

    let version = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready("web", &version).await;
}

/// An aborted revision goes no further; after a retry, it does.
pub async fn aborted_and_tried_again(ground: Ground) {
    let stages =
        json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "approval": "Required"}]);
    let bed = deployed(ground, json!({"stages": stages})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let module = bed.until_reason("web", "WaitingApproval", ROLLED).await;
    let approval = command(&module, "approve");
    let (_, revision) = approval.split_once('@').unwrap();
    say(&bed, "abort", revision).await;
    let module = bed.until_reason("web", "Aborted", ROLLED).await;
    assert_eq!(condition(&module, "Stalled").unwrap()["status"], "True");
    assert_eq!(verdict(&bed, &version).await, "Aborted");
    say(&bed, "retry", &command(&module, "retry")).await;
    bed.until_reason("web", "WaitingApproval", ROLLED).await;
    say(&bed, "promote", &approval).await;
    bed.until_ready("web", &version).await;
    assert_eq!(verdict(&bed, &version).await, "Good");
}

/// A revision that is still bad at the retry fails again, by its current status; the retry is then used up.
pub async fn tried_again_in_vain(ground: Ground) {
    let bed = deployed(ground, json!({})).await;
    let version = bed.roll("web", 2, Quality::Bad).await;
    let module = bed.until_reason("web", "Failed", ROLLED).await;
    let revision = module["status"]["revision"].as_str().unwrap();
    say(&bed, "retry", &revision[..8]).await;
    let poll = async || {
        let reasons = bed.reasons_of("web");
        let failed = reasons.iter().filter(|reason| *reason == "Failed").count();
        if failed == 2 {
            Ok(())
        } else {
            Err(format!("{reasons:?}"))
        }
    };
    bed.wait_until("it fails again", ROLLED, poll).await;
    bed.pass(ROLLED).await;
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    assert_eq!(bed.reasons_of("web").last().unwrap(), "Failed");
    let row = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-1").await.unwrap();
    assert_eq!(
        row["status"]["syncs"][0]["token"],
        row["spec"]["syncs"][0]["token"]
    );
}

/// A cluster that joins while the target is bad never gets it.
pub async fn known_bad_is_refused_for_a_joiner(ground: Ground) {
    let mut bed = deployed(ground, json!({})).await;
    let version = bed.roll("web", 2, Quality::Bad).await;
    bed.until_reason("web", "Failed", ROLLED).await;
    let labels = [("env", "prod"), ("region", "eu"), ("stage", "most")];
    bed.join("eu-0", &labels, &[]).await;
    bed.until_named("web", "eu-0", "Halted", &["failed on eu-1"], ROLLED)
        .await;
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    let version = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.version_in("eu-0", "web").await.as_deref(), Some("web-v3"));
}

/// Clusters without a stage keep what they have, if configured so.
pub async fn unmatched_is_left_out(ground: Ground) {
    let stages = json!([{"name": "eu", "selector": {"matchLabels": {"region": "eu"}}}]);
    let bed = deployed(ground, json!({"stages": stages, "unmatched": "Exclude"})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1", "eu-2"]);
    assert_eq!(bed.version_in("us-1", "web").await.as_deref(), Some("web-v1"));
}

/// A stage without clusters would not protect anything: the rollout stops, and this is reported.
pub async fn a_stage_without_clusters(ground: Ground) {
    let stages = json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canari"}}}]);
    let bed = deployed(ground, json!({"stages": stages.clone()})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    let module = bed.until_reason("web", "InvalidSpec", ROLLED).await;
    let message = condition(&module, "Ready").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("spec.rollout.stages[0]: no selected cluster is of stage canary"),
        "{message}"
    );
    // A module that selects no cluster has no stage to fill.
    let tag = bed.release("other", 1, Quality::Good);
    let mut selects_none = bed.spec("other", &tag);
    selects_none["selector"] = json!({"matchLabels": {"env": "none"}});
    selects_none["rollout"] = json!({"stages": stages});
    let selects_none = json!({"metadata": {"name": "other"}, "spec": selects_none});
    bed.fleet().create(kinds::MODULE, selects_none).await;
    bed.until_reason("other", "NoClusters", ROLLED).await;
    bed.pass(ROLLED).await;
    assert!(bed.order(&workload("web"), &version).is_empty());
    bed.label_cluster("us-1", json!({"stage": "canari"})).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.order(&workload("web"), &version)[0], "us-1");
}

/// With this setting, an unreachable cluster is waited for, and no other begins.
pub async fn unreachable_is_waited_for(ground: Ground) {
    let mut bed = deployed(
        ground,
        json!({"onUnreachable": "Wait", "deadlines": {"absence": "10s"}}),
    )
    .await;
    let version = bed.release("web", 2, Quality::Good);
    bed.target("web", &version).await;
    bed.until_wanted("eu-1", "web", &version).await;
    bed.obstruct("eu-1", Obstacle::Unreachable).await;
    let module = bed
        .until_named(
            "web",
            "eu-1",
            "Unreachable",
            &["it has held its slot since"],
            ROLLED,
        )
        .await;
    println!("{module}");
    bed.pass(ROLLED).await;
    assert_eq!(
        bed.order(&workload("web"), &version),
        ["eu-1"],
        "its slot is not given away"
    );
    bed.clear("eu-1", Obstacle::Unreachable).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, 2 * ROLLED)
        .await;
}

/// A pinned cluster gets its revision, whatever its stage, and keeps it while the others roll; unpinned, it takes part
/// again.
pub async fn pinned(ground: Ground) {
    let bed = deployed(ground, json!({})).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    let stages =
        json!([{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "approval": "Required"}]);
    bed.fleet()
        .patch(
            kinds::MODULE,
            "web",
            json!({"spec": {"rollout": {"stages": stages}}}),
        )
        .await;
    let first = revision(&bed, "web-v1").await["spec"]["revision"].clone();
    let first = first.as_str().unwrap();
    let version = bed.roll("web", 3, Quality::Good).await;
    let module = bed.until_reason("web", "WaitingApproval", ROLLED).await;
    let pin = json!({"for": &first[..12], "by": "ann", "reason": "crashes there"}).to_string();
    pin_cluster(&bed, "eu-2", Some(&pin)).await;
    bed.until_wanted("eu-2", "web", "web-v1").await;
    let expected = format!(
        "pinned to web-v1 (revision {}) by ann (crashes there)",
        &first[..8]
    );
    bed.until_named("web", "eu-2", "Pinned", &[&expected], ROLLED)
        .await;
    assert_eq!(bed.order(&workload("web"), &version), ["us-1"]);
    say(&bed, "approve", &command(&module, "approve")).await;
    bed.until_ready("web", &version).await;
    let module = bed.module("web").await;
    let summary = &module["status"]["summary"];
    assert_eq!(
        (&summary["held"], &summary["clusters"]),
        (&json!(1), &json!("3/4"))
    );
    assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v1"));
    assert_eq!(bed.order(&workload("web"), &version), ["us-1", "eu-1", "us-2"]);
    pin_cluster(&bed, "eu-2", None).await;
    bed.until_wanted("eu-2", "web", &version).await;
    bed.until_not_named("web", "eu-2", ROLLED).await;
    assert_eq!(
        bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"),
        1,
        "a pin takes its turn"
    );
}

/// The outcome of each version is recorded: when, on how many clusters, and what failed; the recorded spec cannot be
/// changed.
pub async fn history(ground: Ground) {
    let bed = deployed(ground, json!({})).await;
    bed.roll("web", 2, Quality::Bad).await;
    bed.until_reason("web", "Failed", ROLLED).await;
    let last = bed.roll("web", 3, Quality::Good).await;
    bed.until_ready("web", &last).await;
    for (version, expect, clusters) in [
        ("web-v1", "Good", "4/4"),
        ("web-v2", "Bad", "0/4"),
        ("web-v3", "Good", "4/4"),
    ] {
        assert_eq!(verdict(&bed, version).await, expect);
        let status = revision(&bed, version).await["status"].clone();
        let times = ["started", "finished"].map(|time| status[time].as_str().unwrap().to_owned());
        assert!(times[0] <= times[1], "{times:?}");
        assert_eq!(status["counts"]["clusters"], clusters, "{version}: {status:#}");
        let evidence = status["evidence"].as_array().map_or(0, Vec::len);
        assert_eq!(evidence, usize::from(expect == "Bad"), "{status:#}");
    }
    let bad = revision(&bed, "web-v2").await;
    let evidence = &bad["status"]["evidence"][0];
    assert_eq!(evidence["cluster"], "eu-1");
    assert!(
        evidence["message"].as_str().unwrap().contains("web"),
        "{evidence}"
    );
    let mut forged = bad.clone();
    forged["spec"]["commit"] = json!("0".repeat(40));
    let name = bad["metadata"]["name"].as_str().unwrap();
    let refused = bed
        .fleet()
        .try_patch(kinds::MODULE_REVISION, name, json!({"spec": forged["spec"]}))
        .await;
    assert!(refused.unwrap_err().contains("a ModuleRevision is immutable"));
}

/// The ModuleRevision of a version.
async fn revision(bed: &Bed, version: &str) -> Value {
    let revisions = bed.fleet().list(kinds::MODULE_REVISION).await;
    let of_it = |revision: &Value| revision["spec"]["sync"]["source"]["git"]["version"]["tag"] == *version;
    revisions
        .into_iter()
        .find(of_it)
        .unwrap_or_else(|| panic!("no revision of {version}"))
}

async fn pin_cluster(bed: &Bed, cluster: &str, pin: Option<&str>) {
    let annotations = json!({"fleet.muster.dev/pin.web": pin});
    let patch = json!({"metadata": {"annotations": annotations}});
    bed.fleet().patch(kinds::CLUSTER, cluster, patch).await;
}

/// The entries of a module's `attention`.
fn attention(module: &Value) -> impl Iterator<Item = &Value> {
    module["status"]["attention"].as_array().into_iter().flatten()
}

/// The value of a control in the command that a message ends with.
fn command(module: &Value, control: &str) -> String {
    let key = format!("fleet.muster.dev/{control}=");
    let messages = attention(module).filter_map(|entry| entry["message"].as_str());
    let mut words = messages.filter_map(|message| Some(message.split_once(&key)?.1));
    words
        .next()
        .unwrap_or_else(|| panic!("no {key} in {module:#}"))
        .to_owned()
}

async fn say(bed: &Bed, control: &str, word: &str) {
    let annotations = json!({format!("fleet.muster.dev/{control}"): word});
    let patch = json!({"metadata": {"annotations": annotations}});
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
}

async fn until_event(bed: &Bed, reason: &str) {
    let poll = async || {
        let events = bed.fleet().list(kinds::EVENT).await;
        let found = events.iter().any(|event| event["reason"] == reason);
        if found {
            Ok(())
        } else {
            Err(format!("{} events", events.len()))
        }
    };
    bed.wait_until(&format!("{reason} is reported"), ROLLED, poll)
        .await;
}

/// The recorded verdict on a version.
async fn verdict(bed: &Bed, version: &str) -> String {
    let poll = async || {
        let revisions = bed.fleet().list(kinds::MODULE_REVISION).await;
        let of_it =
            |revision: &&Value| revision["spec"]["sync"]["source"]["git"]["version"]["tag"] == *version;
        let found = revisions
            .iter()
            .find(of_it)
            .and_then(|revision| revision["status"]["verdict"].as_str());
        found.map(str::to_owned).ok_or_else(|| format!("{revisions:#?}"))
    };
    bed.wait_until(&format!("there is a verdict on {version}"), ROLLED, poll)
        .await
        .1
}

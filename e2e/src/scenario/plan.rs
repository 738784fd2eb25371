//! Promise: `muster plan` predicts what then happens: the same clusters in the same batches, the same revision, the
//! same digests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, Obstacle, kinds},
    fleet::{Quality, ROLLED, workload},
};

/// A canary with approval, growing batches, one cluster that joins, and one that is paused.
pub async fn comes_true(ground: Ground) {
    const CLUSTERS: [&str; 6] = ["eu-1", "eu-2", "eu-3", "us-1", "us-2", "us-3"];
    let mut bed = Bed::new(ground).await;
    bed.prepare(&CLUSTERS).await;
    for name in CLUSTERS {
        let env = if name == "eu-3" { "next" } else { "prod" };
        let stage = if name == "us-1" { "canary" } else { "most" };
        bed.join(name, &[("env", env), ("stage", stage)], &[]).await;
    }
    bed.deploy(&["web"]).await;
    bed.obstruct("us-3", Obstacle::Paused).await;
    bed.until_named("web", "us-3", "ClusterPaused", &[], ROLLED).await;

    let version = bed.release("web", 2, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["selector"] =
        json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "next"]}]});
    spec["rollout"] = json!({
        "maxUnreadyClusters": 6, "batch": {"start": 1, "factor": 2}, "onJoin": "Target",
        "stages": [{"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}, "approval": "Required"}],
    });
    let (code, plan) = bed.plan("web", &spec).await;
    assert_eq!(code, Some(1), "{plan:#}");
    let foretold = &plan["modules"][0];
    let batches = batches(foretold);
    assert_eq!(
        batches,
        [set(&["us-1"]), set(&["eu-1", "eu-2"]), set(&["eu-3", "us-2"])]
    );
    assert_eq!(foretold["order"][1]["does"], "Pass");
    assert_eq!(foretold["joins"], json!(["eu-3"]));
    let skipped = &foretold["skipped"][0];
    assert_eq!(
        (&skipped["reason"], &skipped["clusters"]),
        (&json!("ClusterPaused"), &json!(["us-3"]))
    );
    assert_eq!(
        bed.order(&workload("web"), &version),
        [""; 0],
        "nothing was written"
    );

    let mut patch = json!({"spec": spec});
    patch["spec"]["selector"]["matchLabels"] = Value::Null; // a merge patch leaves what it does not name
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
    bed.until_reason("web", "WaitingApproval", ROLLED).await;
    let revision = foretold["to"]["revision"].as_str().unwrap();
    let approval =
        json!({"metadata": {"annotations": {"fleet.muster.dev/approve": format!("canary@{revision}")}}});
    bed.fleet().patch(kinds::MODULE, "web", approval).await;
    bed.until_ready("web", &version).await;

    let mut order = bed.order(&workload("web"), &version).into_iter();
    for batch in &batches {
        let together: BTreeSet<String> = order.by_ref().take(batch.len()).collect();
        assert_eq!(together, *batch);
    }
    assert_eq!(order.next(), None, "a skipped cluster is not touched");
    assert_eq!(bed.module("web").await["status"]["revision"], revision);
    for cluster in batches.iter().flatten() {
        let assemblage = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await.unwrap();
        let digest = &assemblage["spec"]["syncs"][0]["digest"];
        assert_eq!(*digest, foretold["digests"][cluster], "{cluster}");
    }
    let (code, plan) = bed.plan("web", &spec).await;
    assert_eq!((code, &plan["modules"]), (Some(0), &json!([])), "{plan:#}");
}

/// The clusters that are changed together, in order.
fn batches(module: &Value) -> Vec<BTreeSet<String>> {
    let steps = module["order"].as_array().unwrap().iter();
    let clusters = steps.filter_map(|step| step["clusters"].as_array());
    let name = |name: &Value| name.as_str().unwrap().to_owned();
    clusters
        .map(|clusters| clusters.iter().map(name).collect())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

//! Promise: what a controller keeps of a module's clusters from one decision to the next is accurate. After any
//! sequence of changes a restarted controller decides the same: it writes no row, and no status except for its own
//! times.

use std::{collections::BTreeMap, time::Duration};

use kube::api::ListParams;
use muster_api::ProxyAssemblage;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use crate::bed::*;

/// Longer than any deadline of a rollout.
const QUIET: Duration = Duration::from_mins(15);

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_decides_the_same() {
    for seed in 0..4 {
        walk(seed).await;
    }
}

async fn walk(seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    let mut bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two", "three"] {
        bed.release(tag, &["web"], tag);
    }
    for cluster in CLUSTERS {
        bed.patch_cluster(cluster, label("tier", Some("a"))).await;
    }
    let spec = json!({
        "controlPlaneBindings": [{"name": "TIER", "value": "$(CLUSTER_LABEL_tier)"}],
        "rollout": {"maxUnreadyClusters": 2, "deadlines": {"absence": "1m"}},
    });
    bed.deploy("web", "one", spec).await;
    for round in 0..6 {
        let mut story = Vec::new();
        for _ in 0..5 {
            story.push(happen(&mut bed, random).await);
            pass(Duration::from_secs(random.random_range(1..90))).await;
        }
        pass(QUIET).await;
        let before = decided(&bed).await;
        bed.crash_controller();
        bed.start_controller();
        pass(QUIET).await;
        assert_eq!(
            decided(&bed).await,
            before,
            "seed {seed}, round {round}: {story:?}"
        );
    }
}

fn label(key: &str, value: Option<&str>) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// Changes something that a decision depends on.
async fn happen(bed: &mut Bed, random: &mut StdRng) -> String {
    let cluster = *CLUSTERS.choose(random).unwrap();
    let annotations = |key: &str, value: Option<&str>| {
        let key = format!("fleet.muster.dev/{key}");
        json!({"metadata": {"annotations": {key: value}}})
    };
    let (what, patch) = match random.random_range(0..10) {
        0 => ("is not selected", label("env", Some("dev"))),
        1 => ("is selected", label("env", Some("prod"))),
        2 => (
            "has another value",
            label("tier", ["a", "b"].choose(random).copied()),
        ),
        3 => ("is held", annotations("hold", Some("true"))),
        4 => ("is released", annotations("hold", None)),
        5 => {
            bed.crash_agent(cluster);
            return format!("the agent of {cluster} ends");
        }
        6 => {
            bed.start_agent(cluster);
            return format!("the agent of {cluster} is there");
        }
        7 => {
            let paused = random.random_bool(0.3).then_some("true");
            bed.annotate("web", "paused", paused).await;
            return format!("paused: {paused:?}");
        }
        _ => {
            let tag = *["one", "two", "three"].choose(random).unwrap();
            bed.patch("web", version(tag)).await;
            return format!("the version is {tag}");
        }
    };
    bed.patch_cluster(cluster, patch).await;
    format!("{cluster} {what}")
}

/// The result of a decision: the reason of each cluster, and the rows.
async fn decided(bed: &Bed) -> (Value, BTreeMap<String, Option<Value>>) {
    let status = bed.module("web").await.unwrap()["status"].take();
    let reasons = json!([status["summary"], status["reasons"], status["rollout"]["run"]]);
    let mut rows = BTreeMap::new();
    for assemblage in bed
        .api::<ProxyAssemblage>()
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        let name = assemblage.metadata.name.unwrap();
        let row = bed.row(&name, "web").await;
        rows.insert(name, row);
    }
    (reasons, rows)
}

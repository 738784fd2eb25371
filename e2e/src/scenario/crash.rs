//! Promise: a controller or an agent that is killed during a rollout loses nothing: the rollout completes, and the
//! limit holds.

use std::time::Duration;

use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, workload},
};

const FOUR: [&str; 4] = ["a", "b", "c", "d"];

/// The controller is killed whenever a cluster has just begun to change, and the agent of that cluster once.
pub async fn in_the_middle(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &FOUR).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    for (round, cluster) in FOUR[..3].iter().enumerate() {
        bed.until_wanted(cluster, "web", &version).await;
        bed.crash_controller().await;
        if round == 1 {
            bed.crash_agent(cluster).await;
            bed.start_agent(cluster);
        }
        bed.start_controller();
    }
    let took = bed.until_ready("web", &version).await;
    println!("ready {took:?} after the last of three crashes");
    held(&bed, &version).await;
}

/// The controller is killed at successive points of a rollout.
pub async fn anywhere(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &FOUR).await;
    bed.deploy(&["web"]).await;
    let mut version = String::new();
    for round in 0..6_u32 {
        version = bed.roll("web", round + 2, Quality::Good).await;
        bed.pass(Duration::from_millis(u64::from(round) * 600)).await;
        bed.crash_controller().await;
        bed.pass(Duration::from_millis(u64::from(round % 3) * 700)).await;
        bed.start_controller();
        bed.until_ready("web", &version).await;
    }
    held(&bed, &version).await;
}

/// Terminated during a rollout, the controller exits in time and without an error; the next one continues.
pub async fn shutdown_in_the_middle(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &FOUR).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("b", "web", &version).await;
    bed.stop_controller().await;
    bed.start_controller();
    bed.until_ready("web", &version).await;
    held(&bed, &version).await;
}

async fn held(bed: &Bed, version: &str) {
    assert_eq!(bed.order(&workload("web"), version), FOUR);
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
    assert_eq!(bed.most_changing(&workload("web")), 1);
    assert!(
        bed.premature_claims("web").is_empty(),
        "{:#?}",
        bed.premature_claims("web")
    );
    for cluster in FOUR {
        assert_eq!(bed.version_in(cluster, "web").await.as_deref(), Some(version));
    }
}

//! Promise: a leader whose watch of Clusters lags behind does not reassign the slot of a cluster that it has not
//! observed yet, and does not drop such a cluster when a lost memory is rebuilt.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use muster_api::Module;
use muster_apiserver::{
    Verb,
    fault::{Fault, Match, Rule, RuleId},
};
use serde_json::json;

use crate::bed::*;

const BOTH: [&str; 2] = ["eu-1", "eu-2"];

struct Leaders {
    bed: Bed,
    /// A second leader beside the controller, which has not observed Cluster eu-1 yet.
    second: Deciding,
    blind: RuleId,
}

/// One cluster has v1. Another joined, and should get v1 as well, but its agent is not running yet. v2 is the target,
/// one at a time.
async fn leaders() -> Leaders {
    let mut bed = Bed::without_controller(&BOTH).await;
    for tag in ["v1", "v2"] {
        bed.release(tag, &["web"], tag);
    }
    bed.crash_agent("eu-1");
    bed.cluster_objects()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    bed.start_controller();
    let second = bed.decide("second", Duration::ZERO);
    bed.deploy("web", "v1", json!({})).await;
    // Two leaders that observe different clusters write the status in turn: that takes time.
    let status = Match {
        verbs: vec![Verb::Patch],
        path: Some("/modules/web/status".to_owned()),
        ..Match::default()
    };
    bed.management
        .faults()
        .add(Rule::always(status, Fault::Delay(Duration::from_secs(1))));
    let clusters = |path: &str, verbs: &[Verb]| Match {
        client: Some("second".to_owned()),
        verbs: verbs.to_vec(),
        path: Some(path.to_owned()),
        ..Match::default()
    };
    let faults = bed.management.faults();
    let blind = faults.add(Rule::always(
        clusters("/clusters", &[Verb::Watch, Verb::List]),
        Fault::Refuse,
    ));
    faults.close_watches(clusters("clusters", &[]));
    pass(Duration::from_secs(1)).await;
    bed.create_cluster("eu-1").await;
    bed.until("eu-1 is being changed", || async { bed.row("eu-1", "web").await })
        .await;
    Leaders { bed, second, blind }
}

/// The only slot is taken by the cluster without an agent, until its agent runs.
async fn one_at_a_time(leaders: Leaders, time: Duration) {
    let Leaders {
        mut bed,
        second,
        blind,
    } = leaders;
    let before = bed.row("eu-2", "web").await;
    pass(time).await;
    assert_eq!(bed.row("eu-2", "web").await, before, "the slot is that of eu-1");
    bed.management.faults().remove(blind);
    pass(Duration::from_mins(2)).await;
    bed.start_controller();
    bed.start_agent("eu-1");
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["v2", "v2"]);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn an_in_flight_cluster_keeps_its_slot() {
    let leaders = leaders().await;
    leaders.bed.patch("web", version("v2")).await;
    // Less than a deadline.
    one_at_a_time(leaders, Duration::from_mins(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_row_is_part_of_a_memory_that_is_rebuilt() {
    let mut leaders = leaders().await;
    leaders.bed.crash_controller();
    leaders
        .bed
        .api::<Module>()
        .patch_status(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"rollout": null}})),
        )
        .await
        .unwrap();
    leaders.bed.patch("web", version("v2")).await;
    // Longer than the absence deadline.
    one_at_a_time(leaders, Duration::from_mins(10)).await;
}

//! Promise: no deadline runs while there is no leader, however often the first write of the next leader fails.

use std::time::Duration;

use muster_api::Module;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_controllers::proxyassemblage;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::bed::*;

/// The controllers that a rollout needs, after a time without a leader.
fn lead(bed: &Bed, gap: Duration) -> Vec<AbortOnDropHandle<()>> {
    let Deciding {
        context,
        objects,
        mut tasks,
    } = bed.decide("controller", gap);
    let rows = tokio::spawn(proxyassemblage::run(context, objects, std::sync::Arc::default()));
    tasks.push(AbortOnDropHandle::new(rows));
    tasks
}

async fn reason(bed: &Bed) -> String {
    let module = bed.module("web").await.unwrap();
    let first = &module["status"]["attention"][0];
    assert_eq!(first["cluster"], "eu-1");
    first["reason"].as_str().unwrap().to_owned()
}

/// A cluster that does not pick up its assignment; two minutes of five have passed when the leader ends, and an hour
/// later another one takes over.
async fn after_an_hour(gap: Duration) -> (Bed, Vec<AbortOnDropHandle<()>>) {
    let mut bed = Bed::without_controller(&["eu-1"]).await;
    bed.crash_agent("eu-1");
    bed.release("v1", &["web"], "one");
    let first = lead(&bed, Duration::ZERO);
    bed.create::<Module>(module("web", "v1", json!({}))).await;
    bed.until("eu-1 is being changed", || async {
        (bed.module("web").await?["status"]["summary"]["updating"] == 1).then_some(())
    })
    .await;
    pass(Duration::from_mins(2)).await;
    drop(first);
    pass(Duration::from_hours(1)).await;
    bed.management.faults().add(Rule::times(
        Match {
            verbs: vec![Verb::Patch],
            path: Some("/modules/web/status".to_owned()),
            ..Match::default()
        },
        Fault::Status(Failure::Internal),
        3,
    ));
    let second = lead(&bed, gap);
    (bed, second)
}

#[tokio::test(start_paused = true)]
async fn the_time_without_a_controller_does_not_count_towards_deadlines() {
    let (bed, _leads) = after_an_hour(Duration::from_hours(1)).await;
    pass(Duration::from_secs(150)).await;
    assert_eq!(reason(&bed).await, "Updating", "not yet five minutes");
    pass(Duration::from_mins(1)).await;
    assert_eq!(
        reason(&bed).await,
        "NotPickedUp",
        "five minutes, and counted once"
    );
}

#[tokio::test(start_paused = true)]
async fn and_it_would_be_if_it_were_not_known() {
    let (bed, _leads) = after_an_hour(Duration::ZERO).await;
    pass(Duration::from_mins(1)).await;
    assert_eq!(reason(&bed).await, "NotPickedUp");
}

//! Promise: what is applied is at each instant entirely the old version or entirely the new one, never the path of one
//! with the commit of the other: with a slow source, and with crashes in between.

use std::time::Duration;

use muster_sync::source::Fault;
use serde_json::{Value, json};

use crate::bed::*;

/// Version and path change together; both paths are in both commits.
async fn moving() -> (Bed, Value) {
    let bed = Bed::new(&["eu-1", "eu-2"]).await;
    let files = |version: &str| {
        ["old", "new"].map(|path| {
            (
                format!("{path}/all.yaml"),
                config_map("web", &format!("{path} path of {version}")),
            )
        })
    };
    bed.release_files("v1", files("v1"));
    bed.release_files("v2", files("v2"));
    bed.deploy("web", "v1", json!({"sync": {"package": {"path": "old"}}}))
        .await;
    let mut change = version("v2");
    change["spec"]["sync"]["package"] = json!({"path": "new"});
    (bed, change)
}

fn text_history(bed: &Bed, cluster: &str) -> Vec<Option<String>> {
    bed.story(cluster, "web")
}

fn one_after_another() -> [Option<String>; 2] {
    ["old path of v1", "new path of v2"].map(|text| Some(text.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn with_a_source_that_is_slow_for_the_clusters() {
    let (bed, change) = moving().await;
    // The tag is resolved, and then the source hangs: no cluster can fetch.
    bed.patch("web", change).await;
    bed.until("the row is written", || async {
        bed.row("eu-1", "web")
            .await
            .filter(|row| row["package"]["path"] == "new")
    })
    .await;
    bed.source.break_with(URL, Fault::Hang);
    pass(Duration::from_mins(3)).await;
    bed.source.clear_fault(URL);
    bed.until_ready("web").await;
    for cluster in ["eu-1", "eu-2"] {
        assert_eq!(text_history(&bed, cluster), one_after_another(), "{cluster}");
    }
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn with_crashes_in_between() {
    // The time from the change to the crash; a rollout to both takes some seconds.
    for millis in (0..3_000).step_by(500) {
        let (mut bed, change) = moving().await;
        bed.patch("web", change).await;
        pass(Duration::from_millis(millis)).await;
        bed.crash_controller();
        for cluster in ["eu-1", "eu-2"] {
            bed.crash_agent(cluster);
        }
        pass(Duration::from_secs(1)).await;
        bed.start_controller();
        for cluster in ["eu-1", "eu-2"] {
            bed.start_agent(cluster);
        }
        bed.until_ready("web").await;
        for cluster in ["eu-1", "eu-2"] {
            assert_eq!(
                text_history(&bed, cluster),
                one_after_another(),
                "{cluster}, {millis} ms"
            );
        }
    }
}

//! Promise: the two processes, started as the command starts them, roll out a tagged commit of a module to every
//! selected cluster, one after another; a crash in between loses nothing; at rest nothing is written.

use std::time::Duration;

use muster_api::{BootstrapModule, Module};
use serde_json::{Value, json};

use crate::bed::*;

/// A tag at which the package contains this greeting.
fn release(bed: &Bed, tag: &str, greeting: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: greeting, namespace: default}}\ndata: {{text: {greeting}, cluster: \"${{CLUSTER}}\"}}\n"
    );
    bed.release_files(tag, [("base/greeting.yaml".to_owned(), manifest)]);
}

/// A module with the package, which contains the cluster's name.
fn base(tag: &str) -> Value {
    let spec = json!({
        "sync": {"package": {"path": "base", "substitute": {"CLUSTER": "$(NAME)"}}},
        "controlPlaneBindings": [{"name": "NAME", "value": "$(CLUSTER_NAME)"}],
        // Otherwise a rollout of ConfigMaps takes no time at all, and its steps would not be visible.
        "rollout": {"minReadySeconds": 1},
    });
    module("base", tag, spec)
}

/// Waits until all clusters have a text and the module is Ready; returns the states on the way.
async fn rolled(bed: &Bed, text: &str) -> Vec<Vec<String>> {
    let mut states: Vec<Vec<String>> = Vec::new();
    for _tenth in 0..6_000 {
        let texts = bed.texts("greeting").await;
        let all = texts.iter().all(|other| other == text);
        if states.last() != Some(&texts) {
            states.push(texts);
        }
        if all && is_ready(&bed.module("base").await.unwrap()) {
            return states;
        }
        pass(Duration::from_millis(100)).await;
    }
    panic!("{states:?}\n{:#}", bed.module("base").await.unwrap()["status"]);
}

/// The writes of the processes since the logs were emptied, by server.
fn writes(bed: &Bed) -> Vec<String> {
    let writes = bed.servers().flat_map(|(name, server)| {
        let writes = server.recorder().writes_of(|_| true);
        writes.into_iter().map(move |write| format!("{name}: {write}"))
    });
    writes.collect()
}

fn forget_requests(bed: &Bed) {
    bed.servers().for_each(|(_, server)| server.recorder().clear());
}

#[tokio::test(start_paused = true)]
async fn a_tag_reaches_every_cluster_one_after_another() {
    let bed = Bed::new(&["eu-1", "eu-2", "us-1"]).await;
    release(&bed, "v1", "one");
    bed.create::<Module>(base("v1")).await;
    let steps = rolled(&bed, "one").await;
    assert_eq!(
        steps,
        [
            ["", "", ""],
            ["one", "", ""],
            ["one", "one", ""],
            ["one", "one", "one"]
        ]
    );
    let greeting = bed.config_map("us-1", "greeting").await.unwrap();
    assert_eq!(greeting.data.unwrap()["cluster"], "us-1");

    release(&bed, "v2", "two");
    bed.patch("base", version("v2")).await;
    let steps = rolled(&bed, "two").await;
    assert_eq!(
        steps,
        [
            ["one", "one", "one"],
            ["two", "one", "one"],
            ["two", "two", "one"],
            ["two", "two", "two"]
        ]
    );
    let summary = bed.module("base").await.unwrap()["status"]["summary"].clone();
    assert_eq!(summary["clusters"], "3/3", "{summary}");

    pass(Duration::from_mins(1)).await;
    forget_requests(&bed);
    pass(Duration::from_mins(9)).await;
    assert_eq!(writes(&bed), Vec::<String>::new(), "at rest nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_moves_is_reported_once_and_rolls_nothing() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    release(&bed, "v1", "one");
    bed.create::<Module>(base("v1")).await;
    rolled(&bed, "one").await;
    let pinned = bed.module("base").await.unwrap()["status"]["source"].clone();
    let commit = pinned["commit"].as_str().unwrap();
    forget_requests(&bed);
    release(&bed, "v1", "moved");
    pass(Duration::from_hours(1)).await;
    for round in 0..2 {
        let module = bed.module("base").await.unwrap();
        let text = condition(&module, "TagMoved").unwrap_or_else(|| panic!("{:#}", module["status"]));
        assert!(
            text.starts_with("True TagMoved: tag v1 now points to commit "),
            "{text}"
        );
        let stays = format!(
            "; clusters stay at {commit}, the commit it was first resolved to; next: push a new tag to roll out the new commit"
        );
        assert!(text.ends_with(&stays), "{text}");
        assert!(is_ready(&module), "{:#}", module["status"]);
        assert_eq!(module["status"]["source"]["commit"], commit);
        assert_eq!(bed.texts("greeting").await, ["one", "one"]);
        let downstream = writes(&bed).into_iter().filter(|write| write.starts_with("eu-"));
        assert_eq!(downstream.collect::<Vec<_>>(), Vec::<String>::new());
        assert_eq!(bed.event_notes("TagMoved").await.len(), 1, "round {round}");
        // A restarted controller has only the status.
        bed.crash_controller();
        bed.start_controller();
        pass(Duration::from_hours(1)).await;
    }
    // The tag is set back: there is nothing to report any more.
    bed.source.tag(URL, "v1", &commit.parse().unwrap());
    pass(Duration::from_hours(1)).await;
    assert_eq!(condition(&bed.module("base").await.unwrap(), "TagMoved"), None);
    assert_eq!(bed.texts("greeting").await, ["one", "one"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_controller_or_an_agent_loses_nothing() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    release(&bed, "v1", "one");
    bed.create::<Module>(base("v1")).await;
    for round in 0..6 {
        pass(Duration::from_millis(300 * round)).await;
        bed.crash_controller();
        bed.crash_agent("eu-1");
        pass(Duration::from_secs(1)).await;
        bed.start_controller();
        bed.start_agent("eu-1");
    }
    rolled(&bed, "one").await;
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_module_needs_no_agent() {
    let mut bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.agents.clear();
    release(&bed, "v1", "one");
    let mut module = base("v1");
    module["kind"] = json!("BootstrapModule");
    bed.create::<BootstrapModule>(module).await;
    bed.until("both clusters have it", || async {
        (bed.texts("greeting").await == ["one", "one"]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn processes_end_on_shutdown() {
    let mut bed = Bed::new(&["eu-1"]).await;
    pass(Duration::from_secs(10)).await;
    bed.shutdown.cancel();
    let processes = std::mem::take(&mut bed.agents)
        .into_values()
        .chain(bed.controller.take());
    for process in processes {
        let ended = tokio::time::timeout(Duration::from_secs(31), process).await;
        assert!(ended.unwrap().unwrap().is_ok());
    }
}

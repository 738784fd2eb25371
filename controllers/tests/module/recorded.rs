//! Promise: all decisions of a controller are recorded when it ends, a replay of each gives the same result, and the
//! last memory is the one in the module's status.
//!
//! `MUSTER_RECORD_DECISIONS=DIRECTORY` keeps the record: that is how those in `cli/tests/fixtures/` were made.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use kube::api::DeleteParams;
use muster_controllers::process::controller;
use muster_rollout::{
    Memory, Step,
    record::{Case, Reader},
};
use serde_json::json;

use crate::bed::*;

fn read(log: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(log).unwrap();
    let mut reader = Reader::default();
    text.split_terminator('\n')
        .map(|line| reader.read(line.as_bytes()).unwrap().clone())
        .collect()
}

/// A good version, one that cannot be built, and a cluster that is deleted.
async fn roll(bed: &Bed) {
    bed.release("v1", &["web"], "one");
    bed.release_files("v2", [("web/all.yaml".to_owned(), "kind: [".to_owned())]);
    bed.deploy("web", "v1", json!({"rollout": {"minReadySeconds": 30}}))
        .await;
    bed.patch("web", version("v2")).await;
    bed.until_said("web", "Halted", "True Halted").await;
    bed.cluster_objects()
        .delete("us-1", &DeleteParams::default())
        .await
        .unwrap();
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_on_record_and_comes_out_the_same() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("MUSTER_RECORD_DECISIONS").map(PathBuf::from);
    let directory = kept.unwrap_or_else(|| temporary.path().join("decisions"));
    let bed = Bed::without_controller(&CLUSTERS).await;
    let mut setup = bed.setup(&bed.management, "controller", NS);
    setup.options.record_decisions = Some(directory.clone());
    let shutdown = setup.shutdown.clone();
    let process = tokio::spawn(controller(setup));
    roll(&bed).await;
    shutdown.cancel();
    process.await.unwrap().unwrap();

    let cases = read(&directory.join("fleet.Module.web.jsonl"));
    for case in &cases {
        assert_eq!(case.again(), case.decision);
    }
    let assigned = cases.iter().flat_map(|case| &case.decision.steps);
    let assigned: BTreeSet<String> = assigned
        .filter(|step| matches!(step, Step::Assign { .. }))
        .filter_map(|step| step.unit().map(ToString::to_string))
        .collect();
    assert_eq!(assigned, CLUSTERS.map(str::to_owned).into());
    let last = cases.last().unwrap();
    let ids: Vec<&str> = last.units.iter().map(|unit| unit.id.as_str()).collect();
    assert_eq!(ids, ["eu-1", "eu-2"]);
    let module = bed.module("web").await.unwrap();
    let stored = module["status"]["rollout"]["memory"].as_str().unwrap();
    let stored: Memory = serde_json::from_str(stored).unwrap();
    assert_eq!(last.decision.memory, stored);
    assert!(!stored.bad.is_empty(), "v2 is bad");
}

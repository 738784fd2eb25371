//! Promise: docs/zones.md describes every flag, label, annotation and metric; `examples/zones` is a group that can be
//! rolled, scaled and drained.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::{collections::BTreeMap, fs};

use muster_zones::{
    admit::no_downscale::NO_DOWNSCALE,
    authority::{INJECT_LABEL, NAMESPACE_LABEL},
    budget::{KnownBudgets, Observed},
    flags::{Effect, FLAGS},
    metrics::METRICS,
    model::{READY_TIME_ANNOTATION, Set, annotations},
    scale::{
        delay, follower, mirror,
        preparation::{self, Preparation},
        times,
    },
};
use serde_json::Value;

/// The rows of the tables under a heading: the name in the first column, then the others.
fn rows(heading: &str) -> BTreeMap<String, Vec<String>> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/zones.md")).unwrap();
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with(&format!("{heading}\n")));
    let lines = section
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    let mut rows = BTreeMap::new();
    for line in lines {
        let (name, rest) = line.split_once('`').unwrap();
        let cells = rest.split('|').skip(1).map(|cell| cell.trim().to_owned());
        assert!(
            rows.insert(name.to_owned(), cells.collect()).is_none(),
            "{name} appears twice"
        );
    }
    rows
}

#[test]
fn every_flag_is_documented_with_its_default() {
    let mut rows = rows("Flags");
    for flag in FLAGS {
        let name = format!("-{}", flag.name);
        let cells = rows.remove(&name).unwrap_or_else(|| panic!("{name} is missing"));
        let default = match flag.effective.unwrap_or(flag.default) {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        assert_eq!(cells[0], default, "{name}");
        let works = !cells[1].starts_with("no effect: ");
        assert_eq!(
            works,
            matches!(flag.effect, Effect::Works),
            "{name}: {}",
            cells[1]
        );
        let is_new = flag.help.ends_with("(not in rollout-operator)");
        assert_eq!(cells[1].starts_with("new: "), is_new, "{name}: {}", cells[1]);
    }
    assert!(rows.is_empty(), "there are no such flags: {rows:?}");
}

#[test]
fn every_metric_is_documented_with_its_labels() {
    let mut rows = rows("Metrics");
    for metric in METRICS {
        let cells = rows
            .remove(metric.name)
            .unwrap_or_else(|| panic!("{} is missing", metric.name));
        let labels = match metric.labels.join(", ") {
            labels if labels.is_empty() => "none".to_owned(),
            labels => labels,
        };
        assert_eq!(cells[0], labels, "{}", metric.name);
    }
    assert!(rows.is_empty(), "there are no such metrics: {rows:?}");
}

#[test]
fn every_label_and_annotation_is_documented() {
    let rows = rows("Labels and annotations");
    for name in [
        muster_api::labels::label::ROLLOUT_GROUP,
        NO_DOWNSCALE,
        INJECT_LABEL,
        NAMESPACE_LABEL,
        READY_TIME_ANNOTATION,
        annotations::MAX_UNAVAILABLE,
        annotations::PAUSED,
        delay::DELAY,
        delay::URL,
        follower::LEADER,
        follower::WHEN_READY,
        follower::FORCE_REPLICAS,
        mirror::NAME,
        mirror::KIND,
        mirror::API_VERSION,
        mirror::WRITE_BACK,
        preparation::PREPARE,
        preparation::PATH,
        preparation::PORT,
        times::LAST_DOWNSCALE,
        times::MIN_TIME,
    ] {
        assert!(rows.contains_key(name), "{name} is missing");
    }
}

/// The objects of a file of the example.
fn example(file: &str) -> Vec<Value> {
    let path = format!("{}/../examples/zones/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read(path).unwrap();
    let documents = muster_sync::yaml::documents(file, &text).unwrap();
    documents
        .into_iter()
        .map(|document| document.value().unwrap())
        .collect()
}

#[test]
fn the_example_is_a_group() {
    let objects = example("ingester.yaml").into_iter();
    let sets: Vec<Set> = objects
        .filter(|object| object["kind"] == "StatefulSet")
        .map(|object| Set::from_value(&object).unwrap())
        .collect();
    assert_eq!(sets.len(), 3);
    for set in &sets {
        assert_eq!(set.labels[muster_api::labels::label::ROLLOUT_GROUP], "ingester");
        assert_eq!(set.strategy, "OnDelete", "{}", set.name);
        let preparation = Preparation::of(&set.labels, &set.annotations, &set.service_name);
        assert!(matches!(preparation, Some(Ok(_))), "{}", set.name);
        // Its replicas come from the template, or from another zone.
        let template = mirror::reference(&set.annotations);
        let leader = follower::leader(set, &sets).unwrap();
        assert!(template.is_some() != leader.is_some(), "{}", set.name);
        if let Some(template) = template {
            let object = &example("replicas.yaml")[0];
            assert_eq!(
                (&*template.api_version, &*template.kind, &*template.name),
                (
                    object["apiVersion"].as_str().unwrap(),
                    object["kind"].as_str().unwrap(),
                    object["metadata"]["name"].as_str().unwrap()
                )
            );
        }
    }
    let mut known = KnownBudgets::default();
    assert_eq!(known.put(&example("budget.yaml")[0]), Observed::Updated);
}

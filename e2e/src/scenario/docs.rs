//! Promise: docs/rollouts.md is accurate: each example is run, and each picture shows what the clusters did.

use std::time::Duration;

use muster_sync::yaml;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    bed::{Bed, Ground, Moment, kinds},
    fleet::{Quality, ROLLED, condition, is_current, is_ready, status_text, workload},
};

/// The duration of one letter of a picture.
const LETTER: Duration = Duration::from_millis(500);
/// The reaction time of a user.
const THOUGHT: Duration = Duration::from_secs(2);

const FLEET: [(&str, &str, &str); 5] = [
    ("dev-1", "eu", "canary"),
    ("eu-1", "eu", "most"),
    ("eu-2", "eu", "most"),
    ("us-1", "us", "most"),
    ("us-2", "us", "most"),
];

/// The settings in `spec`, the quality of the next version, and the picture of the clusters.
struct Example<'a> {
    spec: Value,
    quality: Quality,
    picture: &'a str,
}

/// Runs all examples of the page.
pub async fn rollouts(ground: Ground) {
    let page = include_str!("../../../docs/rollouts.md");
    let mut different = Vec::new();
    for example in examples(page) {
        let drawn = run_example(ground, &example).await;
        if drawn != example.picture {
            different.push(format!("{}\n{drawn}", example.spec));
        }
    }
    assert!(
        different.is_empty(),
        "the pictures are:\n{}",
        different.join("\n")
    );
}

fn examples(page: &str) -> Vec<Example<'_>> {
    let blocks: Vec<(&str, &str)> = page
        .split("\n```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n').or(Some((block, ""))))
        .collect();
    let pairs = blocks.windows(2).filter(|pair| pair[0].0.starts_with("yaml"));
    pairs
        .map(|pair| Example {
            spec: match yaml::to_json(pair[0].1).unwrap() {
                spec if pair[0].0.ends_with("spec") => spec,
                rollout => json!({ "rollout": rollout }),
            },
            quality: if pair[0].0.ends_with("version=bad") {
                Quality::Bad
            } else {
                Quality::Good
            },
            picture: pair[1].1,
        })
        .collect()
}

async fn run_example(ground: Ground, example: &Example<'_>) -> String {
    let mut bed = Bed::new(ground).await;
    for (name, region, tier) in FLEET {
        bed.join(name, &[("env", "prod"), ("region", region), ("tier", tier)], &[])
            .await;
    }
    let modules: &[&str] = match example.spec.get("dependsOn") {
        Some(_) => &["base", "web"],
        None => &["web"],
    };
    bed.deploy(modules).await;
    bed.monitoring.set_answer("errors", "0.03");
    bed.fleet()
        .patch(kinds::MODULE, "web", json!({"spec": example.spec}))
        .await;
    let mut versions = Vec::new();
    for module in modules {
        versions.push((*module, bed.roll(module, 2, example.quality).await));
    }
    let version = &versions[versions.len() - 1].1;
    let poll = async || {
        let module = bed.module("web").await;
        let ready = condition(&module, "Ready").map(|ready| ready["reason"].clone());
        if ready == Some(json!("WaitingApproval")) {
            bed.pass(THOUGHT).await;
            approve(&bed, &module).await;
        }
        if ready == Some(json!("WaitingGate")) {
            bed.pass(THOUGHT).await;
            bed.monitoring.set_answer("errors", "0.004");
        }
        let over = is_ready(&module)
            || module["status"]["summary"]["updating"] == 0 && ready == Some(json!("Halted"));
        let failed = module["status"]["summary"]["failed"] != 0 && example.quality == Quality::Bad;
        let observed = is_current(&module) && module["status"]["source"]["tag"] == **version;
        if observed && (over || failed) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("it is over", 2 * ROLLED, poll).await;
    bed.pass(Duration::from_secs(10)).await;
    let stories: Vec<Story> = versions
        .into_iter()
        .map(|(module, version)| Story {
            module,
            moments: bed.moments(&workload(module)),
            version,
        })
        .collect();
    draw(&stories)
}

/// Runs the command that waiting clusters ask for.
async fn approve(bed: &Bed, module: &Value) {
    let message = condition(module, "Ready").unwrap()["message"].as_str().unwrap();
    let (_, word) = message.split_once("fleet.muster.dev/approve=").unwrap();
    let annotations = json!({"fleet.muster.dev/approve": word});
    let patch = json!({"metadata": {"annotations": annotations}});
    bed.fleet().patch(kinds::MODULE, "web", patch).await;
}

/// The picture of one module.
struct Story {
    module: &'static str,
    version: String,
    moments: Vec<Moment>,
}

/// One line per cluster, of each module if there are several, from the first change to the end of the last one.
fn draw(stories: &[Story]) -> String {
    let changed = |story: &Story| {
        let first = story
            .moments
            .iter()
            .find(|moment| moment.version == story.version);
        (first.unwrap().at, story.moments.last().unwrap().at)
    };
    let times = stories.iter().map(changed);
    let (first, last) = times
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        .unwrap();
    let letters = (last - first).as_millis().div_ceil(LETTER.as_millis()) + 1;
    let mut picture = Vec::new();
    for (cluster, ..) in FLEET {
        for story in stories {
            let module = if stories.len() > 1 { story.module } else { "" };
            let at = |time: Instant| letter(&story.moments, cluster, &story.version, time);
            let times = (0..u32::try_from(letters).unwrap()).map(|letter| first + LETTER * letter);
            let line: String = times.map(at).collect();
            let space = if module.is_empty() { 0 } else { 5 };
            picture.push(format!("{cluster:6}{module:space$}{line}"));
        }
    }
    picture.join("\n")
}

fn letter(moments: &[Moment], cluster: &str, version: &str, time: Instant) -> char {
    let of_it = moments
        .iter()
        .filter(|moment| moment.cluster == cluster && moment.at <= time);
    let now = of_it.max_by_key(|moment| (moment.at, moment.healthy)).unwrap();
    match (now.version == version, now.healthy) {
        (true, true) => '#',
        (true, false) => '>',
        (false, true) => '.',
        (false, false) => '<',
    }
}

//! Promise: clusters with hostile API servers delay the others by nothing, not even by one write; and they are
//! reported.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    bed::{Bed, Ground, Hostile, RequestEntry, kinds},
    fleet::{Quality, status_text},
};

/// Longer than all healthy clusters need.
const ROLLED: Duration = Duration::from_mins(5);
/// Five failures of 10 s and four pauses of 1 s; an assigned cluster keeps its slot for five minutes.
const NAMED: Duration = Duration::from_mins(15);
/// A typical memory limit of a controller, and less than one hostile response.
const MEMORY: u64 = 300 * 1024 * 1024;

/// When the four turn hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// They do not exist.
    Absent,
    /// They behave normally.
    Never,
    /// Before anything is rolled out.
    AtFirst,
    /// When the third healthy cluster begins to get the second version.
    Amid,
}

/// The observations of the healthy clusters.
struct Story {
    /// All requests to each of them until all had the second version.
    requests: BTreeMap<String, Vec<RequestEntry>>,
    /// When all had the first and the second version.
    had: [Duration; 2],
}

/// Twenty clusters, four of them hostile.
pub async fn of_twenty(ground: Ground) {
    compare(ground, 16).await;
}

/// The same with seven.
pub async fn of_seven(ground: Ground) {
    compare(ground, 3).await;
}

async fn compare(ground: Ground, well: usize) {
    let without = story(ground, well, When::Absent).await;
    let at_first = story(ground, well, When::AtFirst).await;
    same(&without, &at_first);
    let all_well = story(ground, well, When::Never).await;
    let amid = story(ground, well, When::Amid).await;
    same(&all_well, &amid);
}

fn same(expect: &Story, got: &Story) {
    println!("the healthy ones had both versions after {:?}", got.had);
    assert_eq!(expect.had, got.had);
    for (cluster, requests) in &expect.requests {
        assert!(
            requests.len() > 20,
            "{cluster}: something was rolled out: {}",
            requests.len()
        );
        let other = &got.requests[cluster];
        let differs = requests.iter().zip(other).find(|(one, other)| one != other);
        assert_eq!(differs, None, "{cluster}");
        assert_eq!(requests.len(), other.len(), "{cluster}");
    }
}

/// With real processes: the healthy clusters finish, the four are reported, and memory is bounded. Times are printed.
pub async fn bounded_memory(ground: Ground) {
    let story = story(ground, 16, When::AtFirst).await;
    println!("sixteen healthy ones had both versions after {:?}", story.had);
}

/// More clusters hang than a controller usually has workers; meanwhile a module for the healthy one rolls out.
pub async fn hung_clusters_hold_no_workers(ground: Ground) {
    let names: Vec<String> = (1..=9).map(|number| format!("hung-{number}")).collect();
    let mut bed = Bed::new(ground).await;
    for name in &names {
        bed.join(name, &[("env", "prod")], &[]).await;
    }
    bed.join("well", &[("env", "prod"), ("who", "well")], &[]).await;
    let version = bed.release("web", 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["rollout"] = json!({"strategy": "Replace"});
    let module = json!({"metadata": {"name": "web"}, "spec": spec});
    bed.fleet().create(kinds::MODULE, module).await;
    bed.until_ready("web", &version).await;
    let solo = bed.release("solo", 1, Quality::Good);
    for name in &names {
        // The watch ends, so the assemblage is read again, and that request hangs.
        bed.turn(name, Hostile::Silent);
    }
    bed.pass(Duration::from_secs(1)).await;
    let mut spec = bed.spec("solo", &solo);
    spec["selector"] = json!({"matchLabels": {"who": "well"}});
    let module = json!({"metadata": {"name": "solo"}, "spec": spec});
    bed.fleet().create(kinds::MODULE, module).await;
    let took = bed.until_ready("solo", &solo).await;
    println!("ready {took:?} after nine clusters began to hang");
    assert!(!bed.is_virtual() || took < Duration::from_secs(8), "{took:?}");
}

/// Two of the hostile clusters come first in the rollout order, two last: when they turn hostile, none of them is being
/// changed.
async fn story(ground: Ground, well: usize, when: When) -> Story {
    let well: Vec<String> = (1..=well).map(|number| format!("m-{number:02}")).collect();
    let bad = ["a-1", "a-2", "z-1", "z-2"];
    let mut bed = Bed::new(ground).await;
    for name in &well {
        bed.join(name, &[("env", "prod")], &[]).await;
    }
    let joined = bed.elapsed();
    if when != When::Absent {
        for (name, hostile) in bad.iter().zip(Hostile::ALL) {
            bed.join_hostile(name, (when == When::AtFirst).then_some(hostile))
                .await;
        }
    }
    if bed.is_virtual() {
        // The same instant in all stories, however long joining took.
        bed.pass((joined + Duration::from_secs(10)).saturating_sub(bed.elapsed()))
            .await;
    }
    let started = bed.elapsed();
    let first = bed.release("web", 1, Quality::Good);
    bed.create_module(kinds::MODULE, "web", &first).await;
    until_all_have(&bed, &well, &first).await;
    if matches!(when, When::Never | When::Amid) {
        bed.until_ready("web", &first).await;
    }
    let had_first = bed.elapsed().saturating_sub(started);
    let second = bed.roll("web", 2, Quality::Good).await;
    if matches!(when, When::Never | When::Amid) {
        bed.until_wanted(&well[2], "web", &second).await;
    }
    if when == When::Amid {
        for (name, hostile) in bad.iter().zip(Hostile::ALL) {
            bed.turn(name, hostile);
        }
    }
    until_all_have(&bed, &well, &second).await;
    let had = [had_first, bed.elapsed().saturating_sub(started)];
    let requests = well
        .iter()
        .map(|name| (name.clone(), bed.muster_requests(name)))
        .collect();
    if matches!(when, When::AtFirst | When::Amid) {
        until_named(&bed, &bad).await;
    }
    if let Some(bytes) = bed.memory_of_controller() {
        println!("the controller had at most {} MiB", bytes / 1024 / 1024);
        assert!(bytes < MEMORY, "{bytes} bytes");
    }
    Story { requests, had }
}

async fn until_all_have(bed: &Bed, clusters: &[String], version: &str) {
    let poll = async || {
        for cluster in clusters {
            if bed.confirmed_in(cluster, "web").await.as_deref() != Some(version) {
                return Err(format!(
                    "not {cluster}; {}",
                    status_text(&bed.module("web").await)
                ));
            }
        }
        Ok(())
    };
    bed.wait_until(&format!("all healthy ones have {version}"), ROLLED, poll)
        .await;
}

async fn until_named(bed: &Bed, bad: &[&str]) {
    let poll = async || {
        let module = bed.module("web").await;
        let attention = module["status"]["attention"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let named = |cluster: &&str| {
            attention
                .iter()
                .any(|entry| entry["cluster"] == **cluster && entry["reason"] == "Unreachable")
        };
        if bad.iter().all(named) {
            Ok(attention)
        } else {
            Err(status_text(&module))
        }
    };
    let (took, attention) = bed.wait_until("the bad ones are named", NAMED, poll).await;
    println!("the bad ones are named {took:?} later:");
    for entry in attention {
        println!("  {} {} {}", entry["cluster"], entry["reason"], entry["message"]);
    }
}

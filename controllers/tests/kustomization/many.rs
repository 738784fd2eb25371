//! Five thousand objects in one Kustomization: applied, recorded within the limits of a status, and at rest nothing is
//! written.

use std::{fmt::Write as _, time::Duration};

use serde_json::json;

use crate::support::{Bed, condition, config_yaml, ids, kustomization, message};

const OBJECTS: usize = 5_000;
/// The maximum size of one write in etcd.
const OBJECT_MAX: usize = 1_572_864;

/// This many ConfigMaps in files of 500, with names as long as usual generated ones.
fn files(objects: usize, name: impl Fn(usize) -> String) -> Vec<(String, String)> {
    let all: Vec<usize> = (0..objects).collect();
    all.chunks(500)
        .enumerate()
        .map(|(file, numbers)| {
            let mut text = String::new();
            for number in numbers {
                write!(text, "---\n{}", config_yaml(&name(*number), "x")).unwrap();
            }
            (format!("app/{file}.yaml"), text)
        })
        .collect()
}

fn commit(bed: &Bed, files: &[(String, String)]) -> String {
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    bed.commit(&files)
}

#[tokio::test(start_paused = true)]
async fn five_thousand_objects_are_applied_and_then_left_alone() {
    let bed = Bed::new();
    let commit = commit(
        &bed,
        &files(OBJECTS, |n| format!("configuration-of-component-{n:04}")),
    );
    bed.deploy(json!({"timeout": "1h", "wait": false})).await;
    let object = bed.until_at("app", &commit).await;
    assert_eq!(ids(&object).len(), OBJECTS);
    let (whole, inventory) = (
        object.to_string().len(),
        object["status"]["inventory"].to_string().len(),
    );
    println!("{OBJECTS} objects: inventory {inventory} bytes, object {whole} bytes");
    assert!(whole < OBJECT_MAX / 2, "{whole}");

    bed.pass(Duration::from_secs(5)).await;
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(660)).await;
    assert_eq!(bed.writes(), Vec::<String>::new());
    let requests = bed.api.recorder().requests();
    let dry_runs = requests
        .iter()
        .filter(|request| request.query.contains("dryRun=All"))
        .count();
    assert_eq!(dry_runs, OBJECTS, "each was read once");
}

/// A record that would not fit is refused before anything is applied: otherwise the API server would refuse it halfway.
#[tokio::test(start_paused = true)]
async fn more_than_a_status_can_hold_is_refused_before_anything_is_applied() {
    let bed = Bed::new();
    let name = |n| format!("{n:05}-{}", "long-".repeat(49).trim_end_matches('-'));
    let before = bed.deployed().await;
    commit(&bed, &files(OBJECTS, name));
    bed.deploy(json!({})).await;
    let object = bed.until_ready("app", "False ReconciliationFailed").await;
    assert_eq!(
        message(&object, "Ready"),
        "TooLarge: the inventory of 5000 objects takes 1440000 bytes in the status, and at most 1310720 are allowed; split the path into several Kustomizations"
    );
    assert!(
        condition(&object, "Stalled").is_none(),
        "another revision may be smaller"
    );
    assert_eq!(bed.deployed().await, before);
    assert_eq!(ids(&bed.read(&kustomization("app")).await.unwrap()).len(), 0);
}

//! Thousands of objects in one path: applied in stages, then checked without a write.

use std::{collections::BTreeMap, time::Duration};

use muster_sync::{apply::ApplyOutcome, inventory::Inventory};
use serde_json::{Value, json};

use crate::support::{Bed, config_map, namespace, widget, widget_definition};

const OBJECTS: usize = 5_000;

/// Names of realistic length, in 20 namespaces; one in ten is a custom resource.
fn manifests() -> Vec<Value> {
    let namespaces = (0..20).map(|n| namespace(&format!("team-{n:02}")));
    let rest = (0..OBJECTS - 21).map(|n| {
        let name = format!("payments-gateway-configuration-{n:04}");
        let mut object = if n % 10 == 0 {
            widget(&name, 1)
        } else {
            config_map(&name, &json!({"config.yaml": "a: b\n".repeat(20)}))
        };
        object["metadata"]["namespace"] = json!(format!("team-{:02}", n % 20));
        object
    });
    rest.chain(namespaces)
        .chain([widget_definition("Namespaced")])
        .collect()
}

/// The number of requests of one type.
fn counts(bed: &Bed) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for request in bed.api.recorder().requests() {
        let kind = match (request.verb, request.is_write()) {
            (None, _) => "discovery",
            (Some(verb), false) if verb.is_write() => "dry run",
            (Some(_), false) => "read",
            (Some(_), true) => "write",
        };
        *counts.entry(kind).or_default() += 1;
    }
    bed.api.recorder().clear();
    counts
}

#[tokio::test(start_paused = true)]
async fn five_thousand_are_applied_and_then_left_alone() {
    let bed = Bed::new();
    let manifests = manifests();
    let started = tokio::time::Instant::now();
    let first = bed.applied(&manifests).await;
    assert_eq!(first.len(), OBJECTS);
    assert!(first.values().all(|outcome| *outcome == ApplyOutcome::Created));
    assert_eq!(bed.api.recorder().dropped().0, 0);
    // A read and a write each; two more reads of the definition, until it is established.
    assert_eq!(
        counts(&bed),
        BTreeMap::from([("discovery", 3), ("read", OBJECTS + 2), ("write", OBJECTS)])
    );
    let second = bed.applied(&manifests).await;
    assert!(second.values().all(|outcome| *outcome == ApplyOutcome::Unchanged));
    assert_eq!(
        counts(&bed),
        BTreeMap::from([("dry run", OBJECTS), ("read", OBJECTS + 1)])
    );
    // No waiting: all the time is spent in the server.
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );

    // The inventory of all of them fits into one object: etcd's limit is 1.5 MiB.
    let recorded: Inventory = bed.ledger.recorded.lock().clone();
    let status = serde_json::to_vec(&recorded.to_status()).unwrap();
    println!("{OBJECTS} objects: an inventory of {} KiB", status.len() / 1024);
    assert!(status.len() < 1024 * 1024, "{}", status.len());
}

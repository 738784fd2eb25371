//! The content of all API servers, normalized so that two runs can be compared, and the creations and deletions on the
//! way there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_apiserver::ChangeKind;
use serde_json::Value;

use super::Bed;

/// Every object of every server by server, resource and name, without fields that may differ between runs.
pub type World = BTreeMap<String, Value>;
/// How often each object was created and deleted.
pub type Changes = BTreeMap<String, (usize, usize)>;

/// Resources that depend on the course of a run and not on its end, or whose names are random.
const LEFT_OUT: [&str; 5] = ["events", "leases", "pods", "replicasets", "endpointslices"];
/// The server's certificate, which differs per server.
const AUTHORITY: &str = "kube-root-ca.crt";
/// Metadata fields that count writes, or record their author and time.
const METADATA: [&str; 5] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
];
/// Fields that count writes: generations, tokens and revisions of Deployments. `rollout` is the memory of the engine,
/// `history` a log.
const COUNTERS: [&str; 6] = [
    "observedGeneration",
    "token",
    "rollout",
    "history",
    "deployment.kubernetes.io/revision",
    "uid",
];

impl Bed {
    /// The current content, from the event logs since the servers were started.
    pub fn world(&self) -> World {
        let mut world = World::new();
        self.each_event(|id, kind, object| {
            if kind == ChangeKind::Deleted {
                world.remove(&id);
            } else {
                let mut object = object.clone();
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.retain(|name, _| !METADATA.contains(&name.as_str()));
                }
                plain(&mut object);
                if object["kind"] == "ModuleRevision"
                    && let Some(status) = object["status"].as_object_mut()
                {
                    // Counts at the time of the verdict, when a cluster may be probed again.
                    status.remove("counts");
                }
                world.insert(id, object);
            }
        });
        world
    }

    /// The creations and deletions so far.
    pub fn changes(&self) -> Changes {
        let mut changes = Changes::new();
        self.each_event(|id, kind, _| {
            let (made, removed) = changes.entry(id).or_default();
            match kind {
                ChangeKind::Added => *made += 1,
                ChangeKind::Deleted => *removed += 1,
                ChangeKind::Modified => {}
            }
        });
        changes
    }

    fn each_event(&self, mut take: impl FnMut(String, ChangeKind, &Value)) {
        for (server, api) in self.servers() {
            let api = api.embedded();
            assert_eq!(api.recorder().dropped().1, 0, "the event log is complete");
            for event in api.recorder().events() {
                let resource = &event.resource;
                if LEFT_OUT.contains(&resource.resource.as_str()) {
                    continue;
                }
                let metadata = &event.object()["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default();
                if text("name") == AUTHORITY {
                    continue;
                }
                let id = format!(
                    "{server} {} {}/{}",
                    resource.resource,
                    text("namespace"),
                    text("name")
                );
                take(id, event.kind(), event.object());
            }
        }
    }
}

/// Removes counters; every time is replaced by the same word.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !COUNTERS.contains(&name.as_str()));
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "(time)".clone_into(text),
        _ => {}
    }
}

/// The differences between two worlds: one line each, at most twenty.
pub fn differences(expect: &World, found: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for id in expect.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let none = Value::Null;
        let (expect, found) = (expect.get(id).unwrap_or(&none), found.get(id).unwrap_or(&none));
        compare(id, expect, found, &mut lines);
    }
    lines.truncate(20);
    lines
}

/// Objects that were created or deleted more or less often than expected.
pub fn unlike(expect: &Changes, found: &Changes) -> Vec<String> {
    let ids: BTreeSet<&String> = expect.keys().chain(found.keys()).collect();
    let times = |changes: &Changes, id: &String| changes.get(id).copied().unwrap_or_default();
    ids.into_iter()
        .map(|id| (id, times(expect, id), times(found, id)))
        .filter(|(_, expect, found)| expect != found)
        .map(|(id, expect, found)| format!("{id}: made and removed {found:?} times instead of {expect:?}"))
        .collect()
}

fn compare(place: &str, expect: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expect, found) {
        _ if expect == found => {}
        (Value::Object(left), Value::Object(right)) => {
            for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                compare(&format!("{place} {name}"), &expect[name], &found[name], lines);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (number, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{place} {number}"), left, right, lines);
            }
        }
        _ => lines.push(format!("{place}: {found} instead of {expect}")),
    }
}

//! Event has two versions, core/v1 and events.k8s.io/v1, of the same objects. The store holds core/v1.

use serde_json::Value;

/// Fields with different names: core, events.k8s.io.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An events.k8s.io/v1 event as core/v1.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, NAMES.iter().map(|(core, new)| (*new, *core)), "v1");
}

/// A core/v1 event as events.k8s.io/v1.
pub(crate) fn from_core(event: &mut Value) {
    rename(event, NAMES.iter().copied(), "events.k8s.io/v1");
}

fn rename<'a>(event: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>, api_version: &str) {
    let Some(fields) = event.as_object_mut() else {
        return;
    };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    fields.insert("apiVersion".to_owned(), api_version.into());
}

//! Promise: the health expressions judge real statuses as their operators mean them, and only cover kinds that the
//! rules of kstatus misread.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_health::{
    Expressions, Stop, Verdict,
    table::{Entry, V1},
};
use muster_sync::{
    health::{self, State},
    yaml,
};
use serde_json::Value;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../health-cel/tests/fixtures/table/v1")
}

fn file(entry: &Entry) -> PathBuf {
    directory().join(format!("{}.{}.yaml", entry.kind, entry.group()))
}

/// The recorded objects of a kind.
fn recorded(entry: &Entry) -> Vec<Value> {
    let file = file(entry);
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let documents = yaml::documents(&file.display().to_string(), &bytes).unwrap();
    let objects: Vec<Value> = documents
        .iter()
        .map(|document| document.value().unwrap())
        .collect();
    for object in &objects {
        assert_eq!(
            (&object["apiVersion"], &object["kind"]),
            (&entry.api_version.into(), &entry.kind.into())
        );
    }
    objects
}

fn judged(entry: &Entry, object: &Value) -> State {
    let expressions = Expressions::parse(entry.current, entry.in_progress, entry.failed).unwrap();
    match expressions.evaluate(object, &Stop::default()) {
        Ok(Verdict::Current) => State::Current,
        Ok(Verdict::Failed) => State::Failed,
        // Not healthy until it has a value.
        Ok(Verdict::InProgress | Verdict::NotCurrent | Verdict::NotObserved) | Err(_) => State::InProgress,
    }
}

fn expected(object: &Value) -> &str {
    object["metadata"]["labels"]["expect"].as_str().unwrap()
}

#[test]
fn real_statuses_are_judged_as_their_operators_mean_them() {
    for entry in V1 {
        let objects = recorded(entry);
        assert!(objects.len() >= 3, "{}", entry.kind);
        for object in &objects {
            let name = &object["metadata"]["name"];
            assert_eq!(
                judged(entry, object).as_str(),
                expected(object),
                "{} {name}",
                entry.kind
            );
        }
        let has = |state: State| objects.iter().any(|object| expected(object) == state.as_str());
        assert!(has(State::Current) && has(State::InProgress), "{}", entry.kind);
        assert_eq!(has(State::Failed), entry.failed.is_some(), "{}", entry.kind);
    }
}

#[test]
fn the_rules_of_kstatus_misread_each_kind() {
    for entry in V1 {
        let misread = recorded(entry).iter().any(|object| {
            health::health_of(object, Timestamp::UNIX_EPOCH).state.as_str() != expected(object)
        });
        assert!(misread, "{}: the table needs no entry for it", entry.kind);
    }
}

#[test]
fn an_object_without_a_status_is_waited_for() {
    for entry in V1 {
        for mut object in recorded(entry) {
            object.as_object_mut().unwrap().remove("status");
            assert_eq!(judged(entry, &object), State::InProgress, "{object}");
            object["status"] = serde_json::json!({});
            assert_eq!(judged(entry, &object), State::InProgress, "{object}");
        }
    }
}

#[test]
fn a_status_about_an_older_generation_says_nothing() {
    for entry in V1 {
        let objects = recorded(entry);
        let observed = objects.into_iter().filter(|object| {
            let mut status = object["status"].to_string();
            status.retain(|letter| !letter.is_whitespace());
            status.contains("\"observedGeneration\"")
        });
        for mut object in observed {
            object["metadata"]["generation"] = 77.into();
            assert_eq!(judged(entry, &object), State::InProgress, "{object}");
        }
    }
}

#[test]
fn every_recorded_status_is_of_the_table() {
    let files = std::fs::read_dir(directory()).unwrap();
    assert_eq!(files.count(), V1.len());
}

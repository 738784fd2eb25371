//! Difficult documents: the results of kubectl itself (`cargo xtask fixtures`) compared to ours.
//!
//! A case is equal, or marked as a deviation with its reason and our result.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use muster_sync::build::{self, BuildOptions};
use muster_sync::source::{File, Files};
use serde::Deserialize;
use serde_json::Value;

/// A line of a fixture file, as `e2e/fixtures/yaml` writes it.
#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    text: String,
    /// Base64, if the document is not UTF-8.
    bytes: Option<String>,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    error: String,
    /// Why ours differs; then `ours` is the expected value, or an error is expected.
    deviation: Option<String>,
    ours: Option<Vec<Value>>,
}

impl Case {
    fn bytes(&self) -> Vec<u8> {
        match &self.bytes {
            Some(bytes) => base64::engine::general_purpose::STANDARD.decode(bytes).unwrap(),
            None => self.text.clone().into_bytes(),
        }
    }

    fn kubectl(&self) -> Result<Vec<Value>, String> {
        if self.error.is_empty() {
            Ok(self.objects.clone())
        } else {
            Err(self.error.clone())
        }
    }

    /// The difference, if there is one.
    fn problem(&self, ours: &Result<Vec<Value>, String>) -> Option<String> {
        let kubectl = self.kubectl();
        let wanted = match (&self.deviation, &self.ours) {
            (None, _) => kubectl.clone(),
            (Some(_), Some(objects)) => Ok(objects.clone()),
            (Some(why), None) => Err(why.clone()),
        };
        let stale = self.deviation.is_some() && equal(&kubectl, &wanted);
        if equal(ours, &wanted) && !stale {
            return None;
        }
        let text = String::from_utf8_lossy(&self.bytes()).into_owned();
        let marked = &self.deviation;
        Some(format!(
            "{text:?}\n  kubectl {kubectl:?}\n  ours    {ours:?}\n  marked  {marked:?}\n"
        ))
    }
}

fn equal(left: &Result<Vec<Value>, String>, right: &Result<Vec<Value>, String>) -> bool {
    match (left, right) {
        (Ok(left), Ok(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| crate::reading::same(left, right))
        }
        (left, right) => left.is_err() && right.is_err(),
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/yaml")
}

fn cases(topic: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(directory().join(format!("{topic}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Uses the build: unrolled lists, with identities.
fn built(bytes: &[u8]) -> Result<Vec<Value>, String> {
    let file = File {
        path: "x.yaml".to_owned(),
        bytes: bytes.to_vec().into(),
    };
    let manifests = build::build(&Files::new([file]), &BuildOptions::default());
    manifests
        .map(|manifests| manifests.into_iter().map(|manifest| manifest.object).collect())
        .map_err(|errors| errors.to_string())
}

/// Every case of a topic; our errors are one snapshot.
fn check(topic: &str, read: impl Fn(&[u8]) -> Result<Vec<Value>, String>) {
    let mut problems = Vec::new();
    let mut errors = String::new();
    for case in cases(topic) {
        let bytes = case.bytes();
        let ours = read(&bytes);
        problems.extend(case.problem(&ours));
        if let Err(error) = ours {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let shown = text
                .strip_prefix("apiVersion: v1\nkind: T\n")
                .map_or_else(|| format!("{text:?}"), |rest| format!("… {rest:?}"));
            let cut: String = shown.chars().take(120).collect();
            writeln!(errors, "{cut}\n    {error}").unwrap();
        }
    }
    assert!(
        problems.is_empty(),
        "{} differ:\n{}",
        problems.len(),
        problems.join("\n")
    );
    insta::assert_snapshot!(format!("errors_of_{topic}"), errors);
}

fn plainly(bytes: &[u8]) -> Result<Vec<Value>, String> {
    crate::reading::objects("x.yaml", bytes)
}

#[test]
fn scalars() {
    check("scalars", plainly);
}

#[test]
fn tags() {
    check("tags", plainly);
}

#[test]
fn blocks() {
    check("blocks", plainly);
}

#[test]
fn quotes() {
    check("quotes", plainly);
}

#[test]
fn collections() {
    check("collections", plainly);
}

#[test]
fn keys() {
    check("keys", plainly);
}

#[test]
fn merges() {
    check("merges", plainly);
}

#[test]
fn streams() {
    check("streams", plainly);
}

#[test]
fn json() {
    check("json", plainly);
}

#[test]
fn characters() {
    check("characters", plainly);
}

#[test]
fn errors() {
    check("errors", plainly);
}

#[test]
fn lists() {
    check("lists", built);
}

#[test]
fn all_yaml_fixtures_are_checked_and_there_are_enough() {
    let mut topics: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    topics.sort();
    let checked = [
        "blocks",
        "characters",
        "collections",
        "errors",
        "json",
        "keys",
        "lists",
        "merges",
        "quotes",
        "scalars",
        "streams",
        "tags",
    ];
    assert_eq!(topics, checked.map(|topic| format!("{topic}.json")));
    let count: usize = checked.iter().map(|topic| cases(topic).len()).sum();
    assert!(count >= 300, "{count}");
}

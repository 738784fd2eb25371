//! Reads manifests that kubectl has read, and reports where the two differ: `cargo xtask fixtures --check` runs it.
//!
//! `same LINES`: each line is JSON with `name`, the `path` of a file, and `objects` or `error`, as
//! `e2e/fixtures/manifests` prints them.

#[path = "../tests/yaml/reading.rs"]
mod reading;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

/// Parts of our messages for documented cases where we refuse what kubectl accepts.
const DEVIATIONS: &[&str] = &[
    "duplicate key",
    "unknown tag",
    "text after the end of the document",
    "kubectl may accept it",
    "not UTF-8",
    "is not allowed; write it as an escape",
];

/// Parts of kubectl's messages where the text was parsed but is not an object: the build or the API server refuses it.
const NO_OBJECTS: &[&str] = &["Object 'Kind' is missing", "cannot unmarshal"];

#[derive(Deserialize)]
struct Line {
    name: String,
    path: String,
    #[serde(default)]
    objects: Vec<Value>,
    error: Option<String>,
}

/// The result for one file.
enum Verdict {
    Equal,
    /// Both refuse it: templates, chart values, anything that is not an object.
    BrokenForBoth,
    /// We refuse it, for a documented reason.
    Deviation(String),
    Differs(String),
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let lines = std::env::args().nth(1).ok_or("usage: same LINES")?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut objects = 0;
    for line in BufReader::new(std::fs::File::open(lines)?).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let counted = match verdict(&line)? {
            Verdict::Equal => {
                objects += line.objects.len();
                "equal"
            }
            Verdict::BrokenForBoth => "broken for both",
            Verdict::Deviation(why) => {
                println!("deviation: {}: {why}", line.name);
                "deviations"
            }
            Verdict::Differs(how) => {
                println!("differs: {}: {how}", line.name);
                "different"
            }
        };
        *counts.entry(counted).or_default() += 1;
    }
    let count = |what| counts.get(what).copied().unwrap_or_default();
    println!(
        "files: {} equal ({objects} objects), {} broken for both, {} deviations, {} different",
        count("equal"),
        count("broken for both"),
        count("deviations"),
        count("different")
    );
    let good = count("different") == 0 && count("equal") >= 300;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn verdict(line: &Line) -> Result<Verdict, Box<dyn Error>> {
    let bytes = std::fs::read(&line.path)?;
    let ours = reading::objects("", &bytes).map(unrolled);
    Ok(match (&ours, &line.error) {
        (Ok(ours), None) if equal(ours, &line.objects) => Verdict::Equal,
        (Ok(_), None) => Verdict::Differs("other objects".to_owned()),
        (Err(_), Some(_)) => Verdict::BrokenForBoth,
        (Err(error), None) if DEVIATIONS.iter().any(|part| error.contains(part)) => {
            Verdict::Deviation(error.clone())
        }
        (Err(error), None) => Verdict::Differs(format!("ours: {error}")),
        (Ok(_), Some(error)) if NO_OBJECTS.iter().any(|part| error.contains(part)) => Verdict::BrokenForBoth,
        (Ok(_), Some(error)) => Verdict::Differs(format!("kubectl: {error}")),
    })
}

fn equal(ours: &[Value], theirs: &[Value]) -> bool {
    ours.len() == theirs.len()
        && ours
            .iter()
            .zip(theirs)
            .all(|(ours, theirs)| reading::same(ours, theirs))
}

/// Lists unrolled as kubectl does; the build is stricter.
fn unrolled(objects: Vec<Value>) -> Vec<Value> {
    let unroll = |object: Value| match &object["items"] {
        Value::Array(items) => items.clone(),
        _ => vec![object],
    };
    objects.into_iter().flat_map(unroll).collect()
}

//! Promise: a record is explained and reproduced; one that is not reproduced is exit code 1 with the first difference;
//! an invalid record is exit code 2 with the line, and nothing else is printed.
//!
//! The fixture is a real run. If decisions change on purpose, remove it and record it again:
//! `MUSTER_RECORD_DECISIONS=$PWD/cli/tests/fixtures cargo test -p muster-controllers --test module recorded`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::{
    path::Path,
    process::{Command, Output},
};

const LOG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/fleet.Module.web.jsonl"
);

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster"))
        .arg("replay")
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

fn replay_output(code: i32, arguments: &[&str]) -> String {
    let output = replay(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn lines() -> Vec<String> {
    let text = std::fs::read_to_string(LOG).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A file of these lines; returns its name.
fn file(directory: &Path, text: &str) -> String {
    let file = directory.join("log.jsonl");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn recorded_decisions_are_printed_and_replay_the_same() {
    insta::assert_snapshot!(replay_output(0, &[LOG]));
}

#[test]
fn one_cluster_alone() {
    insta::assert_snapshot!(replay_output(0, &[LOG, "--cluster", "us-1"]));
    assert_eq!(
        replay_output(0, &[LOG, "--unit", "us-1"]),
        replay_output(0, &[LOG, "-c", "us-1"])
    );
}

#[test]
fn json_has_every_change() {
    let report: serde_json::Value = serde_json::from_str(&replay_output(0, &[LOG, "-o", "json"])).unwrap();
    assert_eq!(report["schema"], "replay/v1");
    assert_eq!(report["decisions"], lines().len());
    assert_eq!(report["differing"], 0);
    assert!(report["firstDifference"].is_null() && report["tornLine"].is_null());
    let changes = report["changes"].as_array().unwrap();
    let assigned: Vec<_> = changes
        .iter()
        .filter(|change| change["what"] == "Assign")
        .collect();
    insta::assert_json_snapshot!("assigned_in_json", assigned);
}

#[test]
fn differing_decisions_are_reported_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = lines();
    let assigns = |line: &String| line.contains(r#""steps":[{"Assign":{"unit":"eu-2""#);
    let place = lines.iter().position(assigns).unwrap();
    lines[place] = lines[place].replace(
        r#""steps":[{"Assign":{"unit":"eu-2""#,
        r#""steps":[{"Assign":{"unit":"us-1""#,
    );
    let log = file(directory.path(), &(lines.join("\n") + "\n"));
    let text = replay_output(1, &[&log]);
    let count = lines.len();
    let line = place + 1;
    for part in [
        &*format!("{count} decisions: 1 differ, the first on line {line}, at 1970-01-01T00:0"),
        "\n--- recorded\n+++ now\n",
        "\n-        \"unit\": \"us-1\",\n+        \"unit\": \"eu-2\",\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&replay_output(1, &[&log, "-o", "json"])).unwrap();
    let first = &json["firstDifference"];
    assert_eq!((&json["differing"], &first["line"]), (&1.into(), &line.into()));
    assert_eq!(first["recorded"]["steps"][0]["Assign"]["unit"], "us-1");
    assert_eq!(first["now"]["steps"][0]["Assign"]["unit"], "eu-2");
    let hint = "versions may differ in what they decide";
    let by = |version: &str| {
        let mut lines = lines.clone();
        let mut whole: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        whole["origin"]["version"] = version.into();
        lines[0] = whole.to_string();
        replay_output(1, &[&file(directory.path(), &lines.join("\n"))])
    };
    assert!(by("0.0.1").contains(hint) && !by(env!("CARGO_PKG_VERSION")).contains(hint));
}

#[test]
fn a_torn_last_line_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let lines = lines();
    let (last, whole) = lines.split_last().unwrap();
    let text = format!("{}\n{}", whole.join("\n"), &last[..last.len() / 2]);
    let output = replay_output(0, &[&file(directory.path(), &text)]);
    let (count, torn) = (whole.len(), lines.len());
    assert!(
        output.contains(&format!("line {torn} is skipped: it is truncated")),
        "{output}"
    );
    assert!(
        output.ends_with(&format!("{count} decisions: all are reproduced\n")),
        "{output}"
    );
}

#[test]
fn an_invalid_record_is_reported_with_its_line_and_nothing_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let check = |text: &str, flags: &[&str], expected: &str| {
        let log = file(directory.path(), text);
        let output = replay(&[&[log.as_str()], flags].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text:.60}: {stderr}");
        assert!(stderr.contains(expected), "{text:.60}: {stderr}");
        assert!(output.stdout.is_empty(), "{text:.60}");
    };
    let lines = lines();
    let (first, second) = (&lines[0], &lines[1]);
    check("", &[], "log.jsonl: it has no decisions");
    check(
        "hello\n",
        &[],
        "log.jsonl:1: not a line of recorded decisions: expected value at column 1",
    );
    check("hello", &[], "log.jsonl: it has no decisions");
    check(
        &format!("{first}\nhello\n{second}\n"),
        &[],
        "log.jsonl:2: not a line of recorded",
    );
    check(
        &format!("{first}\n\n"),
        &[],
        "log.jsonl:2: not a line of recorded",
    );
    check(
        second,
        &[],
        "log.jsonl:1: it contains only changes, and no complete line is before it",
    );
    check(
        &first.replace("decisions/v1", "decisions/v2"),
        &[],
        "log.jsonl:1: its schema is decisions/v2, and this version of muster reads decisions/v1",
    );
    check(
        &format!("{first}\n"),
        &["-c", "eu-9"],
        "--cluster eu-9: no decision of the record is about it; there are eu-1, eu-2, us-1",
    );
    let directory = replay(&["/"]);
    assert_eq!(directory.status.code(), Some(2));
    let absent = replay(&["absent.jsonl"]);
    assert_eq!(absent.status.code(), Some(2));
    assert_eq!(replay(&[]).status.code(), Some(2));
}

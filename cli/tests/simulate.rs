//! Promise: a fleet file gives the same output each time, at any width, for five clusters or two thousand; errors are
//! reported with their position, exit code 2, and nothing else is printed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::process::{Command, Output};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/simulate/fleet.yaml");

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster"))
        .arg("simulate")
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

fn drawn(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn narrow(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{width}: {line}");
    }
}

#[test]
fn the_example_at_two_widths() {
    for width in ["80", "160"] {
        let text = drawn(&[EXAMPLE, "--width", width]);
        narrow(&text, width.parse().unwrap());
        insta::assert_snapshot!(format!("example_{width}"), text);
    }
}

/// A shell expands `--fail eu-{2..3}` and `--slow us-{1..2}=5m` to several words.
#[test]
fn what_a_shell_expands_is_as_what_it_leaves() {
    let quoted = drawn(&[EXAMPLE, "--fail", "eu-{1..3}", "--slow", "us-{1..2}=5m"]);
    let expanded = drawn(&[
        EXAMPLE, "--fail", "eu-1", "eu-2", "eu-3", "--slow", "us-1=5m", "us-2=5m",
    ]);
    assert_eq!(quoted, expanded);
    for (arguments, expected) in [
        (
            &[EXAMPLE, "eu-1"][..],
            "eu-1: one file is simulated; name clusters by --fail eu-1",
        ),
        (
            &[EXAMPLE, "--slow", "us-1=5m", "eu-1"],
            "eu-1: one file is simulated",
        ),
        (
            &[EXAMPLE, "--fail", "eu-1", "eu-9"],
            "--fail eu-9: the file has no such cluster",
        ),
    ] {
        let output = simulate(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_version_that_fails_and_a_slow_cluster() {
    let text = drawn(&[
        EXAMPLE,
        "--fail",
        "eu-{2..3}",
        "--slow",
        "us-1=5m",
        "--seed",
        "7",
        "--width",
        "100",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn the_same_file_flags_and_seed_give_the_same_bytes() {
    for format in ["text", "svg", "json"] {
        let draw = |seed: &str| drawn(&[EXAMPLE, "--fail", "eu-2", "--seed", seed, "-o", format]);
        assert_eq!(draw("7"), draw("7"), "{format}");
        assert_ne!(draw("7"), draw("8"), "{format}");
    }
}

#[test]
fn two_thousand_clusters_are_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.yaml");
    let fleet = "
clusters:
- {name: 'canary-{1..20}', labels: {tier: canary}}
- {name: 'eu-{1..1180}', labels: {tier: most}}
- {name: 'us-{1..800}', labels: {tier: most}}
rollout:
  maxUnreadyClusters: 10%
  stages:
  - {name: canary, selector: {matchLabels: {tier: canary}}, soak: 2m}
  onFailure: {maxFailed: 5}
fail: ['eu-{7..9}']
";
    std::fs::write(&file, fleet).unwrap();
    for width in ["80", "160"] {
        let text = drawn(&[file.to_str().unwrap(), "--width", width]);
        narrow(&text, width.parse().unwrap());
        assert!(text.lines().count() <= 50, "{} lines", text.lines().count());
        let failed = text.lines().filter(|line| line.contains("✗✗✗"));
        let failed: Vec<&str> = failed.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(
            failed,
            ["eu-7", "eu-8", "eu-9"],
            "the failing cluster is shown: {text}"
        );
        assert!(
            text.contains("not done") && text.contains("1997 of 2000"),
            "{text}"
        );
    }
}

#[test]
fn json_has_every_change() {
    let text = drawn(&[EXAMPLE, "-o", "json"]);
    let story: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(story["schema"], "simulate/v1");
    assert_eq!(story["verdict"], "Done");
    assert_eq!(story["clusters"].as_array().unwrap().len(), 17);
    insta::assert_json_snapshot!("dev_1_in_json", story["clusters"][0]);
}

#[test]
fn the_svg_is_self_contained() {
    let picture = drawn(&[EXAMPLE, "--fail", "eu-2", "-o", "svg"]);
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    for part in [
        "viewBox",
        "<style>",
        "prefers-color-scheme: dark",
        "eu-2: failed",
        "✗ failed",
        "1m",
    ] {
        assert!(picture.contains(part), "{part} is missing");
    }
    for foreign in ["href", "url(", "<script", "@import"] {
        assert!(!picture.contains(foreign), "{foreign}");
    }
}

#[test]
fn an_invalid_fleet_file_is_reported_with_its_position_and_nothing_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let check = |text: &str, flags: &[&str], expected: &str| {
        let file = directory.path().join("fleet.yaml");
        std::fs::write(&file, text).unwrap();
        let arguments = [&[file.to_str().unwrap()], flags].concat();
        let output = simulate(&arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
        assert!(output.stdout.is_empty(), "{text}");
    };
    check(
        "clusters:\n- name: a\n  lables: {x: y}\n",
        &[],
        "fleet.yaml:3:11: clusters[0].lables: unknown field; remove it",
    );
    check("clusters: [\n", &[], "fleet.yaml:2:1: ");
    check(
        "clusters:\n- name: a\n",
        &["--fail", "b"],
        "--fail b: the file has no such cluster; it has a",
    );
    check(
        "clusters:\n- name: a\n",
        &["--slow", "a"],
        "write CLUSTER=TIME, such as us-1=5m",
    );
    check("clusters: []\n", &[], "fleet.yaml:1:11: clusters: there are none");
    let absent = simulate(&["absent.yaml"]);
    assert_eq!(absent.status.code(), Some(2));
}

/// The version arrives on Friday at 23:00 in Berlin; each cluster is updated in the night of its own time zone.
#[test]
fn change_windows_open_by_the_calendar() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.yaml");
    let fleet = "
clusters:
- {name: dev-1, labels: {tier: dev}}
- {name: 'eu-{1..4}', labels: {tier: most}, annotations: {zone: Europe/Berlin}}
- {name: in-1, labels: {tier: most}, annotations: {zone: Asia/Kolkata}}
rollout:
  maxUnreadyClusters: 2
start: 2026-11-27T22:00:00Z
module: {name: web}
windows:
  nights:
    selector: {matchLabels: {tier: most}}
    allow: [{days: [Sun], from: '03:00', to: '05:00', timeZoneFrom: {annotation: zone}}]
";
    std::fs::write(&file, fleet).unwrap();
    let path = file.to_str().unwrap();
    insta::assert_snapshot!(drawn(&[path, "--width", "100"]));
    let story: serde_json::Value = serde_json::from_str(&drawn(&[path, "-o", "json"])).unwrap();
    let began = |cluster: &str| {
        let mut all = story["clusters"].as_array().unwrap().iter();
        let track = all.find(|track| track["name"] == cluster).unwrap();
        let mut changes = track["changes"].as_array().unwrap().iter();
        let updating = changes.find(|change| change["reason"] == "Updating").unwrap();
        std::time::Duration::from_secs_f64(updating["seconds"].as_f64().unwrap()).as_secs() / 3600
    };
    // Sunday 03:00 in Kolkata is Saturday 21:30 UTC, in Berlin Sunday 02:00 UTC.
    let hours = ["dev-1", "in-1", "eu-1"].map(began);
    assert_eq!(hours, [0, 23, 28]);
    // Closed without an end: it waits, and nothing fails.
    std::fs::write(
        &file,
        fleet.replace(
            "allow: [{days: [Sun], from: '03:00', to: '05:00', timeZoneFrom: {annotation: zone}}]",
            "deny: [{}]",
        ),
    )
    .unwrap();
    let text = drawn(&[path]);
    assert!(
        text.contains("not done") && text.contains("WindowClosed"),
        "{text}"
    );
    assert!(
        text.contains("1 of 6 clusters are ready") && text.contains("failed on 0"),
        "{text}"
    );
}

//! Promise: what each verb prints on a fleet is on record, in a pipe and on terminals of 80 and 160 columns, and no view is wider than its terminal.
//!
//! The records stand in `e2e/tests/snapshots`. What differs from run to run is written as words: ages, times, digits of hashes.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

#[path = "support/demo.rs"]
mod demo;

use std::{fmt::Write as _, io::Read as _, process::Command};

use demo::{Demo, READY};
use muster_e2e::bed::muster;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use regex::Regex;

/// Rows of a terminal: more than any verb prints here.
const ROWS: u16 = 120;

/// What is typed at rest, when all is well.
const AT_REST: &[&[&str]] = &[
    &["get", "modules"],
    &["get", "all", "-o", "name"],
    &["get", "clusters"],
    &["get", "modules", "--status-selector", "ready=false"],
    &["matrix"],
    &["matrix", "-l", "region=eu"],
    &["matrix", "-A"],
    &["tree"],
    &["tree", "-A"],
    &["tree", "cluster/eu-1"],
    &["why", "module/podinfo"],
    &["rollout", "status", "module/podinfo"],
    &["rollout", "history", "module/podinfo"],
    &["rollout", "undo", "module/podinfo"],
    &["diff", "module/podinfo", "--allow-insecure-sources"],
    &["check"],
    &[
        "lint",
        "modules",
        "--substitute",
        "FLEET_URL=https://example.com/fleet.git",
    ],
    &["version", "--client"],
];

/// What is typed when a version went wrong.
const WHEN_WRONG: &[&[&str]] = &[
    &["get", "modules"],
    &["matrix"],
    &["matrix", "--only-problems"],
    &["tree"],
    &["tree", "module/podinfo"],
    &["why", "module/podinfo"],
    &["why", "module/podinfo", "--cluster", "us-1"],
    &["why", "module/podinof"],
    &["get", "modules", "podinof"],
    &["rollout", "status", "module/podinfo"],
    &["rollout", "history", "module/podinfo"],
    &[
        "rollout",
        "pause",
        "module/podinfo",
        "--reason",
        "lunch",
        "--dry-run=client",
    ],
    &["rollout", "retry", "module/podinfo", "--dry-run=server"],
    &["hold", "eu-1", "--dry-run=client"],
];

/// Views that are made for the width that there is.
const FITTED: &[&str] = &["matrix", "tree"];

#[test]
#[ignore = "long: cargo xtask long"]
fn each_verb_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(folder.path(), &[]);
    demo.until_printed(READY, |printed| printed.lines().any(|line| line == "ready"));
    let modules = ["modules/podinfo", "modules/backup", "bootstrapmodules/base"];
    demo.kubectl(&[&["wait", "--for=condition=Ready", "--timeout=90s"][..], &modules].concat());
    record(&demo, "at_rest", AT_REST);

    demo.shell("sed -i 's/podinfo:6.0.0/podinfo:bad/' apps/podinfo/deployment.yaml");
    demo.shell("sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/podinfo.yaml");
    demo.shell("git commit -qam 'podinfo bad' && git tag v1.1.0");
    demo.muster(
        &[
            "rollout",
            "status",
            "module/podinfo",
            "--tag",
            "v1.1.0",
            "--timeout",
            "3m",
        ],
        1,
    );
    record(&demo, "when_wrong", WHEN_WRONG);
    demo.end();
}

fn record(demo: &Demo, name: &str, sessions: &[&[&str]]) {
    for columns in [None, Some(80), Some(160)] {
        let mut page = String::new();
        for typed in sessions {
            let (said, code) = match columns {
                None => in_a_pipe(demo, typed),
                Some(columns) => on_a_terminal(demo, typed, columns),
            };
            let said = settled(&said, demo);
            write!(
                page,
                "$ muster {}\n{said}\n[exit code {code}]\n\n",
                typed.join(" ")
            )
            .unwrap();
        }
        let place = columns.map_or_else(|| "in_a_pipe".to_owned(), |columns| format!("{columns}_columns"));
        insta::assert_snapshot!(format!("{name}_{place}"), page);
    }
}

fn in_a_pipe(demo: &Demo, typed: &[&str]) -> (String, u32) {
    let output = Command::new(muster())
        .args(typed)
        .current_dir(demo.folder.join("fleet"))
        .env("KUBECONFIG", demo.folder.join("management.kubeconfig"))
        .env("USER", "ann")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains('\u{1b}'), "{typed:?}: colours in a pipe");
    (said, output.status.code().unwrap().try_into().unwrap())
}

/// What stands on the screen at the end, read by a terminal.
fn on_a_terminal(demo: &Demo, typed: &[&str], columns: u16) -> (String, u32) {
    let size = PtySize {
        rows: ROWS,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(muster());
    command.args(typed);
    command.cwd(demo.folder.join("fleet"));
    command.env("KUBECONFIG", demo.folder.join("management.kubeconfig"));
    command.env("USER", "ann");
    command.env("TERM", "xterm-256color");
    command.env_remove("COLUMNS");
    command.env_remove("NO_COLOR");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut said = Vec::new();
    // Linux ends the reading with an error when the last process of a terminal has ended.
    let _ = pair.master.try_clone_reader().unwrap().read_to_end(&mut said);
    let code = child.wait().unwrap().exit_code();
    let mut terminal = vt100::Parser::new(ROWS, columns, 0);
    terminal.process(&said);
    let screen = terminal.screen();
    if FITTED.contains(&typed[0]) {
        let wrapped = (0..ROWS).find(|row| screen.row_wrapped(*row));
        assert_eq!(wrapped, None, "{typed:?} at {columns}: {}", screen.contents());
    }
    (screen.contents(), code)
}

/// The same text in every run.
fn settled(said: &str, demo: &Demo) -> String {
    let mut text = said.replace(&demo.folder.display().to_string(), "DEMO");
    for (pattern, word) in [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
        // One that was cut.
        (r"\d{4}-\d\d-\d\dT[\d:]*…", "TIME…"),
        (r"\b\d\d:\d\d:\d\d UTC\b", "TIME"),
        (r"\bpodinfo-[0-9a-z]+-[0-9a-z]{5}\b", "POD"),
        (r"\b(backup|base|podinfo)-[a-z2-7]{10}\b", "$1-HASH"),
        (r"\b[0-9a-f]{8,64}\b", "HASH"),
        (r"\b(\d+[dhms])+\b", "AGE"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        // Columns are as wide as their words of this run.
        (r" {2,}", "  "),
        (r" +\n", "\n"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, word).into_owned();
    }
    text.trim_end().to_owned()
}

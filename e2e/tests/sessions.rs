//! Promise: the output of each subcommand is recorded, in a pipe and on terminals of 80 and 160 columns, and no view is
//! wider than its terminal.
//!
//! The snapshots are in `e2e/tests/snapshots`. What differs from run to run is replaced by placeholders: ages, times,
//! digits of hashes.

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

/// Rows of a terminal: more than any subcommand prints, so that nothing that is recorded has scrolled away.
const ROWS: u16 = 120;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The commands for an idle and healthy fleet.
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

/// The commands after a version went wrong.
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

/// The operating commands, with `--dry-run` where there is one; and those that need no fleet.
const BY_HAND: &[&[&str]] = &[
    &[
        "rollout",
        "pause",
        "module/podinfo",
        "--for",
        "2h",
        "--dry-run=server",
    ],
    &["rollout", "resume", "module/podinfo"],
    &["rollout", "approve", "module/podinfo", "--dry-run=client"],
    &[
        "rollout",
        "promote",
        "module/podinfo",
        "--stage",
        "canary",
        "--dry-run=client",
    ],
    &[
        "rollout",
        "abort",
        "module/podinfo",
        "--reason",
        "wrong branch",
        "--dry-run=client",
    ],
    &["rollout", "undo", "module/podinfo"],
    &["rollout", "withdraw", "module/podinfo", "--acknowledge"],
    &["rollout", "release", "nodemodule/fabric", "--node", "n1"],
    &["rollout", "abandon", "nodemodule/fabric", "--node", "n1"],
    &["hold", "eu-1", "--reason", "hardware", "--dry-run=server"],
    &["release", "eu-1"],
    &[
        "window",
        "bypass",
        "freeze-december",
        "--module",
        "podinfo",
        "--reason",
        "CVE-2026-1234",
        "--for",
        "1h",
    ],
    &[
        "plan-run",
        "start",
        "backup",
        "module/podinfo",
        "--cluster",
        "eu-1",
        "--reason",
        "before the audit",
        "--dry-run=client",
    ],
    &[
        "plan-run",
        "abort",
        "module/podinfo",
        "--cluster",
        "eu-1",
        "--reason",
        "a test",
    ],
    &[
        "plan-run",
        "retry",
        "module/podinfo",
        "--cluster",
        "eu-1",
        "--step",
        "schema/migrate",
        "--reason",
        "a test",
    ],
    &[
        "plan-run",
        "skip",
        "module/podinfo",
        "--cluster",
        "eu-1",
        "--step",
        "schema/migrate",
        "--reason",
        "a test",
    ],
    &[
        "pin",
        "eu-1",
        "--module",
        "podinfo",
        "--revision",
        "GOOD",
        "--dry-run=client",
    ],
    &["unpin", "eu-1", "--module", "podinfo"],
    &["reconcile", "module/podinfo"],
    &["events", "module/backup"],
    &["plan", "-f", "modules"],
    &["build", "apps/podinfo"],
    &[
        "enroll",
        "--downstream-kubeconfig",
        "../clusters/ap-1.kubeconfig",
        "--name",
        "ap-1",
        "-l",
        "env=prod,region=ap",
        "--bootstrap",
        "--no-agent",
        "--dry-run=server",
    ],
    &["unenroll", "eu-1", "--dry-run"],
    &["install", "--export", "--management"],
    &["uninstall", "--management", "--dry-run"],
    &["support-bundle", "-o", "DEMO/bundle.tar.gz"],
    &["crds", "--downstream"],
    &["simulate", "REPOSITORY/examples/simulate/fleet.yaml"],
    &[
        "simulate",
        "REPOSITORY/examples/simulate/fleet.yaml",
        "--fail",
        "eu-2",
    ],
    &["replay", "REPOSITORY/cli/tests/fixtures/fleet.Module.web.jsonl"],
    &["completion", "bash"],
    &["man"],
    &["version"],
];

/// Subcommands that run until they are stopped: covered by the demo in which all commands are run, and by the tests of
/// the processes and of the dashboard.
const PROCESSES: &[&str] = &[
    "demo",
    "controller",
    "agent",
    "zones",
    "dashboard",
    "node-agent",
    "machines",
];

/// Recorded lines of long output.
const RECORDED: usize = 60;

/// Views that adapt to the width of the terminal.
const FITTED: &[&str] = &["matrix", "tree"];

#[test]
fn no_verb_is_left_out() {
    let recorded: Vec<String> = [AT_REST, WHEN_WRONG, BY_HAND]
        .concat()
        .iter()
        .map(|typed| typed.join(" ") + " ")
        .collect();
    let reference = include_str!("../../docs/cli.md");
    let verbs = reference
        .lines()
        .filter_map(|line| line.strip_prefix("## muster "));
    // A subcommand of a process, such as node-agent status, runs on a host.
    let process = |verb: &&str| {
        verb.split(' ')
            .next()
            .is_some_and(|first| PROCESSES.contains(&first))
    };
    for verb in verbs.filter(|verb| !process(verb)) {
        let begin = format!("{verb} ");
        assert!(
            recorded.iter().any(|typed| typed.starts_with(&begin)),
            "muster {verb} is not on record"
        );
    }
}

#[test]
#[ignore = "long: cargo xtask long"]
fn each_verb_is_on_record() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &[]);
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
    record(&demo, "by_hand", BY_HAND);
    demo.end();
}

fn record(demo: &Demo, name: &str, sessions: &[&[&str]]) {
    let places = Places::of(demo);
    for columns in [None, Some(80), Some(160)] {
        let mut page = String::new();
        for typed in sessions {
            let words: Vec<String> = typed.iter().map(|word| places.fill(word)).collect();
            let (said, code) = match columns {
                None => in_a_pipe(demo, &words),
                Some(columns) => on_a_terminal(demo, &words, columns),
            };
            let output = begin_of(&settled(&said, demo));
            write!(
                page,
                "$ muster {}\n{output}\n[exit code {code}]\n\n",
                typed.join(" ")
            )
            .unwrap();
        }
        let place = columns.map_or_else(|| "in_a_pipe".to_owned(), |columns| format!("{columns}_columns"));
        insta::assert_snapshot!(format!("{name}_{place}"), page);
    }
}

fn in_a_pipe(demo: &Demo, typed: &[String]) -> (String, u32) {
    let output = Command::new(muster())
        .args(typed)
        .current_dir(demo.directory.join("fleet"))
        .env("KUBECONFIG", demo.directory.join("management.kubeconfig"))
        .env("USER", "ann")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains('\u{1b}'), "{typed:?}: colours in a pipe");
    (said, output.status.code().unwrap().try_into().unwrap())
}

/// The final content of the screen, as a terminal displays it.
fn on_a_terminal(demo: &Demo, typed: &[String], columns: u16) -> (String, u32) {
    let size = PtySize {
        rows: ROWS,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(muster());
    command.args(typed);
    command.cwd(demo.directory.join("fleet"));
    command.env("KUBECONFIG", demo.directory.join("management.kubeconfig"));
    command.env("USER", "ann");
    command.env("TERM", "xterm-256color");
    command.env_remove("COLUMNS");
    command.env_remove("NO_COLOR");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut said = Vec::new();
    // Linux reports an error to the reader when the last process of a terminal has exited.
    let _ = pair.master.try_clone_reader().unwrap().read_to_end(&mut said);
    let code = child.wait().unwrap().exit_code();
    let mut terminal = vt100::Parser::new(ROWS, columns, 0);
    terminal.process(&said);
    let screen = terminal.screen();
    if FITTED.contains(&typed[0].as_str()) {
        let wrapped = (0..ROWS).find(|row| screen.row_wrapped(*row));
        assert_eq!(wrapped, None, "{typed:?} at {columns}: {}", screen.contents());
    }
    (screen.contents(), code)
}

/// Replaces what differs from run to run in the commands.
struct Places {
    directory: String,
    good: String,
}

impl Places {
    fn of(demo: &Demo) -> Self {
        let path = "{.items[?(@.status.verdict==\"Good\")].spec.revision}";
        let good = demo.kubectl(&[
            "get",
            "modulerevisions",
            "-l",
            "fleet.muster.dev/module=podinfo",
            "-o",
            &format!("jsonpath={path}"),
        ]);
        Self {
            directory: demo.directory.display().to_string(),
            good: good.trim().to_owned(),
        }
    }

    fn fill(&self, word: &str) -> String {
        word.replace("DEMO", &self.directory)
            .replace("REPOSITORY", REPOSITORY)
            .replace("GOOD", &self.good)
    }
}

/// Truncates long output.
fn begin_of(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    match lines.len().saturating_sub(RECORDED) {
        0 => output.to_owned(),
        more => format!("{}\n[{more} more lines]", lines[..RECORDED].join("\n")),
    }
}

/// Normalizes the text, so that it is the same in every run.
fn settled(output: &str, demo: &Demo) -> String {
    let mut text = output
        .replace(&demo.directory.display().to_string(), "DEMO")
        .replace(REPOSITORY, "REPOSITORY");
    for (pattern, word) in [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
        // A truncated hash.
        (r"\d{4}-\d\d-\d\dT[\d:]*…", "TIME…"),
        (r"\b\d\d:\d\d:\d\d UTC\b", "TIME"),
        (r"\bpodinfo-[0-9a-z]+-[0-9a-z]{5}\b", "POD"),
        (r"\b(backup|base|podinfo)-[a-z2-7]{10}\b", "$1-HASH"),
        (r"\b[0-9a-f]{8,64}\b", "HASH"),
        (r"\b(\d+[dhms])+\b", "AGE"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        // The width of a column depends on the values of this run.
        (r"(?m)(\S) {2,}", "$1  "),
        (r" +\n", "\n"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, word).into_owned();
    }
    text.trim_end().to_owned()
}

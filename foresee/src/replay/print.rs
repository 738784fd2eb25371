//! Prints a replay as text and as JSON.

use std::collections::BTreeSet;

use anyhow::Context as _;
use jiff::Timestamp;
use muster_api::reasons::Reason;
use muster_fleet::text::{self, counted};
use muster_rollout::{Decision, UnitId};
use serde::Serialize;
use similar::TextDiff;

use super::{
    Difference, Replay, second,
    story::{ChangeKind, names},
    timestamp,
};

/// Context lines of a difference.
const CONTEXT: usize = 3;
/// The version of this command.
const THIS: &str = env!("CARGO_PKG_VERSION");

/// The changes as a table, with lines of at most `width` characters, and the result of the comparison.
pub fn replay_text(replay: &Replay, width: usize) -> anyhow::Result<String> {
    let versions: Vec<&str> = replay.versions.iter().map(String::as_str).collect();
    let title = format!("{}, recorded by muster {}", replay.module, versions.join(", "));
    let mut lines = vec![title, String::new()];
    let mut table = text::table(["TIME", "CLUSTERS", "DECIDED"]);
    for changed in &replay.changes {
        let change = &changed.change;
        table.add_row([
            second(changed.at).to_string(),
            names(&change.clusters),
            change.word.to_text(),
        ]);
    }
    let rows = text::lines(&table);
    lines.extend(rows.iter().map(|row| text::cut(row, width)));
    lines.push(String::new());
    lines.extend(
        replay.torn.map(|line| {
            format!("line {line} is skipped: it is truncated, the process ended while writing it")
        }),
    );
    lines.extend(verdict(replay)?);
    Ok(lines.join("\n") + "\n")
}

fn verdict(replay: &Replay) -> anyhow::Result<Vec<String>> {
    let Replay {
        decisions,
        differing,
        first,
        versions,
        ..
    } = replay;
    let Some(Difference {
        line,
        at,
        recorded,
        now,
    }) = first
    else {
        return Ok(vec![format!(
            "{}: all are reproduced",
            counted(*decisions, "decision", "decisions")
        )]);
    };
    let mut lines = vec![format!(
        "{decisions} decisions: {differing} differ, the first on line {line}, at {}:",
        timestamp(*at)
    )];
    let (recorded, now) = (pretty(recorded)?, pretty(now)?);
    let diff = TextDiff::from_lines(&recorded, &now)
        .unified_diff()
        .context_radius(CONTEXT)
        .header("recorded", "now")
        .to_string();
    lines.extend(diff.lines().map(str::to_owned));
    if versions.iter().any(|version| version != THIS) {
        lines.push(format!(
            "this is muster {THIS}: versions may differ in what they decide"
        ));
    }
    Ok(lines)
}

fn pretty(decision: &Decision) -> anyhow::Result<String> {
    serde_json::to_string_pretty(decision).context("a decision cannot be encoded as JSON")
}

/// The JSON form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    schema: &'static str,
    module: &'a str,
    recorded_by: &'a BTreeSet<String>,
    decisions: usize,
    differing: usize,
    first_difference: Option<PrintedDifference<'a>>,
    torn_line: Option<usize>,
    changes: Vec<PrintedChange<'a>>,
}

#[derive(Serialize)]
struct PrintedDifference<'a> {
    line: usize,
    at: Timestamp,
    recorded: &'a Decision,
    now: &'a Decision,
}

#[derive(Serialize)]
struct PrintedChange<'a> {
    at: Timestamp,
    line: usize,
    what: ChangeKind,
    reason: Option<&'static str>,
    clusters: &'a [UnitId],
    text: &'a str,
}

/// The replay as JSON.
pub fn json(replay: &Replay) -> anyhow::Result<String> {
    let changes = replay.changes.iter().map(|changed| PrintedChange {
        at: timestamp(changed.at),
        line: changed.line,
        what: changed.change.word.what,
        reason: changed.change.word.reason.map(Reason::as_str),
        clusters: &changed.change.clusters,
        text: &changed.change.word.text,
    });
    let printed = Printed {
        schema: "replay/v1",
        module: &replay.module,
        recorded_by: &replay.versions,
        decisions: replay.decisions,
        differing: replay.differing,
        first_difference: replay.first.as_ref().map(|first| PrintedDifference {
            line: first.line,
            at: timestamp(first.at),
            recorded: &first.recorded,
            now: &first.now,
        }),
        torn_line: replay.torn,
        changes: changes.collect(),
    };
    Ok(serde_json::to_string_pretty(&printed)? + "\n")
}

//! `muster replay`: repeats the decisions of a record, prints them, and compares them with the record.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_foresee::replay;

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster replay fleet.Module.podinfo.jsonl             what was decided when, and whether it is reproduced
  muster replay fleet.Module.podinfo.jsonl -c eu-1     only what was decided about eu-1
  muster replay fleet.Module.podinfo.jsonl -o json | jq '.changes[] | select(.what == \"Assign\")'
How a controller records, and what is in a record: docs/operations.md";

/// Replay a recorded decision log, and verify that each decision is reproduced
///
/// A controller records with --record-decisions. With -o json: `schema` (`replay/v1`), module, recordedBy, decisions,
/// differing, firstDifference, tornLine and changes; each of these has at, line, what, reason, clusters and text.
///
/// Exit codes: 0 every decision is reproduced, 1 some are not, 2 no record, or one that cannot be read.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReplayFlags {
    /// The record: a file in the directory that the controller was started with (--record-decisions)
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// Only print decisions about this cluster; all decisions are compared
    #[arg(short, long, alias = "unit")]
    pub cluster: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReplayFormat::Text)]
    pub output: ReplayFormat,
}

/// Output format of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayFormat {
    /// A line per change
    Text,
    /// JSON; schema replay/v1
    Json,
}

/// Prints the recorded decisions, and whether they are reproduced.
pub(crate) fn run(flags: &ReplayFlags, out: &Out) -> anyhow::Result<u8> {
    let replay = match replay::replay(&flags.log, flags.cluster.as_deref()) {
        Ok(replay) => replay,
        Err(error) => {
            complain!(out, "error: {error}");
            return Ok(UNKNOWN);
        }
    };
    let text = match flags.output {
        ReplayFormat::Text => replay::replay_text(&replay, out.width())?,
        ReplayFormat::Json => replay::json(&replay)?,
    };
    out.text(&text)?;
    Ok(if replay.differing == 0 { DONE } else { FAILED })
}

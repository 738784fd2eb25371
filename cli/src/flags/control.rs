//! Flags of verbs that write a control: its expiry, its reason, and dry runs.

use std::time::Duration;

use clap::{
    Args, ValueEnum,
    builder::{EnumValueParser, TypedValueParser},
};
use jiff::Timestamp;
use muster_fleet::{
    control::{DryRun, Term},
    stage_control::ControlOptions,
};

use super::duration;

/// The values of the flag `--dry-run`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tried {
    /// Write it
    None,
    /// Print what would be written, without a request to the API server
    Client,
    /// Submit a server-side dry run to the API server
    Server,
}

impl Tried {
    fn parser() -> impl TypedValueParser<Value = DryRun> {
        EnumValueParser::<Self>::new().map(|tried| match tried {
            Self::None => DryRun::None,
            Self::Client => DryRun::Client,
            Self::Server => DryRun::Server,
        })
    }
}

/// The flag `--dry-run`, as kubectl has it.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DryRunFlag {
    /// Do not write: print what would be done (client; implied by a bare --dry-run), or submit a server-side dry run
    /// (server)
    #[arg(long = "dry-run", value_parser = Tried::parser(), value_name = "MODE", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "client", hide_possible_values = true)]
    pub by: DryRun,
}

/// What is written with a control that stays until it is removed.
#[derive(Args, Debug)]
pub(crate) struct TermFlags {
    /// The reason; shown in the module's status and events
    #[arg(long)]
    pub reason: Option<String>,
    /// When this expires, such as 2026-12-28T08:00:00Z; at most a year from now
    #[arg(long, value_name = "TIME", conflicts_with = "time")]
    pub until: Option<Timestamp>,
    /// How long until this expires, such as 30m or 2h
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub time: Option<Duration>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

impl TermFlags {
    /// What is written with the control.
    pub(crate) fn term(&self) -> Term {
        Term {
            reason: self.reason.clone(),
            until: self.until,
            time: self.time,
        }
    }
}

/// What is written with a control that takes effect once.
#[derive(Args, Debug)]
pub(crate) struct WordFlags {
    /// Reason, recorded in an event of the module
    #[arg(long)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

impl WordFlags {
    /// The same, without flags.
    pub(crate) fn word(&self) -> ControlOptions {
        ControlOptions {
            reason: self.reason.clone(),
            dry_run: self.dry_run.by,
        }
    }
}

//! Flags of verbs that write a control: its end, its reason, and whether it is only tried.

use std::time::Duration;

use clap::{
    Args, ValueEnum,
    builder::{EnumValueParser, TypedValueParser},
};
use jiff::Timestamp;
use muster_fleet::{
    control::{DryRun, Term},
    once::Word,
};

use super::duration;

/// The values of the flag.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tried {
    /// It is done
    None,
    /// Say what would be written, and ask nobody
    Client,
    /// Ask the API server whether it would be done
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

/// kubectl's flag.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DryRunFlag {
    /// Do not do it: say what would be done (client; without a value), or ask the API server whether it would be taken (server)
    #[arg(long = "dry-run", value_parser = Tried::parser(), value_name = "WHO", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "client", hide_possible_values = true)]
    pub by: DryRun,
}

/// What is written beside a control that holds until it goes.
#[derive(Args, Debug)]
pub(crate) struct TermFlags {
    /// Why: it is shown in the module's status and events
    #[arg(long)]
    pub reason: Option<String>,
    /// It ends by itself then, such as 2026-12-28T08:00:00Z; within a year
    #[arg(long, value_name = "TIME", conflicts_with = "time")]
    pub until: Option<Timestamp>,
    /// It ends by itself after this time, such as 30m or 2h
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub time: Option<Duration>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

impl TermFlags {
    /// What is written beside the control.
    pub(crate) fn term(&self) -> Term {
        Term {
            reason: self.reason.clone(),
            until: self.until,
            time: self.time,
        }
    }
}

/// What is written beside something that is said once.
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
    pub(crate) fn word(&self) -> Word {
        Word {
            reason: self.reason.clone(),
            dry_run: self.dry_run.by,
        }
    }
}

//! `muster window bypass`: opens a RolloutWindow for one module until a given time, recorded in the window.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use muster_fleet::{
    bypass::{self, Bypass},
    connect::{self, Target},
    name::{ModuleName, over_clusters},
};

use crate::{
    exit::DONE,
    flags::{DryRunFlag, WindowName, duration},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster window bypass freeze-december --module podinfo --reason 'CVE-2026-1234' --for 1h";
pub(crate) const BYPASS_EXAMPLES: &str = "\
Examples:
  muster window bypass freeze-december --module podinfo --reason 'CVE-2026-1234' --for 1h
  muster window bypass freeze-december --module bootstrapmodule/base --reason '…' --until 2026-12-28T08:00:00Z
  kubectl get rolloutwindows                                     lists the windows";

/// Let a module change while a RolloutWindow is closed
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct WindowFlags {
    #[command(subcommand)]
    pub verb: WindowVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WindowVerb {
    Bypass(BypassFlags),
}

/// Open a RolloutWindow for one module until a given time
///
/// Adds an entry to spec.bypasses of the window, with your name and reason. Needs permission to patch the window;
/// permission to change modules is not enough. Other windows stay closed.
///
/// Exit codes: 0 written, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = BYPASS_EXAMPLES)]
pub(crate) struct BypassFlags {
    /// The RolloutWindow
    pub window: WindowName,
    /// The module: NAME, module/NAME or bootstrapmodule/NAME
    #[arg(long, short, value_parser = over_clusters)]
    pub module: ModuleName,
    /// The reason; it is kept in the RolloutWindow
    #[arg(long)]
    pub reason: String,
    /// When the bypass ends, such as 2026-12-28T08:00:00Z; within a year
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "time",
        required_unless_present = "time"
    )]
    pub until: Option<Timestamp>,
    /// The bypass ends after this time, such as 30m or 2h
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub time: Option<Duration>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Runs a verb of `muster window`.
pub(crate) async fn run(cluster: &Target, flags: WindowFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let WindowVerb::Bypass(flags) = flags.verb;
    bypass::add(&client, &namespace, &flags.bypass(), out).await?;
    Ok(DONE)
}

impl BypassFlags {
    fn bypass(self) -> Bypass {
        Bypass {
            window: self.window.into(),
            module: self.module,
            reason: self.reason,
            until: self.until,
            time: self.time,
            dry_run: self.dry_run.by,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        flags: BypassFlags,
    }

    #[test]
    fn a_bypass_has_one_end() {
        let check = |words: &[&str], expect: &str| {
            let all = ["bypass", "freeze", "--module", "web", "--reason", "CVE"];
            let read = Command::try_parse_from(all.iter().chain(words));
            let output = read
                .map(|command| format!("{:?}", command.flags.time))
                .map_err(|error| error.to_string());
            let output = output.unwrap_or_else(|error| error);
            assert!(output.contains(expect), "{words:?}: {output}");
        };
        check(&["--for", "1h"], "3600s");
        check(&[], "required");
        check(&["--for", "soon"], "invalid value 'soon'");
        check(
            &["--for", "1h", "--until", "2026-12-02T08:00:00Z"],
            "cannot be used with",
        );
    }
}

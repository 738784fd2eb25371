//! How a verb prints: flags that go with every verb.

use anstream::ColorChoice;
use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;

use crate::{logs, output};

/// How it is printed.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Manner {
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    pub color: clap::ColorChoice,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log API requests to standard error; twice: debug
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Manner {
    /// From now on everything in this process is printed so.
    pub(crate) fn take(self) {
        match self.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        }
        .write_global();
        if self.quiet {
            output::be_quiet();
        }
        let told = match self.verbose {
            0 => return,
            1 => "kube_client=debug",
            _ => "debug",
        };
        // A verb that logs by itself has its own flags, and begins later: the first to begin stays.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(told))
            .with_writer(std::io::stderr)
            .with_ansi(logs::in_colour())
            .with_target(false)
            .try_init();
    }
}

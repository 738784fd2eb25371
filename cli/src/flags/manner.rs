//! How a verb prints: flags that every verb has.

use anstream::ColorChoice;
use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;

use crate::output::Out;

/// The output flags.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Manner {
    /// When to use color; NO_COLOR is honored
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    pub color: clap::ColorChoice,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log API requests to standard error; -vv also logs debug messages
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Manner {
    /// Where verbs print, and how. With -v logging starts here.
    pub(crate) fn begin(self) -> Out {
        let colour = match self.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        let out = Out::new(colour, self.quiet);
        let logged = match self.verbose {
            0 => return out,
            1 => "kube_client=debug",
            _ => "debug",
        };
        // A verb that sets up its own logging has its own flags and does so later; the first setup stays in effect.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(logged))
            .with_writer(std::io::stderr)
            .with_ansi(out.has_coloured_log())
            .with_target(false)
            .try_init();
        out
    }
}

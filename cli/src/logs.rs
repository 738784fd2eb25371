//! Log lines of the processes, on standard error.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::output::Out;

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Starts logging; `RUST_LOG` changes what is logged.
pub(crate) fn start(format: LogFormat, out: &Out) {
    start_with(format, out, "info,kube_client=warn");
}

/// Starts logging with this filter, unless `RUST_LOG` gives another.
pub(crate) fn start_with(format: LogFormat, out: &Out, filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(filter));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(out.has_coloured_log())
        .with_target(false);
    // With -v logging has begun, and tells more.
    match format {
        LogFormat::Text => drop(lines.try_init()),
        LogFormat::Json => drop(lines.json().try_init()),
    }
}

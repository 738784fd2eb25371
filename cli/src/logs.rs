//! Logging of the processes, to standard error.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::output::Out;

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable
    Text,
    /// One JSON object per line
    Json,
}

/// Starts logging; `RUST_LOG` sets the filter.
pub(crate) fn start(format: LogFormat, out: &Out) {
    start_with(format, out, "info,kube_client=warn");
}

/// Starts logging with this filter, unless `RUST_LOG` sets another.
pub(crate) fn start_with(format: LogFormat, out: &Out, filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(filter));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(out.has_coloured_log())
        .with_target(false);
    // With -v logging is already set up, and is more verbose.
    match format {
        LogFormat::Text => drop(lines.try_init()),
        LogFormat::Json => drop(lines.json().try_init()),
    }
}

//! Log lines of the processes, on standard error.

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Starts logging; `RUST_LOG` changes what is told.
pub fn start(format: LogFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info,kube_client=warn"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // With -v logging has begun, and tells more.
    match format {
        LogFormat::Text => drop(lines.try_init()),
        LogFormat::Json => drop(lines.json().try_init()),
    }
}

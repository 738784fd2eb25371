//! The program that is installed on hosts: `muster` with the verb `node-agent` alone. It has no git, no controllers and
//! no dashboard, so that little code runs as root on a node and little of its memory is used.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use muster_api::text::safe;
use muster_controllers::runtime::call::error_chain;
use muster_node_agent::command::{self, LogFormat, NodeAgentFlags, Program};
use rustls::crypto::ring;
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

/// Exit code for a usage error, or when the command could not run.
const UNKNOWN: u8 = 2;

/// The agent of a node: `muster` with the verb node-agent alone
#[derive(Parser)]
#[command(name = "muster", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Apply NodeModules on this host, as a host service
    #[command(before_help = command::EXAMPLES)]
    NodeAgent(NodeAgentFlags),
}

struct Standard;

impl Program for Standard {
    fn print(&self, text: &str) -> io::Result<()> {
        // If standard output is closed, the text is dropped.
        let _ = writeln!(io::stdout(), "{}", safe(text));
        Ok(())
    }

    fn complain(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", safe(text));
    }

    fn log(&self, format: LogFormat, filter: &str) {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(filter));
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_target(false);
        match format {
            LogFormat::Text => lines.init(),
            LogFormat::Json => lines.json().init(),
        }
    }
}

// One thread: the agent mostly waits, and only a single-threaded process can enter the namespace of the host.
fn main() -> ExitCode {
    let Arguments {
        verb: Verb::NodeAgent(flags),
    } = Arguments::parse();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            Standard.complain(&format!("error: the process cannot start: {error}"));
            return ExitCode::from(UNKNOWN);
        }
    };
    // One TLS provider for the whole process; only a second call could fail.
    let _ = ring::default_provider().install_default();
    let ended = runtime.block_on(command::run(flags, &Standard));
    runtime.shutdown_background();
    ended.map_or_else(
        |error| {
            Standard.complain(&format!("error: {}", error_chain(&error)));
            ExitCode::from(UNKNOWN)
        },
        ExitCode::from,
    )
}

//! `muster node-agent`, in the program of the control planes: the verb is the node agent's own.

use muster_node_agent::command::{self, LogFormat, NodeAgentFlags, Program};

use crate::{logs, output};

struct Muster;

impl Program for Muster {
    fn print(&self, text: &str) {
        text.lines().for_each(output::line);
    }

    fn complain(&self, text: &str) {
        output::complaint(text);
    }

    fn log(&self, format: LogFormat, filter: &str) {
        let format = match format {
            LogFormat::Text => logs::LogFormat::Text,
            LogFormat::Json => logs::LogFormat::Json,
        };
        logs::start_with(format, filter);
    }
}

/// Runs a verb.
pub(crate) async fn run(flags: NodeAgentFlags) -> anyhow::Result<u8> {
    Ok(command::run(flags, &Muster).await?)
}

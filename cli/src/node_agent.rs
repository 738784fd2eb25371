//! `muster node-agent` in the full program: the verb is the one of the crate of the node agent.

use std::io;

use muster_node_agent::command::{self, CommandError, LogFormat, NodeAgentFlags, Program};

use crate::{
    logs,
    output::{Out, Unwritten},
};

struct Muster(Out);

impl Program for Muster {
    fn print(&self, text: &str) -> io::Result<()> {
        text.lines()
            .try_for_each(|line| self.0.line(line))
            .map_err(io::Error::other)
    }

    fn complain(&self, text: &str) {
        self.0.complaint(text);
    }

    fn log(&self, format: LogFormat, filter: &str) {
        let format = match format {
            LogFormat::Text => logs::LogFormat::Text,
            LogFormat::Json => logs::LogFormat::Json,
        };
        logs::start_with(format, &self.0, filter);
    }
}

/// Runs a verb.
pub(crate) async fn run(flags: NodeAgentFlags, out: &Out) -> anyhow::Result<u8> {
    match command::run(flags, &Muster(out.clone())).await {
        // Prints to standard output as `print` does.
        Err(CommandError::Io(error)) => {
            Err(error.downcast::<Unwritten>().map_or_else(Into::into, Into::into))
        }
        ended => Ok(ended?),
    }
}

//! `muster node-agent`: the service of a host, its local commands, and the steps of its pod. Two programs have this
//! command: `muster`, and the smaller one of this crate, which runs on hosts.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use muster_controllers::{process::until_signalled, runtime::call::error_chain};
use muster_node::{RowStatus, Services, Status, duration};
use thiserror::Error;
use tokio::task::JoinError;

use crate::{
    config_file,
    install::{self, HostPrograms, Install, InstallError, Installed},
    platform::ThisHost,
    process::{self, Node, ProcessError},
    token,
};

/// Examples for the help of the command.
pub const EXAMPLES: &str = "\
Examples:
  muster node-agent status                                     what is confirmed on this node, and what is not
  muster node-agent hold --for 2h --reason \"replacing a disk\"
  muster node-agent release
  muster node-agent restore                                    undoes changes that are not confirmed, without an API server";

const RUN_EXAMPLES: &str = "\
Examples:
  muster node-agent run
  muster node-agent run --config node.yaml --data-dir /var/lib/muster/node --node-name n1";

const STATUS_EXAMPLES: &str = "\
Examples:
  muster node-agent status
  muster node-agent status -o json";

const RESTORE_EXAMPLES: &str = "\
Examples:
  muster node-agent restore                    files, reloads and checks
  muster node-agent restore --boot             files only, as the boot unit does";

const HOLD_EXAMPLES: &str = "\
Examples:
  muster node-agent hold --for 2h --reason \"replacing a disk\"";

const RELEASE_EXAMPLES: &str = "\
Examples:
  muster node-agent release";

const INSTALL_EXAMPLES: &str = "\
Examples:
  muster node-agent install                    on the host itself
  muster node-agent install --enter-host       in a privileged pod with hostPID";

const TOKEN_EXAMPLES: &str = "\
Examples:
  muster node-agent token --from /var/run/secrets/muster --to /host/node";

/// The arguments of `muster node-agent`.
#[derive(Args, Clone, Debug)]
pub struct NodeAgentFlags {
    /// The files of the agent.
    #[command(flatten)]
    pub host: HostFlags,
    /// The subcommand.
    #[command(subcommand)]
    pub verb: NodeAgentVerb,
}

/// The files of an agent.
#[derive(Args, Clone, Debug)]
pub struct HostFlags {
    /// The configuration of this node: what NodeModules may use (docs/nodes.md)
    #[arg(long, global = true, value_name = "FILE", default_value = config_file::FILE, env = "MUSTER_NODE_CONFIG")]
    pub config: PathBuf,
    /// The agent's own directory
    #[arg(long, global = true, value_name = "DIRECTORY", default_value = process::DIRECTORY, env = "MUSTER_NODE_DIR")]
    pub data_dir: PathBuf,
}

/// A subcommand of the node agent.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeAgentVerb {
    /// Run the service until SIGTERM
    #[command(before_help = RUN_EXAMPLES)]
    Run(RunFlags),
    /// Print the journal, the NodeModules and the hold of this node, without an API server
    ///
    /// Exit codes: 0 all NodeModules are confirmed; 1 something is not; 2 the status could not be read.
    #[command(before_help = STATUS_EXAMPLES)]
    Status(StatusFlags),
    /// Undo changes that are not confirmed: restore the previous state, without an API server
    ///
    /// Exit codes: 0 nothing is left to restore, 1 something is, 2 failed.
    #[command(before_help = RESTORE_EXAMPLES)]
    Restore(RestoreFlags),
    /// Stop all changes to this node except pending restores, for a given time
    ///
    /// Exit codes: 0 held, 2 failed.
    #[command(before_help = HOLD_EXAMPLES)]
    Hold(LocalHoldFlags),
    /// End the hold of this node
    ///
    /// Exit codes: 0 released, or was not held; 2 failed.
    #[command(before_help = RELEASE_EXAMPLES)]
    Release,
    /// Install this program as a service of the host, as the init container of the DaemonSet does
    ///
    /// Exit codes: 0 installed, 2 failed; the pod retries.
    #[command(before_help = INSTALL_EXAMPLES)]
    Install(InstallFlags),
    /// Copy the pod's token to the agent of the host whenever it changes, as the container of the DaemonSet does
    #[command(before_help = TOKEN_EXAMPLES)]
    Token(TokenFlags),
}

/// The options of the service.
#[derive(Args, Clone, Debug)]
pub struct RunFlags {
    /// The name of this node, if its token does not contain it
    #[arg(long, value_name = "NODE", env = "MUSTER_NODE_NAME")]
    pub node_name: Option<String>,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
}

/// The options of `status`.
#[derive(Args, Clone, Debug)]
pub struct StatusFlags {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// The options of `restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreFlags {
    /// Restore only files, without reloads and checks, because services are not running yet
    #[arg(long)]
    pub boot: bool,
}

/// The options of `hold`.
#[derive(Args, Clone, Debug)]
pub struct LocalHoldFlags {
    /// The duration, such as 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = span)]
    pub time: Duration,
    /// The reason, shown in the reported status of this node
    #[arg(long)]
    pub reason: String,
}

/// The options of `install`.
#[derive(Args, Clone, Debug)]
pub struct InstallFlags {
    /// First enter the mount namespace of PID 1, which in a pod with hostPID is the host's
    #[arg(long)]
    pub enter_host: bool,
}

/// The options of `token`.
#[derive(Args, Clone, Debug)]
pub struct TokenFlags {
    /// The directory of the projected volume, which contains token and ca.crt
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,
    /// The agent's own directory, as mounted in the pod
    #[arg(long, value_name = "DIRECTORY")]
    pub to: PathBuf,
}

fn span(text: &str) -> Result<Duration, String> {
    let read = duration::parse(text).filter(|span| !span.is_zero());
    read.ok_or_else(|| "write a duration, such as 30m or 2h".to_owned())
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}

/// The output format of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Human-readable table
    Table,
    /// JSON
    Json,
}

/// Why a command failed. The program exits with 2.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The agent's directory does not exist.
    #[error("--data-dir: {0}")]
    Directory(io::Error),
    /// Signal handling or output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The agent refuses, or its files cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The agent's memory cannot be read.
    #[error("the agent's state on disk cannot be read: {0}")]
    Status(ProcessError),
    /// The installation failed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The task of a restore failed.
    #[error("the restore stopped unexpectedly: {0}")]
    Restore(#[from] JoinError),
}

/// The environment of a command.
pub trait Program {
    /// Prints to standard output. Text from files may contain control characters, which a terminal must not interpret.
    fn print(&self, text: &str) -> io::Result<()>;
    /// Prints to standard error.
    fn complain(&self, text: &str);
    /// Starts logging with this filter.
    fn log(&self, format: LogFormat, filter: &str);
}

/// Success, and everything is confirmed.
const DONE: u8 = 0;
/// Something is not confirmed, or the service ended with an error.
const FAILED: u8 = 1;

/// Runs a command and returns the exit code.
pub async fn run(flags: NodeAgentFlags, program: &dyn Program) -> Result<u8, CommandError> {
    let node = Node {
        config: flags.host.config,
        directory: std::path::absolute(&flags.host.data_dir).map_err(CommandError::Directory)?,
        platform: Arc::new(ThisHost),
    };
    match flags.verb {
        NodeAgentVerb::Run(flags) => serve(&node, flags, program).await,
        NodeAgentVerb::Status(flags) => status(&node, &flags, program),
        NodeAgentVerb::Restore(flags) => restore(node, &flags, program).await,
        NodeAgentVerb::Hold(flags) => {
            let hold = node.hold(flags.time, &flags.reason)?;
            program.print(&format!("held until {}: {}", hold.until, hold.reason))?;
            Ok(DONE)
        }
        NodeAgentVerb::Release => {
            node.release()?;
            program.print("released")?;
            Ok(DONE)
        }
        NodeAgentVerb::Install(flags) => install(&flags, program),
        NodeAgentVerb::Token(flags) => {
            program.log(LogFormat::Text, LOGGED);
            token::keep(&flags.from, &flags.to, until_signalled()?).await;
            Ok(DONE)
        }
    }
}

/// A check may call an unreachable API server every three seconds: only its result is reported, and not logged each
/// time.
const LOGGED: &str = "info,kube_client=off";

async fn serve(node: &Node, flags: RunFlags, program: &dyn Program) -> Result<u8, CommandError> {
    program.log(flags.log_format, LOGGED);
    let ended = node
        .run(flags.node_name, env!("CARGO_PKG_VERSION"), until_signalled()?)
        .await;
    match ended {
        Ok(()) => Ok(DONE),
        Err(error) => {
            program.complain(&format!("error: {}", error_chain(&error)));
            Ok(FAILED)
        }
    }
}

async fn restore(node: Node, flags: &RestoreFlags, program: &dyn Program) -> Result<u8, CommandError> {
    program.log(LogFormat::Text, LOGGED);
    let services = if flags.boot {
        Services::NotStarted
    } else {
        Services::Running
    };
    // It blocks, and its checks may call the API server.
    let restored = tokio::task::spawn_blocking(move || node.restore(services)).await??;
    if restored {
        program.print("nothing is left to restore")?;
        return Ok(DONE);
    }
    program.complain("error: not everything could be restored: see muster node-agent status");
    Ok(FAILED)
}

fn install(flags: &InstallFlags, program: &dyn Program) -> Result<u8, CommandError> {
    let binary = install::this_program()?;
    if flags.enter_host {
        install::enter_host()?;
    }
    let install = Install {
        root: std::path::Path::new("/"),
        programs: &HostPrograms,
    };
    program.print(match install.install(&binary)? {
        Installed::Unchanged => "the agent of this node is up to date",
        Installed::Restarted => "the agent of this node was installed and started",
    })?;
    Ok(DONE)
}

fn status(node: &Node, flags: &StatusFlags, program: &dyn Program) -> Result<u8, CommandError> {
    let status = node.status().map_err(CommandError::Status)?;
    program.print(&match flags.output {
        View::Json => format!(
            "{:#}",
            serde_json::json!({"schema": "node-agent-status/v1", "status": status})
        ),
        View::Table => lines(&status).join("\n"),
    })?;
    let settled = status.journal.as_ref().is_none_or(|last| last.step.is_settled());
    let good = settled && status.journal_problem.is_none() && status.rows.iter().all(is_confirmed);
    Ok(if good { DONE } else { FAILED })
}

fn is_confirmed(row: &RowStatus) -> bool {
    row.confirmed.is_some() && row.confirmed == row.last
}

fn lines(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(hold) = &status.hold {
        lines.push(format!("held until {}: {}", hold.until, hold.reason));
    }
    match (&status.journal, status.journal_problem) {
        (_, Some(problem)) => lines.push(format!("journal: {problem}")),
        (Some(last), None) if !last.step.is_settled() => {
            lines.push(format!(
                "journal: {} is not confirmed ({:?})",
                last.row, last.step
            ));
        }
        _ => {}
    }
    if status.rows.is_empty() {
        lines.push("no NodeModule has been applied to this node".to_owned());
        return lines;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["NODEMODULE", "STATUS", "DIGEST", "MESSAGE"]);
    for row in &status.rows {
        let outcome = row.outcome.as_ref();
        let reason = outcome.map_or("Unknown", |outcome| outcome.verdict.reason());
        let message = outcome
            .map(|outcome| outcome.message.as_str())
            .unwrap_or_default();
        let digest = row.confirmed.as_deref().unwrap_or("none");
        table.add_row([&row.name, reason, short_digest(digest), message]);
    }
    let inner = |line: &str| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned();
    lines.extend(table.lines().map(|line| inner(&line)));
    lines
}

/// The first digits of a digest, as in other tables.
fn short_digest(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

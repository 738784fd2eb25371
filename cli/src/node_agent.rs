//! `muster node-agent`: the service of a host, its local verbs, and the steps of its pod.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use muster_controllers::runtime::call::explain;
use muster_node::{RowStatus, Services, Status, duration};
use muster_node_agent::{
    config_file,
    install::{self, HostPrograms, Install, Installed},
    platform::ThisHost,
    process::{self, Node},
    token,
};

use crate::{
    DONE, FAILED,
    args::{LogFormat, View},
    logs, output,
    process::until_signalled,
};

pub const EXAMPLES: &str = "\
Examples:
  muster node-agent status                                     what is confirmed on this node, and what is not
  muster node-agent hold --for 2h --reason \"a disk is replaced\"
  muster node-agent release
  muster node-agent restore                                    brings back what is not confirmed, without an API server";

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
  muster node-agent restore --boot             files alone: what the unit of the boot does";

const HOLD_EXAMPLES: &str = "\
Examples:
  muster node-agent hold --for 2h --reason \"a disk is replaced\"";

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

#[derive(Args, Clone, Debug)]
pub struct NodeAgentFlags {
    #[command(flatten)]
    pub host: HostFlags,
    #[command(subcommand)]
    pub verb: NodeAgentVerb,
}

/// The files of an agent.
#[derive(Args, Clone, Debug)]
pub struct HostFlags {
    /// The configuration of this node: what NodeModules may name (docs/nodes.md)
    #[arg(long, global = true, value_name = "FILE", default_value = config_file::FILE, env = "MUSTER_NODE_CONFIG")]
    pub config: PathBuf,
    /// The agent's own folder
    #[arg(long, global = true, value_name = "FOLDER", default_value = process::FOLDER, env = "MUSTER_NODE_DIR")]
    pub data_dir: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
pub enum NodeAgentVerb {
    /// Run the service, until SIGTERM
    #[command(before_help = RUN_EXAMPLES)]
    Run(RunFlags),
    /// Print the journal, the rows and the hold of this node, without an API server
    ///
    /// Exit codes: 0 all rows are confirmed, 1 something is not, 2 could not find out.
    #[command(before_help = STATUS_EXAMPLES)]
    Status(StatusFlags),
    /// Bring back what is not confirmed, without an API server
    ///
    /// Exit codes: 0 nothing is left to bring back, 1 something is, 2 could not be done.
    #[command(before_help = RESTORE_EXAMPLES)]
    Restore(RestoreFlags),
    /// Stop every change of this node but a pending restore, for a time
    ///
    /// Exit codes: 0 held, 2 could not be done.
    #[command(before_help = HOLD_EXAMPLES)]
    Hold(LocalHoldFlags),
    /// End the hold of this node
    ///
    /// Exit codes: 0 released, or it was not held, 2 could not be done.
    #[command(before_help = RELEASE_EXAMPLES)]
    Release,
    /// Install this program as a service of the host: what the init container of the DaemonSet does
    ///
    /// Exit codes: 0 installed, 2 could not be done; it is tried again.
    #[command(before_help = INSTALL_EXAMPLES)]
    Install(InstallFlags),
    /// Copy the token of the pod to the agent of the host, whenever it changes: what the container of the DaemonSet does
    #[command(before_help = TOKEN_EXAMPLES)]
    Token(TokenFlags),
}

#[derive(Args, Clone, Debug)]
pub struct RunFlags {
    /// The name of this node, where its token does not say it
    #[arg(long, value_name = "NODE", env = "MUSTER_NODE_NAME")]
    pub node_name: Option<String>,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
}

#[derive(Args, Clone, Debug)]
pub struct StatusFlags {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = View::Table)]
    pub output: View,
}

#[derive(Args, Clone, Debug)]
pub struct RestoreFlags {
    /// Services do not run yet: only files are brought back, nothing is reloaded or checked
    #[arg(long)]
    pub boot: bool,
}

#[derive(Args, Clone, Debug)]
pub struct LocalHoldFlags {
    /// For how long, such as 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = span)]
    pub time: Duration,
    /// Why: it is reported
    #[arg(long)]
    pub reason: String,
}

#[derive(Args, Clone, Debug)]
pub struct InstallFlags {
    /// Enter the mount namespace of process 1 first: in a pod with hostPID that is the host
    #[arg(long)]
    pub enter_host: bool,
}

#[derive(Args, Clone, Debug)]
pub struct TokenFlags {
    /// The folder of the projected volume, with token and ca.crt
    #[arg(long, value_name = "FOLDER")]
    pub from: PathBuf,
    /// The agent's own folder, as the pod has it
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
}

fn span(text: &str) -> Result<Duration, String> {
    let read = duration::parse(text).filter(|span| !span.is_zero());
    read.ok_or_else(|| "write a span of time, such as 30m or 2h".to_owned())
}

/// Runs a verb.
pub async fn run(flags: NodeAgentFlags) -> anyhow::Result<u8> {
    let node = Node {
        config: flags.host.config,
        folder: std::path::absolute(&flags.host.data_dir)?,
        platform: Arc::new(ThisHost),
    };
    match flags.verb {
        NodeAgentVerb::Run(flags) => serve(&node, flags).await,
        NodeAgentVerb::Status(flags) => status(&node, &flags),
        NodeAgentVerb::Restore(flags) => restore(node, &flags).await,
        NodeAgentVerb::Hold(flags) => {
            let hold = node.hold(flags.time, &flags.reason)?;
            say!("held until {}: {}", hold.until, output::safe(&hold.reason));
            Ok(DONE)
        }
        NodeAgentVerb::Release => {
            node.release()?;
            say!("released");
            Ok(DONE)
        }
        NodeAgentVerb::Install(flags) => install(&flags),
        NodeAgentVerb::Token(flags) => {
            log(LogFormat::Text);
            token::keep(&flags.from, &flags.to, until_signalled()?).await;
            Ok(DONE)
        }
    }
}

/// A check asks an API server that may be cut off every three seconds: what comes of it is reported, and not logged each time.
fn log(format: LogFormat) {
    logs::start_with(format, "info,kube_client=off");
}

async fn serve(node: &Node, flags: RunFlags) -> anyhow::Result<u8> {
    log(flags.log_format);
    let ended = node
        .run(flags.node_name, env!("CARGO_PKG_VERSION"), until_signalled()?)
        .await;
    match ended {
        Ok(()) => Ok(DONE),
        Err(error) => {
            complain!("error: {}", explain(&error));
            Ok(FAILED)
        }
    }
}

async fn restore(node: Node, flags: &RestoreFlags) -> anyhow::Result<u8> {
    log(LogFormat::Text);
    let services = if flags.boot {
        Services::NotStarted
    } else {
        Services::Running
    };
    // It blocks, and its checks may ask the API server.
    let restored = tokio::task::spawn_blocking(move || node.restore(services)).await??;
    if restored {
        say!("nothing is left to bring back");
        return Ok(DONE);
    }
    complain!("error: not all could be brought back: see muster node-agent status");
    Ok(FAILED)
}

fn install(flags: &InstallFlags) -> anyhow::Result<u8> {
    let program = install::this_program()?;
    if flags.enter_host {
        install::enter_host()?;
    }
    let install = Install {
        root: std::path::Path::new("/"),
        programs: &HostPrograms,
    };
    match install.install(&program)? {
        Installed::Unchanged => say!("the agent of this node is as it was"),
        Installed::Restarted => say!("the agent of this node is installed, and was started"),
    }
    Ok(DONE)
}

fn status(node: &Node, flags: &StatusFlags) -> anyhow::Result<u8> {
    let status = node.status().context("what the agent remembers cannot be read")?;
    match flags.output {
        View::Json => {
            let json = serde_json::json!({"schema": "node-agent-status/v1", "status": status});
            output::text(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        }
        View::Table => print(&status),
    }
    let settled = status.journal.as_ref().is_none_or(|last| last.step.is_settled());
    let good = settled && status.journal_problem.is_none() && status.rows.iter().all(is_confirmed);
    Ok(if good { DONE } else { FAILED })
}

fn is_confirmed(row: &RowStatus) -> bool {
    row.confirmed.is_some() && row.confirmed == row.last
}

fn print(status: &Status) {
    if let Some(hold) = &status.hold {
        say!("held until {}: {}", hold.until, output::safe(&hold.reason));
    }
    match (&status.journal, status.journal_problem) {
        (_, Some(problem)) => say!("journal: {problem}"),
        (Some(last), None) if !last.step.is_settled() => {
            say!("journal: {} is not confirmed ({:?})", last.row, last.step);
        }
        _ => {}
    }
    if status.rows.is_empty() {
        say!("no NodeModule was carried out on this node");
        return;
    }
    let mut table = output::table(["NODEMODULE", "STATUS", "DIGEST", "MESSAGE"]);
    for row in &status.rows {
        let outcome = row.outcome.as_ref();
        let reason = outcome.map_or("Unknown", |outcome| outcome.verdict.reason());
        let message = outcome
            .map(|outcome| outcome.message.as_str())
            .unwrap_or_default();
        let digest = row.confirmed.as_deref().unwrap_or("none");
        table.add_row([&row.name, reason, short(digest), &output::safe(message)]);
    }
    output::print(&output::lines(&table));
}

/// The first digits of a digest, as other tables have them.
fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

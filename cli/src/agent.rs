//! `muster agent`: the process of a downstream cluster.

use clap::Args;
use muster_controllers::{node::configured::StartupTaint, process};
use muster_fleet::connect::Target;

use crate::{
    logs,
    output::Out,
    process::{ProcessFlags, ended, setup},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster agent --kubeconfig eu-1.kubeconfig
  muster agent --data-dir /var/lib/muster --log-format json
  muster agent --nodes                         also NodeModules, across the nodes of the cluster (docs/nodes.md)";

/// Run the agent of a downstream cluster, or of a standalone cluster
#[derive(Args, Clone, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct AgentFlags {
    // Before the flattened flags: their last heading would apply to these.
    /// Also roll out NodeModules across the nodes of this cluster, node by node
    #[arg(long, env = "MUSTER_NODES")]
    pub nodes: bool,
    /// A taint to remove from a node once every NodeModule that selects the node is confirmed on it; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "KEY[=VALUE:EFFECT]",
        value_parser = startup_taint,
        requires = "nodes",
        env = "MUSTER_STARTUP_TAINTS"
    )]
    pub startup_taints: Vec<StartupTaint>,
    #[command(flatten)]
    pub process: ProcessFlags,
}

/// Runs the agent until SIGTERM or Ctrl-C.
pub(crate) async fn run(cluster: &Target, flags: AgentFlags, out: &Out) -> anyhow::Result<u8> {
    let AgentFlags {
        process,
        nodes,
        startup_taints,
    } = flags;
    logs::start(process.log_format, out);
    let namespace = cluster
        .namespace
        .clone()
        .unwrap_or_else(|| muster_api::labels::SYSTEM_NAMESPACE.to_owned());
    let cluster = Target {
        namespace: Some(namespace),
        ..cluster.clone()
    };
    let mut setup = setup(&cluster, process).await?;
    setup.options.nodes = nodes.then_some(startup_taints);
    Ok(ended(process::run_agent(setup).await, out))
}

/// Parses `--startup-taints`.
fn startup_taint(text: &str) -> Result<StartupTaint, String> {
    let taint = StartupTaint::parse(text);
    taint.ok_or_else(|| "write KEY or KEY=VALUE:EFFECT, such as node.example.com/unconfigured".to_owned())
}

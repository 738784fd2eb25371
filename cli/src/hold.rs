//! `muster hold`: keeps clusters or nodes as they are until they are released.

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    hold_pin::{self, Held},
};

use crate::{
    exit::DONE,
    flags::{ClusterName, NodeName, TermFlags, strings},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster hold eu-1 --reason 'migration' --for 2h                 for all modules
  muster hold module/podinfo --clusters eu-1,eu-2 --reason '…'   for one module
  muster hold --node n1 --reason 'memory test' --context eu-1    a node of that cluster, for all NodeModules
  muster hold nodemodule/fabric --node n1,n2 --context eu-1      for one NodeModule";

/// Hold clusters or nodes at their current version, for all modules or for one
///
/// Writes the annotation fleet.muster.dev/hold, which is not managed by git, with your name, reason and time. Running
/// it again changes nothing.
///
/// Exit codes: 0 held, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct HoldFlags {
    /// CLUSTER, for all modules; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME, for the clusters or nodes
    /// given by --clusters or --node
    #[arg(required_unless_present = "nodes", value_name = "TARGET")]
    pub top: Option<Held>,
    /// Clusters to hold for this module
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<ClusterName>,
    /// Nodes to hold for this NodeModule; without a module: a Node, for all NodeModules
    #[arg(
        long = "node",
        value_delimiter = ',',
        value_name = "NODES",
        conflicts_with = "clusters"
    )]
    pub nodes: Vec<NodeName>,
    #[command(flatten)]
    pub term: TermFlags,
}

/// Holds clusters or nodes.
pub(crate) async fn run(target: &Target, flags: &HoldFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let (top, units) = Held::meant(
        flags.top.as_ref(),
        &strings(&flags.clusters),
        &strings(&flags.nodes),
    )?;
    let (term, dry_run) = (flags.term.term(), flags.term.dry_run.by);
    hold_pin::hold((&client, &namespace), (&top, &units), &term, dry_run, out).await?;
    Ok(DONE)
}

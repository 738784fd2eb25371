//! `muster release`: removes a hold.

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    hold_pin::{self, Held},
};

use crate::{
    exit::code,
    flags::{ClusterName, DryRunFlag, NodeName, strings},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster release eu-1
  muster release module/podinfo --clusters eu-1
  muster release module/podinfo                                  all clusters that it holds
  muster release --node n1 --context eu-1";

/// Release a hold
///
/// Exit codes: 0 no longer held, 1 a module still holds the cluster, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReleaseFlags {
    /// CLUSTER; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(required_unless_present = "nodes", value_name = "TARGET")]
    pub top: Option<Held>,
    /// Only these clusters of the module
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<ClusterName>,
    /// Only these nodes of the NodeModule; without a module: a Node, for all NodeModules
    #[arg(
        long = "node",
        value_delimiter = ',',
        value_name = "NODES",
        conflicts_with = "clusters"
    )]
    pub nodes: Vec<NodeName>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Removes a hold.
pub(crate) async fn run(target: &Target, flags: &ReleaseFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let (top, units) = Held::meant(
        flags.top.as_ref(),
        &strings(&flags.clusters),
        &strings(&flags.nodes),
    )?;
    let dry_run = flags.dry_run.by;
    hold_pin::release_hold((&client, &namespace), (&top, &units), dry_run, out)
        .await
        .map(code)
}

//! `muster unpin`: removes a pin.

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    hold_pin::{self, pinned},
    name::{ModuleName, with_content},
};

use crate::{
    exit::code,
    flags::{ClusterName, DryRunFlag, NodeName},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster unpin eu-1                                              if only one module pins it
  muster unpin eu-1 --module podinfo
  muster unpin --node n1 --context eu-1";

/// Remove a pin; the cluster gets the current version when its turn comes
///
/// Exit codes: 0 no longer pinned, 1 the module itself still pins it, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct UnpinFlags {
    /// The cluster
    #[arg(required_unless_present = "node")]
    pub cluster: Option<ClusterName>,
    /// The node, for a NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<NodeName>,
    /// The module: NAME, module/NAME, bootstrapmodule/NAME or nodemodule/NAME; may be omitted if the cluster or node
    /// has one pin
    #[arg(long, short, value_parser = with_content)]
    pub module: Option<ModuleName>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Removes a pin.
pub(crate) async fn run(target: &Target, flags: &UnpinFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let unit = pinned(flags.cluster.as_deref(), flags.node.as_deref())?;
    let (module, dry_run) = (flags.module.as_ref(), flags.dry_run.by);
    hold_pin::unpin((&client, &namespace), &unit, module, dry_run, out)
        .await
        .map(code)
}

//! `muster pin`: gives a cluster or node a revision, which it keeps until it is unpinned.

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    hold_pin::{self, pinned},
    name::{ModuleName, with_content},
};

use crate::{
    exit::DONE,
    flags::{ClusterName, NodeName, TermFlags},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout history module/podinfo                          lists the revisions
  muster pin eu-1 --module podinfo --revision v1.4.0 --reason 'crashes there' --for 24h
  muster pin eu-1 --module podinfo --revision 1a2b3c4d           if several revisions have the version
  muster pin --node n1 --module nodemodule/fabric --revision 1a2b3c4d --context eu-1";

/// Pin a cluster or a node to another revision of a module
///
/// Writes the annotation fleet.muster.dev/pin.MODULE (not managed by git) to the Cluster or Node, with your name,
/// reason and time. The cluster gets the revision when its turn comes, as with any change, and keeps it until it is
/// unpinned.
///
/// Exit codes: 0 pinned, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct PinFlags {
    /// The cluster
    #[arg(required_unless_present = "node")]
    pub cluster: Option<ClusterName>,
    /// The node, for a NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<NodeName>,
    /// The module: NAME, module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(long, short, value_parser = with_content)]
    pub module: ModuleName,
    /// The version to pin: a version that was rolled out, or a revision by at least 8 digits of its hash
    #[arg(long)]
    pub revision: String,
    #[command(flatten)]
    pub term: TermFlags,
}

/// Pins a cluster or node to a revision.
pub(crate) async fn run(target: &Target, flags: &PinFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let unit = pinned(flags.cluster.as_deref(), flags.node.as_deref())?;
    let what = (&flags.module, flags.revision.as_str());
    let (term, dry_run) = (flags.term.term(), flags.term.dry_run.by);
    hold_pin::pin((&client, &namespace), &unit, what, &term, dry_run, out).await?;
    Ok(DONE)
}

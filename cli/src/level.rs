//! `muster hold`, `release`, `pin` and `unpin`: clusters or nodes that are kept as they are, or at a revision, until somebody says otherwise.

use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    level::{self, Held, pinned},
    name::{ModuleName, with_content},
};

use crate::{
    exit::{DONE, code},
    flags::{DryRunFlag, TermFlags},
    output::Terminal,
};

pub(crate) const HOLD_EXAMPLES: &str = "\
Examples:
  muster hold eu-1 --reason 'migration' --for 2h                 for all modules
  muster hold module/podinfo --clusters eu-1,eu-2 --reason '…'   for one module
  muster hold --node n1 --reason 'memory test' --context eu-1    a node of that cluster, for all NodeModules
  muster hold nodemodule/fabric --node n1,n2 --context eu-1      for one NodeModule";

pub(crate) const RELEASE_EXAMPLES: &str = "\
Examples:
  muster release eu-1
  muster release module/podinfo --clusters eu-1
  muster release module/podinfo                                  all that it holds
  muster release --node n1 --context eu-1";

pub(crate) const PIN_EXAMPLES: &str = "\
Examples:
  muster rollout history module/podinfo                          which revisions there are
  muster pin eu-1 --module podinfo --revision v1.4.0 --reason 'crashes there' --for 24h
  muster pin eu-1 --module podinfo --revision 1a2b3c4d           where several revisions have the version
  muster pin --node n1 --module nodemodule/fabric --revision 1a2b3c4d --context eu-1";

pub(crate) const UNPIN_EXAMPLES: &str = "\
Examples:
  muster unpin eu-1                                              where one module pins it
  muster unpin eu-1 --module podinfo
  muster unpin --node n1 --context eu-1";

#[derive(Args, Debug)]
pub(crate) struct HoldFlags {
    /// CLUSTER, for all modules; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME, for those named by --clusters or --node
    #[arg(required_unless_present = "nodes")]
    pub top: Option<Held>,
    /// The clusters that the module leaves alone
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<String>,
    /// The nodes that the NodeModule leaves alone; without one: a Node, for all NodeModules
    #[arg(
        long = "node",
        value_delimiter = ',',
        value_name = "NODES",
        conflicts_with = "clusters"
    )]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub term: TermFlags,
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseFlags {
    /// CLUSTER; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(required_unless_present = "nodes")]
    pub top: Option<Held>,
    /// Only these clusters of the module
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<String>,
    /// Only these nodes of the NodeModule; without one: a Node, for all NodeModules
    #[arg(
        long = "node",
        value_delimiter = ',',
        value_name = "NODES",
        conflicts_with = "clusters"
    )]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

#[derive(Args, Debug)]
pub(crate) struct PinFlags {
    /// The cluster
    #[arg(required_unless_present = "node")]
    pub cluster: Option<String>,
    /// The node, for a NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<String>,
    /// The module: NAME, module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(long, short, value_parser = with_content)]
    pub module: ModuleName,
    /// What the cluster gets and keeps: a version that was rolled out, or a revision by at least 8 digits of its hash
    #[arg(long)]
    pub revision: String,
    #[command(flatten)]
    pub term: TermFlags,
}

#[derive(Args, Debug)]
pub(crate) struct UnpinFlags {
    /// The cluster
    #[arg(required_unless_present = "node")]
    pub cluster: Option<String>,
    /// The node, for a NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<String>,
    /// The module: NAME, module/NAME, bootstrapmodule/NAME or nodemodule/NAME; may be left out where the cluster or node has one pin
    #[arg(long, short, value_parser = with_content)]
    pub module: Option<ModuleName>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Keeps clusters or nodes as they are.
pub(crate) async fn hold(target: &Target, flags: &HoldFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let (top, units) = Held::meant(flags.top.as_ref(), &flags.clusters, &flags.nodes)?;
    let (term, dry_run) = (flags.term.term(), flags.term.dry_run.by);
    level::hold((&client, &namespace), (&top, &units), &term, dry_run, &Terminal).await?;
    Ok(DONE)
}

/// Takes a hold back.
pub(crate) async fn release(target: &Target, flags: &ReleaseFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let (top, units) = Held::meant(flags.top.as_ref(), &flags.clusters, &flags.nodes)?;
    let dry_run = flags.dry_run.by;
    level::release((&client, &namespace), (&top, &units), dry_run, &Terminal)
        .await
        .map(code)
}

/// Gives a cluster or node a revision, and keeps it there.
pub(crate) async fn pin(target: &Target, flags: &PinFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let unit = pinned(flags.cluster.as_ref(), flags.node.as_ref())?;
    let what = (&flags.module, flags.revision.as_str());
    let (term, dry_run) = (flags.term.term(), flags.term.dry_run.by);
    level::pin((&client, &namespace), &unit, what, &term, dry_run, &Terminal).await?;
    Ok(DONE)
}

/// Takes a pin back.
pub(crate) async fn unpin(target: &Target, flags: &UnpinFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let unit = pinned(flags.cluster.as_ref(), flags.node.as_ref())?;
    let (module, dry_run) = (flags.module.as_ref(), flags.dry_run.by);
    level::unpin((&client, &namespace), &unit, module, dry_run, &Terminal)
        .await
        .map(code)
}

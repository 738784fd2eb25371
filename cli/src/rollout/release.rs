//! `muster rollout release`: nodes that vanished in their change are waited for no more.

use clap::Args;
use kube::Client;
use muster_fleet::{name::ModuleName, write_off};

use crate::{
    exit::code,
    flags::{NodeName, WordFlags, strings},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout release nodemodule/fabric --node n3 --reason 'its hardware is broken'
  muster rollout release nodemodule/fabric --node n3,n4 --context eu-1";

/// Release nodes that vanished in their change: the rollout of the NodeModule waits for them no more
///
/// Writes the annotation fleet.muster.dev/release, which git does not own, with your name, reason and time. The slot of such a node is
/// free after rollout.deadlines.absence. It stands until it is taken away.
///
/// Exit codes: 0 released, 1 the node is not lost in its change, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReleaseFlags {
    /// nodemodule/NAME
    pub module: ModuleName,
    /// The nodes
    #[arg(long = "node", value_delimiter = ',', value_name = "NODES", required = true)]
    pub nodes: Vec<NodeName>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Nodes that vanished in their change are waited for no more.
pub(crate) async fn run(client: &Client, flags: &ReleaseFlags, out: &Out) -> anyhow::Result<u8> {
    let nodes = strings(&flags.nodes);
    write_off::release(client, (&flags.module, &nodes), &flags.word.word(), out)
        .await
        .map(code)
}

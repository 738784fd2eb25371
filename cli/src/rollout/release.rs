//! `muster rollout release`: stops waiting for nodes that vanished during their update.

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

/// Give up on nodes that vanished during their update: the rollout of the NodeModule no longer waits for them
///
/// Writes the annotation fleet.muster.dev/release, which git does not own, with your name, reason and time. The slot of
/// such a node (its place among the concurrent updates) is freed after rollout.deadlines.absence. The annotation stays
/// until you remove it.
///
/// Exit codes: 0 released, 1 the node did not vanish during its update, 2 could not be done.
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

/// Releases nodes that vanished during their update.
pub(crate) async fn run(client: &Client, flags: &ReleaseFlags, out: &Out) -> anyhow::Result<u8> {
    let nodes = strings(&flags.nodes);
    write_off::release_lost_nodes(client, (&flags.module, &nodes), &flags.word.word(), out)
        .await
        .map(code)
}

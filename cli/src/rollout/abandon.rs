//! `muster rollout abandon`: gives up nodes from which a NodeModule is being withdrawn.

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
  muster rollout abandon nodemodule/fabric --node n3 --reason 'it was scrapped'";

/// Abandon nodes of a NodeModule that is being deleted, or no longer selects them: it does not wait for them, and they
/// keep what they have
///
/// Writes the annotation fleet.muster.dev/abandon, which is not managed by git, with your name, reason and time.
///
/// Exit codes: 0 abandoned, 1 there is nothing to abandon, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct AbandonFlags {
    /// nodemodule/NAME
    pub module: ModuleName,
    /// The nodes
    #[arg(long = "node", value_delimiter = ',', value_name = "NODES", required = true)]
    pub nodes: Vec<NodeName>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Abandons nodes of a withdrawal.
pub(crate) async fn run(client: &Client, flags: &AbandonFlags, out: &Out) -> anyhow::Result<u8> {
    let nodes = strings(&flags.nodes);
    write_off::abandon(client, (&flags.module, &nodes), &flags.word.word(), out)
        .await
        .map(code)
}

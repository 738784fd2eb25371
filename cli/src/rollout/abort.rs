//! `muster rollout abort`: stops a rollout.

use clap::Args;
use kube::Client;
use muster_fleet::{name::ModuleName, stage_control};

use crate::{exit::code, flags::WordFlags, output::Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout abort module/podinfo --reason 'wrong branch'";

/// Abort the rollout; the revision is marked Aborted, not Bad
///
/// No further cluster gets the revision; with onFailure.action Revert, clusters go back to the last good one.
///
/// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct AbortFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// The revision, or at least 8 digits of it [default: the module's current one]
    #[arg(long)]
    pub revision: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Aborts a rollout.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &AbortFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let what = (&flags.module, flags.revision.as_deref());
    stage_control::abort_rollout((client, namespace), what, &flags.word.word(), out)
        .await
        .map(code)
}

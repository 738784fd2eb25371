//! `muster rollout approve`: approves a stage.

use clap::Args;
use kube::Client;
use muster_fleet::{name::ModuleName, stage_control};

use crate::{exit::code, flags::WordFlags, output::Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout approve module/podinfo                       the only stage that requires it
  muster rollout approve module/podinfo --stage canary --reason 'dashboards are green'";

/// Approve a stage: it is passed once its clusters are ready, its soak is over and its gates pass
///
/// Writes the annotation fleet.muster.dev/approve for this stage of this revision, with your name, reason and time. It
/// is used up when the controller reads it.
///
/// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ApproveFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// The stage; may be omitted if only one waits for approval
    #[arg(long)]
    pub stage: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Approves or promotes a stage.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &ApproveFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let what = (&flags.module, flags.stage.as_deref());
    stage_control::approve((client, namespace), what, &flags.word.word(), false, out)
        .await
        .map(code)
}

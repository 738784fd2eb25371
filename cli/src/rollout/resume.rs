//! `muster rollout resume`: removes a pause.

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_fleet::{machines::MachineError, name::RolloutName, pause, zones};

use crate::{
    exit::{DONE, code},
    flags::DryRunFlag,
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout resume module/podinfo
  muster rollout resume zonerollout/ingester -n mimir";

/// Resume a paused rollout
///
/// Exit codes: 0 no longer paused; 1 still paused by spec.rollout.paused, which only its owner (usually git) can
/// change; 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ResumeFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Removes a pause.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &ResumeFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let dry_run = flags.dry_run.by;
    match &flags.rollout {
        RolloutName::Module(module) => pause::resume(client, namespace, module, dry_run, out)
            .await
            .map(code),
        RolloutName::Zones(name) => {
            zones::resume_zone(client, (namespace, name), dry_run, out).await?;
            Ok(DONE)
        }
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "retry"
        }),
    }
}

//! `muster rollout pause`: stops a rollout from starting further clusters or pods, by an annotation that git does not
//! own.

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_fleet::{machines::MachineError, name::RolloutName, pause, zones};

use crate::{exit::DONE, flags::TermFlags, output::Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout pause module/podinfo --reason 'release freeze'
  muster rollout pause module/podinfo --for 2h        it resumes automatically after two hours
  muster rollout pause zonerollout/ingester -n mimir";

/// Pause: no further cluster starts to update; those that are updating finish
///
/// Writes the annotation fleet.muster.dev/paused, which is not managed by git, with your name, reason and time; on a
/// ZoneRollout it sets spec.paused. Running it again changes nothing.
///
/// Exit codes: 0 paused, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct PauseFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    #[command(flatten)]
    pub term: TermFlags,
}

/// Pauses a module: no further cluster starts; or a ZoneRollout: no further pod is replaced.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &PauseFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let (term, dry_run) = (flags.term.term(), flags.term.dry_run.by);
    match &flags.rollout {
        RolloutName::Module(module) => pause::pause(client, namespace, module, &term, dry_run, out).await?,
        RolloutName::Zones(name) => zones::pause_zone(client, (namespace, name), &term, dry_run, out).await?,
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "abort"
        }),
    }
    Ok(DONE)
}

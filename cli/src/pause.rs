//! `muster rollout pause` and `resume`: a person's will, as an annotation that git does not own.

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_fleet::{name::RolloutName, pause};

use crate::{
    exit::{DONE, code},
    flags::{DryRunFlag, TermFlags},
    machines::MachineError,
    output::Terminal,
    zonerollout,
};

pub(crate) const PAUSE_EXAMPLES: &str = "\
Examples:
  muster rollout pause module/podinfo --reason 'release freeze'
  muster rollout pause module/podinfo --for 2h        it goes on by itself after two hours
  muster rollout pause zonerollout/ingester -n mimir";

pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  muster rollout resume module/podinfo
  muster rollout resume zonerollout/ingester -n mimir";

#[derive(Args, Debug)]
pub(crate) struct PauseFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    #[command(flatten)]
    pub term: TermFlags,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Pauses a module: no further cluster begins; or a ZoneRollout: no further pod is replaced.
pub(crate) async fn pause(client: &Client, namespace: &str, flags: &PauseFlags) -> anyhow::Result<u8> {
    let PauseFlags { rollout, term } = flags;
    let dry_run = term.dry_run.by;
    match rollout {
        RolloutName::Module(module) => {
            pause::pause(client, namespace, module, &term.term(), dry_run, &Terminal).await?;
            Ok(DONE)
        }
        RolloutName::Zones(name) => zonerollout::pause(client, namespace, name, term).await,
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "abort"
        }),
    }
}

/// Takes a pause away.
pub(crate) async fn resume(client: &Client, namespace: &str, flags: &ResumeFlags) -> anyhow::Result<u8> {
    let ResumeFlags { rollout, dry_run } = flags;
    match rollout {
        RolloutName::Module(module) => pause::resume(client, namespace, module, dry_run.by, &Terminal)
            .await
            .map(code),
        RolloutName::Zones(name) => zonerollout::resume(client, namespace, name, dry_run.by).await,
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "retry"
        }),
    }
}

//! `muster rollout retry`: retries a revision that is bad or was aborted.

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_fleet::{machines::MachineError, name::RolloutName, stage_control, zones};

use crate::{exit::code, flags::WordFlags, output::Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout retry module/podinfo --reason 'the registry was down'
  muster rollout retry zonerollout/ingester -n mimir";

/// Retry a revision that is bad or was aborted; for a ZoneRollout, one that was marked bad
///
/// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct RetryFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    /// The revision, or at least 8 digits of it [default: the current one]
    #[arg(long)]
    pub revision: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Retries a revision that is bad or was aborted.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &RetryFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let (revision, word) = (flags.revision.as_deref(), flags.word.word());
    let is_written = match &flags.rollout {
        RolloutName::Module(module) => {
            stage_control::retry_rollout((client, namespace), (module, revision), &word, out).await?
        }
        RolloutName::Zones(name) => {
            zones::retry_zone(client, (namespace, name), revision, &word, out).await?
        }
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "retry"
        }),
    };
    Ok(code(is_written))
}

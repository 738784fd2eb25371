//! `muster unenroll`: a cluster that was enrolled goes out of the fleet.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use muster_fleet::connect::{self, Target};
use muster_operate::{
    steps::Steps,
    unenroll::{Options, unenroll},
};

use crate::{
    exit::{INTERRUPTED, code},
    flags::{DryRunFlag, duration},
    steps::{Told, consent, refuse},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster unenroll eu-2                                          what runs in it goes on; the account in it is left, and named
  muster unenroll eu-2 --downstream-context kind-eu-2           the account of the management cluster is removed as well
  muster unenroll eu-2 --prune --yes                            what modules brought is removed first
  muster unenroll eu-2 --dry-run                                what would happen";

#[derive(Args, Debug)]
pub(crate) struct UnenrollFlags {
    /// The cluster's name in the fleet
    pub name: String,
    /// What modules brought stays, and an agent goes on with it: the default
    #[arg(long)]
    pub keep_resources: bool,
    /// What modules brought is removed first: no module selects the cluster any more, and that is waited for
    #[arg(long, conflicts_with = "keep_resources")]
    pub prune: bool,
    /// Go on where a step fails, and name what is left
    #[arg(long)]
    pub force: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The kubeconfig with your way to the cluster, to remove the account of the management cluster there
    #[arg(long, value_name = "FILE")]
    pub downstream_kubeconfig: Option<PathBuf>,
    /// The context of it; of your own kubeconfig if no file is named
    #[arg(long, value_name = "CONTEXT")]
    pub downstream_context: Option<String>,
    /// How long --prune waits
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Takes a cluster out, or says at which step it could not.
pub(crate) async fn run(target: &Target, flags: UnenrollFlags) -> anyhow::Result<u8> {
    let steps = Steps(&Told::Output);
    let yes = flags.yes;
    let options = flags.options();
    let client = connect::client(target).await?;
    tokio::select! {
        done = unenroll(target, client, &options, steps, async || consent(yes).await) => match done {
            Ok(is_clean) => Ok(code(is_clean)),
            Err(refusal) => Ok(refuse(steps, &refusal)),
        },
        // A signal that cannot be listened to ends the process by itself.
        Ok(()) = tokio::signal::ctrl_c() => {
            steps.say("Interrupted. The same command goes on from there.");
            Ok(INTERRUPTED)
        }
    }
}

impl UnenrollFlags {
    fn options(self) -> Options {
        Options {
            name: self.name,
            keep_resources: self.keep_resources,
            prune: self.prune,
            force: self.force,
            downstream_kubeconfig: self.downstream_kubeconfig,
            downstream_context: self.downstream_context,
            timeout: self.timeout,
            dry_run: self.dry_run.by,
        }
    }
}

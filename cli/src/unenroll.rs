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
    flags::{ClusterName, ContextName, DryRunFlag, duration},
    output::Out,
    steps::{Told, consent, refuse},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster unenroll eu-2                                          what runs in it goes on; the account in it is left, and named
  muster unenroll eu-2 --downstream-context kind-eu-2           the account of the management cluster is removed as well
  muster unenroll eu-2 --prune --yes                            what modules brought is removed first
  muster unenroll eu-2 --dry-run                                what would happen";

/// Remove an enrolled cluster from the fleet
///
/// Says first what will happen. What modules brought stays, unless --prune; Cluster and Secret are deleted, and where your way into the
/// cluster is named, the account of the management cluster there. What is left is named, with the command that removes it.
///
/// Exit codes: 0 not in the fleet, 1 a step failed or something is left, 2 usage, or a cluster does not answer, 130 interrupted.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct UnenrollFlags {
    /// The cluster's name in the fleet
    pub name: ClusterName,
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
    pub downstream_context: Option<ContextName>,
    /// How long --prune waits
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Takes a cluster out, or says at which step it could not.
pub(crate) async fn run(target: &Target, flags: UnenrollFlags, out: &Out) -> anyhow::Result<u8> {
    let told = Told::output(out);
    let steps = Steps(&told);
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
            name: self.name.into(),
            keep_resources: self.keep_resources,
            prune: self.prune,
            force: self.force,
            downstream_kubeconfig: self.downstream_kubeconfig,
            downstream_context: self.downstream_context.map(Into::into),
            timeout: self.timeout,
            dry_run: self.dry_run.by,
        }
    }
}

//! `muster unenroll`: removes an enrolled cluster from the fleet.

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
    steps::{StepPrinter, consent, refuse},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster unenroll eu-2                                          what runs in it keeps running; the management cluster's account in it stays, and is reported
  muster unenroll eu-2 --downstream-context kind-eu-2           the account of the management cluster is removed as well
  muster unenroll eu-2 --prune --yes                            what modules applied is removed first
  muster unenroll eu-2 --dry-run                                what would happen";

/// Remove an enrolled cluster from the fleet
///
/// First prints what will happen. What modules applied stays, unless --prune; the Cluster and the Secret are deleted,
/// and, if you name a context or kubeconfig for the cluster, the management cluster's service account there. Prints
/// what is left, with the command that removes it.
///
/// Exit codes: 0 no longer in the fleet; 1 a step failed or something is left; 2 usage error, or a cluster does not
/// answer; 130 interrupted.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct UnenrollFlags {
    /// The cluster's name in the fleet
    pub name: ClusterName,
    /// What modules applied stays, and an agent keeps applying it (the default)
    #[arg(long)]
    pub keep_resources: bool,
    /// First remove what modules applied: the Cluster loses its labels, so that no module selects it, and the command
    /// waits for the withdrawal
    #[arg(long, conflicts_with = "keep_resources")]
    pub prune: bool,
    /// Continue when a step fails, and print what is left
    #[arg(long)]
    pub force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// The kubeconfig with your access to the cluster, to remove the management cluster's service account there
    #[arg(long, value_name = "FILE")]
    pub downstream_kubeconfig: Option<PathBuf>,
    /// The context with your access to the cluster, in your own kubeconfig if no file is given
    #[arg(long, value_name = "CONTEXT")]
    pub downstream_context: Option<ContextName>,
    /// How long --prune waits
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Unenrolls a cluster, or reports the step that failed.
pub(crate) async fn run(target: &Target, flags: UnenrollFlags, out: &Out) -> anyhow::Result<u8> {
    let printer = StepPrinter::output(out);
    let steps = Steps(&printer);
    let yes = flags.yes;
    let options = flags.options();
    let client = connect::client(target).await?;
    tokio::select! {
        done = unenroll(target, client, &options, steps, async || consent(yes).await) => match done {
            Ok(is_clean) => Ok(code(is_clean)),
            Err(refusal) => Ok(refuse(steps, &refusal)),
        },
        // If the signal cannot be handled, it ends the process as usual.
        Ok(()) = tokio::signal::ctrl_c() => {
            steps.say("Interrupted. Run the same command again to continue.");
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

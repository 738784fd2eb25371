//! `muster uninstall`: removes what `muster install` made, in an order that leaves downstream clusters untouched.

use clap::Args;
use muster_fleet::connect::{self, Target};
use muster_operate::{
    steps::Steps,
    uninstall::{Options, uninstall},
};

use crate::{
    exit::{DONE, INTERRUPTED},
    flags::DryRunFlag,
    output::Out,
    steps::{StepPrinter, consent, refuse},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster uninstall --management --dry-run              what would be removed, in which order
  muster uninstall --management --keep-objects --yes   the controller and its permissions; modules and clusters stay, and are no longer reconciled
  muster uninstall --management --crds --force --yes   everything; what runs in clusters keeps running
  muster uninstall --downstream --context eu-1         the agent of a cluster";

/// Remove an installation; nothing in the downstream clusters is touched
///
/// First prints what would be removed, in which order; refuses while modules or enrolled clusters need it.
///
/// Exit codes: 0 removed, or nothing to remove; 1 refused, or a step failed; 2 usage error, or the cluster does not
/// answer; 130 interrupted.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct UninstallFlags {
    /// Remove muster controller from the management cluster
    #[arg(long, required_unless_present = "downstream", conflicts_with = "downstream")]
    pub management: bool,
    /// Remove muster agent from a downstream cluster
    #[arg(long)]
    pub downstream: bool,
    /// Also remove the definitions, and with them every object of muster's kinds; Flux's own definitions stay
    #[arg(long, conflicts_with = "keep_objects")]
    pub crds: bool,
    /// Keep the objects of muster's kinds, though no controller reconciles them any more
    #[arg(long)]
    pub keep_objects: bool,
    /// Continue even if clusters are enrolled or modules exist
    #[arg(long)]
    pub force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Removes an installation, or reports why not.
pub(crate) async fn run(target: &Target, flags: UninstallFlags, out: &Out) -> anyhow::Result<u8> {
    let printer = StepPrinter::output(out);
    let steps = Steps(&printer);
    let yes = flags.yes;
    let options = flags.options();
    let client = connect::client(target).await?;
    tokio::select! {
        done = uninstall(client, &options, steps, async || consent(yes).await) => match done {
            Ok(()) => Ok(DONE),
            Err(refusal) => Ok(refuse(steps, &refusal)),
        },
        // If the signal cannot be handled, it ends the process as usual.
        Ok(()) = tokio::signal::ctrl_c() => {
            steps.say("Interrupted. Run the same command again to continue.");
            Ok(INTERRUPTED)
        }
    }
}

impl UninstallFlags {
    fn options(self) -> Options {
        Options {
            management: self.management,
            downstream: self.downstream,
            crds: self.crds,
            keep_objects: self.keep_objects,
            force: self.force,
            dry_run: self.dry_run.by,
        }
    }
}

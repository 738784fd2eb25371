//! `muster enroll`: adds a cluster to the fleet that Cluster API does not manage.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use muster_fleet::connect::Target;
use muster_operate::{
    enroll::{Options, enroll, label},
    install::{IMAGE, Sync},
    steps::Steps,
};

use crate::{
    exit::{DONE, INTERRUPTED},
    flags::{DryRunFlag, duration, sync},
    output::Out,
    steps::{StepPrinter, refuse},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster enroll kind-eu-2 --name eu-2 -l env=prod,region=eu     a context of your kubeconfig
  muster enroll --downstream-kubeconfig eu-2.kubeconfig --name eu-2 -l env=prod --bootstrap
  muster enroll kind-eu-2 --name eu-2 --server https://eu-2-control-plane:6443
  muster enroll kind-eu-2 --name eu-2 --dry-run=server          what would be written, and whether it would be accepted
  muster enroll kind-eu-2 --name eu-2 --export > eu-2.yaml      the Cluster, to commit to git; the new cluster is still set up";

/// Enroll a cluster that Cluster API does not manage
///
/// First checks that both clusters answer, that everything would be accepted, and that the management cluster could use
/// the address. Then it creates a service account with few permissions and muster agent in the cluster, and a Secret
/// and a Cluster in the management cluster, and waits until the controller has reached the cluster. Running it again
/// changes nothing.
///
/// Exit codes: 0 enrolled; 1 a step failed, or the cluster was not reached in time; 2 usage error, or a cluster does
/// not answer; 130 interrupted.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct EnrollFlags {
    /// How you reach the new cluster: a context of your kubeconfig, or of --downstream-kubeconfig
    #[arg(required_unless_present = "downstream_kubeconfig")]
    pub new_context: Option<String>,
    /// The kubeconfig for the new cluster [default: your own]
    #[arg(long, value_name = "FILE")]
    pub downstream_kubeconfig: Option<PathBuf>,
    /// The name of the cluster in the fleet [default: the name of the context]
    #[arg(long)]
    pub name: Option<String>,
    /// Labels of the Cluster, by which modules select it; existing labels that are not listed stay (to remove one:
    /// kubectl label clusters NAME KEY-)
    #[arg(short, long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// How the management cluster reaches the new one, if not by the address in your kubeconfig: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Also grant permission to apply anything there: BootstrapModules need it, Modules do not
    #[arg(long)]
    pub bootstrap: bool,
    /// Do not install the agent and its definitions: they are installed some other way
    #[arg(long)]
    pub no_agent: bool,
    /// What applies the Flux kinds there
    #[arg(long, value_parser = sync(), default_value = "builtin")]
    pub sync: Sync,
    /// The image of the agent
    #[arg(long, default_value = IMAGE)]
    pub image: String,
    /// How long to wait until the controller has reached the cluster
    #[arg(long, default_value = "60s", value_parser = duration, conflicts_with = "no_wait")]
    pub wait: Duration,
    /// Do not wait
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
    /// Print the objects for the management cluster instead of writing them there; the new cluster is still set up
    #[arg(long)]
    pub export: bool,
    /// Also print the Secret, with its token
    #[arg(long, requires = "export")]
    pub with_secret: bool,
}

/// Enrolls a cluster, or reports the step that failed.
pub(crate) async fn run(target: &Target, flags: EnrollFlags, out: &Out) -> anyhow::Result<u8> {
    let printer = if flags.export {
        StepPrinter::beside(out)
    } else {
        StepPrinter::output(out)
    };
    let (options, steps) = (flags.options(), Steps(&printer));
    tokio::select! {
        enrolled = enroll(target, &options, steps) => match enrolled? {
            Ok(()) => Ok(DONE),
            Err(refusal) => Ok(refuse(steps, &refusal)),
        },
        // If the signal cannot be handled, it ends the process as usual.
        Ok(()) = tokio::signal::ctrl_c() => {
            steps.say("Interrupted. What was written stays: run the same command again to continue, or muster unenroll to remove it.");
            Ok(INTERRUPTED)
        }
    }
}

impl EnrollFlags {
    fn options(self) -> Options {
        Options {
            new_context: self.new_context,
            downstream_kubeconfig: self.downstream_kubeconfig,
            name: self.name,
            labels: self.labels,
            server: self.server,
            bootstrap: self.bootstrap,
            no_agent: self.no_agent,
            sync: self.sync,
            image: self.image,
            wait: self.wait,
            no_wait: self.no_wait,
            dry_run: self.dry_run.by,
            export: self.export,
            with_secret: self.with_secret,
        }
    }
}

//! `muster controller`: the process of the management cluster, with the dashboard beside it.

use std::path::PathBuf;

use clap::Args;
use muster_controllers::process;
use muster_fleet::connect::Target;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    dashboard::{self, BesideFlags},
    logs,
    output::Out,
    process::{ProcessFlags, ended, receivers, setup},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster controller --kubeconfig management.kubeconfig -n fleet --leader-elect=false
  muster controller --dashboard-addr 0.0.0.0:8080 --metrics-addr 0.0.0.0:9090 --log-format json";

/// Run the controller of the management cluster
#[derive(Args, Clone, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ControllerFlags {
    // Before the flattened flags: their last heading would apply to it.
    /// Also roll out the versions of ClusterUpgrades across Clusters that opt in (docs/upgrades.md)
    #[arg(long, env = "MUSTER_UPGRADES")]
    pub upgrades: bool,
    /// Notification receivers (docs/notifications.md)
    #[arg(long, value_name = "FILE", env = "MUSTER_NOTIFY_CONFIG")]
    pub notify_config: Option<PathBuf>,
    #[command(flatten)]
    pub process: ProcessFlags,
    #[command(flatten)]
    pub dashboard: BesideFlags,
}

/// Runs the controller until SIGTERM or Ctrl-C.
pub(crate) async fn run(cluster: &Target, flags: ControllerFlags, out: &Out) -> anyhow::Result<u8> {
    let ControllerFlags {
        process,
        upgrades,
        notify_config,
        dashboard,
    } = flags;
    logs::start(process.log_format, out);
    let mut setup = setup(cluster, process).await?;
    setup.options.upgrades = upgrades;
    setup.notify = notify_config.map(|file| receivers(&file)).transpose()?;
    // Runs beside the controllers and is not one of them: it needs no lease, and if it fails they go on.
    let _beside = dashboard::beside(cluster, dashboard)
        .await?
        .map(|dashboard| AbortOnDropHandle::new(tokio::spawn(dashboard.serve())));
    Ok(ended(process::controller(setup).await, out))
}

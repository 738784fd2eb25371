//! `muster demo`: a management cluster and a fleet of simulated clusters in one process, with a real git repository.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use muster_controllers::process::until_signalled;
use muster_operate::demo::{self, Options};

use crate::{
    exit::code,
    logs::{self, LogFormat},
    output::Out,
};

/// Run a management cluster and a fleet of simulated clusters in one process, with a real git repository
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct DemoFlags {
    /// Number of clusters, 1 to 50
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub clusters: u16,
    /// Where kubeconfigs and the git work tree are written; otherwise a temporary directory that is removed at the end
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Keep the directory
    #[arg(long)]
    pub keep: bool,
    /// Run a tour that checks itself, then exit: exit code 0 only if every check passed
    #[arg(long, conflicts_with = "clusters")]
    pub tour: bool,
    /// Instead of a fleet, one cluster with StatefulSets of three zones, and muster zones
    #[arg(long, conflicts_with_all = ["clusters", "tour", "dashboard"])]
    pub zones: bool,
    /// Also three simulated nodes in each cluster, and a NodeModule that a Module delivers
    #[arg(long, conflicts_with_all = ["tour", "zones"])]
    pub nodes: bool,
    /// Also the dashboard, on this loopback address; without a value, on a free port
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0"
    )]
    pub dashboard: Option<SocketAddr>,
    /// The seed of all jitter: the same seed gives the same delays
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster demo                                      in a temporary directory, removed at the end
  muster demo --dashboard                          with the dashboard from the start
  muster demo --dir fleet --clusters 20
  muster demo --tour                               runs a tour that checks itself, and exits
  muster demo --nodes                              with simulated nodes in each cluster, and a NodeModule (docs/nodes.md)
  muster demo --zones                              StatefulSets of three zones in one cluster (docs/zones.md)";

/// Runs the demo until Ctrl-C or SIGTERM.
pub(crate) async fn run(flags: DemoFlags, out: &Out) -> anyhow::Result<u8> {
    let out = out.outliving_readers();
    if std::env::var_os("RUST_LOG").is_some() {
        logs::start(LogFormat::Text, &out);
    }
    let shutdown = until_signalled()?;
    demo::run(flags.options(), shutdown, Arc::new(out))
        .await
        .map(code)
}

impl DemoFlags {
    fn options(self) -> Options {
        Options {
            clusters: self.clusters,
            dir: self.dir,
            keep: self.keep,
            tour: self.tour,
            zones: self.zones,
            nodes: self.nodes,
            dashboard: self.dashboard,
            seed: self.seed,
        }
    }
}

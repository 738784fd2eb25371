//! `muster check`: whether an installation is well; what is not, with a code, why, and what to do.
//!
//! ```text
//!   world (reads) ─► judge (pure) ─► findings ─► report ─► text, JSON
//!   --pre: before an installation      --cluster: one cluster, from here      --upgrade: before a ClusterUpgrade
//! ```
//!
//! Invariant: nothing is written; no value of a Secret is shown.

mod code;
mod deep;
mod expiry;
mod finding;
mod flux;
mod judge;
mod machines;
mod pre;
mod rights;
mod text;
mod upgrade;
mod world;

use clap::Args;
use kube::Client;
use muster_controllers::upgrade::version::Version;
use muster_fleet::connect::{self, Target};

pub use self::finding::Report;
use crate::{flags::View, output};

pub const EXAMPLES: &str = "\
Examples:
  muster check                        the installation, the clusters, the modules
  muster check --cluster eu-1         one cluster, from here
  muster check --upgrade v1.34        before a ClusterUpgrade: which Clusters could begin now?
  muster check --pre                  before an installation: would it be taken?
  muster check -o json                schema check/v1";

#[derive(Args, Debug)]
pub struct CheckFlags {
    /// Whether an installation would be taken; nothing is written
    #[arg(long, conflicts_with = "one_cluster")]
    pub pre: bool,
    /// One cluster, deep: from here, with the kubeconfig that the controller uses
    #[arg(id = "one_cluster", long = "cluster", value_name = "NAME")]
    pub one_cluster: Option<String>,
    /// Before a ClusterUpgrade: what would keep each Cluster that asks for one from this version now
    #[arg(long, value_name = "VERSION", value_parser = upgrade::version, conflicts_with_all = ["one_cluster", "pre"])]
    pub upgrade: Option<Version>,
    /// How it is printed: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints what was found.
pub async fn run(cluster: &Target, flags: &CheckFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let report = if flags.pre {
        Report::new(&namespace, pre::look(&client, &namespace).await?)
    } else if let Some(target) = flags.upgrade {
        Report::new(&namespace, upgrade::look(&client, &namespace, target).await?)
    } else if let Some(name) = &flags.one_cluster {
        Report::new(&namespace, deep::look(&client, &namespace, name).await?)
    } else {
        Box::pin(whole(&client, &namespace)).await?
    };
    match flags.output {
        View::Json => output::text(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        View::Table => output::print(&text::lines(&report, output::width())),
    }
    Ok(report.exit_code())
}

/// The report about the whole.
pub async fn whole(client: &Client, namespace: &str) -> anyhow::Result<Report> {
    let world = Box::pin(world::read(client, namespace)).await?;
    Ok(Report::new(namespace, judge::all(&world)))
}

//! `muster check`: checks the health of an installation; each problem has a code, a reason and a remedy.

use clap::Args;
use muster_controllers::upgrade::version::Version;
use muster_fleet::connect::{self, Target};
use muster_inspect::check::{self, Level};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::View,
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster check                        the installation, the clusters, the modules
  muster check --cluster eu-1         one cluster, from this machine
  muster check --upgrade v1.34        before a ClusterUpgrade: which Clusters could start now?
  muster check --pre                  before an installation: is the cluster ready?
  muster check -o json                schema check/v1";

/// Check the health of the installation, its clusters and modules; each finding has a code, a reason and a remedy
///
/// With -o json: `schema` (`check/v1`), namespace, result and findings; each has code, level (Ok, Warning, Unknown,
/// Problem), group, about, text, reason, remedy and docs. docs/checks.md explains each code.
///
/// Exit codes: 0 nothing is broken; 1 something is; 2 usage error, or something could not be checked.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct CheckFlags {
    /// Check whether a cluster is ready for an installation; nothing is written
    #[arg(long, conflicts_with = "one_cluster")]
    pub pre: bool,
    /// Check one cluster in depth: from this machine, with the kubeconfig that the controller uses
    #[arg(id = "one_cluster", long = "cluster", value_name = "NAME")]
    pub one_cluster: Option<String>,
    /// Check before a ClusterUpgrade: what currently blocks each opted-in Cluster from this version
    #[arg(long, value_name = "VERSION", value_parser = check::version, conflicts_with_all = ["one_cluster", "pre"])]
    pub upgrade: Option<Version>,
    /// Output format: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints the findings.
pub(crate) async fn run(target: &Target, flags: &CheckFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(target).await?;
    let report = if flags.pre {
        check::before_installation(&client, &namespace).await?
    } else if let Some(version) = flags.upgrade {
        check::before_upgrade(&client, &namespace, version).await?
    } else if let Some(name) = &flags.one_cluster {
        check::one(&client, &namespace, name).await?
    } else {
        Box::pin(check::check_installation(&client, &namespace)).await?
    };
    match flags.output {
        View::Json => out.json(&report)?,
        View::Table => out.lines(&check::lines(&report, out.width()))?,
    }
    Ok(match report.result {
        Level::Ok | Level::Warning => DONE,
        Level::Unknown => UNKNOWN,
        Level::Problem => FAILED,
    })
}

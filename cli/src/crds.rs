//! `muster crds`: prints the definitions that must be applied before the processes start.

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::crds;

use crate::{exit::DONE, output::Out};

/// Print the CustomResourceDefinitions
///
/// Exit codes: 0 printed, 2 usage error.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct CrdsFlags {
    /// The kinds of the management cluster
    #[arg(long, required_unless_present_any = ["downstream", "nodes", "machines"], conflicts_with = "downstream")]
    pub management: bool,
    /// With --management: also the kinds of ClusterUpgrades (docs/upgrades.md)
    #[arg(long, requires = "management")]
    pub upgrades: bool,
    /// The kinds of downstream clusters
    #[arg(long)]
    pub downstream: bool,
    /// The kinds of downstream clusters whose nodes are configured by NodeModules (docs/nodes.md)
    #[arg(long, conflicts_with = "management")]
    pub nodes: bool,
    /// The kinds of a management cluster whose Cluster API updates machines in place; cannot be combined
    /// (docs/machines.md)
    #[arg(long, conflicts_with_all = ["management", "downstream", "nodes"])]
    pub machines: bool,
    /// For a management cluster without Cluster API: also a minimal Cluster kind
    #[arg(long, requires = "management", conflicts_with = "downstream")]
    pub cluster_api: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster crds --management | kubectl apply --server-side -f -
  muster crds --management --cluster-api      also a minimal Cluster kind, where Cluster API is not installed
  muster crds --management --upgrades         also ClusterUpgrades
  muster crds --downstream | kubectl apply --server-side --context eu-1 -f -
  muster crds --nodes                         the kinds of --downstream, and NodeModules
  muster crds --machines                      the kinds of muster machines";

/// Prints definitions as a stream of YAML documents, for `kubectl apply --server-side -f -`.
pub(crate) fn run(flags: &CrdsFlags, out: &Out) -> anyhow::Result<u8> {
    for definition in &definitions(flags) {
        say!(out, "---\n{}", crds::yaml(definition).trim_end())?;
    }
    Ok(DONE)
}

fn definitions(flags: &CrdsFlags) -> Vec<CustomResourceDefinition> {
    if flags.machines {
        return crds::machines();
    }
    let mut definitions = if flags.management {
        crds::management()
    } else {
        crds::downstream()
    };
    definitions.extend(crds::flux());
    if flags.nodes {
        definitions.extend(crds::nodes());
    }
    if flags.upgrades {
        definitions.extend(crds::upgrades());
    }
    definitions.extend(flags.cluster_api.then(crds::cluster_api));
    definitions
}

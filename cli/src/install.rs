//! `muster install --export`: the manifests of an installation, to apply or to commit.

use std::path::PathBuf;

use clap::Args;
use muster_fleet::connect::Target;
use muster_operate::install::{Auth, EGRESS_PORTS, IMAGE, Options, Sync, manifests};

use crate::{
    exit::DONE,
    flags::{auth, sync},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster install --export --management --crds | kubectl apply --server-side -f -
  muster install --export --management --crds --cluster-api -n fleet      modules and clusters in namespace fleet; Cluster API is not installed
  muster install --export --downstream --crds | kubectl --context eu-1 apply --server-side -f -
  muster install --export --downstream --sync flux                        where Flux does the applying
  muster install --export --nodes --crds                                  also NodeModules, and the agents of nodes (docs/nodes.md)
  muster install --export --zones --crds -n mimir | kubectl apply --server-side -f -      StatefulSets of several zones (docs/zones.md)
  muster install --export --management --upgrades --crds                  also ClusterUpgrades (docs/upgrades.md)
  muster install --export --machines --updaters updaters.yaml --crds      Cluster API's in-place updates (docs/machines.md)";

/// Print the manifests of an installation: namespace, RBAC, Deployment, CRDs
///
/// Exit codes: 0 printed, 2 usage error.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub struct InstallFlags {
    /// Print the manifests; nothing is written to a cluster
    #[arg(long, required = true)]
    pub export: bool,
    /// For the management cluster: muster controller
    #[arg(long, required_unless_present_any = ["downstream", "nodes", "zones", "machines"])]
    pub management: bool,
    /// With --management: also ClusterUpgrades, and the permission to write the versions of Clusters (docs/upgrades.md)
    #[arg(long, requires = "management")]
    pub upgrades: bool,
    /// For a downstream cluster: muster agent
    #[arg(long, conflicts_with = "management")]
    pub downstream: bool,
    /// With --downstream: also the management cluster's permission to write Secrets with git credentials, and the
    /// admission policy that restricts it to them (docs/sync.md)
    #[arg(long, requires = "downstream")]
    pub distribute: bool,
    /// For a downstream cluster whose nodes are configured by NodeModules: muster agent --nodes, and the agents of
    /// nodes (docs/nodes.md)
    #[arg(long, conflicts_with_all = ["management", "zones"])]
    pub nodes: bool,
    /// For the StatefulSets of a namespace (-n) that are rolled and scaled zone by zone: muster zones
    #[arg(long, conflicts_with_all = ["management", "downstream", "sync"])]
    pub zones: bool,
    /// For a management cluster whose Cluster API updates machines in place: muster machines (docs/machines.md)
    #[arg(long, requires = "updaters", conflicts_with_all = ["management", "downstream", "nodes", "zones", "sync"])]
    pub machines: bool,
    /// With --machines: the file with the updaters; it goes into a ConfigMap
    #[arg(long, value_name = "FILE", requires = "machines")]
    pub updaters: Option<PathBuf>,
    /// Also the CustomResourceDefinitions
    #[arg(long)]
    pub crds: bool,
    /// For a management cluster without Cluster API: also a minimal Cluster kind
    #[arg(long, requires = "crds", conflicts_with_all = ["downstream", "nodes", "zones", "machines"])]
    pub cluster_api: bool,
    /// With --zones and --crds: also ZoneAwarePodDisruptionBudget and ReplicaTemplate; set to false if
    /// rollout-operator's own definitions are installed
    #[arg(
        long,
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        requires = "zones",
        requires = "crds",
    )]
    pub rollout_operator_crds: bool,
    /// What applies the Flux kinds; with flux, Flux installs their definitions
    #[arg(long, value_parser = sync(), default_value = "builtin")]
    pub sync: Sync,
    /// Also enable the dashboard of muster controller, with this authentication, and a Service muster-dashboard
    /// (docs/dashboard.md)
    #[arg(long, value_parser = auth(), value_name = "AUTH", conflicts_with_all = ["downstream", "nodes", "zones", "machines"])]
    pub dashboard: Option<Auth>,
    /// The image that contains the command muster
    #[arg(long, default_value = IMAGE)]
    pub image: String,
    /// The ports of API servers, git hosts and gate hosts, separated by commas, in place of the default: the
    /// NetworkPolicy allows egress to these and to DNS only
    #[arg(long, value_name = "PORT", value_delimiter = ',', default_values_t = EGRESS_PORTS)]
    pub egress_ports: Vec<u16>,
    /// Send notifications about rollouts to the receivers in the Secret muster-system/muster-notify
    /// (docs/notifications.md)
    #[arg(long, conflicts_with_all = ["downstream", "nodes", "zones", "machines"])]
    pub notify: bool,
}

/// Prints the manifests as a stream of YAML documents.
pub(crate) fn run(target: &Target, flags: InstallFlags, out: &Out) -> anyhow::Result<u8> {
    out.text(&manifests(&flags.into(), target.namespace.as_deref())?)?;
    Ok(DONE)
}

impl From<InstallFlags> for Options {
    fn from(flags: InstallFlags) -> Self {
        Self {
            management: flags.management,
            upgrades: flags.upgrades,
            downstream: flags.downstream,
            distribute: flags.distribute,
            nodes: flags.nodes,
            zones: flags.zones,
            machines: flags.machines,
            updaters: flags.updaters,
            crds: flags.crds,
            cluster_api: flags.cluster_api,
            rollout_operator_crds: flags.rollout_operator_crds,
            sync: flags.sync,
            dashboard: flags.dashboard,
            image: flags.image,
            egress_ports: flags.egress_ports,
            notify: flags.notify,
        }
    }
}

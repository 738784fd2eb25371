//! `muster why`: the chain of reasons, down to what fails, and what to do next.

use std::ops::ControlFlow;

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_dashboard::{Fleet, NodeObjects, Objects, why_zones};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    machines,
    name::{ModuleName, RolloutName},
    nodes::{self, NodeError},
    why, zones,
};

use crate::{
    exit::DONE,
    explain,
    flags::{ClusterName, NodeName, View},
    output::Out,
    show,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster why module/podinfo
  muster why podinfo --cluster eu-1                         of one cluster
  muster why bootstrapmodule/base -w                        as it changes
  muster why nodemodule/fabric --node n1 --context eu-1     of one node of that cluster
  muster why clusterupgrade/next --cluster eu-1             for one Cluster that is being upgraded
  muster why machine/web-md-0-x7k2p -n fleet                of a Machine that Cluster API updates in place
  muster why podinfo -o json | jq -r .command
  muster why zonerollout/ingester -n mimir                  zones in the cluster that --context names";

/// Explain the state of a module, a NodeModule or a ZoneRollout, down to the failing object, node or pod, and what to
/// do next
///
/// For a NodeModule, nodes take the place of clusters.
///
/// With -o json: `schema` (`why/v1`), headline, checks (of one cluster or node; each with holds (true or false), shape,
/// what and found), steps (each with shape, who, cluster, reason, message and since), plan (the plan run of a cluster,
/// if it has one: line, run and class), next and command.
///
/// Exit codes: 0 printed, 2 no such module, NodeModule or ZoneRollout, or could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct WhyFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME, zonerollout/NAME or machine/NAME
    pub rollout: RolloutName,
    /// Only explain this cluster
    #[arg(short, long)]
    pub cluster: Option<ClusterName>,
    /// Only explain this node of the NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<NodeName>,
    /// Show each change until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// Output format: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Explains a module, one cluster of it, a ZoneRollout, or a Machine; once, or again at each change.
pub(crate) async fn run(cluster: &Target, flags: &WhyFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    match &flags.rollout {
        RolloutName::Module(module) if module.is_of_nodes() => {
            node_module(&client, module, flags, out).await?;
        }
        RolloutName::Module(name) => module(&client, &namespace, name, flags, out).await?,
        RolloutName::Zones(name) => zones(&client, &namespace, name, flags, out).await?,
        RolloutName::Machine(name) => machine(&client, &namespace, name, flags, out).await?,
    }
    Ok(DONE)
}

async fn module(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    flags: &WhyFlags,
    out: &Out,
) -> anyhow::Result<()> {
    if flags.node.is_some() {
        let what = module.to_string();
        bail!(NodeError::NotNodes { what });
    }
    let answer = |objects: &Objects, fleet: &Fleet| {
        let what = (module, flags.cluster.as_deref());
        why::explain_module(objects, fleet, what, namespace)
    };
    if flags.watch {
        let mut live = out.live();
        return show::watch(client, namespace, out, |snapshot| {
            let why = answer(&snapshot.objects, snapshot.fleet())?;
            live.show_blocks(&explain::blocks(&why, out.width()))?;
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let objects = fleet::read_objects(client, namespace).await?;
    explain::print(&answer(&objects, &Fleet::of(&objects))?, flags.output, out)
}

async fn node_module(
    client: &Client,
    module: &ModuleName,
    flags: &WhyFlags,
    out: &Out,
) -> anyhow::Result<()> {
    if flags.cluster.is_some() {
        let module = module.clone();
        bail!(NodeError::NotClusters { module });
    }
    let leases = nodes::leases(client).await;
    let answer = |nodes: &NodeObjects, fleet: &Fleet| {
        let nodes = NodeObjects {
            leases: leases.clone(),
            ..nodes.clone()
        };
        why::node_module(nodes, fleet, module, flags.node.as_deref())
    };
    if flags.watch {
        let mut live = out.live();
        return nodes::watch_nodes(client, out, |objects, fleet| {
            live.show_blocks(&explain::blocks(&answer(objects, fleet)?, out.width()))?;
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let objects = nodes::read_node_objects(client).await?;
    let why = answer(&objects, &Fleet::of_nodes(&objects))?;
    explain::print(&why, flags.output, out)
}

async fn zones(
    client: &Client,
    namespace: &str,
    name: &str,
    flags: &WhyFlags,
    out: &Out,
) -> anyhow::Result<()> {
    if flags.cluster.is_some() || flags.node.is_some() {
        bail!("--cluster is for modules, and --node for NodeModules; for another cluster: --context");
    }
    if !flags.watch {
        let rollout = zones::read(client, namespace, name).await?;
        return explain::print(&why_zones(&rollout), flags.output, out);
    }
    let mut live = out.live();
    zones::watch_zones(client, namespace, name, |rollout| {
        Ok(live.show_blocks(&explain::blocks(&why_zones(rollout), out.width()))?)
    })
    .await
}

async fn machine(
    client: &Client,
    namespace: &str,
    name: &str,
    flags: &WhyFlags,
    out: &Out,
) -> anyhow::Result<()> {
    if flags.cluster.is_some() || flags.node.is_some() {
        bail!(
            "--cluster is for modules, and --node for NodeModules: a Machine is identified by its name and namespace only"
        );
    }
    if !flags.watch {
        let why = machines::why(client, namespace, name).await?;
        return explain::print(&why, flags.output, out);
    }
    let mut live = out.live();
    machines::watch_machines(client, namespace, name, |why| {
        Ok(live.show_blocks(&explain::blocks(why, out.width()))?)
    })
    .await
}

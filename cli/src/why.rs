//! `muster why`: the chain of reasons, down to what fails, and what to do next.

use std::ops::ControlFlow;

use anyhow::Context as _;
use muster_dashboard::{Fleet, Objects, Why};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    missing, missing_cluster,
    name::{ModuleName, RolloutName},
};

use crate::{explain, flags::WhyFlags, machines, nodes, output, show, zonerollout};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster why module/podinfo
  muster why podinfo --cluster eu-1   of one cluster
  muster why bootstrapmodule/base -w  as it changes
  muster why nodemodule/fabric --node n1 --context eu-1      of one node of that cluster
  muster why clusterupgrade/next --cluster eu-1             of one Cluster that gets a Kubernetes version
  muster why machine/web-md-0-x7k2p -n fleet                of a Machine that Cluster API updates in place
  muster why podinfo -o json | jq -r .command
  muster why zonerollout/ingester -n mimir            zones of a cluster: the one to look at is that of --context";

/// Explains a module, one cluster of it, or a ZoneRollout; once, or at each change.
pub(crate) async fn run(cluster: &Target, flags: &WhyFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let module = match &flags.rollout {
        RolloutName::Module(module) if module.is_of_nodes() => {
            return nodes::why(&client, module, flags).await;
        }
        RolloutName::Module(module) => module,
        RolloutName::Zones(name) => return zonerollout::why(&client, &namespace, name, flags).await,
        RolloutName::Machine(name) => return machines::why(&client, &namespace, name, flags).await,
    };
    if flags.node.is_some() {
        let what = module.to_string();
        anyhow::bail!(fleet::nodes::NodeError::NotNodes { what });
    }
    let answer = |objects: &Objects, fleet: &Fleet| {
        answer(objects, fleet, module, flags.cluster.as_deref(), &namespace)
    };
    if flags.watch {
        let mut live = output::Live::default();
        return show::watch(&client, &namespace, |snapshot| {
            let why = answer(&snapshot.objects, snapshot.fleet())?;
            live.show_blocks(&explain::blocks(&why, output::width()));
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let objects = fleet::objects(&client, &namespace).await?;
    let why = answer(&objects, &Fleet::of(&objects))?;
    explain::print(&why, flags.output)
}

fn answer(
    objects: &Objects,
    fleet: &Fleet,
    module: &ModuleName,
    cluster: Option<&str>,
    namespace: &str,
) -> anyhow::Result<Why> {
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| missing(fleet, module, namespace))?;
    let Some(name) = cluster else {
        return Ok(muster_dashboard::why(view));
    };
    muster_dashboard::why_on(objects, fleet, &module.reference(), name)
        .with_context(|| missing_cluster(fleet, name, namespace))
}

//! `muster crds`: what to apply before the processes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::crds;

use crate::{DONE, args::CrdsFlags};

pub const EXAMPLES: &str = "\
Examples:
  muster crds --management | kubectl apply --server-side -f -
  muster crds --management --cluster-api      also a minimal kind Cluster, where Cluster API is not
  muster crds --management --upgrades         also ClusterUpgrades
  muster crds --downstream | kubectl apply --server-side --context eu-1 -f -
  muster crds --nodes                         those of --downstream, and NodeModules
  muster crds --machines                      of muster machines, which is beside the controller";

/// Prints definitions as a stream of YAML documents, for `kubectl apply --server-side -f -`.
pub fn run(flags: &CrdsFlags) -> u8 {
    for definition in &definitions(flags) {
        say!("---\n{}", crds::yaml(definition).trim_end());
    }
    DONE
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

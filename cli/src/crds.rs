//! `muster crds`: what to apply before the processes.

use muster_api::crds;

use crate::{DONE, args::CrdsFlags};

pub const EXAMPLES: &str = "\
Examples:
  muster crds --management | kubectl apply --server-side -f -
  muster crds --management --cluster-api      also a minimal kind Cluster, where Cluster API is not
  muster crds --downstream | kubectl apply --server-side --context eu-1 -f -";

/// Prints definitions as a stream of YAML documents, for `kubectl apply --server-side -f -`.
pub fn run(flags: &CrdsFlags) -> u8 {
    let mut definitions = if flags.management {
        crds::management()
    } else {
        crds::downstream()
    };
    definitions.extend(crds::flux());
    definitions.extend(flags.cluster_api.then(crds::cluster_api));
    for definition in &definitions {
        say!("---\n{}", crds::yaml(definition).trim_end());
    }
    DONE
}
